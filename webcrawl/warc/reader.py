"""Reads WARC files of any writer, record by record: plain, or with one gzip member per record.

All readers of records use it. It takes all that can be understood; `scrapy warccheck` is strict
about what it got. A part of a file that is no record is one `Broken`, and reading goes on: in a
gzip file at the next member that begins as a record, in a plain one at the next line that does.

Linear for any bytes: a part that was read in vain is searched again only as long as all such parts
together are no larger than the file; then reading goes on where it failed. Memory: three times
`start_bytes`, however large a record is. FastWARC reads as fast, but ends at the first damage.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import BinaryIO, NamedTuple

from webcrawl.warc.members import GZIP, START_BYTES, whole_members

_HEAD_MAX = 1 << 20  # bytes of the fields of a record
_PIECE = 1 << 18
_MAGIC = b"\x1f\x8b\x08"
_TRIED = 4096  # bytes of a gzip member, which are enough for the first line of its content
_VERSION = re.compile(rb"WARC/\d+\.\d+\r?\n", re.IGNORECASE)
_FOLD = re.compile(rb"\r?\n[ \t]+")
_BLANK = rb"[ \t]*+:(?:(?:\r?\n)?[ \t])*+"  # a value may begin in a folded line
_HEAD_END = re.compile(rb"\n\r?\n")
_TYPE = re.compile(rb"\nwarc-type" + _BLANK + rb"(\S*)", re.IGNORECASE)
_LENGTH = re.compile(rb"\ncontent-length" + _BLANK + rb"(\d{1,15})[ \t]*\r?\n", re.IGNORECASE)
_URIS = {"warc-target-uri", "warc-refers-to-target-uri"}  # of Wget, by WARC 1.0: <http://a/>

Fields = dict[str, str]  # names in lower case; of a repeated field the first value


@dataclass
class Record:
    """One record. `block` and `trailer` are there as far as the first `start_bytes` of it go."""

    offset: int
    size_bytes: int  # in the file: of its gzip member, or of a plain record with its trailer
    head: bytes  # version, fields and the blank line
    length: int  # Content-Length
    block: bytes
    trailer: bytes  # what follows the block: b"\r\n\r\n" in a good record

    @property
    def is_whole(self) -> bool:
        return len(self.block) == self.length

    @cached_property
    def type(self) -> str:
        found = _TYPE.search(self.head)
        return found[1].decode("latin-1").lower() if found else ""

    @property
    def is_answer(self) -> bool:
        return self.type in ("response", "revisit")

    @property
    def id(self) -> str:
        return self.fields.get("warc-record-id", "")

    @cached_property
    def fields(self) -> Fields:
        """The named fields (WARC 1.1, 4). A line without a colon is left out."""
        head = self.head
        if b"\n " in head or b"\n\t" in head:
            head = _FOLD.sub(b" ", head)
        fields: Fields = {}
        for line in head.decode("utf-8", "replace").split("\n")[1:]:
            name, colon, value = line.partition(":")
            if colon:
                fields.setdefault(name.strip().lower(), value.strip())
        for name in _URIS & fields.keys():
            fields[name] = fields[name].strip("<>")
        return fields


class Broken(NamedTuple):
    """A part of a file that is no record. `size_bytes`: of a gzip member that is none."""

    offset: int
    why: str
    size_bytes: int = 0


def read_records(file: BinaryIO, start_bytes: int = START_BYTES) -> Iterator[Record | Broken]:
    """The records of `file` from its position on, where one begins. OSError.

    Of a record its first `start_bytes` are kept. 10 µs a record, and what unpacking it takes.
    """
    at, end = file.tell(), file.seek(0, os.SEEK_END)
    file.seek(at)
    is_gzip = is_packed(file) or (
        _start(file, 5).upper() != b"WARC/" and _next_member(file, at) is not None
    )
    read, next_start = (_packed, _next_member) if is_gzip else (_plain, _next_plain)
    again_bytes = end  # that may be searched a second time
    while at < end:
        file.seek(at)
        for each in read(file, start_bytes):
            yield each
            at = each.offset + each.size_bytes
        if at < end:
            failed_at = max(file.tell(), at + 1)
            again_bytes -= failed_at - at
            file.seek(at)
            start = file.read(20)
            following = next_start(file, at + 1 if again_bytes >= 0 else failed_at)
            why = "the last record is cut" if following is None else "damaged"
            if not start.startswith(_MAGIC[:2] if is_gzip else (b"WARC/", b"warc/")):
                why = f"no WARC record begins with {start!r}"
            yield Broken(at, why)
            at = end if following is None else following


def records_at(file: BinaryIO, start_bytes: int = START_BYTES) -> Iterator[Record | Broken]:
    """As `read_records`, but up to the first part that is no record: nothing is searched, so a
    wrong offset costs no more than a right one.
    """
    return (_packed if is_packed(file) else _plain)(file, start_bytes)


def is_packed(file: BinaryIO) -> bool:
    """Whether a gzip member begins at the position of `file`, which stays."""
    return _start(file, 2) == _MAGIC[:2]


def _start(file: BinaryIO, size: int) -> bytes:
    at = file.tell()
    start = file.read(size)
    file.seek(at)
    return start


def _packed(file: BinaryIO, start_bytes: int) -> Iterator[Record | Broken]:
    """The records up to the first torn or invalid member."""
    for offset, end, start in whole_members(file, start_bytes):
        found = _record(offset, end - offset, start, start_bytes)
        yield Broken(offset, found, end - offset) if isinstance(found, str) else found


def _record(offset: int, size_bytes: int, start: bytes, start_bytes: int) -> Record | str:
    """The record in a member, or why there is none. A member with another record after it is none:
    its second one could not be found by an offset.
    """
    head_end = _HEAD_END.search(start, 0, _HEAD_MAX)
    if head_end is None or not _VERSION.match(start):
        return f"no WARC record begins with {start[:20]!r}"
    head = start[: head_end.end()]
    if (length := _length(head)) is None:
        text = Record(offset, 0, head, 0, b"", b"").fields.get("content-length", "")
        return f"Content-Length is {text[:20]!r}"
    end = len(head) + length
    if start[end : end + 16].strip():
        return "more than one record in a gzip member; try `warcio recompress`"
    if len(start) < min(end, start_bytes):
        there = len(start) - len(head)
        return f"Content-Length {length}, but {there} bytes follow"
    return Record(offset, size_bytes, head, length, start[len(head) : end], start[end:])


def _plain(file: BinaryIO, start_bytes: int) -> Iterator[Record | Broken]:
    """The records up to the first torn or invalid one."""
    at, file_end = file.tell(), file.seek(0, os.SEEK_END)
    while True:
        file.seek(at)
        head = file.read(4096)
        if not _VERSION.match(head):
            return
        while not (head_end := _HEAD_END.search(head)) and len(head) < _HEAD_MAX:
            if not (more := file.read(_PIECE)):
                return
            head += more
        if head_end is None:
            return
        head = head[: head_end.end()]
        block_at = at + len(head)
        length = _length(head)
        if length is None or block_at + length > file_end:
            return
        file.seek(block_at)
        block = file.read(min(length, start_bytes))
        file.seek(block_at + length)
        blank = file.read(4)
        trailer = blank[: len(blank) - len(blank.lstrip(b"\r\n"))]
        size_bytes = len(head) + length + len(trailer)
        yield Record(at, size_bytes, head, length, block, trailer)
        at += size_bytes


def _length(head: bytes) -> int | None:
    found = _LENGTH.search(head)
    return int(found[1]) if found else None


def _next_member(file: BinaryIO, at: int) -> int | None:
    """Where the next gzip member begins whose content begins as a record; None without one."""
    for start, piece in _pieces(file, at, len(_MAGIC) - 1):
        found = piece.find(_MAGIC)
        while found >= 0:
            file.seek(start + found)
            try:
                content = zlib.decompressobj(GZIP).decompress(file.read(_TRIED), 20)
            except zlib.error:
                content = b""
            if _VERSION.match(content):
                return start + found
            found = piece.find(_MAGIC, found + 1)
    return None


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
