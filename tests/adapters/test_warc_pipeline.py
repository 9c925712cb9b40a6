"""The WARC pipeline: in a crawler without a reactor, and in whole crawls of stock Scrapy."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DropItem, NotConfigured
from scrapy.http import Response
from scrapy.settings import Settings
from stock_crawl import run, site

from tests.exchanges import EXCHANGES, TEXT, capture, chunked, read, write
from tests.unit.test_feeds import Engine
from webcrawl.config.build import robots_token
from webcrawl.crawl.page_fetch import META_KEY, RequestState, note, state_of
from webcrawl.crawl.reconstruction import exchange_of, reconstruct
from webcrawl.items import Page
from webcrawl.pipelines.provenance import warcinfo
from webcrawl.pipelines.warc import WarcPipeline
from webcrawl.signals import exchange_recorded
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.files import WarcError, WarcFiles
from webcrawl.warc.reader import Record
from webcrawl.warc.records import Original, digest, payload_digest

PLAIN = EXCHANGES["plain"]


def crawler_for(folder: Path, **settings: Any) -> Crawler:
    base = {"TWISTED_REACTOR_ENABLED": False, "WARC_DIR": str(folder / "warc")}
    crawler = Crawler(Spider, base | settings)
    crawler._apply_settings()
    crawler.engine = Engine()  # type: ignore[assignment]  # the part that the pipeline uses
    return crawler


@asynccontextmanager
async def opened(crawler: Crawler) -> AsyncIterator[WarcPipeline]:
    """Open the spider, and close it at the end."""
    pipeline = WarcPipeline.from_crawler(crawler)
    await pipeline.open_spider()
    yield pipeline
    await pipeline.close_spider()


def page_of(name: str, **fields: Any) -> Page:
    page = Page(f"http://a.test/{name}", 200, **fields)
    page.exchange = replace(PLAIN, url=page.url)
    page.payload_digest = payload_digest(page.exchange)
    return page


async def test_files_of_machines_with_one_host_name_and_process_id_have_names_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As containers have them; the folders of a crawl's machines are put together."""
    monkeypatch.setattr(time, "time", lambda: 1.7e9)
    names: list[str] = []
    for machine in ("one", "other"):
        crawler = crawler_for(tmp_path / machine, CLUSTER="nats://bus.test")
        async with opened(crawler) as pipeline:
            await pipeline.process_item(page_of("plain"))
        names += [path.name for path in (tmp_path / machine / "warc").glob("*.warc.gz")]
    assert len(set(names)) == len(names) == 2


def records(folder: Path) -> list[Record]:
    paths = sorted((folder / "warc").glob("*.warc.gz"))
    assert [problem for path in paths for problem in check(path)] == []
    return [record for path in paths for record in read(path)]


def types(folder: Path) -> list[str]:
    return [record.type for record in records(folder)]


async def test_a_duplicate_is_a_revisit(tmp_path: Path) -> None:
    first, second = page_of("x"), page_of("y")
    second.original = Original(first.url, PLAIN.started_time, first.payload_digest)

    crawler = crawler_for(tmp_path)
    async with opened(crawler) as pipeline:
        for page in (first, second):
            assert await pipeline.process_item(page) is page
            assert page.exchange is not None
            assert page.exchange.archived
    assert [kind for kind in types(tmp_path) if kind.startswith("re")] == [
        *("response", "request", "revisit", "request")
    ]
    stats = {name: crawler.stats.get_value(f"webcrawl/warc/{name}") for name in
             ("files", "records", "revisits", "bytes")}  # fmt: skip
    (path,) = (tmp_path / "warc").glob("*.warc.gz")
    assert stats == {"files": 1, "records": 7, "revisits": 1, "bytes": path.stat().st_size}


async def test_items_without_an_exchange_pass_unchanged(tmp_path: Path) -> None:
    skipped = page_of("skipped")
    assert skipped.exchange is not None
    skipped.exchange = replace(skipped.exchange, body_skipped=True)

    async with opened(crawler_for(tmp_path)) as pipeline:
        for item in ({"an": "item"}, Page("http://a.test/", 200), skipped):
            assert await pipeline.process_item(item) is item
        assert skipped.exchange is not None
        assert not skipped.exchange.archived
    assert list((tmp_path / "warc").iterdir()) == []


