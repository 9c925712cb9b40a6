"""One line per page at DEBUG, no line at INFO; other requests are logged as in Scrapy."""

from __future__ import annotations

import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.exceptions import DropItem
from scrapy.http import Response, TextResponse
from scrapy.settings import Settings
from scrapy.utils.log import logformatter_adapter
from stock_crawl import run, site
from twisted.python.failure import Failure

from tests.exchanges import exchange
from webcrawl.crawl.page_fetch import PageFetch, note
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.frontier.lease import Lease, Link, Step
from webcrawl.items import Page
from webcrawl.report.logformatter import LogFormatter, is_verbose

URL = "http://a.test/x"


class PageSpider(Spider):
    """To a log formatter, its `parse` looks like that of the broad spider."""

    name = "broad"

    def parse(self, response: Response, **kwargs: Any) -> None: ...

    parse.__module__ = "webcrawl.spiders.broad"


class OwnSpider(PageSpider):
    def parse(self, response: Response, **kwargs: Any) -> None: ...


def leased(url: str = URL, **kwargs: Any) -> Request:
    link = Link(url, "a.test", depth=2, via="http://a.test/")
    lease = Lease("a.test", Step.PAGE, url, "127.0.0.1", link=link)
    return PageFetch(lease).bind(Request(url, **kwargs))


def skipped(request: Request) -> Request:
    """`request`, answered by a media type that the crawl does not keep."""
    note(request, exchange=replace(exchange(), body_skipped=True, total_s=0.0))
    return request


def answer(request: Request, **kwargs: Any) -> Response:
    return TextResponse(request.url, body=b"12345", request=request, **kwargs)


def text(result: Any) -> str:
    level, message, *args = logformatter_adapter(result)
    assert level == logging.DEBUG
    return logging.LogRecord("", level, "", 0, message, tuple(args), None).getMessage()


VERBOSE, QUIET = LogFormatter(verbose=True), LogFormatter(verbose=False)
SPIDER = PageSpider()
PAGE = Page(
    URL,
    200,
    size_bytes=25713,
    depth=2,
    via="http://a.test/",
    fetch_s=0.1234,
    duplicate_of="http://b.test/",
)


def test_a_page_is_one_line() -> None:
    response = answer(leased())
    assert response.request
    assert VERBOSE.crawled(response.request, response, SPIDER) is None
    assert text(VERBOSE.scraped(PAGE, response, SPIDER)) == (
        "200     25713 B   0.123 s depth 2 http://a.test/x"
        " via http://a.test/ duplicate of http://b.test/"
    )


def test_a_dropped_page_is_one_line() -> None:
    line = text(VERBOSE.dropped(PAGE, DropItem("not wanted"), answer(leased()), SPIDER))
    assert line.endswith("duplicate of http://b.test/ dropped: not wanted")


@pytest.mark.parametrize(
    ("request_", "spider"),
    [(leased(callback=print), SPIDER), (skipped(leased()), SPIDER), (leased(), OwnSpider())],
    ids=["own callback", "not kept", "own parse"],
)
def test_a_page_without_a_page_item_is_one_line(request_: Request, spider: Spider) -> None:
    response = answer(request_)
    assert text(VERBOSE.crawled(request_, response, spider)) == (
        "200         5 B   0.000 s depth 2 http://a.test/x via http://a.test/"
    )
    assert VERBOSE.scraped(PAGE, response, spider) is None
    assert VERBOSE.dropped(PAGE, DropItem("x"), response, spider) is None


def test_pages_are_not_logged_above_debug() -> None:
    request = leased(callback=print)
    response = answer(request)
    assert QUIET.crawled(request, response, SPIDER) is None
    assert QUIET.scraped(PAGE, response, SPIDER) is None
    assert QUIET.dropped(PAGE, DropItem("x"), response, SPIDER) is None


def test_a_broken_server_is_not_logged_at_any_level() -> None:
    request = leased()
    note(request, failure=FetchFailed("reset"))
    for formatter in (VERBOSE, QUIET):
        result = formatter.download_error(Failure(OSError("reset")), request, SPIDER)
        assert result["level"] < logging.DEBUG


def test_an_error_of_the_crawler_is_logged() -> None:
    result = QUIET.download_error(Failure(KeyError("bug")), leased(), SPIDER)
    assert result["level"] == logging.ERROR


def test_other_requests_are_logged_as_in_scrapy() -> None:
    request = Request(URL)
    response = answer(request)
    assert "Crawled (200)" in text(QUIET.crawled(request, response, SPIDER))
    assert "Scraped from" in text(QUIET.scraped({"title": "x"}, response, SPIDER))


@pytest.mark.parametrize(
    ("settings", "verbose"),
    [
        ({"LOG_LEVEL": "DEBUG"}, True),
        ({"LOG_LEVEL": "debug"}, True),
        ({"LOG_LEVEL": 10}, True),
        ({"LOG_LEVEL": "10"}, True),
        ({"LOG_LEVEL": "INFO"}, False),
        ({"LOG_LEVEL": "DEBUG", "LOG_ENABLED": False}, False),
    ],
)
def test_verbosity_follows_the_log_level(settings: dict[str, Any], verbose: bool) -> None:
    assert is_verbose(Settings(settings)) is verbose


CRAWL = """
    import scrapy
    from webcrawl.frontier.lease import Lease, Link, Step
    from webcrawl.items import Page
    from webcrawl.crawl.page_fetch import PageFetch

    class S(scrapy.Spider):
        name = "s"
        paths = ["/1", "/2", "/3"]

        async def start(self):
            for path in self.paths:
                url = self.site + path
                lease = Lease("127.0.0.1", Step.PAGE, url, "127.0.0.1", link=Link(url, "127.0.0.1"))
                yield PageFetch(lease).bind(scrapy.Request(url))

        def parse(self, response):
            yield Page(response.url, response.status, size_bytes=len(response.body))

        parse.__module__ = "webcrawl.spiders.broad"
"""


def test_a_crawl_logs_one_line_per_page(tmp_path: Path) -> None:
    settings = {
        "LOG_FORMATTER": "webcrawl.report.logformatter.LogFormatter",
        "LOG_LEVEL": "DEBUG",
        "CONCURRENT_REQUESTS": 1,
    }
    with site({}) as server:
        crawl = run(tmp_path, f"{CRAWL}\n        site = {server.url('')!r}\n", settings)
    lines = re.findall(
        r"DEBUG: 200 +7 B +0\.000 s depth 0 http://\S+/(\d)$", crawl.log, re.MULTILINE
    )
    assert lines == ["1", "2", "3"]
    assert crawl.log.count(server.url("/")) == 3  # no other line has a page's URL
    assert "Scraped from" not in crawl.log
    assert crawl.stats["item_scraped_count"] == 3
