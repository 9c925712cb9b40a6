"""A server's answer as a value. The sender of the value waits, closes and resets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus

REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}


@dataclass(slots=True)
class Reply:
    """One answer.

    `body` has pieces to send and, between them, seconds to wait; it may be endless. `end` is what
    happens to the connection: "keep" it if the client does, "close" it, "reset" it, or "hang" until
    the client disconnects. `again`: a retry of the request is no violation.
    """

    status: int  # 0: the bytes are not an HTTP answer
    head: bytes = b""  # without the blank line
    body: Iterable[bytes | float] = ()
    delay_s: float = 0.0  # before the first byte
    end: str = "keep"
    again: bool = False
    links: int = 0  # http(s) links in the document, repeats included
    retry_after_s: float = 0.0  # from its header


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
