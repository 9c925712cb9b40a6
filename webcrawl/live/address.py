"""The address of a crawl's control socket. Server and client share this module.

The address of a Unix socket has 108 bytes, and the last is zero (unix(7)). A longer path is reached
through the file descriptor of its folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SOCKET: Final = "control.sock"  # in JOBDIR
ADDRESS_MAX: Final = 107  # bytes


@contextmanager
def address_of(jobdir: Path) -> Iterator[str]:
    """An address of the socket in `jobdir` that `bind` and `connect` take.

    It is valid inside of the `with` block only. OSError if `jobdir` cannot be opened.
    """
    path = str(jobdir / SOCKET)
    if len(os.fsencode(path)) <= ADDRESS_MAX:
        yield path
        return
    folder = os.open(jobdir, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{SOCKET}"
    finally:
        os.close(folder)
