"""The broad spider: seeds in, pages out.

Puts the seeds into the frontier, and makes a `Page` item with its outlinks from each answer. The
frontier decides which URL is fetched and when. To do more with each page, subclass `BroadSpider`
and override `parse` (docs/extending.md).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.http import Response
from scrapy.utils.conf import closest_scrapy_cfg

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.base.wording import counted
from webcrawl.config.build import hubs_from, reading_from, reads_sitemaps
from webcrawl.crawl import PageFetchMiddleware
from webcrawl.crawl.answers import compare, note_signals, page_of
from webcrawl.crawl.crawl import Crawl, crawl_of, refuse
from webcrawl.crawl.page_fetch import PageFetch, state_of
from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.crawl.visits import compare_not_modified, is_unchanged
from webcrawl.fetch.exchange import REDIRECTS, Exchange
from webcrawl.frontier.counters import REFUSED_ACCESS
from webcrawl.frontier.lease import Link, Text
from webcrawl.frontier.outbox import LINKS_AT_A_TIME
from webcrawl.items import Page
from webcrawl.parse.body import About, BodyReader, Parsed
from webcrawl.parse.charset import PRESCAN_BYTES, sniff
from webcrawl.parse.largebodies import GivenUp, LargeBodies, ReadingFailed
from webcrawl.parse.maintext import digest
from webcrawl.parse.ownersignals import bounded, header_signals
from webcrawl.parse.page import ParsedPage
from webcrawl.parse.urls import host_of, redirect_target
from webcrawl.report.console import console_from
from webcrawl.signals import fetches_cut
from webcrawl.spiders.seeds import BadSeed, SeedSource

SEEDS_PER_BATCH = 1000  # read by the thread in one go
SEEDS_PER_PUT = 250  # about 5 ms of the event loop's time
T = TypeVar("T")


def project_root() -> Path | None:
    """Folder of the project's scrapy.cfg; None in an egg that runs outside a checkout."""
    cfg = closest_scrapy_cfg()
    return Path(cfg).parent if cfg else None


def in_daemon(function: Callable[[], T]) -> asyncio.Future[T]:
    """Run `function` in a daemon thread. Returns a future of its result.

    A read of standard input may block forever. The process can end while a daemon thread blocks;
    it would wait for a thread of `asyncio.to_thread`.
    """
    return AdaptiveExecutor("seeds").do(function, waits=True)


async def portions(source: SeedSource) -> AsyncIterator[list[str]]:
    """The seeds, so many at a time that the event loop runs other tasks between."""
    batches = source.batches(SEEDS_PER_BATCH)
    while batch := await in_daemon(partial(next, batches, None)):
        for start in range(0, len(batch), SEEDS_PER_PUT):
            yield batch[start : start + SEEDS_PER_PUT]
            await asyncio.sleep(0)


