"""What a crawl tells its user: on standard output, or in the log when the log is a file.

Lines go to the file descriptor, past the buffer of `sys.stdout`: nothing is left to flush when the
process ends, and a thread stuck on a full pipe holds no lock that the interpreter wants at exit.
A reader that has gone away (`scrapy crawl ... | head`) costs the lines and nothing else.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Callable

from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

Say = Callable[..., None]  # say(*lines)


def console_from(settings: BaseSettings) -> Say:
    """Where this crawl's lines go: the log when `LOG_FILE` is set, as scrapyd does."""
    return log_lines if settings.get("LOG_FILE") else print_lines


def print_lines(*lines: str) -> None:
    """Put whole lines on standard output at once. Never raises, may block on a full pipe."""
    text = "\n".join(lines) + "\n"
    try:
        os.write(sys.stdout.fileno(), text.encode())
    except (AttributeError, io.UnsupportedOperation):  # none, LOG_STDOUT's, or a test's
        print(text, end="", flush=True)
    except (OSError, ValueError):
        pass  # closed, or nobody reads any more


def log_lines(*lines: str) -> None:
    """Put each line that is not empty in the log, at INFO."""
    for line in filter(None, lines):
        logger.info("%s", line)
