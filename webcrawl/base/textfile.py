"""Reads the files, and finds the folders, that settings and commands name."""

from __future__ import annotations

import os
import stat
import sys
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

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | os.O_NONBLOCK)

    file = open(path, "rb", opener=opener)  # noqa: SIM115  (the caller closes it)
    try:
        check_kind(path, os.fstat(file.fileno()).st_mode)
    except NotAFile:
        file.close()
        raise
    return file


def check_kind(path: Path, mode: int, *, pipes: bool = False) -> None:
    """NotAFile if `mode` is not that of a file: a device, such as /dev/zero, may have no end.

    `pipes`: a pipe will do too.
    """
    if stat.S_ISREG(mode) or (pipes and stat.S_ISFIFO(mode)):
        return
    kind = "a pipe" if stat.S_ISFIFO(mode) else "a device"
    raise NotAFile(f"{path} is {kind}: give a file, which the crawl can read again")


def named_folder(name: str) -> Path:
    """The folder that the user has named. If there is none, the command ends with one line."""
    folder = Path(name)
    if not folder.is_dir():
        print(f"{folder} is not a folder", file=sys.stderr)
        raise SystemExit(2)
    return folder
