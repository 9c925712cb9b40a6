"""The spider middleware of the crawl: a page's outlinks, and the end of its page fetch.

It is the outermost, so that all its output reaches the engine.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import cached_property
from typing import Any, Self
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from webcrawl.crawl.crawl import CrawlScheduler, crawl_of, has_our_scheduler
from webcrawl.crawl.outcomes import AskedAgain, NotArchived, answered
from webcrawl.crawl.page_fetch import PageFetch, page_fetch_of, state_of
from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.fetch.mediatypes import media_type_test
from webcrawl.fetch.walls import wall_of
from webcrawl.frontier.lease import Fetched
from webcrawl.items import Page

NAME = "webcrawl.crawl.PageFetchMiddleware"  # as settings name it


class PageFetchMiddleware:
    """Collects a page's outlinks, and releases its lease once all its items left the pipelines.

    `SPIDER_MIDDLEWARES_BASE` names it. Without it no page ends.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawl = crawl_of(crawler)
        self._wants = media_type_test(crawler.settings.getlist("CONTENT_TYPES"))
        # By response, since the spider's code may empty `meta`. One entry per live response.
        self._page_fetches: WeakKeyDictionary[Response, PageFetch] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not has_our_scheduler(crawler.settings):
            raise NotConfigured("only webcrawl's scheduler hands out leases")
        middleware = cls(crawler)
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(middleware.item_ended, signal)
        crawler.signals.connect(middleware.spider_error, signals.spider_error)
        return middleware

    @classmethod
    def is_on(cls, crawler: Crawler) -> bool:
        return any(isinstance(each, cls) for each in crawler.engine.scraper.spidermw.middlewares)

    @classmethod
    def hidden_in(cls, crawler: Crawler) -> str:
        """The problem, if another middleware stands before this one; else "".

        It might drop an item that this one waits for, and the page would never end.
        """
        before = ""
        for middleware in crawler.engine.scraper.spidermw.middlewares:
            if isinstance(middleware, cls):
                return f"SPIDER_MIDDLEWARES: {before} stands before {NAME}: 0" if before else ""
            if hasattr(middleware, "process_spider_output"):
                before = before or global_object_name(type(middleware))
        return ""

    @cached_property
    def _keeper(self) -> CrawlScheduler:
        assert self._crawl.scheduler is not None  # checked in `from_crawler`
        return self._crawl.scheduler

    def process_spider_input(self, response: Response) -> None:
        page_fetch = page_fetch_of(response.request)
        if page_fetch is None:
            return
        self._page_fetches[response] = page_fetch
        exchange = page_fetch.exchange = exchange_of(response)
        exchange.wall = wall_of(exchange.status, exchange.head, exchange.payload)
        if not page_fetch.link.payload:
            if exchange.reconstructed and not self._wants(exchange.status, exchange.headers):
                exchange.body_skipped = True  # as the download handler sets it
                response.flags.append("content_type_dropped")
            return
        outcome = answered(page_fetch, response)
        if isinstance(outcome, Fetched) and self._keeper.comes_again(page_fetch.link, outcome):
            raise AskedAgain(outcome)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page_fetch = self._page_fetch_for(response)
        if page_fetch is None or page_fetch.done:
            async for output in result:
                yield output
            return
        found = self._keeper.page_found
        try:
            async for output in result:
                if isinstance(output, Request):
                    output = _at_depth(output, page_fetch.link.depth + 1, response)
                elif output is not None:  # Scrapy ignores None, without a signal
                    if isinstance(output, Page) and not await found(page_fetch, output):
                        return
                    page_fetch.items_open += 1
                yield output
        finally:
            await page_fetch.items_ended()
            self._keeper.finish(page_fetch, answered(page_fetch, response))

    def item_ended(self, response: Response | None, exception: BaseException | None = None) -> None:
        """A signal handler: an item of `response` has left the pipelines, dropped or not."""
        page_fetch = self._page_fetch_for(response) if isinstance(response, Response) else None
        if page_fetch is not None:  # also a done one: `items_ended` may be waiting
            page_fetch.unarchived |= isinstance(exception, NotArchived)
            page_fetch.item_ended()

    def spider_error(self, response: Response | Failure) -> None:
        """A signal handler: the callback raised without any output. The page counts as fetched."""
        if isinstance(response, Response):
            page_fetch = self._page_fetch_for(response)
            if page_fetch is not None and not page_fetch.items_open:
                self._keeper.finish(page_fetch, answered(page_fetch, response))

    def _page_fetch_for(self, response: Response) -> PageFetch | None:
        """The page fetch that `response` is for, also one that is done."""
        return self._page_fetches.get(response) or state_of(response.request).page_fetch


def _at_depth(request: Request, depth: int, response: Response) -> Request:
    """A Request that the callback yielded, at its depth, as Scrapy's DepthMiddleware sets it."""
    if request.meta is response.meta:  # `yield response.request`
        request = request.copy()
    request.meta["depth"] = depth
    return request