@pytest.mark.parametrize("over", ["wire", "payload", "none"])
async def test_warc_payload_digest_selects_the_payload(tmp_path: Path, over: str) -> None:
    crawler = crawler_for(tmp_path, WARC_PAYLOAD_DIGEST=over)
    each = replace(EXCHANGES["chunked"], payload=TEXT)
    page = page_of("x")
    page.exchange, page.payload_digest = each, payload_digest(each)
    large = replace(each, body=chunked(*[TEXT] * 200), payload=TEXT * 200)

    async with opened(crawler) as pipeline:
        await pipeline.process_item(page)
        await crawler.signals.send_catch_log_async(exchange_recorded, exchange=large)
    digests = [
        record.fields.get("warc-payload-digest", "")
        for record in records(tmp_path)
        if record.type == "response"
    ]
    assert (
        digests
        == {
            "wire": [digest(each.body), digest(large.body)],
            "payload": [digest(TEXT), digest(TEXT * 200)],
            "none": ["", ""],
        }[over]
    )
    assert page.payload_digest == (digests[0] or digest(each.body))


@pytest.mark.parametrize(("over", "has_framing"), [("wire", False), ("payload", True)])
async def test_a_revisit_of_an_earlier_archive_has_the_digest_of_that_archive(
    tmp_path: Path, over: str, has_framing: bool
) -> None:
    """A replay finds the original by it, however this crawl makes its own digests."""
    each = replace(EXCHANGES["chunked"], payload=TEXT)
    page = page_of("x")
    page.exchange, page.payload_digest = each, payload_digest(each)
    found = page.payload_digest if has_framing else digest(TEXT)
    page.original = Original(page.url, 1.0, found, "1970-01-01T00:00:01Z")

    async with opened(crawler_for(tmp_path, WARC_PAYLOAD_DIGEST=over)) as pipeline:
        await pipeline.process_item(page)
    (revisit,) = (record for record in records(tmp_path) if record.type == "revisit")
    assert revisit.fields["warc-payload-digest"] == page.payload_digest == found


@pytest.mark.parametrize(
    "settings",
    [
        {"USER_AGENT": "sent/1 (+https://a.test)"},
        {"USER_AGENT": "x", "DEFAULT_REQUEST_HEADERS": {"User-Agent": "sent/1 (+https://a.test)"}},
        {
            "USER_AGENT": "x",
            "DEFAULT_REQUEST_HEADERS": {"user-agent": [b"sent/1 (+https://a.test)"]},
        },
    ],
)
def test_the_warcinfo_record_names_the_user_agent_that_is_sent(settings: dict[str, Any]) -> None:
    scrapy_settings = Settings(settings)
    lines = warcinfo(scrapy_settings, "", [])
    assert ("http-header-user-agent", "sent/1 (+https://a.test)") in lines
    assert robots_token(scrapy_settings) == "sent"
    scrapy_settings.set("ROBOTSTXT_USER_AGENT", "other")
    assert robots_token(scrapy_settings) == "other"


async def test_robots_txt_is_archived_by_the_signal(tmp_path: Path) -> None:
    crawler = crawler_for(tmp_path)
    async with opened(crawler):
        for each in (EXCHANGES["robots.txt"], EXCHANGES["HEAD"], replace(PLAIN, body_skipped=True)):
            await crawler.signals.send_catch_log_async(exchange_recorded, exchange=each)
    assert types(tmp_path) == ["warcinfo", *["response", "request"] * 2]


async def test_the_warcinfo_record_has_the_values_of_the_settings(tmp_path: Path) -> None:
    settings = {
        "WARC_OPERATOR": "An Archive",
        "WARC_COLLECTION": "spring",
        "WARC_DESCRIPTION": "of the web",
        "USER_AGENT": "name/1 (+https://a.test)",
        "ROBOTSTXT_OBEY": True,
        "WARC_PREFIX": "ours",
    }

    async with opened(crawler_for(tmp_path, **settings)) as pipeline:
        await pipeline.process_item(page_of("x"))
    lines = records(tmp_path)[0].block.decode().splitlines()
    for line in (
        "operator: An Archive",
        "isPartOf: spring",
        "description: of the web",
        "http-header-user-agent: name/1 (+https://a.test)",
        "robots: obey",
    ):
        assert line in lines
    (path,) = (tmp_path / "warc").glob("*.warc.gz")
    assert path.name.startswith("ours-")


