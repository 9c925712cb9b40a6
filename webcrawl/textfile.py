"""Reads the files that settings and commands name."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO


class NotAFile(ValueError):  # noqa: N818  (says what the path is not)
    """The path is that of a pipe or a device. Its text says of which."""


def read_text(path: Path) -> str:
    """The UTF-8 text at `path`, without a byte order mark.

    NotAFile, OSError, ValueError (UnicodeDecodeError, or a NUL in the path).
    """
    with open_file(path) as file:
        return file.read().decode("utf-8-sig")


def open_file(path: Path) -> BinaryIO:
    """Open `path` for reading. Waits for no writer. NotAFile, OSError, ValueError."""
    file = open(path, "rb", opener=_without_waiting)  # noqa: SIM115  (the caller closes it)
    mode = os.fstat(file.fileno()).st_mode
    if stat.S_ISREG(mode):
        return file
    file.close()  # a device, such as /dev/zero, may have no end
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise NotAFile(f"{path} is {kind}: give a file, which the crawl can read again")


def _without_waiting(path: str, flags: int) -> int:
    """Open `path`; a pipe without waiting for its writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))  # Windows has no such pipes
