"""Whether a WARC file is what it says: what we promise, and what the common tools do not look at.

`check` reads a gzip-a-record file and lists its problems. Beside the rules of WARC 1.1 it holds the
exchanges against HTTP: a request record begins with a request line, a response's framing fits its
body. Memory: one record.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from webcrawl.warc.records import digest

MANDATORY = {"warc-type", "warc-record-id", "warc-date", "content-length"}  # WARC 1.1, 5.1
TARGETED = {"response", "request", "revisit", "metadata"}
_DATE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")
_ID = re.compile(r"<urn:uuid:[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}>")
_REQUEST_LINE = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[01]\r\n")
_STATUS_LINE = re.compile(rb"[A-Za-z]+/?[\d.]* *\d{3}")
_CHUNK = 1 << 20


@dataclass(slots=True)
class Record:
    """One record as it is in the file."""

    offset: int
    fields: dict[str, str]  # names in lower case
    repeated: set[str]
    block: bytes
    trailer: bytes

    @property
    def type(self) -> str:
        return self.fields.get("warc-type", "")


class BadRecord(ValueError):  # noqa: N818  (a finding, not an error)
    """A member that is no record: the file cannot be read further."""


def check(path: Path) -> list[str]:
    """The problems of a file, one line each; none for a good one."""
    problems: list[str] = []
    ids: set[str] = set()
    concurrent: list[tuple[int, str]] = []
    try:
        for number, record in enumerate(read(path)):
            if (number == 0) != (record.type == "warcinfo"):
                problems.append(f"{record.offset}: warcinfo is not the first record and only that")
            record_id = record.fields.get("warc-record-id", "")
            if record_id in ids:
                problems.append(f"{record.offset}: {record_id} is not unique")
            ids.add(record_id)
            if "warc-concurrent-to" in record.fields:
                concurrent.append((record.offset, record.fields["warc-concurrent-to"]))
            problems += (f"{record.offset}: {problem}" for problem in record_problems(record))
    except BadRecord as error:
        problems.append(str(error))
    problems += (f"{at}: concurrent to the unknown {to}" for at, to in concurrent if to not in ids)
    return problems


def read(path: Path) -> Iterator[Record]:
    """The records of a file. Raises BadRecord."""
    for offset, member in _members(path):
        head, separator, rest = member.partition(b"\r\n\r\n")
        lines = head.decode("utf-8", "replace").split("\r\n")
        if lines[0] != "WARC/1.1" or not separator:
            raise BadRecord(f"{offset}: no WARC 1.1 record")
        fields: dict[str, str] = {}
        repeated: set[str] = set()
        for line in lines[1:]:
            name, colon, value = line.partition(":")
            if not colon:
                raise BadRecord(f"{offset}: no field: {line!r}")
            if name.lower() in fields:
                repeated.add(name.lower())
            fields[name.lower()] = value.strip()
        length = fields.get("content-length", "")
        if not length.isdigit():
            raise BadRecord(f"{offset}: Content-Length is {length!r}")
        yield Record(offset, fields, repeated, rest[: int(length)], rest[int(length) :])


def _members(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        data, end = b"", 0
        while data or (data := file.read(_CHUNK)):
            start = end
            member, parts = zlib.decompressobj(31), []
            try:
                while not member.eof:
                    data = data or file.read(_CHUNK)
                    if not data:
                        raise BadRecord(f"{start}: the last member is cut")
                    parts.append(member.decompress(data))
                    end += len(data)
                    data = b""
            except zlib.error as error:
                raise BadRecord(f"{start}: {error}") from None
            data = member.unused_data
            end -= len(data)
            yield start, b"".join(parts)


def record_problems(record: Record) -> Iterator[str]:
    """What is wrong with one record."""
    fields = record.fields
    for name in sorted(MANDATORY - fields.keys()):
        yield f"{name} is missing"
    for name in sorted(record.repeated - {"warc-concurrent-to"}):
        yield f"{name} is repeated"
    if record.trailer != b"\r\n\r\n":
        yield f"the record ends with {record.trailer[:20]!r}"
    if not _ID.fullmatch(fields.get("warc-record-id", "")):
        yield "the record id is no UUID"
    if not _DATE.fullmatch(fields.get("warc-date", "")):
        yield f"WARC-Date is {fields.get('warc-date')!r}"
    if fields.get("warc-block-digest", "") not in ("", digest(record.block)):
        yield "the block does not have its digest"
    if record.type in TARGETED and not fields.get("warc-target-uri", "").startswith("http"):
        yield "WARC-Target-URI is missing"
    if record.type == "request":
        yield from _request_problems(record)
    elif record.type == "response":
        yield from _response_problems(record)
    elif record.type == "revisit":
        yield from _revisit_problems(record)


def _request_problems(record: Record) -> Iterator[str]:
    if not _REQUEST_LINE.match(record.block):
        yield f"a request that begins with {record.block[:20]!r}"
    if b"\r\n\r\n" not in record.block:
        yield "a request without an end of its header"


def _revisit_problems(record: Record) -> Iterator[str]:
    for name in ("warc-profile", "warc-refers-to-target-uri", "warc-refers-to-date"):
        if name not in record.fields:
            yield f"{name} is missing"
    if not record.fields.get("warc-payload-digest"):
        yield "a revisit without a payload digest"
    if not _STATUS_LINE.match(record.block):
        yield f"a revisit whose block begins with {record.block[:20]!r}"


def _response_problems(record: Record) -> Iterator[str]:
    if not _STATUS_LINE.match(record.block):
        yield f"a response that begins with {record.block[:20]!r}"
        return
    head, body = split_head(record.block)
    if record.fields.get("warc-payload-digest", "") not in ("", digest(body)):
        yield "the payload does not have its digest"
    if "warc-truncated" in record.fields:
        return
    headers = head.lower()
    status = int(_STATUS_LINE.match(head)[0][-3:])  # type: ignore[index]  # matched above
    if re.search(rb"\ntransfer-encoding[ \t]*:[^\n]*chunked", headers):
        if not _is_chunked(body):
            yield "chunked over a plain body"
        return
    length = re.search(rb"\ncontent-length[ \t]*:[ \t]*(\d+)[ \t]*\r?\n", headers)
    if length and body and int(length[1]) != len(body) and status not in (204, 304):
        yield f"Content-Length is {int(length[1])}, the body has {len(body)} bytes"


def split_head(block: bytes) -> tuple[bytes, bytes]:
    """Head, with its blank line, and body; lines may end in LF alone, as servers have it."""
    end = re.search(rb"\r?\n\r?\n", block)
    return (block[: end.end()], block[end.end() :]) if end else (block, b"")


def _is_chunked(body: bytes) -> bool:
    at = 0
    while True:
        line = re.compile(rb"[ \t]*([0-9a-fA-F]+)[^\n]*\n").match(body, at)
        if line is None:
            return False
        size = int(line[1], 16)
        if size == 0:
            return True
        at = line.end() + size
        end = re.compile(rb"\r?\n").match(body, at)
        if end is None:
            return False
        at = end.end()
