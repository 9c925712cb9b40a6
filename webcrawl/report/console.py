"""Writes a crawl's lines to standard output, or to the log if the log is a file.

Lines are written to the file descriptor, not to the buffer of `sys.stdout`. So nothing needs a
flush when the process ends, and a thread that blocks on a full pipe holds no lock that the
interpreter takes at exit. If the reader closes the pipe (`scrapy crawl ... | head`), the lines are
lost and the crawl continues.
"""

from __future__ import annotations

import io
import logging
import os
import select
import sys
from collections.abc import Callable

from scrapy.settings import BaseSettings

logger = logging.getLogger(__name__)

Say = Callable[..., None]  # say(*lines)


def console_from(settings: BaseSettings) -> Say:
    """The function that writes this crawl's lines: to the log if `LOG_FILE` is set (scrapyd)."""
    return log_lines if settings.get("LOG_FILE") else print_lines


def print_lines(*lines: str) -> None:
    """Write whole lines to standard output at once. Never raises; may block on a full pipe."""
    text = "\n".join(lines) + "\n"
    try:
        os.write(sys.stdout.fileno(), text.encode())
    except (AttributeError, io.UnsupportedOperation):  # no stdout, LOG_STDOUT's or a test's
        print(text, end="", flush=True)
    except (OSError, ValueError):
        pass  # standard output is closed, or its reader has closed the pipe


def is_full() -> bool:
    """Whether standard output is a pipe that takes no more bytes until its reader reads."""
    try:
        return not select.select([], [sys.stdout.fileno()], [], 0)[1]
    except (AttributeError, OSError, ValueError):  # no stdout, or a closed one
        return False


def discard_output() -> None:
    """Send what is still written to standard output to the null device. OSError, ValueError.

    Python writes its buffer once more at exit, which would fail again on a broken pipe or a full
    disk (the standard library's documentation of `signal`, "Note on SIGPIPE").
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def log_lines(*lines: str) -> None:
    """Log each line that is not empty, at INFO."""
    for line in filter(None, lines):
        logger.info("%s", line)
