"""What a crawl that was killed leaves behind: NAME.open files, mended and given their names.

A file is cut after its last whole gzip member: whatever was acknowledged is before that. Only files
that look like ours are touched, and none that a living process has locked.
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
    """A file of a dead run. `path` is None where it held no more than a warcinfo record."""

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
    """Mend the files of dead runs in `folder`. One MiB of memory; about 2 s for 1 GB of records.

    Raises OSError.
    """
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [_recover_one(path) for path in names if _OURS.fullmatch(path.name)]
    return [each for each in found if each is not None]


def _recover_one(open_path: Path) -> Recovered | None:
    """None: another process has the file, or had it until now."""
    path = open_path.with_suffix("")
    try:
        file = open_path.open("r+b")
    except FileNotFoundError:
        return None
    with file:
        if not lock(file.fileno()) or not _is_still_there(file.fileno(), open_path):
            return None
        if path.exists():
            return None  # somebody has copied files here: not ours to choose between them
        last = deque(enumerate(member_ends(file), 1), maxlen=1)
        records, end = last[0] if last else (0, 0)
        size_bytes = os.fstat(file.fileno()).st_size
        if records < 2:  # no more than a warcinfo record
            open_path.unlink()
            return Recovered(open_path, None, 0, size_bytes)
        os.ftruncate(file.fileno(), end)
        os.fsync(file.fileno())
        publish(open_path, path)
        return Recovered(open_path, path, records, size_bytes - end)


def _is_still_there(fd: int, path: Path) -> bool:
    """Whether the file that was opened still has its name: its writer may just have finished."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