async def test_files_of_dead_processes_are_recovered_at_the_start_and_at_the_end(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """That of an earlier run, and that of a worker of this one. Each has its index."""

    def leave_a_file() -> Path:
        (path,) = {*write(tmp_path / "warc", [capture(PLAIN)])} - finished
        path.rename(f"{path}.open")
        return path

    finished: set[Path] = set()
    first = leave_a_file()
    with caplog.at_level(logging.INFO):
        async with opened(crawler_for(tmp_path)):
            assert first.exists()
            finished.add(first)
            leave_a_file()
    assert types(tmp_path) == ["warcinfo", "response", "request", "metadata"] * 2
    assert f"Recovered {first} of an earlier crawl: 4 records, 0 bytes cut" in caplog.text
    warcs, indexes = (
        sorted(path.name.partition(".")[0] for path in (tmp_path / "warc").glob(pattern))
        for pattern in ("*.warc.gz", "*.cdxj")
    )
    assert warcs == indexes
    assert not list((tmp_path / "warc").glob("*.open"))


def test_warc_enabled_turns_it_off(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured):
        WarcPipeline.from_crawler(crawler_for(tmp_path, WARC_ENABLED=False))


async def test_an_unwritable_folder_ends_the_crawl_at_its_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "warc").touch()
    pipeline = WarcPipeline.from_crawler(crawler_for(tmp_path))
    with pytest.raises(CloseSpider) as closing:
        await pipeline.open_spider()
    assert closing.value.reason == "warc_error"
    (error,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert f"WARC_DIR = '{tmp_path / 'warc'}' cannot be written" in error.getMessage()
    assert error.exc_info is None
    await pipeline.close_spider()  # Scrapy calls it also after open_spider has failed


def full(*_: object) -> None:
    raise WarcError("WARC_DIR = 'warc' cannot be written: No space left on device")


async def test_a_full_disk_ends_the_crawl_with_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawler = crawler_for(tmp_path)
    async with opened(crawler) as pipeline:
        monkeypatch.setattr(WarcFiles, "write", full)
        for number in range(3):
            with pytest.raises(DropItem, match="No space left"):
                await pipeline.process_item(page_of(str(number)))
        await crawler.signals.send_catch_log_async(exchange_recorded, exchange=PLAIN)
    assert crawler.engine.reasons == ["warc_error"]  # type: ignore[attr-defined]  # Engine
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == [
        "WARC_DIR = 'warc' cannot be written: No space left on device"
    ]


async def test_a_robots_task_that_is_cancelled_while_the_disk_is_full_logs_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The end of a crawl cancels such tasks, also before they await the write."""

    async with opened(crawler_for(tmp_path)) as pipeline:
        monkeypatch.setattr(WarcFiles, "write", full)
        monkeypatch.setattr(WarcFiles, "may_finish", lambda *_: True)  # so a thread writes
        sent = pipeline.exchange_recorded(PLAIN)
        assert isinstance(sent, Coroutine)
        sent.close()  # as a task that is cancelled before its first step
    gc.collect()
    assert [each.getMessage() for each in caplog.records if each.levelno == logging.ERROR] == []


# Answers that did not come from this project's download handler


def test_an_answer_through_a_proxy_is_reconstructed() -> None:
    request = Request(
        "http://a.test/x?y=1#z", headers={"X": "1", "Proxy-Authorization": "Basic secret"},
        meta={"proxy": "http://127.0.0.1:3128", "download_latency": 0.25},
    )  # fmt: skip
    headers = {
        "Content-Type": "text/html",
        "Transfer-Encoding": "chunked",
        "Set-Cookie": ["a", "b"],
    }
    response = Response(request.url, 404, headers=headers, body=TEXT, protocol="HTTP/1.0")
    each = reconstruct(request, response)
    assert each.request == b"GET /x?y=1 HTTP/1.1\r\nHost: a.test\r\nX: 1\r\n\r\n"
    assert each.head == (
        b"HTTP/1.0 404 Not Found\r\nContent-Type: text/html\r\nSet-Cookie: a\r\nSet-Cookie: b\r\n"
        b"Content-Length: %d\r\n\r\n" % len(TEXT)
    )
    assert each.body == TEXT
    assert (each.status, each.http_version, each.ip, each.total_s) == (404, "1.0", "", 0.25)


def test_a_reconstruction_of_a_post_and_an_unknown_status() -> None:
    request = Request("http://user:pass@a.test:81", method="POST", body=b"a=1")
    each = reconstruct(request, Response(request.url, 599, flags=["dataloss"]))
    assert each.request == (b"POST / HTTP/1.1\r\nHost: a.test:81\r\nContent-Length: 3\r\n\r\na=1")
    assert each.head == b"HTTP/1.1 599\r\nContent-Length: 0\r\n\r\n"
    assert each.truncated == "disconnect"


def of_the_cache(**headers: str) -> Response:
    response = Response(
        "http://a.test/", headers=headers, flags=["cached"], ip_address=ip_address("192.0.2.1"),
        body=TEXT,
    )  # fmt: skip
    response.request = Request(response.url, meta={"download_latency": 9.0})
    return response


def test_a_cached_answer_has_the_date_of_its_server() -> None:
    each = exchange_of(of_the_cache(Date="Sun, 06 Nov 1994 08:49:37 GMT"))
    assert (each.started_time, each.total_s, each.ip) == (784111777.0, 0.0, "192.0.2.1")
    assert (each.cached, each.reconstructed) == (True, True)
    assert each.asked_at == each.ended_at == pytest.approx(time.monotonic(), abs=60)


@pytest.mark.parametrize("date", ["", "soon", "Sun, 06 Nov 2994 08:49:37 GMT", "1 " * 50_000])
def test_a_cached_answer_without_a_past_date_is_dated_now(date: str) -> None:
    each = exchange_of(of_the_cache(Date=date))
    assert each.started_time == pytest.approx(time.time(), abs=60)


def test_a_revalidated_cached_answer_is_not_the_304() -> None:
    response = of_the_cache()
    asked = replace(PLAIN, status=304, payload=b"")
    note(response.request, exchange=asked)
    each = exchange_of(response)
    assert (each.status, each.payload) == (200, TEXT)
    assert exchange_of(response) is each
    assert state_of(response.request).exchange is each


def test_the_exchange_of_the_wire_is_kept_if_a_middleware_changed_the_body() -> None:
    each = replace(PLAIN)
    response = Response(each.url, 200, body=b"changed by a middleware")
    response.request = Request(each.url, meta={META_KEY: RequestState(exchange=each)})
    assert exchange_of(response) is each
    assert each == replace(PLAIN, body_replaced=True)
    equal = Response(each.url, 200, body=bytes(bytearray(each.payload)))
    equal.request = response.request
    assert exchange_of(equal) == PLAIN


def test_a_middlewares_answer_of_another_status_is_reconstructed() -> None:
    first = replace(PLAIN, status=403, payload=b"not for crawlers")
    response = Response(first.url, 200, body=TEXT)
    response.request = Request(first.url, meta={META_KEY: RequestState(exchange=first)})
    each = exchange_of(response)
    assert (each.status, each.payload, each.reconstructed) == (200, TEXT, True)
    assert exchange_of(response) is each
    assert not each.body_replaced


def test_a_header_of_several_lines_becomes_several_headers() -> None:
    request = Request("http://a.test/")
    headers = {"Set-Cookie": "a=1\nb=2", "X-Empty": "", "X": "1\r\n\r\n<p>"}
    each = reconstruct(request, Response(request.url, headers=headers))
    assert each.head.split(b"\r\n") == [
        *(b"HTTP/1.1 200 OK", b"Set-Cookie: a=1", b"Set-Cookie: b=2", b"X-Empty: ", b"X: 1"),
        *(b"X: ", b"X: <p>", b"Content-Length: 0", b"", b""),
    ]


SPIDER = """
    import scrapy
    from webcrawl.crawl import state_of
    from webcrawl.items import Page

    class S(scrapy.Spider):
        name = "s"

        async def start(self):
            yield scrapy.Request({url!r}, meta={meta!r})

        def parse(self, response):
            page = Page(response.url, response.status)
            page.exchange = state_of(response.request).exchange
            yield page
"""
OURS = {
    "ITEM_PIPELINES": {"webcrawl.pipelines.warc.WarcPipeline": 300},
    "DOWNLOAD_HANDLERS": {"http": "webcrawl.downloader.DownloadHandler"},
}


@pytest.mark.parametrize("through_a_proxy", [False, True])
def test_a_stock_crawl_is_archived(tmp_path: Path, through_a_proxy: bool) -> None:
    with site({}) as proxy_or_host:
        url = "http://a.test/x" if through_a_proxy else proxy_or_host.url("/x")
        meta = {"proxy": proxy_or_host.url("")} if through_a_proxy else {}
        spider = SPIDER.format(url=url, meta=meta)
        done = run(tmp_path, spider, OURS | {"WARC_DIR": str(tmp_path / "warc")})
    assert "Traceback" not in done.log
    assert types(tmp_path) == ["warcinfo", "response", "request", "metadata"]
    _, response, _, metadata = records(tmp_path)
    assert response.fields["warc-target-uri"] == url
    assert response.block.endswith(b"\r\n\r\n<p>page")
    assert (b"reconstructed: true\r\n" in metadata.block) is through_a_proxy
    assert done.stats["webcrawl/warc/records"] == 4
    assert "1 WARC files with 4 records" in done.log
