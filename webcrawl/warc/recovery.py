"""What a killed crawl left behind: `.open` files get a whole last record and their final name.

A record is a gzip member, so a file is good up to the end of its last whole member. Reads as a
stream; memory is one chunk, whatever the size of the file.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from pathlib import Path
from typing import BinaryIO

from webcrawl.warc.writer import OPEN_SUFFIX

_CHUNK = 1 << 20


def recover(folder: Path) -> list[tuple[Path, int]]:
    """Finish the files of dead runs in `folder`: their final paths, and the bytes cut from each.

    A file that a living process writes is locked and left alone. Raises OSError.
    """
    return [
        done
        for path in sorted(folder.glob(f"*.warc.gz{OPEN_SUFFIX}"))
        if (done := _recover_file(path)) is not None
    ]


def _recover_file(path: Path) -> tuple[Path, int] | None:
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        good = whole_members(file)
        cut = os.fstat(file.fileno()).st_size - good
        if not good:
            path.unlink()
            return None
        if cut:
            os.truncate(file.fileno(), good)
        os.fsync(file.fileno())
        final = path.with_name(path.name.removesuffix(OPEN_SUFFIX))
        path.rename(final)
        return final, cut


def whole_members(file: BinaryIO) -> int:
    """Offset of the end of the last whole gzip member of `file`, read from its start."""
    good = offset = 0
    data = b""
    while True:
        member = zlib.decompressobj(31)
        while not member.eof:
            data = data or file.read(_CHUNK)
            if not data:
                return good
            offset += len(data)
            try:
                while data and not member.eof:
                    member.decompress(data, _CHUNK)
                    data = member.unconsumed_tail
            except zlib.error:
                return good
        data = member.unused_data
        offset -= len(data)
        good = offset
