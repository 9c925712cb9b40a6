"""What a simulated server sends, as a value: who sends it does the waiting and the resetting."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


@dataclass(slots=True)
class Reply:
    """One answer.

    `body` is a row of pieces to send and of seconds to wait between them; it may be endless.
    `end` says what comes then: "keep" the connection if the peer likes, "close" it, "reset" it, or
    "hang" until the peer leaves. `again` is True when asking the same thing again is fair.
    """

    status: int  # 0: what is sent is not an HTTP answer
    head: bytes = b""  # without the blank line
    body: Iterable[bytes | float] = ()
    delay_s: float = 0.0  # before the first byte
    end: str = "keep"
    again: bool = False
    links: int = 0  # http(s) links in the document, repeats included
    retry_after_s: float = 0.0  # as its header says


def answer(
    status: int,
    body: bytes = b"",
    *fields: str,
    content_type: str = "text/html; charset=utf-8",
    links: int = 0,
) -> Reply:
    """A well-formed answer with a Content-Length; `fields` are more header lines."""
    lines = [f"Content-Length: {len(body)}", *fields]
    if content_type:
        lines.insert(0, f"Content-Type: {content_type}")
    later = next((field[13:] for field in fields if field.startswith("Retry-After: ")), "")
    return Reply(
        status,
        head(status, *lines),
        (body,),
        again=status in (408, 429) or status >= 500,
        links=links,
        retry_after_s=float(later) if later.isdigit() else 0.0,
    )


def head(status: int, *fields: str) -> bytes:
    """Status line and header fields, each with its line end."""
    lines = "".join(f"{field}\r\n" for field in fields)
    return b"HTTP/1.1 %d %b\r\nServer: simweb\r\n%b" % (status, REASONS[status], lines.encode())
