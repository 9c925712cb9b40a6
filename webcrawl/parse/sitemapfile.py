"""What the answer to a request for a sitemap says, without gzip and content codings.

Reads the body as a stream, PIECE_BYTES after each other. `parse.sitemaps` has the formats. The same
function reads a small sitemap in place and a large one in the other process (`bodyprocess`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Final

from webcrawl.fetch.decode import codings_of, decode
from webcrawl.fetch.http1 import Headers
from webcrawl.parse.sitemaps import SIZE_MAX, Entry, Format, SitemapReader
from webcrawl.parse.urls import MAX_PAGE_LENGTH, canonicalize

PIECE_BYTES: Final = 64 << 10
# Without gzip, so much takes 30 ms at worst: entries that repeat a long xml:base.
QUICK_BYTES: Final = 16 << 10
_GZIP: Final = b"\x1f\x8b"
_LAYERS_MAX: Final = 2  # of gzip: a content coding around a .gz file
_MEMBERS_MAX: Final = 10_000  # of one gzip file


@dataclass(slots=True)
class SitemapFile:
    """What a file says. `problem` is "" if it was read to its end."""

    format: Format = ""
    problem: str = ""
    entries: list[tuple[str, int]] = field(default_factory=list)  # canonical, each once; lastmod


def reads_quickly(payload: bytes, headers: Headers) -> bool:
    """Whether `read_sitemap` takes less than 50 ms, so it may run on the event loop."""
    return len(payload) <= QUICK_BYTES and not payload.startswith(_GZIP) and not codings_of(headers)


def read_sitemap(payload: bytes, headers: Headers, url: str, is_cut: bool) -> SitemapFile:
    """The entries of an answer. Never fails; 1 s of CPU for a full file, 7 s at the very worst.

    `payload` is the body without chunk framing; `is_cut`: its end is missing.
    """
    file = SitemapFile(problem="cut" if is_cut else "")
    reader = SitemapReader()
    found: dict[str, int] = {}  # lastmod by canonical URL
    room = MAX_PAGE_LENGTH

    def note(entries: list[Entry]) -> None:
        nonlocal room
        for text, lastmod in entries:
            is_whole = text[:8].lower().startswith(("http://", "https://"))
            link = canonicalize(text) if is_whole else canonicalize(text, url)
            if link is None or room < len(link):
                continue
            if link not in found:
                room -= len(link)
            found[link] = max(lastmod, found.get(link, 0))

    pieces = _Unpacked(payload, headers)
    for piece in pieces:
        note(reader.feed(piece))
        if reader.is_done:
            break
    note(reader.end(is_cut=bool(pieces.problem or file.problem)))
    file.format = reader.format
    file.problem = reader.problem or pieces.problem or file.problem
    file.entries = list(found.items())
    return file


class _Unpacked:
    """The pieces of an answer without content codings and gzip, SIZE_MAX bytes at most.

    problem -- "too_large" or "damaged", once the pieces are over; else ""
    """

    def __init__(self, payload: bytes, headers: Headers) -> None:
        self.problem = ""
        self._content = payload
        others = [c for c in codings_of(headers) if c not in (b"gzip", b"x-gzip")]
        if others:  # codings that we do not ask for
            decoded = decode(self._content, headers, SIZE_MAX)
            self._content = decoded.payload
            self.problem = "damaged" if decoded.problem else ""

    def __iter__(self) -> Iterator[bytes]:
        content = memoryview(self._content)
        pieces: Iterator[bytes] = (
            bytes(content[at : at + PIECE_BYTES]) for at in range(0, len(content), PIECE_BYTES)
        )
        for _ in range(_LAYERS_MAX):
            first = next(pieces, b"")
            pieces = chain((first,), pieces)
            if not first.startswith(_GZIP):
                break
            pieces = self._gunzipped(pieces)
        size = 0
        for piece in pieces:
            size += len(piece)
            if size > SIZE_MAX:
                self.problem = "too_large"
                yield piece[: SIZE_MAX - size]
                return
            yield piece

    def _gunzipped(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Of members in a row, each piece PIECE_BYTES at most, SIZE_MAX bytes in all."""
        unpacker, is_within = zlib.decompressobj(31), False
        members = size = 0
        for piece in pieces:
            rest = piece
            while rest:
                if not is_within:
                    if rest[:1] != _GZIP[:1]:
                        return  # padding, such as zeros
                    if members == _MEMBERS_MAX:
                        self.problem = "too_large"
                        return
                    unpacker, is_within = zlib.decompressobj(31), True
                    members += 1
                try:
                    out = unpacker.decompress(rest, PIECE_BYTES)
                except zlib.error:
                    self.problem = "damaged"
                    return
                size += len(out)
                if out:
                    yield out
                if size > SIZE_MAX:
                    self.problem = "too_large"
                    return
                rest = unpacker.unconsumed_tail
                if unpacker.eof:
                    rest, is_within = unpacker.unused_data, False
        if is_within:
            self.problem = self.problem or "damaged"
