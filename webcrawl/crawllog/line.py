"""One line of the crawl log: values go in, bytes come out. No I/O and no clock.

A line is a JSON object (RFC 8259) without line breaks. Empty, zero and false fields are left out.
What the frontier knows of a turn (`Turn`) and what only the answer tells (`Details`) come from two
processes. Each writes its own fields as an object, and `joined` makes one of both.
"""

from __future__ import annotations

import json
import time
from typing import Final, Literal

from msgspec import Struct
from msgspec.json import Encoder
from msgspec.structs import asdict

Kind = Literal["page", "robots", "head", "sitemap", "requisite"]
End = Literal["done", "dropped", "kept", "retried", "lost"]

NO_DETAILS: Final = b"{}"
LostLine = tuple[int, str, bytes]  # offset of an answer in its WARC file, its host, and its line
_WARC: Final = b'"warc":'  # no value contains it: quotes in values are escaped


class Turn(Struct, omit_defaults=True, gc=False):
    """A URL whose turn has ended. docs/output.md defines the fields.

    `end`: answered; never fetched, or not again; or queued for a later try. No end of a turn, but
    the line of a record of the archive: "retried", the answer is superseded by another try; "lost",
    a killed run has archived the answer and has written no line.
    """

    time: str  # UTC, ISO 8601 with milliseconds
    kind: Kind
    url: str
    host: str
    end: End
    reason: str = ""  # of "dropped" and "kept"
    depth: int = 0
    level: int = 0
    redirects: int = 0
    tries: int = 0
    via: str = ""
    dns_ms: float = 0
    visit: str = ""  # of a page that was fetched before (RECRAWL): what the visit found
    last_visit: str = ""  # UTC, as `time`


class Details(Struct, omit_defaults=True, gc=False):
    """What only the answer tells: the frontier passes it on, as JSON."""

    status: int = 0  # 0: no answer
    reason: Literal["", "content_type"] = ""  # of "done": why the body was not read
    size_bytes: int = 0
    body_bytes: int = 0
    media_type: str = ""
    charset: str = ""
    lang: str = ""
    detected_language: str = ""
    redirect_to: str = ""
    digest: str = ""
    duplicate_of: str = ""
    near_duplicate_of: str = ""
    unchanged: bool = False
    truncated: str = ""
    links: int = 0
    connect_ms: float = 0
    first_byte_ms: float = 0
    total_ms: float = 0
    ip: str = ""
    warc: str = ""
    offset: int = 0
    signals: tuple[str, ...] = ()
    wall: str = ""


_encode = Encoder().encode


def to_bytes(fields: Turn | Details) -> bytes:
    """The fields as a JSON object. 1 µs.

    Text that is not Unicode (a lone surrogate, from a user's own code) is escaped.
    """
    try:
        return _encode(fields)
    except UnicodeEncodeError:
        values = {name: value for name, value in asdict(fields).items() if value}
        return json.dumps(values).encode()


def joined(turn: bytes, details: bytes) -> bytes:
    """A line without its line break: both objects as one.

    Both may have a `reason`, but not in one line: a turn with details of a body that was not read
    is "done".
    """
    return turn if details == NO_DETAILS else turn[:-1] + b"," + details[1:]


def is_archived(details: bytes) -> bool:
    """Whether `details` are of an answer that has a record in the archive."""
    return _WARC in details


def milliseconds(seconds: float) -> float:
    """`seconds` in milliseconds, to a tenth. Zero is an integer: a line leaves no 0.0 out."""
    return round(seconds * 1000, 1) or 0


class Utc:
    """UTC in ISO 8601, of times in seconds since the epoch. 0.3 µs; one second is cached."""

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def text(self, seconds: float) -> str:
        whole = int(seconds)
        if whole != self._second:
            self._second = whole
            self._text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(whole))
        return f"{self._text}.{int(seconds * 1000) % 1000:03d}Z"
