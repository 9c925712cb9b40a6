"""Files that are on the disk when a call returns: a loss of power undoes none of it. OSError."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, data: bytes) -> None:
    """Replace or make a file: after a crash there is the old one or the new one, whole.

    Its folder is locked: no two processes do this at the same time.
    """
    part = path.with_name(f"{path.name}.part")
    try:
        write_file(part, data)
        part.replace(path)
    except BaseException:
        with suppress(OSError):
            part.unlink()
        raise
    sync_folder(path.parent)


def write_file(path: Path, data: bytes) -> None:
    """Write a file in place. The folder is not synced."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    sync_file(target)


def sync_file(path: Path) -> None:
    _sync(path, os.O_RDWR)


def sync_folder(path: Path) -> None:
    """The names in a folder."""
    _sync(path, os.O_RDONLY)


def _sync(path: Path, mode: int) -> None:
    opened = os.open(path, mode)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
