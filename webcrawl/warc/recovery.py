"""Recovers the NAME.open files of a killed crawl: cuts the torn end and renames them to NAME.

A file is cut after its last whole gzip member. All captures whose write was acknowledged are before
the cut. Changes only files with names as `files` makes them, and no file that a running process has
locked.
"""

from __future__ import annotations

import os
import re
from collections import deque
from pathlib import Path
from typing import NamedTuple

from webcrawl.warc.files import OPEN, lock, publish
from webcrawl.warc.members import member_ends

_OURS = re.compile(r".+-\d{14}-\d{5,}-\w*-\d+\.warc\.gz" + re.escape(OPEN))


class Recovered(NamedTuple):
    """One file of a dead run. `path` is None if it held only a warcinfo record: it is removed."""

    open_path: Path
    path: Path | None
    records: int
    cut_bytes: int

    def __str__(self) -> str:
        if self.path is None:
            return f"Removed {self.open_path} of an earlier crawl: it holds no captures"
        return (
            f"Recovered {self.path} of an earlier crawl: "
            f"{self.records} records, {self.cut_bytes} bytes cut"
        )


def recover(folder: Path) -> list[Recovered]:
    """Recover the files of dead runs in `folder`. OSError.

    Cost: one MiB of memory; about 2 s for 1 GB of records.
    """
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [_recover_one(path) for path in names if _OURS.fullmatch(path.name)]
    return [each for each in found if each is not None]


def _recover_one(open_path: Path) -> Recovered | None:
    """None if the file must not be changed: another process writes it, or has just finished it."""
    path = open_path.with_suffix("")
    try:
        file = open_path.open("r+b")
    except FileNotFoundError:
        return None
    with file:
        if not lock(file.fileno()) or not _is_still_there(file.fileno(), open_path):
            return None
        if path.exists():
            return None  # both NAME and NAME.open exist: a user must choose one
        last = deque(enumerate(member_ends(file), 1), maxlen=1)
        records, end = last[0] if last else (0, 0)
        size_bytes = os.fstat(file.fileno()).st_size
        if records < 2:  # only a warcinfo record, or less
            open_path.unlink()
            return Recovered(open_path, None, 0, size_bytes)
        os.ftruncate(file.fileno(), end)
        os.fsync(file.fileno())
        publish(open_path, path)
        return Recovered(open_path, path, records, size_bytes - end)


def _is_still_there(fd: int, path: Path) -> bool:
    """Whether the opened file still has its name: its writer may just have renamed it."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
