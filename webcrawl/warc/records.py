"""Turns exchanges into WARC 1.1 records: values go in, bytes come out. No I/O and no clock.

Section numbers are those of WARC 1.1 (ISO 28500:2017). The block of a request or response record
holds the bytes of the wire, including chunk framing. Content-Length counts the bytes stored, also
when the body was truncated.

Deviation: the standard and the tools that read archives differ in these points:
- WARC-Payload-Digest (5.9) is computed over the body as sent, including chunk framing. By the
  standard the framing is not payload; warcio and FastWARC verify the digest with the framing, jwarc
  without. `recorded_digest` computes the other choices of WARC_PAYLOAD_DIGEST.
- A head that does not end with CRLF CRLF, or is longer than MAX_HEAD, gets no payload digest, which
  is optional: FastWARC finds no payload after such a head. The block digest is always written.
- A duplicate becomes a revisit record (6.7.2) only if both bodies on the wire are the same bytes. A
  replay takes the headers of the revisit and the payload of the original, so they must fit. A page
  sent gzipped once and plain once is stored twice.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from webcrawl.fetch.exchange import Exchange
from webcrawl.warc.payload import without_chunks
from webcrawl.warc.payloadtype import HEADER_BYTES, find_signature, type_of
from webcrawl.warc.protocols import protocol_fields

NewId = Callable[[], str]  # a fresh WARC-Record-ID, "<urn:uuid:...>" (5.2)
Fields = Iterable[tuple[str, str]]

_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_BASE32_PAIRS = [first + second for first in _BASE32 for second in _BASE32]
_PAIRS_AT = range(150, -1, -10)  # in the 160 bits of a SHA-1
_TO_INT_DIGITS = str.maketrans(_BASE32, "0123456789abcdefghijklmnopqrstuv")

# 6.7.3: a 304 to a conditional request.
NOT_MODIFIED_PROFILE = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"
REVISIT_PROFILE = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"  # 6.7.2
FORMAT = (
    ("format", "WARC File Format 1.1"),
    (
        "conformsTo",
        "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/",
    ),
)

LARGE_BYTES = 1 << 20  # of a body, or of its metadata
_LINES_AT_A_TIME = 2_000  # of a block: each step of more would hold the interpreter's lock
MAX_HEAD = 32 << 10  # bytes; the limit of FastWARC's reader

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")
_CONTROLS = bytes((*range(0x20), 0x7F))
_NO_URI = re.compile(r"[\x00-\x20\x7f<>]")


class Original(NamedTuple):
    """The first page with some content. A WARC revisit record refers to it."""

    url: str  # its WARC-Target-URI
    started_time: float  # UTC seconds, its WARC-Date
    payload_digest: str  # its WARC-Payload-Digest, "sha1:BASE32"; "" without one
    date: str = ""  # its WARC-Date as an index of an earlier archive has it, to the second


@dataclass(slots=True)
class Capture:
    """An exchange to archive, with the values for its records that the wire does not show.

    Not changed once it is made. `is_revisit`: a revisit record is written, of a 304 that the crawl
    has asked for, or because the original has the same bytes on the wire; of an earlier archive
    also by `recorded_digest`, as its digests may leave the framing out.
    """

    exchange: Exchange
    payload_digest: str  # `payload_digest(exchange)`
    original: Original | None = None  # the first page with the same content; of a 304 the page
    metadata: tuple[tuple[str, str], ...] = ()  # lines; empty: no metadata record
    recorded_digest: str | None = None  # WARC-Payload-Digest; None: same as `payload_digest`
    has_answer: bool = True  # False: no record of the answer, but of the request and `metadata`
    is_not_modified: bool = field(init=False)  # a 304 that the crawl has asked for
    is_revisit: bool = field(init=False)

    def __post_init__(self) -> None:
        same = self.original.payload_digest if self.original is not None else ""
        is_same = same != "" and same in (self.payload_digest, self.recorded_digest)
        self.is_not_modified = self.exchange.is_not_modified
        self.is_revisit = self.has_answer and (self.is_not_modified or is_same)

    @property
    def is_large(self) -> bool:
        """Whether digests and compression may take more than 10 ms (60 ms for 10 MiB)."""
        return (self.has_answer and self.exchange.size_bytes > LARGE_BYTES) or (
            len(self.metadata) > 100
            and sum(map(len, chain.from_iterable(self.metadata))) > LARGE_BYTES
        )

    @property
    def is_packed(self) -> bool:
        """Whether a response record is written whose body the server has compressed."""
        exchange = self.exchange
        is_response = self.has_answer and not self.is_revisit
        return is_response and len(exchange.body) < len(exchange.payload)


def digest(data: bytes = b"", *more: bytes) -> str:
    """The labelled digest (5.8) of the parts joined: SHA-1 in base 32, as all tools write it.

    18 µs for 32 KB.
    """
    sha1 = hashlib.sha1(data, usedforsecurity=False)
    for part in more:
        sha1.update(part)
    return labelled(sha1.digest())


def digest_of_stream(pieces: Iterable[bytes], start: int, end: int) -> str:
    """The labelled digest of the bytes from `start` to `end` of `pieces` joined."""
    sha1 = hashlib.sha1(usedforsecurity=False)
    at = 0
    for piece in pieces:
        sha1.update(piece[max(start - at, 0) : max(end - at, 0)])
        at += len(piece)
    return labelled(sha1.digest())


def labelled(sha1: bytes) -> str:
    """A SHA-1 digest with its label, in base 32 (RFC 4648, 6). Called four times per page."""
    number, text = int.from_bytes(sha1), "sha1:"
    for bits in _PAIRS_AT:
        text += _BASE32_PAIRS[number >> bits & 1023]
    return text


def raw_digest(text: str) -> bytes:
    """The 20 bytes of a digest that `digest` returned."""
    return int(text.removeprefix("sha1:").translate(_TO_INT_DIGITS), 32).to_bytes(20)


def payload_digest(exchange: Exchange) -> str:
    """WARC-Payload-Digest of a response; "" if its head allows no digest (module docstring), and
    for a 304 that was asked for.
    """
    head = exchange.head
    if exchange.is_not_modified or len(head) > MAX_HEAD or not head.endswith(b"\r\n\r\n"):
        return ""
    return digest(exchange.body)


def recorded_digest(capture: Capture, over: str) -> str:
    """WARC-Payload-Digest of `capture` for WARC_PAYLOAD_DIGEST = "wire", "payload" or "none".

    The digest of the wire always decides whether a capture is a revisit. A revisit must have the
    field (6.7.2): with "none" it gets the digest of the wire.
    """
    digested = capture.payload_digest
    if over == "payload" and digested:
        return digest(without_chunks(capture.exchange))
    return "" if over == "none" and not capture.is_revisit else digested


def target_uri(exchange: Exchange) -> str:
    """WARC-Target-URI (5.3): the URL, without characters that would end the field."""
    return in_field(exchange.url)


def in_field(url: str) -> str:
    """`url` without characters that would end the field of a record."""
    return _NO_URI.sub(lambda match: f"%{ord(match[0]):02X}", url)


@lru_cache(128)  # of a page it is in its item, its records and its line of an index
def warc_date(time: float) -> str:
    """UTC seconds as a WARC-Date (5.4), to the microsecond."""
    second, microsecond = divmod(round(time * 1_000_000), 1_000_000)
    return f"{_until_second(second)}.{microsecond:06}Z"


@lru_cache(16)  # the captures written at one time began within a few seconds
def _until_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def warc_fields(fields: Fields) -> bytes:
    """A block of application/warc-fields (4).

    Control characters become spaces, so a value from a peer cannot add a line.
    """
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    if len(lines) <= _LINES_AT_A_TIME:
        return _block(lines) + b"\r\n"
    starts = range(0, len(lines), _LINES_AT_A_TIME)
    return b"".join([*(_block(lines[at : at + _LINES_AT_A_TIME]) for at in starts), b"\r\n"])


def _block(lines: list[str]) -> bytes:
    block = "".join(lines).encode("utf-8", "replace")
    if len(block) - len(block.translate(None, _CONTROLS)) > 2 * len(lines):
        lines = [_CONTROL.sub(" ", line[:-2]) + "\r\n" for line in lines]
        return "".join(lines).encode("utf-8", "replace")
    return block


def warcinfo_record(record_id: str, time: float, filename: str, info: Fields) -> bytes:
    """The first record of a file (6.2): software, operator, settings and purpose of the crawl."""
    fields = [
        ("WARC-Type", "warcinfo"),
        ("WARC-Record-ID", record_id),
        ("WARC-Date", warc_date(time)),
        ("WARC-Filename", filename),
        ("Content-Type", "application/warc-fields"),
    ]
    return _record(fields, warc_fields((*info, *FORMAT)))


def resource_record(
    record_id: str, time: float, warcinfo_id: str, uri: str, lines: Fields
) -> bytes:
    """A record (6.4) about the crawl of a file. Its type is that of lines, which indexers leave
    out: it is no capture.
    """
    fields = [
        ("WARC-Type", "resource"),
        ("WARC-Record-ID", record_id),
        ("WARC-Target-URI", uri),
        ("WARC-Date", warc_date(time)),
        ("WARC-Warcinfo-ID", warcinfo_id),
        ("Content-Type", "application/warc-fields"),
    ]
    return _record(fields, warc_fields(lines))


def capture_records(
    capture: Capture, warcinfo_id: str, new_id: NewId, certificate: bytes = b""
) -> list[bytes]:
    """The records of one exchange: response or revisit, request, and metadata if it has lines.

    `certificate`: of the server (DER), for the metadata.
    Without an answer: request and metadata, which refer to each other.
    About 40 µs and one copy of the body, without the digests.
    """
    exchange = capture.exchange
    first_id, request_id = new_id(), new_id()  # the first: of the answer, or of the metadata
    where = [
        ("WARC-Target-URI", in_field(exchange.url)),
        ("WARC-Date", warc_date(exchange.started_time)),
        ("WARC-Warcinfo-ID", warcinfo_id),
    ]
    connection = [("WARC-IP-Address", exchange.ip)] if exchange.ip else []
    request = _record(
        [
            ("WARC-Type", "request"),
            ("WARC-Record-ID", request_id),
            *where,
            *connection,
            ("WARC-Concurrent-To", first_id),
            ("Content-Type", "application/http;msgtype=request"),
        ],
        exchange.request,
    )
    records = [request]
    if capture.has_answer:
        if not exchange.reconstructed:
            connection += protocol_fields(exchange.http_version, exchange.tls)
        records = [_answer(capture, first_id, [*where, *connection]), request]
    if capture.metadata:
        metadata = [
            ("WARC-Type", "metadata"),
            ("WARC-Record-ID", new_id() if capture.has_answer else first_id),
            *where,
            ("WARC-Concurrent-To", first_id if capture.has_answer else request_id),
            ("Content-Type", "application/warc-fields"),
        ]
        lines = capture.metadata
        if certificate:
            lines = (*lines, ("tlsCertificate", b64encode(certificate).decode()))
        records += [_record(metadata, warc_fields(lines))]
    return records


def conversion_record(record_id: str, time: float, url: str, text: str, more: Fields) -> bytes:
    """A text made of a record (6.8); `more` are further fields, as WARC-Refers-To."""
    fields = [
        ("WARC-Type", "conversion"),
        ("WARC-Record-ID", record_id),
        ("WARC-Target-URI", in_field(url)),
        ("WARC-Date", warc_date(time)),
        *more,
        ("Content-Type", "text/plain"),
    ]
    return _record(fields, text.encode("utf-8", "replace"))


def _answer(capture: Capture, record_id: str, where: Fields) -> bytes:
    """The response record (6.3), or the revisit record (6.7), which holds the head only."""
    if capture.is_not_modified:
        return _not_modified(capture, record_id, where)
    exchange = capture.exchange
    original = capture.original if capture.is_revisit else None
    fields = [
        ("WARC-Type", "revisit" if original else "response"),
        ("WARC-Record-ID", record_id),
        *where,
    ]
    if truncated := "length" if original else exchange.truncated:  # of a revisit: 6.7.2
        fields += [("WARC-Truncated", truncated)]
    if original:
        fields += [("WARC-Profile", REVISIT_PROFILE), *_refers_to(original)]
    recorded = capture.recorded_digest
    if digested := capture.payload_digest if recorded is None else recorded:
        fields += [("WARC-Payload-Digest", digested)]
    if not original and not exchange.codings_left:
        found = find_signature(exchange.payload, 0, HEADER_BYTES)
        if found and (name := type_of(found)):
            fields += [("WARC-Identified-Payload-Type", name)]
    fields += [("Content-Type", "application/http;msgtype=response")]
    return _record(fields, exchange.head, b"" if original else exchange.body)


def _not_modified(capture: Capture, record_id: str, where: Fields) -> bytes:
    """The revisit record of a 304 (6.7.3): the whole answer, which has no body and no payload.

    So it is not truncated, and has no payload digest, as that would be the digest of nothing.
    """
    original = capture.original  # without a date: WARC_ENABLED was off, so no capture is known
    fields = [
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", record_id),
        *where,
        ("WARC-Profile", NOT_MODIFIED_PROFILE),
        *(_refers_to(original) if original is not None and original.started_time else ()),
        ("Content-Type", "application/http;msgtype=response"),
    ]
    return _record(fields, capture.exchange.head)


def _refers_to(original: Original) -> Fields:
    """The capture that a revisit refers to (5.11 and 5.12)."""
    return (
        ("WARC-Refers-To-Target-URI", original.url),
        ("WARC-Refers-To-Date", original.date or warc_date(original.started_time)),
    )


def _record(fields: Fields, *block: bytes) -> bytes:
    """A record (4): version, fields, block, and two line ends."""
    head = "WARC/1.1\r\n"
    for name, value in fields:
        head += f"{name}: {value}\r\n"
    length = sum(map(len, block))
    head += f"WARC-Block-Digest: {digest(*block)}\r\nContent-Length: {length}\r\n\r\n"
    return b"".join((head.encode("utf-8", "replace"), *block, b"\r\n\r\n"))
