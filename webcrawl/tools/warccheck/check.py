"""Checks WARC files against WARC 1.1 and HTTP. For `scrapy warccheck` and the tests.

The crawl does not use it. It exists because it finds faults that the public tools accept. warcio
1.8.1, FastWARC 2.0.1, Warcat 2.2.5 and cdxj-indexer 1.5.0 verify digests, and each of them some
fields. All of them accept these faults, with the exceptions below:
- a request record whose block is a response;
- framing (chunked, Content-Length) that does not fit the body;
- a repeated WARC-Record-ID, a WARC-Date without its Z, an unknown WARC-Truncated;
- a request record without WARC-Concurrent-To;
- a file without a warcinfo record, a warcinfo record of another file or of another media type.
Warcat alone finds a wrong trailer, a repeated id, and a forbidden field.

A server may send wrong framing, and an archive keeps the bytes as sent. Such a problem begins with
"chunked over a plain body" or "Content-Length is", and need not be a fault of the file. Memory:
three times a record, its body decoded up to MAX_DECODED, and the ids of one file.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b32encode
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from webcrawl.base.textfile import open_file
from webcrawl.fetch.decode import decode
from webcrawl.fetch.http1 import transfer_codings
from webcrawl.tools.warccheck.indexcheck import IndexCheck
from webcrawl.warc.cdxj import is_not_modified
from webcrawl.warc.payload import Message, message_of, unchunked
from webcrawl.warc.reader import Broken, Record, read_records

# The fields that a record must have and must not have, by its type (WARC 1.1, 5 and 6).
MANDATORY = frozenset({"warc-type", "warc-record-id", "warc-date", "content-length"})
_TARGET = frozenset({"warc-target-uri"})
REQUIRED = {
    "response": _TARGET,
    "resource": _TARGET,
    "request": _TARGET,
    "metadata": frozenset(),
    "warcinfo": frozenset(),
    "revisit": _TARGET | {"warc-profile"},
    "conversion": _TARGET,
    "continuation": _TARGET | {"warc-segment-origin-id", "warc-segment-number"},
}
_FILE = frozenset({"warc-filename"})
_ORIGIN = frozenset({"warc-segment-origin-id"})
_REFERS = frozenset({"warc-refers-to"})
_CAPTURE = frozenset({"warc-concurrent-to", "warc-ip-address"})
FORBIDDEN = {
    "warcinfo": _ORIGIN | _REFERS | _CAPTURE | {"warc-target-uri", "warc-warcinfo-id"},
    "response": _ORIGIN | _REFERS | _FILE,
    "resource": _ORIGIN | _REFERS | _FILE,
    "request": _ORIGIN | _REFERS | _FILE,
    "metadata": _ORIGIN | _FILE,
    "revisit": _ORIGIN | _FILE,
    "conversion": _ORIGIN | _FILE | _CAPTURE,
    "continuation": _REFERS | _FILE | _CAPTURE | {"content-type"},
}
# 5.7; WARC-Protocol by convention ("http/1.1" and "tls/1.3"). Fields without the prefixes of
# _STANDARD may be repeated, too.
REPEATABLE = frozenset({"warc-concurrent-to", "warc-protocol"})
_STANDARD = ("warc-", "content-")
NO_PAYLOAD = "3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # SHA-1 of no bytes, in base 32
MAX_DECODED = 64 << 20  # bytes; a body is decoded up to here for its digest
MAX_RECORD = 1 << 30  # bytes. Deviation: larger records are refused, against compression bombs
TRUNCATIONS = frozenset({"length", "time", "disconnect", "unspecified"})  # 5.13

_VERSION = re.compile(rb"WARC/1\.[01]\r\n", re.IGNORECASE)
_ID = re.compile(r"<[A-Za-z][A-Za-z0-9+.-]*:[^\s<>]+>")
# 5.4: W3C-DTF in UTC; precision from a year to nanoseconds.
_DATE = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?Z)?)?)?", re.IGNORECASE)
_FOLD = re.compile(rb"\r\n[ \t]+")
_REQUEST_LINE = re.compile(rb"([!#-'*+.^-z|~0-9A-Z-]+) \S+ HTTP/1\.[01]\r\n")
_STATUS_LINE = re.compile(rb"HTTP/\d+(?:\.\d+)?[ \t]+(\d{3})", re.IGNORECASE)
_LENGTH = re.compile(rb"\ncontent-length[ \t]*:[ \t]*(\d+)[ \t]*\r?\n", re.IGNORECASE)
_CHUNKED = re.compile(rb"\ntransfer-encoding[ \t]*:[^\n]*chunked", re.IGNORECASE)


@dataclass(slots=True)
class _File:
    """Checks references between the records of one file."""

    ids: set[str] = field(default_factory=set)
    warcinfo: set[str] = field(default_factory=set)  # ids
    concurrent: list[tuple[int, str]] = field(default_factory=list)  # offset, id referred to
    bodyless: dict[str, str] = field(default_factory=dict)  # by id; a problem unless it was HEAD

    def problems(self, number: int, record: Record) -> Iterator[str]:
        """The problems of the file's next record."""
        if (number == 0) != (record.type == "warcinfo"):
            yield "warcinfo is not the first record, or not the only one"
        if record.id in self.ids:
            yield f"{record.id} is not unique"
        self.ids.add(record.id)
        if record.type == "warcinfo":
            self.warcinfo.add(record.id)
        elif record.fields.get("warc-warcinfo-id") not in self.warcinfo | {None}:
            yield "its warcinfo record is not in this file"
        other = record.fields.get("warc-concurrent-to")
        if other:
            self.concurrent.append((record.offset, other))
        elif record.type in ("request", "metadata"):
            yield f"a {record.type} record without warc-concurrent-to"
        if record.type == "response" and (lacks := _missing_body(record)):
            self.bodyless[record.id] = f"{record.offset}: {lacks}"
        if record.type == "request" and record.block.startswith(b"HEAD "):
            self.bodyless.pop(other or "", None)

    def at_end(self) -> Iterator[str]:
        """The problems that are known only after the last record."""
        yield from self.bodyless.values()
        for offset, other in self.concurrent:
            if other not in self.ids:
                yield f"{offset}: concurrent to the unknown {other}"


