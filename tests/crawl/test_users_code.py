"""Spiders, pipelines and middlewares that users add, good and bad.

Each test is a whole crawl of a small web with `scrapy runspider`. Whatever the user's code does,
the crawl ends, its promises hold, and it loses only pages that the code drops.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from textwrap import dedent
from threading import Thread

import pytest

from simweb import running
from tests.crawl.crawling import assert_faultless
from tests.crawl.userscode import items, run

pytestmark = pytest.mark.slow

# 20 pages, 7 of the largest host. A crawl of one host after the other would prove nothing more.
WORLD = (
    *("--seed", "2", "--hosts", "6", "--pages-per-host", "5"),
    *("--features", "none", "--page-bytes", "2000"),
)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")


def test_a_spider_may_yield_items_beside_the_pages(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                yield {"title": response.css("title::text").get()}
                yield None
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        ledger = assert_faultless(web)
    found = items(tmp_path)
    assert result.exit_code == 0
    assert sum("url" in item for item in found) == ledger["totals"]["pages"]
    assert sum(bool(item.get("title")) for item in found) == ledger["totals"]["pages"]


def test_user_requests_pass_the_frontier(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    page.links = []
                    yield page
                for href in response.css("a::attr(href)").getall():
                    yield response.follow(href, self.parse_own, cb_kwargs={"mark": "m"})
            def parse_own(self, response, mark):
                yield {"own": response.url, "mark": mark}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        ledger = web.ledger()
    assert not any(found["count"] for found in ledger["violations"].values()), ledger
    own = [item["own"] for item in items(tmp_path) if "own" in item]
    assert own
    assert len(own) == len(set(own)), "no page twice"
    assert result.exit_code == 0
    assert all(item.get("mark") == "m" for item in items(tmp_path) if "own" in item)


def test_a_user_request_calls_its_callback_or_its_errback_once(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def start(self):
                async for seed in super().start():
                    yield seed
                for url in (
                    "http://no-such-name.invalid/", "http://127.0.0.1:2/", "data:,aside",
                    SEED + "robots.txt",  # a media type that the crawl drops
                ):
                    yield scrapy.Request(url, self.parse_own, errback=self.failed)
            def parse_own(self, response):
                yield {"own": response.url, "size": len(response.body)}
            def failed(self, failure):
                yield {"failed": failure.request.url, "error": type(failure.value).__name__}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, f"SEED = {web.seeds[0]!r}\n" + dedent(code))
        assert_faultless(web)
    assert result.exit_code == 0
    found = [item for item in items(tmp_path) if "own" in item or "failed" in item]
    *others, robots = sorted(found, key=str)
    assert others == [
        {"failed": "http://127.0.0.1:2/", "error": "DownloadFailedError"},
        {"failed": "http://no-such-name.invalid/", "error": "CannotResolveHostError"},
        {"own": "data:,aside", "size": 5},
    ]
    assert robots["own"].endswith("/robots.txt")
    assert robots["size"] > 0


def test_a_user_request_calls_back_after_its_last_try_only(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def start(self):
                for path in ("better", "worse"):
                    yield scrapy.Request(BUSY + path, self.parse_own, errback=self.failed)
            def parse_own(self, response):
                yield {"path": response.url.rpartition("/")[2], "status": response.status}
            def failed(self, failure):
                yield {"error": repr(failure.value)}
    """
    with running(*WORLD, *PROMISES) as web, busy_server() as (url, asked):
        result = run(tmp_path, web, f"BUSY = {url!r}\n" + dedent(code))
    assert result.exit_code == 0
    assert sorted(items(tmp_path), key=str) == [
        {"path": "better", "status": 200},
        {"path": "worse", "status": 503},
    ]
    assert asked["/better"] == asked["/worse"] == 3


def test_a_request_of_another_scheme_has_one_outcome_and_one_line(tmp_path: Path) -> None:
    code = r"""
        EVIL = "a\r\nX-I: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n"
        class Users(BroadSpider):
            name = "users"
            async def start(self):
                for path, more in (
                    ("value", {"headers": {"X-A": EVIL, "Host": "h\r\nX-I: 1"}}),
                    ("name", {"headers": {EVIL: "a"}}),
                    ("method", {"method": EVIL}),
                    (EVIL, {"meta": {"verbatim_url": True}}),
                    ("silent", {"method": EVIL, "errback": None}),
                ):
                    more = {"errback": self.failed, **more}
                    yield scrapy.Request(BUSY + path, self.parse_own, dont_filter=True, **more)
            def parse_own(self, response):
                yield {"path": response.url.rpartition("/")[2], "status": response.status}
            def failed(self, failure):
                yield {"error": type(failure.value).__name__}
    """
    with running(*WORLD, *PROMISES) as web, busy_server() as (url, asked):
        result = run(tmp_path, web, f"BUSY = {url!r}\n" + dedent(code), RETRY_TIMES=0)
    assert result.exit_code == 0
    assert sorted(items(tmp_path), key=str) == [
        *[{"error": "NotSent"}] * 3,
        {"path": "value", "status": 503},
    ]
    assert asked == {"/robots.txt": 1, "/value": 1}
    assert result.report["counts"]["dropped/unsendable"] == 4
    assert result.log.count("Not sent: ") == 4
    assert "Traceback" not in result.log


