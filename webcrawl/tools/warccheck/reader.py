"""Reads WARC files record by record, plain or with one gzip member per record.

For `scrapy warccheck`, and for the tokens and links of `scrapy report`; tests read the crawl's
archives with it. The crawl does not use it. Public readers repair or skip invalid parts; this one
is strict. It reports the offset where a file stops being WARC, the repeated fields, and the bytes
after the block. Memory: one record, MAX_RECORD bytes at most.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

MAX_RECORD = 1 << 30  # bytes. Deviation: larger records are refused, against compression bombs
_MAX_HEAD = 1 << 20
_PIECE = 1 << 18
_VERSION = re.compile(r"WARC/1\.[01]", re.IGNORECASE)


@dataclass(slots=True)
class Record:
    """One record, as it is in the file."""

    offset: int
    fields: dict[str, str]  # names in lower case; of a repeated field the first value
    repeated: set[str]  # names of repeated fields
    block: bytes
    trailer: bytes  # the bytes after the block, b"\r\n\r\n" in a good record
    size_bytes: int  # in the file: of its gzip member, or of a plain record with its trailer

    @property
    def type(self) -> str:
        return self.fields.get("warc-type", "").lower()

    @property
    def id(self) -> str:
        return self.fields.get("warc-record-id", "")


class BadRecord(ValueError):  # noqa: N818  (a finding, not an error)
    """The file cannot be read beyond this place. Its text begins with the offset."""


def read(path: Path) -> Iterator[Record]:
    """The records of a file. Raises BadRecord."""
    with path.open("rb") as file:
        packed = file.peek(2)[:2] == b"\x1f\x8b"
        yield from _records(_members(file) if packed else _plain(file))


def read_from(file: BinaryIO, offset: int, size_max: int = MAX_RECORD) -> Iterator[Record]:
    """The records of a file with a gzip member per record, from the one at `offset` on. BadRecord,
    also for a record of more than `size_max` bytes.
    """
    file.seek(offset)
    return _records(_members(file, size_max))


def _records(parts: Iterator[tuple[int, int, bytes]]) -> Iterator[Record]:
    for offset, size_bytes, data in parts:
        head, end, rest = data.partition(b"\r\n\r\n")
        if not end:
            raise BadRecord(f"{offset}: no end of the fields")
        fields, repeated = _fields(offset, head)
        length = _length(offset, fields)
        if len(rest) < length:
            raise BadRecord(f"{offset}: Content-Length {length}, but {len(rest)} bytes follow")
        yield Record(offset, fields, repeated, rest[:length], rest[length:], size_bytes)


def _fields(offset: int, head: bytes) -> tuple[dict[str, str], set[str]]:
    """The named fields (4), as in `Record`: the first value per name, and the repeated names."""
    first, *lines = re.sub(rb"\r\n[ \t]+", b" ", head).decode("utf-8", "replace").split("\r\n")
    if not _VERSION.fullmatch(first):
        raise BadRecord(f"{offset}: begins with {first[:20]!r}")
    fields: dict[str, str] = {}
    repeated: set[str] = set()
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon:
            raise BadRecord(f"{offset}: not a field: {line[:40]!r}")
        if name in fields:
            repeated.add(name)
        else:
            fields[name] = value.strip()
    return fields, repeated


def _length(offset: int, fields: dict[str, str]) -> int:
    text = fields.get("content-length", "")
    if not (text.isascii() and text.isdigit()):
        raise BadRecord(f"{offset}: Content-Length is {text!r}")
    if int(text) > MAX_RECORD:
        raise BadRecord(f"{offset}: larger than {MAX_RECORD} bytes")
    return int(text)


def _plain(file: BinaryIO) -> Iterator[tuple[int, int, bytes]]:
    """Offset, size and bytes of each record of an uncompressed file."""
    while line := file.readline(_MAX_HEAD):
        offset = file.tell() - len(line)
        head = [line]
        while line not in (b"\r\n", b"") and sum(map(len, head)) <= _MAX_HEAD:
            line = file.readline(_MAX_HEAD)
            head.append(line)
        start = b"".join(head)
        fields, _ = _fields(offset, start.removesuffix(b"\r\n\r\n"))
        data = start + file.read(_length(offset, fields) + len(b"\r\n\r\n"))
        yield offset, len(data), data


def _members(file: BinaryIO, size_max: int = MAX_RECORD) -> Iterator[tuple[int, int, bytes]]:
    """Offset, size and content of each gzip member; a member must be one record (Annex D)."""
    data, end = b"", file.tell()
    while data or (data := file.read(_PIECE)):
        start, room, parts = end, size_max, []
        member = zlib.decompressobj(31)
        try:
            while not member.eof:
                data = data or file.read(_PIECE)
                if not data:
                    raise BadRecord(f"{start}: the last member is cut")
                parts.append(member.decompress(data, room))
                end += len(data) - len(member.unconsumed_tail)
                data = member.unconsumed_tail
                room -= len(parts[-1])
                if room <= 0:
                    raise BadRecord(f"{start}: larger than {size_max} bytes")
        except zlib.error as error:
            raise BadRecord(f"{start}: {error}") from None
        data = member.unused_data
        end -= len(data)
        yield start, end - start, b"".join(parts)