def check(path: Path) -> list[str]:
    """The problems of a file, plain or with one gzip member per record. Empty for a good file.

    Each is one line that begins with the record's offset. If the index NAME.cdxj is beside the
    file, its problems too. OSError, NotAFile.
    """
    problems: list[str] = []
    file = _File()
    index = IndexCheck(path)
    with open_file(path) as warc:
        for number, record in enumerate(read_records(warc, MAX_RECORD)):
            if isinstance(record, Broken):
                problems.append(f"{record.offset}: {record.why}")
                continue
            found = (*file.problems(number, record), *record_problems(record))
            problems += index.problems(record)
            problems += (f"{record.offset}: {problem}" for problem in found)
    if not (file.ids or problems):
        problems.append("0: no record")
    return [*problems, *file.at_end(), *index.at_end()]


def record_problems(record: Record) -> Iterator[str]:
    """The problems of one record by itself, without the offset."""
    names, kind = record.fields.keys(), record.type
    yield from _head_problems(record.head)
    if not record.is_whole:
        yield f"larger than {MAX_RECORD} bytes"
        return
    yield from (f"{name} is missing" for name in sorted(MANDATORY - names))
    for name in sorted(names):
        if name.startswith(_STANDARD) and not record.fields[name]:
            yield f"{name} is empty"
    if kind not in REQUIRED:
        yield f"WARC-Type is {kind!r}"
        return
    yield from (f"{kind} without {name}" for name in sorted(REQUIRED[kind] - names))
    yield from (f"{kind} with {name}" for name in sorted(FORBIDDEN[kind] & names))
    if record.trailer != b"\r\n\r\n":
        yield f"the record ends with {record.trailer[:20]!r}"
    if not _ID.fullmatch(record.id):
        yield f"WARC-Record-ID is {record.id!r}"
    if not _DATE.fullmatch(record.fields.get("warc-date", "")):
        yield f"WARC-Date is {record.fields.get('warc-date')!r}"
    if record.fields.get("warc-truncated", "length") not in TRUNCATIONS:
        yield f"WARC-Truncated is {record.fields['warc-truncated']!r}"
    if record.block and "content-type" not in names and kind != "continuation":
        yield "content-type is missing"  # 5.6
    if kind == "warcinfo" and record.fields.get("content-type") != "application/warc-fields":
        yield f"a warcinfo record of {record.fields.get('content-type')}"  # 6.2
    yield from _wrong_digest(record, "warc-block-digest", (record.block,))
    if kind in _BY_TYPE:
        yield from _BY_TYPE[kind](record)


def _head_problems(head: bytes) -> Iterator[str]:
    """The problems of version and fields (4), as they are written."""
    if not _VERSION.match(head):
        yield f"begins with {head.split(maxsplit=1)[0].decode('latin-1')!r}"
    if head.count(b"\n") != head.count(b"\r\n"):
        yield "a line of its fields ends without CR"
    _, *lines = _FOLD.sub(b" ", head).decode("utf-8", "replace").split("\r\n")
    yield from (f"not a field: {line[:40]!r}" for line in lines if line and ":" not in line)
    names = Counter(line.partition(":")[0].lower() for line in lines)
    for name, count in sorted(names.items()):
        if count > 1 and name not in REPEATABLE and name.startswith(_STANDARD):
            yield f"{name} is repeated"


