"""Answers to requests for sitemaps: which links they give, and what was wrong with them.

Owns the limits of memory while sitemaps are fetched and read. `parse.sitemaps` reads the formats,
`frontier.outlinks` decides which entries are followed.

Memory: a body is held as it was sent, since it is archived, but read as a stream: on a thread,
PIECE_BYTES after each other, one large and one small file at a time. Bodies under way may have
FREE_BYTES each, and SHARED_BYTES together beyond that; then the next one that grows is cut there,
and read so far.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from webcrawl.fetch.decode import codings_of, decode
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.request import FetchRequest
from webcrawl.frontier.lease import Link
from webcrawl.frontier.outlinks import Listed, OfSitemap, Outlinks
from webcrawl.frontier.sitemapnames import GUESSED
from webcrawl.parse.sitemaps import SIZE_MAX, Entry, Format, SitemapReader
from webcrawl.parse.urls import MAX_PAGE_LENGTH, canonicalize

NESTING_MAX: Final = 3  # Deviation: sitemaps.org allows no index in an index; some sites have them
PIECE_BYTES: Final = 64 << 10
FREE_BYTES: Final = 1 << 20  # nearly all files are smaller
SHARED_BYTES: Final = 200 << 20
_SEEDS_NAMED: Final = 10  # seeds without a link, each one line of the log
_GZIP: Final = b"\x1f\x8b"
_LAYERS_MAX: Final = 2  # of gzip: a content coding around a .gz file
_MEMBERS_MAX: Final = 10_000  # of one gzip file
_LINKS_AT_A_TIME: Final = 1_000  # 5 ms of the event loop's time

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class SitemapFile:
    """What a file says. `problem` is "" if it was read to its end."""

    format: Format = ""
    problem: str = ""
    entries: list[Listed] = field(default_factory=list)  # canonical, each once


class Sitemaps:
    """Reads answers, and counts them in `counts` (`Counters.sitemaps`). Warns of useless seeds.

    guesses -- SITEMAPS=guess: /sitemap.xml is tried where a robots.txt names no sitemap
    """

    def __init__(self, outlinks: Outlinks, counts: Counter[str], *, guesses: bool = False) -> None:
        self._outlinks = outlinks
        self._guesses = guesses
        self._counts = counts
        self._shared_left = SHARED_BYTES
        self._seeds_named: set[str] = set()
        # One at a time: each takes CPU from the event loop. Small files do not wait for large ones,
        # and their hosts are leased meanwhile.
        self._reading, self._reading_small = asyncio.Lock(), asyncio.Lock()

    def has_scope(self, url: str) -> bool:
        """Whether a sitemap that a robots.txt names may be asked for. Counts a refusal."""
        return self._outlinks.names_sitemap(url)

    def guesses_for(self, origin: str) -> bool:
        """Whether /sitemap.xml of `origin` may be tried. Counts a refusal."""
        return self._guesses and self.has_scope(origin + GUESSED)

    def room(self, request: FetchRequest) -> Room:
        """The room for the body of `request`; it is held until the end of a `with` block."""
        return Room(self, request)

    def take(self, size: int) -> bool:
        self._shared_left -= size
        return self._shared_left >= 0

    def moved(self, url: str, sitemap: Link) -> tuple[Link, ...]:
        link = self._outlinks.of_moved_sitemap(url, sitemap)
        return () if link is None else (link,)

    def refused(self, status: int, sitemap: Link) -> None:
        """Note the final answer `status`, neither 2xx nor a redirect."""
        if 400 <= status < 500 and status not in (408, 429):  # which may be tried again
            self._warn_of_seed(sitemap, f"it is answered by {status}")

    def _warn_of_seed(self, sitemap: Link, reason: str) -> None:
        """The user has named it, and may have no other seed. For other sitemaps counts will do."""
        named = self._seeds_named
        is_seed = sitemap.sitemap == 1 and not sitemap.via.endswith("/robots.txt")  # or its target
        if not is_seed or sitemap.url in named or len(named) >= _SEEDS_NAMED:
            return
        named.add(sitemap.url)
        logger.warning("seeds: the sitemap %s gives no URL: %s", sitemap.url, reason)

    async def read(self, exchange: Exchange, sitemap: Link) -> tuple[tuple[Link, ...], bool]:
        """The links of a 2xx answer; and whether all its entries are of its own host."""
        async with self._reading_small if _is_small(exchange) else self._reading:
            file = await asyncio.to_thread(read_file, exchange)
        counts, is_index = self._counts, file.format == "index"
        counts[file.format or "no_format"] += 1
        counts["entries"] += len(file.entries)
        if file.problem:
            counts[file.problem] += 1
        if is_index and sitemap.sitemap >= NESTING_MAX:
            counts["too_deep"] += 1
            return (), False
        links: list[Link] = []
        foreign = 0
        for start in range(0, len(file.entries), _LINKS_AT_A_TIME):
            some = file.entries[start : start + _LINKS_AT_A_TIME]
            found: OfSitemap = self._outlinks.of_sitemap(some, sitemap, is_index=is_index)
            links += found.links
            foreign += found.foreign
            await asyncio.sleep(0)
        counts["foreign"] += foreign
        if not links:
            self._warn_of_seed(sitemap, _why_no_links(file, foreign))
        own_only = not (is_index or foreign or file.problem)
        return tuple(links), own_only and all(link.host == sitemap.host for link in links)


def _why_no_links(file: SitemapFile, foreign: int) -> str:
    if file.problem == "not_a_sitemap" or not file.format:
        return "it is no sitemap"
    entries = len(file.entries)
    if not entries:
        return "it has no entries"
    return (
        f"of its {entries} entries {foreign} are of other hosts, {entries - foreign} out of scope"
    )


def _is_small(exchange: Exchange) -> bool:
    """Whether an answer is read in 0.3 s, whatever it has."""
    body = exchange.payload
    packed = body.startswith(_GZIP) or exchange.codings_left
    return len(body) <= PIECE_BYTES and not packed


class Room:
    """The room that the body of one request takes, of that for all of them together."""

    def __init__(self, sitemaps: Sitemaps, request: FetchRequest) -> None:
        self._sitemaps = sitemaps
        self._free = FREE_BYTES
        self._taken = 0
        request.on_content = self._grow

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._sitemaps.take(-self._taken)

    def _grow(self, content: bytes) -> bool:
        beyond = max(0, len(content) - self._free)
        self._free -= len(content) - beyond
        self._taken += beyond
        return not beyond or self._sitemaps.take(beyond)


def read_file(exchange: Exchange) -> SitemapFile:
    """The entries of an answer. Never fails; 1 s of CPU for a full file, 7 s at the very worst."""
    file = SitemapFile(problem="cut" if exchange.truncated else "")
    reader = SitemapReader()
    found: dict[str, int] = {}  # lastmod by canonical URL
    room = MAX_PAGE_LENGTH

    def note(entries: list[Entry]) -> None:
        nonlocal room
        for text, lastmod in entries:
            is_whole = text[:8].lower().startswith(("http://", "https://"))
            url = canonicalize(text) if is_whole else canonicalize(text, exchange.url)
            if url is None or room < len(url):
                continue
            if url not in found:
                room -= len(url)
            found[url] = max(lastmod, found.get(url, 0))

    pieces = _Unpacked(exchange)
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

    def __init__(self, exchange: Exchange) -> None:
        self.problem = ""
        self._content = exchange.payload
        others = [c for c in codings_of(exchange.headers) if c not in (b"gzip", b"x-gzip")]
        if others:  # codings that we do not ask for
            decoded = decode(self._content, exchange.headers, SIZE_MAX)
            self._content = decoded.payload
            self.problem = "damaged" if decoded.problem else ""

    def __iter__(self) -> Iterator[bytes]:
        content = memoryview(self._content)
        pieces: Iterator[bytes] = (
            bytes(content[at : at + PIECE_BYTES]) for at in range(0, len(content), PIECE_BYTES)
        )
        for _ in range(_LAYERS_MAX):
            first = next(pieces, b"")
            if not first.startswith(_GZIP):
                pieces = _chained(first, pieces)
                break
            pieces = self._gunzipped(_chained(first, pieces))
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


def _chained(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    if first:
        yield first
    yield from rest
