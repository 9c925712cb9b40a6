"""Removes chunk framing from bodies, for payload digests (WARC 1.1, 5.9).

Linear in the body's size. A chunk costs 0.5 µs, so a body of many tiny chunks belongs in a thread,
not in the event loop.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.http1 import list_values, transfer_codings

_CHUNK_LINE = re.compile(rb"(?:\r?\n)?[ \t]*([0-9A-Fa-f]+)[^\n]*\n")


class Unchunked(NamedTuple):
    """The data of all chunks, and whether the last chunk (size 0) was found."""

    data: bytes
    is_whole: bool


def unchunked(body: bytes) -> Unchunked:
    """Decode chunks (RFC 9112, 7.1) up to the first invalid one. Ignores the trailer section."""
    pieces: list[bytes] = []
    at = 0
    while line := _CHUNK_LINE.match(body, at):
        size = int(line[1], 16)
        if size == 0:
            return Unchunked(b"".join(pieces), True)
        at = line.end()
        pieces.append(body[at : at + size])
        at += min(size, len(body))
    return Unchunked(b"".join(pieces), False)


def without_chunks(exchange: Exchange) -> bytes:
    """The body of an answer without its chunk framing, its content coding kept."""
    codings = transfer_codings(exchange.headers)
    if not codings or codings[-1] != b"chunked":
        return exchange.body
    if len(codings) == 1 and not list_values(exchange.headers, b"content-encoding"):
        return exchange.payload
    return unchunked(exchange.body).data