def _request_problems(record: Record) -> Iterator[str]:
    if not _REQUEST_LINE.match(record.block):
        yield f"a request that begins with {record.block[:20]!r}"
    elif b"\r\n\r\n" not in record.block:
        yield "a request whose header has no end"


def _revisit_problems(record: Record) -> Iterator[str]:
    if record.fields.get("warc-profile", "").endswith("identical-payload-digest"):
        for name in ("warc-refers-to-target-uri", "warc-refers-to-date", "warc-payload-digest"):
            if name not in record.fields:
                yield f"{name} is missing"
        if record.block and record.fields.get("warc-truncated") != "length":  # 6.7.2
            yield "a revisit with a block, but without WARC-Truncated: length"
    status = _STATUS_LINE.match(record.block)
    if is_not_modified(record.fields.get("warc-profile", "")):
        if record.fields.get("warc-payload-digest", "").endswith(NO_PAYLOAD):
            yield "the payload digest of nothing"
        if status and status[1] != b"304":
            yield f"not modified, with the status {status[1].decode()}"
        if ("warc-refers-to-date" in record.fields) != (
            "warc-refers-to-target-uri" in record.fields
        ):
            yield "warc-refers-to-date and -target-uri belong together"
    if record.block and not status:
        yield f"a revisit whose block begins with {record.block[:20]!r}"


def _response_problems(record: Record) -> Iterator[str]:
    if not record.fields.get("content-type", "").startswith("application/http"):
        return
    if not _STATUS_LINE.match(record.block):
        yield f"a response that begins with {record.block[:20]!r}"
        return
    message = message_of(record.block)
    head, _, body = message
    yield from _wrong_digest(record, "warc-payload-digest", _payloads(message))
    if body and "warc-truncated" not in record.fields and (wrong := _misframed(head, body)):
        yield wrong


def _fields_problems(record: Record) -> Iterator[str]:
    if record.fields.get("content-type") != "application/warc-fields":
        return
    for line in record.block.split(b"\r\n"):
        if line and b":" not in line and line[:1] not in b" \t":
            yield f"not a field: {line[:40]!r}"


_BY_TYPE = {
    "request": _request_problems,
    "response": _response_problems,
    "revisit": _revisit_problems,
    "metadata": _fields_problems,
    "warcinfo": _fields_problems,
}


def _missing_body(record: Record) -> str:
    """The problem of a response without the body that its head announces; "" without a problem.

    An answer to HEAD may announce one (RFC 9112, 6.3): the caller knows the request.
    """
    head, _, body = message_of(record.block)
    status = _STATUS_LINE.match(head)
    if body or "warc-truncated" in record.fields or not status or int(status[1]) in (204, 304):
        return ""
    return _misframed(head, body)


def _misframed(head: bytes, body: bytes) -> str:
    """The problem of a body that is not as its head says; "" without one."""
    if _CHUNKED.search(head):
        empty = "" if body else ", which is empty"
        return "" if unchunked(body).is_whole else f"chunked over a plain body{empty}"
    length = _LENGTH.search(head)
    if length and int(length[1]) != len(body):
        has = f"has {len(body)} bytes" if body else "is empty"
        return f"Content-Length is {int(length[1])}, the body {has}"
    return ""


def _payloads(message: Message) -> Iterator[bytes]:
    """The payload (5.9) as different writers define it: with framing, without, and decoded."""
    _, headers, body = message
    yield body
    if b"chunked" in transfer_codings(headers):
        body = unchunked(body).data
        yield body
    yield decode(body, headers, MAX_DECODED).payload


def _wrong_digest(record: Record, name: str, candidates: Iterable[bytes]) -> Iterator[str]:
    """A problem if the digest in field `name` does not fit any of `candidates`.

    Base 32 or hexadecimal, by any algorithm that Python has (5.8).
    """
    value = record.fields.get(name)
    if not value:
        return
    algorithm, _, text = value.partition(":")
    said = text.rstrip("=").upper()
    for data in candidates:
        try:
            sum_ = hashlib.new(algorithm.replace("-", ""), data, usedforsecurity=False).digest()
        except ValueError:
            yield f"{name} is {value!r}"
            return
        if said in (b32encode(sum_).decode().rstrip("="), sum_.hex().upper()):
            return
    yield f"{name} does not fit the bytes"
