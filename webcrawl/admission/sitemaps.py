"""Answers to requests for sitemaps: which links they give, and what was wrong with them.

`reading.sitemap` reads a file, `frontier.outlinks` decides which entries are followed.

Memory: a body is held as it was sent, since it is archived, but read as a stream: a large one in
the process of large bodies. Large bodies under way may have ROOM_BYTES together (`fetch.room`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from webcrawl.fetch.exchange import REDIRECTS, Exchange
from webcrawl.frontier.lease import Link
from webcrawl.frontier.outlinks import OfSitemap, Outlinks
from webcrawl.frontier.sitemapnames import GUESSED
from webcrawl.parse.largebodies import LargeBodies, ReadingFailed
from webcrawl.parse.sitemapfile import SitemapFile, read_sitemap, reads_quickly
from webcrawl.parse.urls import host_of, redirect_target

NESTING_MAX: Final = 3  # Deviation: sitemaps.org allows no index in an index; some sites have them
ROOM_BYTES: Final = 200 << 20
_SEEDS_NAMED: Final = 10  # seeds without a link, each one line of the log
_LINKS_AT_A_TIME: Final = 1_000  # 5 ms of the event loop's time

logger = logging.getLogger(__name__)


class Sitemaps:
    """Reads answers, and counts them in `counts` (`Counters.sitemaps`). Warns of useless seeds.

    large_bodies -- reads sitemaps that would hold the event loop
    guesses -- SITEMAPS=guess: /sitemap.xml is tried where a robots.txt names no sitemap
    """

    def __init__(
        self,
        outlinks: Outlinks,
        counts: Counter[str],
        large_bodies: LargeBodies,
        *,
        guesses: bool = False,
    ) -> None:
        self._outlinks = outlinks
        self._guesses = guesses
        self._counts = counts
        self._large_bodies = large_bodies
        self._seeds_named: set[str] = set()

    def has_scope(self, url: str) -> bool:
        """Whether a sitemap that a robots.txt names may be asked for. Counts a refusal."""
        return not self._outlinks.refuses(url, host_of(url))

    def guesses_for(self, origin: str) -> bool:
        """Whether /sitemap.xml of `origin` may be tried. Counts a refusal."""
        return self._guesses and self.has_scope(origin + GUESSED)

    async def links_of(self, exchange: Exchange, sitemap: Link) -> tuple[tuple[Link, ...], bool]:
        """The links of an answer; and whether all its entries are of its own host. GivenUp."""
        status = exchange.status
        if 200 <= status < 300:
            return await self.read(exchange, sitemap)
        if status in REDIRECTS:
            target = redirect_target(exchange.header(b"location"), sitemap.url)
            moved = self._outlinks.of_moved_sitemap(target, sitemap) if target else None
            return (moved,) if moved is not None else (), False
        if 400 <= status < 500 and status not in (408, 429):  # which may be tried again
            self._warn_of_seed(sitemap, f"it is answered by {status}")
        return (), False

    def _warn_of_seed(self, sitemap: Link, reason: str) -> None:
        """The user has named it, and may have no other seed. For other sitemaps counts will do."""
        named = self._seeds_named
        is_seed = sitemap.sitemap == 1 and not sitemap.via.endswith("/robots.txt")  # or its target
        if not is_seed or sitemap.url in named or len(named) >= _SEEDS_NAMED:
            return
        named.add(sitemap.url)
        logger.warning("seeds: the sitemap %s gives no URL: %s", sitemap.url, reason)

    async def read(self, exchange: Exchange, sitemap: Link) -> tuple[tuple[Link, ...], bool]:
        """The links of a 2xx answer; and whether all its entries are of its own host.

        Raises GivenUp.
        """
        file = await self._file(exchange, sitemap.host)
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

    async def _file(self, exchange: Exchange, host: str) -> SitemapFile:
        what = exchange.payload, exchange.headers, exchange.url, bool(exchange.truncated)
        if reads_quickly(exchange.payload, exchange.headers):
            return read_sitemap(*what)
        try:
            return await self._large_bodies.read_sitemap(host, *what)
        except ReadingFailed as failure:
            logger.warning("The sitemap %s cannot be read: %s", exchange.url, failure)
            return SitemapFile(problem="unread")


def _why_no_links(file: SitemapFile, foreign: int) -> str:
    if file.problem == "not_a_sitemap" or not file.format:
        return "it is no sitemap"
    entries = len(file.entries)
    if not entries:
        return "it has no entries"
    return (
        f"of its {entries} entries {foreign} are of other hosts, {entries - foreign} out of scope"
    )
