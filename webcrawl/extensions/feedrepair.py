"""Repairs the end of a feed's file after a kill: cuts off a record that is written in part.

Works on files alone; knows nothing of Scrapy. Memory: one block, and a last line of 64 MiB at most.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO

LINE_FORMATS = ("jsonlines", "jsonl", "jl")
_BLOCK_BYTES = 1024 * 1024
_LINE_MAX_BYTES = 64 * 1024 * 1024  # a longer last line counts as torn, without parsing it as JSON


def repair(path: Path, format_: str) -> int:
    """Cut a torn last record off a feed of JSON lines or of CSV; return the number of bytes cut.

    A last line that is whole except for its line break gets one. Of JSON lines only the end of the
    file is read; CSV is read in full, since a line break may be within quotes. Other formats are
    not changed. OSError.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if format_ in LINE_FORMATS:
            end = _end_of_lines(file, size)
            file.seek(end)
            if size > end and not _is_torn(file.read(_LINE_MAX_BYTES + 1)):
                file.seek(0, os.SEEK_END)  # a longer line was not read to its end
                file.write(b"\n")
                return 0
        elif format_ == "csv":
            end = _end_of_rows(file)
        else:
            return 0
        file.truncate(end)
        return size - end


def _end_of_lines(file: IO[bytes], size: int) -> int:
    """Offset after the last line break; 0 if there is none."""
    start = size
    while start:
        length = min(_BLOCK_BYTES, start)
        start -= length
        file.seek(start)
        at = file.read(length).rfind(b"\n")
        if at >= 0:
            return start + at + 1
    return 0


def _is_torn(line: bytes) -> bool:
    """Whether a last line is the beginning of a JSON object, or NULs as after a loss of power.

    Any other text was not written by a feed, and is kept.
    """
    if not line.startswith((b"{", b"\0")):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _end_of_rows(file: IO[bytes]) -> int:
    """Offset after the last line break that is not in quotes."""
    end, start, quoted = 0, 0, False
    file.seek(0)
    while block := file.read(_BLOCK_BYTES):
        at = start
        for piece in block.split(b'"'):
            if not quoted and (found := piece.rfind(b"\n")) >= 0:
                end = at + found + 1
            at += len(piece) + 1
            quoted = not quoted
        quoted = not quoted  # the end of a block is not a quote
        start += len(block)
    return end
