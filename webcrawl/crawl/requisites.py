"""Answers to requests for page requisites (PAGE_REQUISITES): they go into the archive, and style
sheets name further files. They are no pages: no spider, no item pipeline and no feed gets them.
"""

from __future__ import annotations

import logging

from scrapy.crawler import Crawler

from webcrawl.crawl.answers import compare, note_signals, page_of
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.outcomes import NotArchived, fetched
from webcrawl.fetch.exchange import REDIRECTS, Exchange
from webcrawl.fetch.walls import wall_of
from webcrawl.frontier.lease import Fetched, Link, Returned
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.items import Page
from webcrawl.parse.body import About, BodyReader
from webcrawl.parse.largebodies import GivenUp, LargeBodies, ReadingFailed
from webcrawl.parse.requisites import CSS_TYPE
from webcrawl.parse.urls import host_of, redirect_target
from webcrawl.signals import requisite_fetched

logger = logging.getLogger(__name__)


class Requisites:
    """`large_bodies` reads style sheets that would hold the event loop."""

    def __init__(
        self, crawler: Crawler, outlinks: Outlinks, bodies: BodyReader, large_bodies: LargeBodies
    ) -> None:
        self._crawl = crawl_of(crawler)
        self._signals = crawler.signals
        self._outlinks = outlinks
        self._bodies = bodies
        self._large_bodies = large_bodies

    async def outcome(self, exchange: Exchange, link: Link) -> Fetched | Returned:
        """Archive the answer to `link`; the outcome of its lease."""
        counters = self._crawl.counters
        assert counters is not None
        counters.robots_bytes += exchange.size_bytes
        exchange.wall = wall_of(exchange.status, exchange.head, exchange.payload)
        content_type = exchange.header(b"content-type").decode("latin-1")
        page, links = await page_of(exchange, link, content_type), []
        page.wall = exchange.wall
        page.size_bytes = len(exchange.payload)
        note_signals(page, exchange, self._bodies.options)
        try:
            if exchange.status in REDIRECTS:
                page.redirect_to = redirect_target(exchange.header(b"location"), link.url) or ""
                if page.redirect_to:
                    links = self._outlinks.of_moved_requisite(page.redirect_to, link)
            elif 200 <= exchange.status < 300 and exchange.payload and not exchange.wall:
                await compare(self._crawl, page, exchange, exchange.payload)
                links = self._outlinks.of_requisites(
                    await self._shown_by(page, exchange, content_type), link
                )
        except GivenUp:  # the next run fetches it again
            return Returned(exchange.asked_at, exchange.ended_at)
        answers = await self._signals.send_catch_log_async(
            requisite_fetched, page=page, dont_log=NotArchived
        )
        if any(isinstance(answer, NotArchived) for _, answer in answers):
            return Returned(exchange.asked_at, exchange.ended_at)
        return fetched(exchange, (), page, requisites=tuple(links))

    async def _shown_by(self, page: Page, exchange: Exchange, content_type: str) -> list[str]:
        """The files that a style sheet names. GivenUp."""
        if page.content_type != CSS_TYPE:
            return []
        what = exchange.payload, About(content_type, page.url)
        if self._bodies.reads_quickly(exchange.payload, CSS_TYPE):
            return self._bodies.read(*what).page.requisites
        try:
            parsed = await self._large_bodies.read(host_of(page.url), *what)
        except ReadingFailed as failure:
            logger.warning("The files of %s are not fetched: %s", page.url, failure)
            return []
        return parsed.page.requisites
