"""Reads the text files that settings and commands name."""

from __future__ import annotations

import os
import stat
from pathlib import Path


class NotAFile(ValueError):  # noqa: N818  (says what the path is not)
    """The path is that of a pipe or a device. Its text says of which."""


def read_text(path: Path) -> str:
    """The UTF-8 text at `path`, without a byte order mark.

    Waits for no writer and reads nothing that has no end. NotAFile, OSError, ValueError
    (UnicodeDecodeError, or a NUL in the path).
    """
    with open(path, "rb", opener=_without_waiting) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode):  # a device, such as /dev/zero, may have no end
            kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
            raise NotAFile(f"{path} is {kind}: give a file, which the crawl can read again")
        return file.read().decode("utf-8-sig")


def _without_waiting(path: str, flags: int) -> int:
    """Open `path`; a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
