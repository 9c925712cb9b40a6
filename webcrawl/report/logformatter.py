"""One line of the log per page at `LOG_LEVEL=DEBUG`, and no line for a server's fault.

A server's fault is counted (docs/watching.md), not logged. Faults of our own code or a user's are
logged as Scrapy logs them, and so are a user's own items and Requests.
"""

from __future__ import annotations

import logging
from typing import Any, Self

from scrapy import Request, Spider, logformatter
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.logformatter import LogFormatterResult
from scrapy.settings import BaseSettings
from twisted.python.failure import Failure

from webcrawl.crawl.page_fetch import page_fetch_of, state_of
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import Link
from webcrawl.items import Page

# Scrapy requires a record of a failed download. This one is below the level of its logger.
NOTHING = LogFormatterResult(level=logging.DEBUG - 1, msg="", args=())

PAGE_LINE = "%(status)s %(size_bytes)9d B %(fetch_s)7.3f s depth %(depth)d %(url)s%(notes)s"
_SHOWN = ("status", "size_bytes", "fetch_s", "depth", "url")  # of a page


class LogFormatter(logformatter.LogFormatter):
    """One record per page: `scraped` for its Page item, or `crawled` if the spider yields no Page.

    `scraped`, `dropped` and `crawled` may return None for no record; `download_error` may not.
    `LOG_FORMATTER` setting.
    """

    def __init__(self, verbose: bool) -> None:
        self._verbose = verbose

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(is_verbose(crawler.settings))

    def crawled(  # type: ignore[override]  # None is in its contract, if not in its type
        self, request: Request, response: Response, spider: Spider
    ) -> LogFormatterResult | None:
        page_fetch = page_fetch_of(request)
        if page_fetch is None:
            return super().crawled(request, response, spider)
        if not self._verbose or _makes_page(spider, request, response):
            return None  # the record of its Page has more details
        page_fetch.logged = True
        return _answer_line(page_fetch.link, response, state_of(request).exchange)

    def scraped(  # type: ignore[override]
        self, item: Any, response: Response | Failure | None, spider: Spider
    ) -> LogFormatterResult | None:
        if not isinstance(item, Page):
            return super().scraped(item, response, spider)
        return _page_line(item) if self._is_to_log(response) else None

    def dropped(  # type: ignore[override]
        self,
        item: Any,
        exception: BaseException,
        response: Response | Failure | None,
        spider: Spider,
    ) -> LogFormatterResult | None:
        if not isinstance(item, Page):
            return super().dropped(item, exception, response, spider)
        return _page_line(item, f" dropped: {exception}") if self._is_to_log(response) else None

    def _is_to_log(self, response: Response | Failure | None) -> bool:
        """Whether the page of `response` has no line yet."""
        if not self._verbose:
            return False
        page_fetch = page_fetch_of(response.request) if isinstance(response, Response) else None
        return page_fetch is None or not page_fetch.logged

    def download_error(
        self, failure: Failure, request: Request, spider: Spider, errmsg: str | None = None
    ) -> LogFormatterResult:
        if state_of(request).failure is not None:  # noted by the download handler: the peer's fault
            return NOTHING
        return super().download_error(failure, request, spider, errmsg)


def is_verbose(settings: BaseSettings) -> bool:
    """Whether `LOG_LEVEL` is DEBUG or lower. Only then records of pages are made."""
    level = settings.get("LOG_LEVEL")
    if isinstance(level, str) and not level.isdecimal():
        level = logging.getLevelNamesMapping().get(level.upper(), logging.DEBUG)
    return settings.getbool("LOG_ENABLED") and int(level) <= logging.DEBUG


def _makes_page(spider: Spider, request: Request, response: Response) -> bool:
    """Whether the broad spider's own `parse` will make a Page of `response`."""
    exchange = state_of(request).exchange
    return (
        request.callback is None
        and not (exchange is not None and exchange.body_skipped)  # for its media type
        and type(spider).parse.__module__ == "webcrawl.spiders.broad"
    )


def _page_line(page: Page, note: str = "") -> LogFormatterResult:
    notes = {
        " via ": page.via,
        " duplicate of ": page.duplicate_of,
        " near-duplicate of ": page.near_duplicate_of,
        " truncated: ": page.truncated,
    }
    values = {name: getattr(page, name) for name in _SHOWN}
    values["notes"] = "".join(f"{name}{value}" for name, value in notes.items() if value) + note
    return LogFormatterResult(level=logging.DEBUG, msg=PAGE_LINE, args=values)


def _answer_line(link: Link, response: Response, exchange: Exchange | None) -> LogFormatterResult:
    page = Page(
        url=link.url,
        status=response.status,
        size_bytes=len(response.body),
        depth=link.depth,
        via=link.via,
        fetch_s=exchange.total_s if exchange else 0.0,
        truncated=exchange.truncated if exchange else "",
    )
    return _page_line(page)
