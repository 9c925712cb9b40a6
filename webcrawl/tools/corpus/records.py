"""Reads WARC files of any writer, record by record: plain, or with one gzip member per record.

A broken part of a file is one `Broken`, and reading goes on at the next record: of a gzip file at
the next member that begins as a record, of a plain one where the next one may begin. Of a record
only the first BLOCK_MAX bytes of its block are kept, so memory is three times BLOCK_MAX at most.

`scrapy warccheck` reads strictly; this reader takes all that can be understood.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from webcrawl.warc.members import whole_members

BLOCK_MAX = 16 << 20  # bytes
HEAD_MAX = 1 << 20  # bytes of the fields of a record
_PIECE = 1 << 18
_MAGIC = b"\x1f\x8b\x08"
_VERSION = re.compile(rb"WARC/\d+\.\d+\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_HEAD_END = re.compile(rb"\n\r?\n")


class Record(NamedTuple):
    """One record. `fields`: names in lower case; of a repeated field the first value."""

    offset: int
    size_bytes: int  # in the file: of its gzip member, or of a plain record with its end
    fields: dict[str, str]
    block: bytes  # up to BLOCK_MAX bytes
    is_whole: bool  # `block` is the whole block

    @property
    def type(self) -> str:
        return self.fields.get("warc-type", "").lower()

    @property
    def id(self) -> str:
        return self.fields.get("warc-record-id", "")


class Broken(NamedTuple):
    """A part of a file that is no record."""

    offset: int
    why: str


def read_records(file: BinaryIO) -> Iterator[Record | Broken]:
    """The records of `file`, which can seek, from its position on, where one begins. OSError."""
    start = file.tell()
    is_packed = file.read(2) == _MAGIC[:2]
    file.seek(start)
    return _packed(file, start) if is_packed else _plain(file, start)


def _packed(file: BinaryIO, at: int) -> Iterator[Record | Broken]:
    end = file.seek(0, os.SEEK_END)
    while at < end:
        file.seek(at)
        for member in whole_members(file, HEAD_MAX + BLOCK_MAX):
            at = member.end
            yield _record(member.offset, member.end - member.offset, member.start)
        if at < end:
            following = _next_member(file, at + 1)
            why = "the last record is cut" if following is None else "damaged"
            yield Broken(at, why)
            at = end if following is None else following


def _record(offset: int, size_bytes: int, start: bytes) -> Record | Broken:
    """The record in a member. A member with another record after it is no record: its second one
    could not be found by an offset.
    """
    head_end = _HEAD_END.search(start, 0, HEAD_MAX)
    if not _VERSION.match(start) or head_end is None:
        return Broken(offset, f"no WARC record begins with {start[:20]!r}")
    fields = _fields(start[: head_end.start()])
    length = _length(fields)
    if length is None:
        return Broken(offset, f"Content-Length is {fields.get('content-length', '')[:20]!r}")
    block_end = head_end.end() + length
    if start[block_end : block_end + 16].strip():
        return Broken(offset, "more than one record in a gzip member; try `warcio recompress`")
    if len(start) < min(block_end, HEAD_MAX + BLOCK_MAX):
        return Broken(offset, f"{len(start) - head_end.end()} bytes of {length} are there")
    block = start[head_end.end() : min(block_end, head_end.end() + BLOCK_MAX)]
    return Record(offset, size_bytes, fields, block, len(block) == length)


def _next_member(file: BinaryIO, at: int) -> int | None:
    """Where the next member after a broken one begins; None without one."""
    for start, piece in _pieces(file, at, len(_MAGIC) - 1):
        found = piece.find(_MAGIC)
        while found >= 0:
            file.seek(start + found)
            member = next(whole_members(file, HEAD_MAX), None)
            if member is not None and _VERSION.match(member.start):
                return start + found
            found = piece.find(_MAGIC, found + 1)
    return None


def _plain(file: BinaryIO, at: int) -> Iterator[Record | Broken]:
    end = file.seek(0, os.SEEK_END)
    while at < end:
        file.seek(at)
        head = file.read(4096)
        while not (head_end := _HEAD_END.search(head)) and len(head) < HEAD_MAX:
            more = file.read(_PIECE)
            if not more:
                break
            head += more
        fields = _fields(head[: head_end.start()]) if head_end else {}
        length = _length(fields)
        if not _VERSION.match(head) or head_end is None or length is None:
            following = _next_plain(file, at + 1)
            yield Broken(at, f"no WARC record begins with {head[:20]!r}")
            at = end if following is None else following
            continue
        block_at = at + head_end.end()
        if block_at + length > end:
            yield Broken(at, "the last record is cut")
            return
        file.seek(block_at)
        block = file.read(min(length, BLOCK_MAX))
        file.seek(block_at + length)
        blank = file.read(4)
        size_bytes = head_end.end() + length + len(blank) - len(blank.lstrip(b"\r\n"))
        yield Record(at, size_bytes, fields, block, len(block) == length)
        at += size_bytes


def _next_plain(file: BinaryIO, at: int) -> int | None:
    """Where the next line that begins a record is; None without one."""
    for start, piece in _pieces(file, at, 16):
        if found := _VERSION.search(piece):
            return start + found.start()
    return None


def _pieces(file: BinaryIO, at: int, overlap: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of the file from `at` on, with their offsets. Each begins with the last `overlap`
    bytes of the one before. The file may be moved meanwhile.
    """
    tail = b""
    while True:
        file.seek(at)
        more = file.read(_PIECE)
        if not more:
            return
        piece = tail + more
        yield at - len(tail), piece
        at += len(more)
        tail = piece[-overlap:]


def _fields(head: bytes) -> dict[str, str]:
    """The named fields (WARC 1.1, 4). A line without a colon is left out."""
    if b"\n " in head or b"\n\t" in head:
        head = _FOLD.sub(b" ", head)
    fields: dict[str, str] = {}
    for line in head.decode("utf-8", "replace").split("\n")[1:]:
        name, _, value = line.partition(":")
        fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _length(fields: dict[str, str]) -> int | None:
    text = fields.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None
