"""The broad spider: seeds in, pages out.

Puts the seeds into the frontier, and makes a `Page` item with its outlinks from each answer. The
frontier decides which URL is fetched and when. To do more with each page, subclass `BroadSpider`
and override `parse` (docs/extending.md).
"""

from __future__ import annotations

import asyncio
import hashlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Never, Self, TypeVar, cast

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.conf import closest_scrapy_cfg

from webcrawl.admission.runner import REDIRECTS
from webcrawl.config.build import parsers_from, recrawl_from, robots_also, robots_token
from webcrawl.config.fetch import wants_feeds
from webcrawl.config.table import read
from webcrawl.crawl import PageFetchMiddleware
from webcrawl.crawl.crawl import Crawl, CrawlScheduler, crawl_of, set_fatal_error
from webcrawl.crawl.earlier import capture_before
from webcrawl.crawl.page_fetch import state_of
from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.crawl.visits import compare_not_modified, is_unchanged
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import Link
from webcrawl.items import Original, Page
from webcrawl.parse.charset import sniff
from webcrawl.parse.maintext import QUICK_BYTES, digest, text_hash
from webcrawl.parse.ownersignals import (
    ROBOTS_HEADER,
    bounded,
    header_directives,
    header_signals,
)
from webcrawl.parse.page import ParsedPage, Parser, media_type_of, read_page, reads_quickly
from webcrawl.parse.urls import redirect_target
from webcrawl.report.console import console_from
from webcrawl.spiders.seeds import BadSeed, SeedSource
from webcrawl.warc.records import payload_digest, raw_digest, warc_date

SEEDS_PER_BATCH = 1000  # read by the thread in one go
SEEDS_PER_PUT = 250  # about 5 ms of the event loop's time
_SITEMAP_SETTINGS = ("SITEMAPS", "FOLLOW_LINKS")
T = TypeVar("T")


def project_root() -> Path | None:
    """Folder of the project's scrapy.cfg; None in an egg that runs outside a checkout."""
    cfg = closest_scrapy_cfg()
    return Path(cfg).parent if cfg else None


