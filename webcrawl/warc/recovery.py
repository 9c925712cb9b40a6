"""Recovers the NAME.open files of a killed crawl: cuts the torn end and renames them to NAME.

A file is cut after its last whole gzip member. All captures whose write was acknowledged are before
the cut. Changes only files with names as `files` makes them, and no file that a running process has
locked.

The lines of the index are made from the records, which are read anyway to find the cut. A
half-written index (NAME.cdxj.open) is replaced or removed.
"""

from __future__ import annotations

import os
import re
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from webcrawl.warc.captures import Openable
from webcrawl.warc.cdxj import answer_of_record, cdxj_line
from webcrawl.warc.files import OPEN, lock, new_index, publish
from webcrawl.warc.index import index_path
from webcrawl.warc.members import content
from webcrawl.warc.reader import Broken, Record, records_at
from webcrawl.warc.records import digest, digest_of_stream

_STEM = r"(.+-\d{14}-\d{5,}-\w*-\d+)"
_OURS = re.compile(_STEM + r"\.warc\.gz" + re.escape(OPEN))
_OUR_INDEX = re.compile(_STEM + r"\.cdxj" + re.escape(OPEN))


class Recovered(NamedTuple):
    """One file of a dead run. `path` is None if it held no capture: it is removed."""

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
    """Recover the files of dead runs in `folder`, and write an index for each. OSError.

    Cost: three MiB of memory, and one more for the index; about 2 s for 1 GB of records, and 3 s
    for the 100,000 lines of their index. Large records without a payload digest are read once more
    for their lines.
    """
    names = sorted(folder.iterdir()) if folder.is_dir() else []
    found = [_recover_one(path) for path in names if _OURS.fullmatch(path.name)]
    for path in names:
        index = _OUR_INDEX.fullmatch(path.name)
        if index and not (folder / f"{index[1]}.warc.gz{OPEN}").exists():
            path.unlink(missing_ok=True)  # half-written, and the WARC file was removed
    return [each for each in found if each is not None]


def _recover_one(open_path: Path) -> Recovered | None:
    """None if the file must not be changed: another process writes it, or has just finished it."""
    path = open_path.with_suffix("")
    try:
        file = open_path.open("r+b")
    except FileNotFoundError:
        return None
    with file, closing(new_index(path)) as index:
        if not lock(file.fileno()) or not _is_still_there(file.fileno(), open_path):
            return None
        if path.exists():
            return None  # both NAME and NAME.open exist: a user must choose one
        records = captured = end = 0
        for record in records_at(file):
            if isinstance(record, Broken):
                break
            records += 1
            captured += record.type not in ("warcinfo", "resource")
            end = record.offset + record.size_bytes
            if line := index_line(open_path, path.name, record):
                index.make_room()
                index.add(line)
        size_bytes = os.fstat(file.fileno()).st_size
        if not captured:
            index_path(path).unlink(missing_ok=True)
            open_path.unlink()
            return Recovered(open_path, None, 0, size_bytes)
        os.ftruncate(file.fileno(), end)
        os.fsync(file.fileno())
        index.publish()
        publish(open_path, path)
        return Recovered(open_path, path, records, size_bytes - end)


def index_line(file_path: Openable, filename: str, record: Record) -> bytes | None:
    """The line of an index for a record of the file at `file_path`, which is or will be called
    `filename`; None if the index has no such line.
    """

    def digest_from(offset: int) -> str:
        if record.is_whole:
            return digest(record.block[offset:])
        start = len(record.head)
        with file_path.open("rb") as file:
            pieces = content(file, record.offset)
            return digest_of_stream(pieces, start + offset, start + record.length)

    if not record.is_answer:
        return None
    answer = answer_of_record(record.fields, record.block, digest_from)
    return answer and cdxj_line(answer, filename, record.offset, record.size_bytes)


def _is_still_there(fd: int, path: Path) -> bool:
    """Whether the opened file still has its name: its writer may just have renamed it."""
    try:
        return os.path.samestat(os.fstat(fd), path.stat())
    except FileNotFoundError:
        return False
