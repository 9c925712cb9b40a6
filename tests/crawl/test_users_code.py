"""Spiders, pipelines and middlewares that users add, good and bad.

Each test is a whole crawl of a small web with `scrapy runspider`. Whatever the user's code does,
the crawl ends, its promises hold, and it loses only pages that the code drops.
"""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import assert_faultless
from tests.crawl.knownsite import answer
from tests.crawl.userscode import items, run
from tests.forked import running

pytestmark = pytest.mark.slow

# 20 pages, 7 of the largest host. A crawl of one host after the other would prove nothing more.
WORLD = (
    *("--seed", "2", "--hosts", "6", "--pages-per-host", "5"),
    *("--features", "none", "--page-bytes", "2000"),
)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")


def test_a_user_request_calls_its_callback_or_its_errback_once(tmp_path: Path) -> None:
    """Whatever it asks for, and after its last try only."""
    code = r"""
        EVIL = "a\r\nX-I: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n"
        class Users(BroadSpider):
            name = "users"
            async def start(self):
                async for seed in super().start():
                    yield seed
                for url, more in (
                    ("http://no-such-name.invalid/", {}),
                    ("http://127.0.0.1:2/", {}),
                    ("data:,aside", {}),
                    (SEED + "robots.txt", {}),  # a media type that the crawl drops
                    (BUSY + "better", {}),
                    (BUSY + "value", {"headers": {"X-A": EVIL, "Host": "h\r\nX-I: 1"}}),
                    (BUSY + "name", {"headers": {EVIL: "a"}}),
                    (BUSY + "method", {"method": EVIL}),
                    (BUSY + EVIL, {"meta": {"verbatim_url": True}}),
                    (BUSY + "silent", {"method": EVIL, "errback": None}),
                ):
                    more = {"errback": self.failed, **more}
                    yield scrapy.Request(url, self.parse_own, dont_filter=True, **more)
            def parse_own(self, response):
                yield {"own": response.url.rpartition("/")[2], "status": response.status}
            def failed(self, failure):
                yield {"failed": type(failure.value).__name__}
    """
    with running(*WORLD, *PROMISES) as web, busy_server() as (url, asked):
        result = run(tmp_path, web, f"SEED, BUSY = {web.seeds[0]!r}, {url!r}\n" + dedent(code))
        assert_faultless(web)
    assert result.exit_code == 0
    found = [item for item in items(tmp_path) if "own" in item or "failed" in item]
    assert sorted(found, key=str) == [
        {"failed": "CannotResolveHostError"},
        {"failed": "DownloadFailedError"},
        *[{"failed": "NotSent"}] * 3,
        {"own": "better", "status": 200},
        {"own": "data:,aside", "status": 200},
        {"own": "robots.txt", "status": 200},
        {"own": "value", "status": 503},
    ]
    assert asked == {"/robots.txt": 1, "/better": 3, "/value": 3}
    assert result.report["counts"]["dropped/unsendable"] == 4
    assert result.log.count("Not sent: ") == 4
    assert "Traceback" not in result.log


@contextmanager
def busy_server() -> Iterator[tuple[str, Counter[str]]]:
    """A server that answers /better at the third try, others never; yields URL and requests."""
    asked: Counter[str] = Counter()

    def serve(connection: socket.socket) -> None:
        path = path_of(read_request(connection))
        asked[path] += 1
        is_well = path == "/better" and asked[path] == 3
        status = b"404 No" if "robots" in path else b"200 OK" if is_well else b"503 Busy"
        connection.sendall(answer(b"", status=status))

    with RawServer(serve) as server:
        yield f"http://127.0.0.1:{server.port}/", asked


def test_pages_that_never_come_out_of_the_spider_end_their_fetch(tmp_path: Path) -> None:
    """A downloader middleware refuses the page, its callback fails, or it is swallowed."""
    code = """
        class Refuse:
            def process_request(self, request):
                if request.url == SEEDS[2]:
                    raise IgnoreRequest("no")
        class Swallow:
            async def process_spider_output(self, response, result):
                async for item in result:
                    pass
                return
                yield
        class Users(BroadSpider):
            name = "users"
            custom_settings = {
                "SPIDER_MIDDLEWARES": {Swallow: 10}, "DOWNLOADER_MIDDLEWARES": {Refuse: 10},
            }
            async def parse(self, response, **kwargs):
                if response.url == SEEDS[0]:
                    raise ValueError("a user's mistake")
                async for page in super().parse(response):
                    yield page
    """
    with running(*WORLD, *PROMISES, "--seeds", "3") as web:
        seeds = web.seeds
        result = run(tmp_path, web, f"SEEDS = {seeds!r}\n" + dedent(code))
        assert web.ledger()["totals"]["pages"] == len(seeds) - 1 == 2
    assert result.exit_code == 0
    assert result.report["counts"]["dropped/middleware"] == 1
    assert result.log.count("ValueError: a user's mistake") == 1


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


def test_a_downloader_middleware_may_request_a_page_again(tmp_path: Path) -> None:
    """By a copy of the Request, and by one of its own, which has nothing of the answer."""
    code = """
        class Again:
            asked = set()
            def process_response(self, request, response):
                if request.url in self.asked:
                    return response
                self.asked.add(request.url)
                if len(self.asked) % 2:
                    return request.replace(dont_filter=True)
                return scrapy.Request(request.url)
        class Users(BroadSpider):
            name = "users"
            custom_settings = {"DOWNLOADER_MIDDLEWARES": {Again: 10}}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code)
        violations = web.ledger()["violations"]
    assert result.exit_code == 0
    assert not violations["early_host"]["count"], "a request asked again waits its turn"
    assert not violations["early_ip"]["count"]


WAYS = {
    "default": ("webcrawl.fastpath.engine", "{}"),
    "Scrapy's engine": (
        "scrapy.core.engine",
        "{'EXTENSIONS': {'webcrawl.fastpath.FastPath': None}}",
    ),
    "a downloader with a fetch of its own": (
        "scrapy.core.engine",
        "{'DOWNLOADER': Fetch, 'CONCURRENT_ITEMS': 5}",
    ),
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
                yield None
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