async def in_daemon(function: Callable[[], T]) -> T:
    """Run `function` in a daemon thread and return its result.

    A read of standard input may block forever. The process can end while a daemon thread blocks;
    it would wait for a thread of `asyncio.to_thread`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: Exception | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(cast("T", result))

    def run() -> None:
        result, error = None, None
        try:
            result = function()
        except Exception as raised:
            error = raised
        with suppress(RuntimeError):  # the crawl has ended, and its event loop is closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="seeds", daemon=True).start()
    return await done


class _Reading(NamedTuple):
    """The settings for reading pages: looked up once, used for each page."""

    agent: str  # the name that robots rules know this crawler by, lower case
    also: tuple[str, ...]  # other names whose rules hold too (ROBOTS_ALSO)
    obey_nofollow: bool
    follow_rel_nofollow: bool
    follow_feeds: bool
    parsers: Mapping[str, Parser]
    revisits: bool  # RECRAWL


class _Parsed(NamedTuple):
    """What the body of a page says. `simhash`: of its main text; None without RECRAWL."""

    page: ParsedPage
    simhash: int | None
    has_failed: bool  # the parser raised an exception


class BroadSpider(Spider):
    """`scrapy crawl broad -a seeds=FILE_OR_URL[,...]`"""

    name = "broad"
    reads_sitemaps = True  # the scheduler asks: SITEMAPS has no effect on other spiders

    def __init__(self, seeds: str | SeedSource = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = seeds
        self.crawl_arguments: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
        # One large page at a time: each takes CPU away from the event loop.
        self._reading_large = asyncio.Lock()
        self._failed_parsers: set[str] = set()  # media types

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.crawl_arguments = args, kwargs  # for the crawl's other processes
        return spider

    @cached_property
    def _reading(self) -> _Reading:
        settings = self.settings
        return _Reading(
            robots_token(settings).lower(),
            robots_also(settings),
            read(settings, "OBEY_NOFOLLOW", bool),
            read(settings, "FOLLOW_REL_NOFOLLOW", bool),
            wants_feeds(settings),
            parsers_from(settings),
            recrawl_from(settings) is not None,
        )

    @cached_property
    def _crawl(self) -> Crawl:
        return crawl_of(self.crawler)

    def _refuse(self, problem: str) -> Never:
        """End the crawl because of a setting, with one line of the log."""
        set_fatal_error(self.crawler, problem)
        self.logger.error("%s", problem)
        raise CloseSpider("settings_error")

    async def start(self) -> AsyncIterator[Any]:
        """Put the seeds into the frontier, batch by batch, while the crawl runs."""
        scheduler, frontier = self._crawl.scheduler, self._crawl.frontier
        if scheduler is None:
            self._refuse("SCHEDULER: the broad spider needs webcrawl.scheduler.Scheduler")
        if frontier is None:
            return  # it could not be opened, and the scheduler has logged the reason
        if not PageFetchMiddleware.is_on(self.crawler):  # a script may have StartCheck off too
            self._refuse("SPIDER_MIDDLEWARES: PageFetchMiddleware is off: no page ends")
        source = await self._open_seeds()
        accepted = await self._put_seeds(source, scheduler)
        for example in source.bad_examples:
            self.logger.warning("seeds: %s", example)
        if source.bad:
            self.logger.warning("seeds: %d lines are not a URL", source.bad)
        reads_sitemaps = all(read(self.settings, name, bool) for name in _SITEMAP_SETTINGS)
        if source.marked and not reads_sitemaps:
            self.logger.warning(
                "seeds: %d begin with sitemap:, and are fetched as pages: %s",
                *(source.marked, "SITEMAPS or FOLLOW_LINKS is off"),
            )
        self.crawler.stats.set_value("webcrawl/seeds/bad", source.bad)
        self.crawler.stats.set_value("webcrawl/seeds/accepted", accepted)
        if not accepted and not frontier.resumed and self._crawl.node is None:
            self.logger.error("bad seed: no seed is in scope")
            raise CloseSpider("bad_seed")
        return
        yield  # an asynchronous generator that yields nothing

    async def _open_seeds(self) -> SeedSource:
        """The seeds, read up to the first URL. CloseSpider if there is no URL."""
        try:
            source = (
                self.seeds
                if isinstance(self.seeds, SeedSource)
                else SeedSource(self.seeds, project_root())
            )
            await in_daemon(source.check)
        except BadSeed as error:
            self.logger.error("bad seed: %s", error)
            raise CloseSpider("bad_seed") from None
        say = console_from(self.settings)
        for name, size_bytes in source.opened:
            say(f"Opened {name} with size {size_bytes}")
        return source

    async def _put_seeds(self, source: SeedSource, scheduler: CrawlScheduler) -> int:
        """Put all seeds into the frontier; the number of those that are new and in scope."""
        accepted = 0
        batches = source.batches(SEEDS_PER_BATCH)
        while batch := await in_daemon(lambda: next(batches, None)):
            for start in range(0, len(batch), SEEDS_PER_PUT):
                accepted += await scheduler.put_seeds(batch[start : start + SEEDS_PER_PUT])
                await asyncio.sleep(0)
        return accepted

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield one Page per answer. An answer of a media type outside CONTENT_TYPES is counted."""
        exchange = exchange_of(response)
        if exchange.body_skipped:  # for its media type
            exchange.signals = tuple(bounded(header_signals(exchange.headers)))
            assert self._crawl.counters is not None
            self._crawl.counters.dropped["content_type"] += 1
            return
        yield await self.read(response)

    async def read(self, response: Response) -> Page:
        """The Page of `response`, with its content-seen test, its links and its times."""
        exchange = exchange_of(response)
        page_fetch = state_of(response.request).page_fetch
        assert page_fetch is not None
        assert page_fetch.lease.link is not None
        visit = page_fetch.lease.visit
        page = _new_page(response, exchange, page_fetch.lease.link)
        self._note_signals(page, response)
        if exchange.is_not_modified:
            compare_not_modified(page, exchange, visit)
        elif response.status in REDIRECTS:
            location = response.headers.get("Location") or b""
            page.redirect_to = redirect_target(location, response.url) or ""
        elif 200 <= response.status < 300:
            await self._read_body(page, response, exchange)
            page.unchanged = is_unchanged(visit, page)
        if page.signals:
            page.signals = bounded(page.signals)
        return page

    def _note_signals(self, page: Page, response: Response) -> None:
        """What the owner says in the headers about the use of the page."""
        assert page.exchange is not None
        page.signals = header_signals(page.exchange.headers)
        if page.signals:
            agents = ("robots", self._reading.agent, *self._reading.also)
            page.noarchive = "noarchive" in header_directives(_x_robots_tag(response), agents)

    async def _read_body(self, page: Page, response: Response, exchange: Exchange) -> None:
        """The content-seen test, the links, and what later visits compare.

        A duplicate is read too: its URL differs, so its relative links are other URLs.
        """
        if not response.body:
            page.simhash = digest(b"") if self._reading.revisits else None
            return
        await self._compare(page, exchange, response.body)
        parsed, page.simhash, has_failed = await self._parsed(page, response)
        if has_failed:
            self.crawler.stats.inc_value("webcrawl/parser_failed")
        page.charset = parsed.charset
        page.lang = parsed.lang
        page.links = parsed.links
        page.links_found = parsed.found
        page.noarchive |= parsed.noarchive
        page.signals += parsed.signals

    async def _parsed(self, page: Page, response: Response) -> _Parsed:
        """What the body says. One that takes long is read on a thread."""
        reading, body = self._reading, response.body
        read = partial(
            self._parse_body,
            body,
            # Deviation: browsers sniff; HTML is their usual guess.
            _content_type(response) or "text/html",
            page.url,
            x_robots_tag=_x_robots_tag(response),
            follow_rel_nofollow=reading.follow_rel_nofollow,
            obey_nofollow=reading.obey_nofollow,
            user_agent_token=reading.agent,
            robots_also=reading.also,
            follow_feeds=reading.follow_feeds,
            parsers=reading.parsers,
        )
        most = QUICK_BYTES if reading.revisits else sys.maxsize
        if len(body) <= most and reads_quickly(body):
            return read()
        async with self._reading_large:  # 10 MiB that hold only links take three seconds
            return await asyncio.to_thread(read)

    def _parse_body(self, body: bytes, content_type: str, url: str, **how: Any) -> _Parsed:
        """The links of a page and, if pages are visited again, the hash of its main text.

        A user's own parser (PARSERS) may fail: then the page is kept, without links.
        """
        media_type, has_failed = media_type_of(content_type), False
        try:
            parsed = read_page(body, content_type, url, **how)
        except Exception:
            parsed, has_failed = ParsedPage(sniff(body, content_type)), True
            if media_type not in self._failed_parsers:  # logged once
                self._failed_parsers.add(media_type)
                self.logger.exception("The parser of %s failed for %s", content_type, url)
        if not self._reading.revisits:
            return _Parsed(parsed, None, has_failed)
        is_html = media_type in ("text/html", "application/xhtml+xml")
        return _Parsed(parsed, text_hash(body, parsed.charset, is_html=is_html), has_failed)

    async def _compare(self, page: Page, exchange: Exchange, body: bytes) -> None:
        """The content-seen test: set `page.original`, and `page.duplicate_of` for a duplicate."""
        if page.payload_digest and exchange.payload is exchange.body:
            digest = raw_digest(page.payload_digest)
        else:
            digest = hashlib.sha1(body, usedforsecurity=False).digest()
        original = Original(exchange.url, exchange.started_time, page.payload_digest)
        assert self._crawl.frontier is not None
        page.original = await self._crawl.frontier.content_seen(digest, original)
        if page.original is not None and page.original.url != exchange.url:
            page.duplicate_of = page.original.url
        if self._crawl.earlier is not None and page.payload_digest:
            page.original = await capture_before(self._crawl, page, exchange) or page.original


def _new_page(response: Response, exchange: Exchange, link: Link) -> Page:
    """The Page of an answer whose body is not read yet."""
    page = Page(
        url=response.url,
        status=response.status,
        content_type=_content_type(response).partition(";")[0].strip().lower(),
        size_bytes=len(response.body),
        depth=link.depth,
        redirects=link.redirects,
        via=link.via,
        ip=exchange.ip,
        fetched_at=warc_date(exchange.started_time)[:-1] + "+00:00",
        fetch_s=round(exchange.total_s, 6),
        truncated=exchange.truncated,
        payload_digest=payload_digest(exchange),
    )
    page.exchange = exchange
    return page


def _content_type(response: Response) -> str:
    return (response.headers.get("Content-Type") or b"").decode("latin-1")


def _x_robots_tag(response: Response) -> str:
    """All headers of that name, in lines."""
    return b"\n".join(response.headers.getlist(ROBOTS_HEADER)).decode("latin-1")
