"""A capture: a `response` or `revisit` record of an http(s) URL that holds an HTTP message.

What a crawler knew better than the record shows comes from its metadata record: the owner's signals
and the bot wall.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from webcrawl.tools.corpus.urlparts import UrlParts, url_parts
from webcrawl.warc.captures import Archived
from webcrawl.warc.payload import Message, message_of
from webcrawl.warc.reader import Record

_OURS = re.compile(rb"^(ownerSignal|wall): ([^\r\n]*)", re.MULTILINE)


@dataclass(slots=True)
class Capture:
    """`signals` and `wall`: of the metadata record, else empty. `is_requisite`: it is no page, but
    shown by one, as its hopsFromSeed says.
    """

    record: Record
    url: str
    parts: UrlParts
    status: int  # -1: the answer has none
    message: Message
    signals: list[str] = field(default_factory=list)
    wall: str = ""
    is_requisite: bool = False

    @property
    def is_revisit(self) -> bool:
        return self.record.type == "revisit"


def capture_of(archived: Archived) -> Capture | None:
    """None if the record is not of an answer over HTTP: of a DNS or FTP server, for example."""
    record, metadata, _ = archived
    url = record.fields.get("warc-target-uri", "")
    parts = url_parts(url)
    if parts is None or not record.fields.get("content-type", "").startswith("application/http"):
        return None
    message = message_of(record.block)
    capture = Capture(record, url, parts, int(message.status or -1), message)
    capture.is_requisite = "E" in archived.hops
    has_ours = b"ownerSignal: " in metadata or b"wall: " in metadata
    for name, value in _OURS.findall(metadata) if has_ours else ():
        if name == b"wall":
            capture.wall = value.decode("utf-8", "replace")
        else:
            capture.signals.append(value.decode("utf-8", "replace"))
    return capture
