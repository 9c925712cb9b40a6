"""The line of an index (CDXJ) for a response or revisit record: values go in, a line comes out.

A line has the SURT key, the time in 14 digits, and a JSON object with url, mime, status, digest,
length, offset and filename: the line that cdxj-indexer 1.5 writes with its default fields, byte for
byte. No I/O and no clock.

Deviation: status and type are those that the crawl has read (`fetch.http1`). cdxj-indexer reads
these broken heads in another way: a Content-Type that is empty, begins in a folded line or is not
ASCII; a tab before the status; and a line of white space only, which is the end of its head, so
that a digest computed for the line is another one, too. It reads no head of a URL that is neither
http nor https.

Deviation: a revisit of profile server-not-modified has no line. With one, pywb answers with the 304
itself, an empty page, at that time and wherever the newest capture is asked for. Without one it
replays the nearest capture: the page as it was, unless a changed one was archived soon after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import NamedTuple

from webcrawl.warc.payload import message_of
from webcrawl.warc.records import Capture, digest, target_uri, warc_date
from webcrawl.warc.surt import surt

_REVISIT = "warc/revisit"  # in place of a type
_TYPE = re.compile(rb"[^;\s]*")


class Answer(NamedTuple):
    """What an index says of a record, beside its place."""

    url: str
    date: str  # WARC-Date
    mime: str  # "": the line has no such field
    status: str
    digest: str


def cdxj_line(answer: Answer, filename: str, offset: int, size_bytes: int) -> bytes:
    """The line of a record that takes `size_bytes` of the file `filename`."""
    url, date, mime, status, digested = answer
    time = date[:19].replace("-", "").replace("T", "").replace(":", "")
    mime = mime and f' "mime": {quoted(mime)},'
    status = status and f' "status": "{status}",'
    line = (
        f'{surt(url)} {time} {{"url": {quoted(url)},{mime}{status}'
        f' "digest": "{digested}", "length": "{size_bytes}", "offset": "{offset}",'
        f' "filename": {quoted(filename)}}}\n'
    )
    return line.encode("utf-8", "replace")


def answer_of(capture: Capture) -> Answer:
    """The answer of the record of `capture`. The body is hashed if no digest is known."""
    exchange = capture.exchange
    url = target_uri(exchange)
    if not url.isascii():  # as it is read again from its record
        url = url.encode("utf-8", "replace").decode().strip()
    mime = _REVISIT if capture.is_revisit else _mime(exchange.header(b"content-type"))
    digested = capture.recorded_digest or capture.payload_digest or digest(exchange.body)
    return Answer(url, warc_date(exchange.started_time), mime, str(exchange.status), digested)


def answer_of_record(
    fields: Mapping[str, str], block: bytes, digest_from: Callable[[int], str]
) -> Answer | None:
    """The answer of a record with `fields` (names in lower case), which is `answer_of` its capture;
    None if an index has no line.

    `block` may end after the HTTP head. `digest_from` returns the digest of the block from an
    offset on; it is called if the record has no payload digest. O(head).
    """
    kind = fields.get("warc-type", "")
    if kind not in ("response", "revisit"):
        return None
    if kind == "revisit" and is_not_modified(fields.get("warc-profile", "")):
        return None
    is_http = fields.get("content-type", "").startswith("application/http")
    message = message_of(block if is_http else b"")
    return Answer(
        fields.get("warc-target-uri", ""),
        fields.get("warc-date", ""),
        _REVISIT if kind == "revisit" else _mime(message.header(b"content-type").encode("latin-1")),
        message.status,
        fields.get("warc-payload-digest") or digest_from(len(message.head)),
    )


def is_not_modified(profile: str) -> bool:
    """Whether a revisit of `profile` is a 304 (WARC 1.0 and 1.1, 6.7.3)."""
    return profile.endswith("/revisit/server-not-modified")


def _mime(content_type: bytes) -> str:
    """The media type of a Content-Type, in the letters of the server."""
    return _TYPE.match(content_type)[0].decode("latin-1")  # type: ignore[index]  # may be empty