@contextmanager
def busy_server() -> Iterator[tuple[str, Counter[str]]]:
    """A server that answers /better at the third try and /worse never; yields URL and requests."""
    asked: Counter[str] = Counter()

    class Busy(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked[self.path] += 1
            well = self.path == "/better" and asked[self.path] == 3
            self.send_response(404 if "robots" in self.path else 200 if well else 503)
            self.end_headers()

        def log_message(self, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Busy) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/", asked
        server.shutdown()
        thread.join()


def test_a_request_out_of_scope_is_refused(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                yield scrapy.Request("http://not-in-scope.example/", self.parse)
    """
    with running(*WORLD, *PROMISES, "--scope-suffix", ".br") as web:
        result = run(tmp_path, web, code, SCOPE_SUFFIXES=".br")
        assert_faultless(web)
    assert result.exit_code == 0


def test_a_callback_that_raises_loses_its_page_only(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                raise ValueError("a user's mistake")
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        ledger = assert_faultless(web)
    assert result.exit_code == 0
    assert result.log.count("a user's mistake") >= ledger["totals"]["pages"]


def test_a_plain_callback_that_raises_loses_its_page_only(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            def parse(self, response, **kwargs):
                raise ValueError("a user's mistake")
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        assert web.ledger()["totals"]["pages"] == len(web.seeds)
    assert result.exit_code == 0


def test_a_pipeline_that_drops_pages_loses_no_links(tmp_path: Path) -> None:
    code = """
        class Drop:
            def process_item(self, item):
                raise DropItem("no")
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"ITEM_PIPELINES": {Drop: 1}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        assert_faultless(web)
    assert result.exit_code == 0
    assert (tmp_path / "items.jsonl").read_text() == ""


def test_a_spider_middleware_that_swallows_everything_does_not_hang(tmp_path: Path) -> None:
    code = """
        class Swallow:
            async def process_spider_output(self, response, result):
                async for item in result:
                    pass
                return
                yield
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"SPIDER_MIDDLEWARES": {Swallow: 10}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        assert web.ledger()["totals"]["pages"] == len(web.seeds)
    assert result.exit_code == 0


@pytest.mark.parametrize("keeps_meta", [True, False])
def test_a_downloader_middleware_may_request_a_page_again(tmp_path: Path, keeps_meta: bool) -> None:
    again = "request.replace(dont_filter=True)" if keeps_meta else "scrapy.Request(request.url)"
    code = f"""
        class Again:
            asked = set()
            def process_response(self, request, response):
                if request.url in self.asked:
                    return response
                self.asked.add(request.url)
                return {again}
        class Users(BroadSpider):
            name = "users"
            custom_settings = {{
                "DOWNLOADER_MIDDLEWARES": {{**settings.DOWNLOADER_MIDDLEWARES, Again: 10}}
            }}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        violations = web.ledger()["violations"]
    assert result.exit_code == 0
    assert not violations["early_host"]["count"], "a request asked again waits its turn"
    assert not violations["early_ip"]["count"]


def test_a_downloader_middleware_may_refuse_a_page(tmp_path: Path) -> None:
    code = """
        class Refuse:
            def process_request(self, request):
                raise IgnoreRequest("no")
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"DOWNLOADER_MIDDLEWARES": {Refuse: 10}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        assert web.ledger()["totals"].get("pages", 0) == 0
        seeds = len(web.seeds)
    assert result.report["counts"]["dropped/middleware"] == seeds


WAYS = {
    "default": ("webcrawl.fastpath.engine", "{}"),
    "Scrapy's engine": (
        "scrapy.core.engine",
        "{'EXTENSIONS': {'webcrawl.fastpath.FastPath': None}}",
    ),
    "a downloader with a fetch of its own": ("scrapy.core.engine", "{'DOWNLOADER': Fetch}"),
    "items beside each other": ("webcrawl.fastpath.engine", "{'CONCURRENT_ITEMS': 5}"),
    "a middleware that hears of exceptions": (
        "webcrawl.fastpath.engine",
        "{'SPIDER_MIDDLEWARES': {**settings.SPIDER_MIDDLEWARES, Hear: 10}}",
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_path_through_the_engine_gives_the_same_crawl(tmp_path: Path, way: str) -> None:
    engine, chosen = WAYS[way]
    code = f"""
        from webcrawl.downloader.downloader import Downloader
        class Fetch(Downloader):
            def fetch(self, request):
                return super().fetch(request)
        class Hear:
            def process_spider_exception(self, response, exception):
                return []
        class Users(BroadSpider):
            name = "users"
            custom_settings = {chosen}
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                yield {{"engine": type(self.crawler.engine).__module__}}
                raise ValueError("a user's")
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        ledger = assert_faultless(web)
    found, pages = items(tmp_path), ledger["totals"]["pages"]
    assert sum("url" in item for item in found) == pages
    assert [item["engine"] for item in found if "engine" in item] == [engine] * pages
    heard = way == "a middleware that hears of exceptions"
    assert result.log.count("ValueError: a user's") == (0 if heard else pages)
