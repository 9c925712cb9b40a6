"""From the records of a WARC file to its captures: answers over HTTP, each with its metadata.

A capture is a `response` or `revisit` record of an http(s) URL that holds an HTTP message. The
metadata record that names it in WARC-Concurrent-To belongs to it, if it comes before the next
capture: so all writers do. What a crawler knew better than the record shows comes from there: the
owner's signals and the bot wall.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from webcrawl.fetch.http1 import Headers, parse_headers
from webcrawl.tools.corpus.records import Broken, Record
from webcrawl.tools.corpus.urlparts import UrlParts, url_parts
from webcrawl.warc.cdxj import head_size
from webcrawl.warc.payload import payload_of

PAYLOAD_MAX = 1 << 20  # bytes; of a longer page its start is read
_OURS = re.compile(rb"^(ownerSignal|wall): ([^\r\n]*)", re.MULTILINE)
_EMBEDDED = re.compile(rb"^hopsFromSeed: \w*E", re.MULTILINE)
_STATUS = re.compile(rb"HTTP/\S+[ \t]+(\d{3})", re.IGNORECASE)


@dataclass(slots=True)
class Capture:
    """`signals` and `wall`: of the metadata record, else empty. `is_requisite`: it is no page, but
    shown by one, as its hopsFromSeed says.
    """

    record: Record
    parts: UrlParts
    status: int  # -1: the answer has none
    head: bytes
    headers: Headers
    signals: list[str] = field(default_factory=list)
    wall: str = ""
    is_requisite: bool = False

    @property
    def url(self) -> str:
        return target_of(self.record)

    @property
    def is_revisit(self) -> bool:
        return self.record.type == "revisit"

    @property
    def body(self) -> bytes:
        """The body as sent."""
        return self.record.block[len(self.head) :]

    def header(self, name: bytes) -> bytes:
        """The value of a header, the first one; b"" without it."""
        return next((value for each, value in self.headers if each == name), b"")

    def payload(self) -> bytes:
        """The body without chunks and content codings, at most PAYLOAD_MAX bytes."""
        return payload_of(self.body, self.headers, PAYLOAD_MAX)


def captures(records: Iterable[Record | Broken]) -> Iterator[Capture | Broken | Record]:
    """The captures among `records`; as they are the broken ones, and those that are neither a
    capture nor belong to one.
    """
    last: Capture | None = None
    for record in records:
        if isinstance(record, Broken):
            yield record
        elif record.type in ("response", "revisit"):
            if last is not None:
                yield last
            last = capture_of(record)
            if last is None:
                yield record
        elif record.type == "metadata":
            if last is not None and record.fields.get("warc-concurrent-to") == last.record.id:
                _read_metadata(last, record.block)
        elif record.type not in ("request", "warcinfo"):
            yield record
    if last is not None:
        yield last


def capture_of(record: Record) -> Capture | None:
    """None if the record is not of an answer over HTTP: of a DNS or FTP server, for example."""
    parts = url_parts(target_of(record))
    if parts is None or not record.fields.get("content-type", "").startswith("application/http"):
        return None
    head = record.block[: head_size(record.block)]
    status = _STATUS.match(head)
    return Capture(record, parts, int(status[1]) if status else -1, head, parse_headers(head))


def target_of(record: Record) -> str:
    """WARC-Target-URI. In WARC 1.0 files of Wget it stands in angle brackets."""
    return record.fields.get("warc-target-uri", "").strip("<>")


def _read_metadata(capture: Capture, block: bytes) -> None:
    capture.is_requisite = _EMBEDDED.search(block) is not None
    if b"ownerSignal: " not in block and b"wall: " not in block:
        return
    for name, value in _OURS.findall(block):
        if name == b"wall":
            capture.wall = value.decode("utf-8", "replace")
        else:
            capture.signals.append(value.decode("utf-8", "replace"))
