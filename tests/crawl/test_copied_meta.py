"""Spiders that copy `response.meta` or the Request into what they yield lose no page."""

from __future__ import annotations

from pathlib import Path
from textwrap import indent

import pytest

from tests.crawl.crawling import assert_clean, assert_faultless
from tests.crawl.test_users_code import PROMISES, WORLD
from tests.crawl.userscode import items, run
from tests.forked import running

pytestmark = pytest.mark.slow

LINKS = 'response.css("a::attr(href)").getall()'

# The ways in which links are yielded around the pages of BroadSpider: one for each third link.
COPIES = f"""
hrefs = {LINKS}
for href in hrefs[::3]:
    yield scrapy.Request(response.urljoin(href), self.parse, meta={{**response.meta}})
for href in hrefs[1::3]:
    self.crawler.engine.crawl(
        response.request.replace(url=response.urljoin(href), dont_filter=False)
    )
async for page in super().parse(response):
    page.links = []
    yield page
for href in hrefs[2::3]:
    yield response.follow(href, self.parse, meta=response.meta)
"""


def spider(parse: str, more: str = "") -> str:
    return (
        "from scrapy.downloadermiddlewares.retry import get_retry_request\n"
        "asked = set()\n"
        "def first(url):\n"
        "    new = url not in asked\n"
        "    asked.add(url)\n"
        "    return new\n"
        f"{more}\n"
        "class Users(BroadSpider):\n"
        "    name = 'users'\n"
        "    custom_settings = {'SPIDER_MIDDLEWARES': globals().get('MORE', {})}\n"
        "    async def parse(self, response, **kwargs):\n" + indent(parse, " " * 8)
    )


def test_copied_meta_loses_no_page(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, spider(COPIES), CLOSESPIDER_TIMEOUT=60)
        pages = assert_faultless(web)["totals"]["pages"]
    assert_clean(result)
    assert result.report["finish_reason"] == "finished"
    assert result.report["counts"]["crawled"] == pages
    assert sum("url" in item for item in items(tmp_path)) == pages


# Each way before the page or after it, as the URL decides.
AGAIN = """
ways = [
    lambda: response.request,
    lambda: response.request.copy(),
    lambda: get_retry_request(response.request, spider=self, reason="once"),
]
number = zlib.crc32(response.url.encode())
way, is_before, is_first = ways[number % 3], number & 1, first(response.url)
if is_first and is_before:
    yield way()
async for page in super().parse(response):
    yield page
if is_first and not is_before:
    yield way()
"""


def test_a_repeated_request_is_another_page(tmp_path: Path) -> None:
    parse = spider(AGAIN, "import zlib")
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, parse, CLOSESPIDER_TIMEOUT=60)
        ledger = web.ledger()
    assert_clean(result)
    assert result.report["finish_reason"] == "finished"
    for broken in ("early_host", "early_ip", "missed"):
        assert not ledger["violations"].get(broken, {}).get("count"), ledger["violations"]
    found = [item["url"] for item in items(tmp_path) if "url" in item]
    assert len(found) == 2 * len(set(found)) == result.report["counts"]["crawled"]
    assert ledger["totals"]["pages"] == len(found)


def test_a_page_fetch_middleware_that_is_not_the_first_is_refused(tmp_path: Path) -> None:
    code = """
        class Swallows:
            async def process_spider_output(self, response, result):
                async for output in result:
                    if not isinstance(output, Page):
                        yield output
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"SPIDER_MIDDLEWARES": {Swallows: -1}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        assert not web.ledger()["totals"].get("requests")
    assert result.exit_code == 1
    line = "Swallows stands before webcrawl.crawl.PageFetchMiddleware: 0"
    assert line in result.log.splitlines()[-1]
    assert "Traceback" not in result.log


TAKEN_OUT = """
async for page in super().parse(response):
    [
        lambda: page.links and response.meta.pop("webcrawl"),
        response.meta.clear,
        lambda: copy.deepcopy(response.meta),
    ][zlib.crc32(response.url.encode()) % 3]()
    yield page
"""


def test_a_page_fetch_is_found_without_its_meta(tmp_path: Path) -> None:
    """The spider takes it out of the meta, after a middleware has copied it into requests."""
    more = f"""
import copy, zlib
class Copies:
    async def process_spider_output(self, response, result):
        for href in {LINKS}:
            yield scrapy.Request(response.urljoin(href), meta=response.meta)
        async for output in result:
            yield output
MORE = {{Copies: 500}}
"""
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, spider(TAKEN_OUT, more), CLOSESPIDER_TIMEOUT=60)
        pages = assert_faultless(web)["totals"]["pages"]
    assert_clean(result)
    assert (result.exit_code, result.report["finish_reason"]) == (0, "finished")
    assert result.report["counts"]["crawled"] == pages == len(items(tmp_path))


def test_a_copy_made_by_a_signal_handler_replaces_no_request(tmp_path: Path) -> None:
    code = """
        from scrapy import signals
        class Users(BroadSpider):
            name = "users"
            @classmethod
            def from_crawler(cls, crawler, *args, **kwargs):
                spider = super().from_crawler(crawler, *args, **kwargs)
                crawler.signals.connect(spider.received, signals.response_received)
                return spider
            def received(self, response, request):
                if "own" not in request.cb_kwargs:
                    copied = scrapy.Request(
                        request.url + "?own", self.own, meta={**request.meta},
                        cb_kwargs={"own": True},
                    )
                    self.crawler.engine.crawl(copied)
            def own(self, response, own):
                yield {"own": response.url}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, CLOSESPIDER_TIMEOUT=60)
        assert not web.ledger()["violations"].get("missed", {}).get("count")
    assert_clean(result)
    assert "dropped/replaced" not in result.log
    found = items(tmp_path)
    assert sum("own" in item for item in found) == sum("url" in item for item in found) > 6


def test_a_response_that_a_middleware_downloaded_is_a_page(tmp_path: Path) -> None:
    """In place of the page's own request, or after it: each is asked for at every second page."""
    code = """
        class Asks:
            @classmethod
            def from_crawler(cls, crawler):
                asks = cls()
                asks.crawler = crawler
                asks.number = 0
                return asks
            async def process_request(self, request):
                if "inner" not in request.meta:
                    self.number += 1
                    if self.number % 2:
                        return await self._download(request)
            async def process_response(self, request, response):
                if "inner" not in request.meta and not self.number % 2:
                    return await self._download(request)
                return response
            async def _download(self, request):
                meta = {"inner": 1, "dont_obey_robotstxt": True}
                inner = scrapy.Request(request.url, meta=meta)
                return await self.crawler.engine.download_async(inner)
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"DOWNLOADER_MIDDLEWARES": {Asks: 1}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, CLOSESPIDER_TIMEOUT=60)
        ledger = web.ledger()
    assert_clean(result)
    assert not ledger["violations"].get("missed", {}).get("count")
    assert "dropped/replaced" not in result.log
    found = [item["url"] for item in items(tmp_path)]
    assert len(found) == len(set(found)) == result.report["counts"]["crawled"] > 6


def test_a_frontier_error_sets_a_plain_spiders_exit_code(tmp_path: Path) -> None:
    (tmp_path / "frontier").write_text("not a folder")
    code = """
        class Users(scrapy.Spider):
            name = "users"
            start_urls = ["data:,x"]
            def parse(self, response):
                yield {"own": response.url}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, JOBDIR=tmp_path)
    assert result.exit_code == 1
    assert "JOBDIR" in result.log.splitlines()[-1]
    assert "Traceback" not in result.log