class BroadSpider(Spider):
    """`scrapy crawl broad -a seeds=FILE_OR_URL[,...]`"""

    name = "broad"

    def __init__(self, seeds: str | SeedSource = "", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = seeds
        self.crawl_arguments: tuple[tuple[Any, ...], dict[str, Any]] = (), {}
        self._failed_parsers: set[str] = set()  # media types
        self._link_rich: set[PageFetch] = set()  # read as large pages, and not ended

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.crawl_arguments = args, kwargs  # for the crawl's other processes
        crawl_of(crawler).describe_seeds = spider.described_seeds
        crawler.signals.connect(spider._fetches_cut, fetches_cut)
        crawler.signals.connect(spider._closed, signals.spider_closed)
        return spider

    @cached_property
    def bodies(self) -> BodyReader:
        """The scheduler asks for it before the first page: a model of languages takes a while."""
        return BodyReader(reading_from(self.settings))

    @cached_property
    def large_bodies(self) -> LargeBodies:
        """The scheduler asks for it too: SITEMAPS has no effect on spiders without it."""
        return LargeBodies(
            *(self.bodies.options, self._crawl.room.times, self.search_path()),
            is_full=self._holds_links,
        )

    def _holds_links(self) -> bool:
        """Whether the many links of one large page are still on their way to the frontier."""
        self._link_rich = {each for each in self._link_rich if not each.done}
        assert self._crawl.scheduler is not None  # checked in `start`
        return bool(self._link_rich) or self._crawl.scheduler.puts_large()

    def _fetches_cut(self, urls: frozenset[str] | None = None) -> None:
        """A signal handler. At the end of the crawl, pages are not read any more."""
        if urls is None:
            self.large_bodies.give_up()

    async def _closed(self) -> None:
        """A signal handler."""
        await self.large_bodies.close()

    @cached_property
    def _crawl(self) -> Crawl:
        return crawl_of(self.crawler)

    def search_path(self) -> list[str]:
        """`sys.path`, and the folder in which `scrapy runspider` has found the spider.

        For the other processes of the crawl, which load code of the user's.
        """
        name = type(self).__module__
        file = Path(getattr(sys.modules[name], "__file__", None) or ".").absolute()
        root = str(file.parents[name.count(".")])
        return sys.path if root in sys.path else [*sys.path, root]

    async def start(self) -> AsyncIterator[Any]:
        """Put the seeds into the frontier, batch by batch, while the crawl runs."""
        scheduler, local = self._crawl.scheduler, self._crawl.local
        if scheduler is None:
            problem = "SCHEDULER: the broad spider needs webcrawl.scheduler.Scheduler"
            refuse(self.crawler, "settings_error", problem)
        if local is None:
            return  # it could not be opened, and the scheduler has logged the reason
        if not PageFetchMiddleware.is_on(self.crawler):  # a script may have StartCheck off too
            problem = "SPIDER_MIDDLEWARES: PageFetchMiddleware is off: no page ends"
            refuse(self.crawler, "settings_error", problem)
        source, accepted = await self._open_seeds(), 0
        async for urls in portions(source):
            accepted += (await scheduler.put_seeds(urls))[0]
        for example in source.bad_examples:
            self.logger.warning("seeds: %s", example)
        if source.bad:
            self.logger.warning("seeds: %s no URL", counted(source.bad, "line is", "lines are"))
        if source.marked and not reads_sitemaps(self.settings):
            self.logger.warning(
                "seeds: %d begin with sitemap:, and are fetched as pages: %s",
                *(source.marked, "SITEMAPS or FOLLOW_LINKS is off"),
            )
        self.crawler.stats.set_value("webcrawl/seeds/bad", source.bad)
        self.crawler.stats.set_value("webcrawl/seeds/accepted", accepted)
        if not accepted and not local.resumed and hubs_from(self.settings) == 1:
            self.logger.error("bad seed: no seed is in scope")
            raise CloseSpider("bad_seed")
        return
        yield  # an asynchronous generator that yields nothing

    def described_seeds(self) -> list[dict[str, Any]]:
        """The seeds as the archive describes them; [] if they cannot be used."""
        try:
            return self._source().described()
        except BadSeed:
            return []

    def _source(self) -> SeedSource:
        """BadSeed."""
        if isinstance(self.seeds, SeedSource):
            return self.seeds
        return SeedSource(self.seeds, project_root())

    async def _open_seeds(self) -> SeedSource:
        """The seeds, read up to the first URL. CloseSpider if there is no URL."""
        try:
            source = self._source()
            await in_daemon(source.check)
        except BadSeed as error:
            self.logger.error("bad seed: %s", error)
            raise CloseSpider("bad_seed") from None
        say = console_from(self.settings)
        for name, size_bytes in source.opened:
            say(f"Opened {name} with size {size_bytes}")
        return source

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield one Page per answer. An answer of a media type outside CONTENT_TYPES is counted."""
        page_fetch = state_of(response.request).page_fetch
        assert page_fetch is not None
        exchange = page_fetch.exchange or exchange_of(response)
        if exchange.body_skipped:  # for its media type
            exchange.signals = tuple(bounded(header_signals(exchange.headers)))
            assert self._crawl.counters is not None
            self._crawl.counters.dropped["content_type"] += 1
            return
        yield await self._read(response, page_fetch, exchange)

    async def _read(self, response: Response, page_fetch: PageFetch, exchange: Exchange) -> Page:
        """The Page of `response`, with its content-seen test, its links and its times.

        Of a bot wall nothing is read: the page is what it hides.
        """
        link, visit = page_fetch.link, page_fetch.lease.visit
        page = await page_of(exchange, link, _content_type(response))
        page.url, page.status, page.size_bytes = response.url, response.status, len(response.body)
        note_signals(page, exchange, self.bodies.options)
        if exchange.wall:
            page.wall = exchange.wall
        elif exchange.is_not_modified:
            compare_not_modified(page, exchange, visit)
        elif response.status in REDIRECTS:
            location = response.headers.get("Location") or b""
            page.redirect_to = redirect_target(location, response.url) or ""
        elif 200 <= response.status < 300:
            is_sampled = page_fetch.lease.is_sampled
            await self._read_body(page, response, exchange, link, is_sampled=is_sampled)
            page.unchanged = is_unchanged(visit, page)
        elif response.status in REFUSED_ACCESS and response.body:  # it may say how to get access
            parsed = await self._parsed(page, response, exchange)
            page.signals += parsed.page.signals
        if page.signals:
            page.signals = bounded(page.signals)
        return page

    async def _read_body(
        self, page: Page, response: Response, exchange: Exchange, link: Link, *, is_sampled: bool
    ) -> None:
        """The content-seen test, the links, what later visits compare, and the language.

        A duplicate is read too: its URL differs, so its relative links are other URLs.
        """
        if not response.body and not _refresh(exchange):
            page.simhash = digest(b"") if self.bodies.options.revisits else None
            return
        parsed, page.simhash, page.detected_language, sketch = await self._parsed(
            page, response, exchange, is_sampled
        )
        if response.body:
            text = None
            if sketch:
                assert self._crawl.scheduler is not None  # checked in `start`
                leads_on = parsed.links and self._crawl.scheduler.leads_on(link)
                text = Text(sketch, is_leaf=not leads_on)
            await compare(self._crawl, page, exchange, response.body, text)
        page.charset = parsed.charset
        page.lang = parsed.lang
        page.title = parsed.title
        page.links = parsed.links
        page.requisites = parsed.requisites
        page.links_found = parsed.found
        page.noarchive |= parsed.noarchive
        page.signals += parsed.signals

    async def _parsed(
        self, page: Page, response: Response, exchange: Exchange, is_sampled: bool = False
    ) -> Parsed:
        """What the body says. One that takes long is read in another process.

        A user's own parser (PARSERS) may fail: then the page is kept, without links.
        """
        body, bodies = response.body, self.bodies
        # Deviation: browsers sniff; HTML is their usual guess.
        content_type = _content_type(response) or "text/html"
        robots = b"\n".join(dict.get(response.headers, b"X-Robots-Tag", ()))  # all, in lines
        languages = dict.get(response.headers, b"Content-Language")
        about = About(
            *(content_type, page.url, robots.decode("latin-1"), _refresh(exchange), is_sampled),
            b",".join(languages).decode("latin-1") if languages else "",
        )
        try:
            if bodies.reads_quickly(body, page.content_type or "text/html"):
                return bodies.read(body, about)
            return await self._read_large(response, body, about)
        except CloseSpider:
            raise
        except Exception as error:
            self._note_failure(page, error)
        parsed = ParsedPage(sniff(body[:PRESCAN_BYTES], content_type))
        return Parsed(parsed, digest(body) if bodies.options.revisits else None)

    async def _read_large(self, response: Response, body: bytes, about: About) -> Parsed:
        page_fetch = state_of(response.request).page_fetch
        assert page_fetch is not None
        self._link_rich.discard(page_fetch)  # a page that a user reads twice does not hold itself
        try:
            parsed = await self.large_bodies.read(host_of(about.url), body, about)
        except GivenUp:
            page_fetch.unarchived = True  # the next run fetches it again
            raise CloseSpider("shutdown") from None
        if len(parsed.page.links) > LINKS_AT_A_TIME:
            self._link_rich.add(page_fetch)
        return parsed

    def _note_failure(self, page: Page, error: Exception) -> None:
        """Count a page that could not be read; the first of its media type is logged."""
        assert self._crawl.counters is not None
        self._crawl.counters.parser_failed += 1
        if page.content_type in self._failed_parsers:
            return
        self._failed_parsers.add(page.content_type)
        if not isinstance(error, ReadingFailed):
            line = "The parser of %s failed for %s"
            self.logger.error(line, page.content_type, page.url, exc_info=error)
        elif error.trace:
            line = "The parser of %s failed for %s\n%s"
            self.logger.error(line, page.content_type, page.url, error.trace)
        else:
            self.logger.warning("%s is kept without its links: %s", page.url, error)


def _content_type(response: Response) -> str:
    # By the key as Scrapy keeps it: `Headers.get` takes three times as long.
    values: list[bytes] = dict.get(response.headers, b"Content-Type", [])
    return values[-1].decode("latin-1") if values else ""


def _refresh(exchange: Exchange) -> str:
    """The first header `Refresh`, mostly none: 0.2 µs then."""
    if b"\nrefresh" not in exchange.head.lower():
        return ""
    return exchange.header(b"refresh").decode("latin-1")
