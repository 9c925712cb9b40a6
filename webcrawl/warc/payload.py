"""Removes chunk framing from bodies, for payload digests (WARC 1.1, 5.9), and reads archived
HTTP messages.

Linear in the body's size. A chunk costs 0.5 µs, so a body of many tiny chunks belongs in a thread,
not in the event loop.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from webcrawl.fetch.decode import decode
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.http1 import Headers, list_values, parse_headers, transfer_codings

_STATUS = re.compile(rb"\S+[ \t]+(\d{3})")
_HEAD_END = re.compile(rb"\n\r?\n")
_CHUNK_LINE = re.compile(rb"(?:\r?\n)?[ \t]*([0-9A-Fa-f]++)[^\n]*+\n")


class Unchunked(NamedTuple):
    """The data of all chunks, and whether the last chunk (size 0) was found."""

    data: bytes
    is_whole: bool


def unchunked(body: bytes) -> Unchunked:
    """Decode chunks (RFC 9112, 7.1) up to the first invalid one. Ignores the trailer section."""
    data = bytearray()  # a list of tiny chunks would take 20 times as much
    at = 0
    while line := _CHUNK_LINE.match(body, at):
        size = int(line[1], 16)
        if size == 0:
            return Unchunked(bytes(data), True)
        at = line.end()
        data += body[at : at + size]
        at += min(size, len(body))
    return Unchunked(bytes(data), False)


class Message(NamedTuple):
    """An archived HTTP message. `head` ends with its blank line, `body` is as sent."""

    head: bytes
    headers: Headers
    body: bytes

    @property
    def status(self) -> str:
        """Three digits; "" without them."""
        found = _STATUS.match(self.head)
        return found[1].decode() if found else ""

    def header(self, name: bytes) -> str:
        """The first value of a header; "" without it."""
        return next((value.decode("latin-1") for each, value in self.headers if each == name), "")

    def payload(self, size_max: int) -> bytes:
        """The body without chunks and content codings, at most `size_max` bytes of it.

        What does not fit its framing or its coding stays as it is: some writers store bodies
        decoded, and a server may name framing that it does not send.
        """
        body = self.body
        if b"chunked" in transfer_codings(self.headers):
            whole = unchunked(body)
            body = whole.data if whole.data or whole.is_whole else body
        return decode(body, self.headers, size_max).payload[:size_max]


def message_of(block: bytes) -> Message:
    """The message in the block of a record. Lines may end with LF alone, as some servers send.

    O(size).
    """
    end = _HEAD_END.search(block)
    head = block[: end.end()] if end else block
    return Message(head, parse_headers(head), block[len(head) :])


def without_chunks(exchange: Exchange) -> bytes:
    """The body of an answer without its chunk framing, its content coding kept."""
    codings = transfer_codings(exchange.headers)
    if not codings or codings[-1] != b"chunked":
        return exchange.body
    if len(codings) == 1 and not list_values(exchange.headers, b"content-encoding"):
        return exchange.payload
    return unchunked(exchange.body).data
