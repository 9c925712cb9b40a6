"""The download handler: in a crawler without a reactor, and in whole crawls of stock Scrapy.

Scrapy's own tests of a handler run on it too (tests/scrapy_suite): methods, limits, time-outs,
certificates, proxies and signals of a user's requests are tested there.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import resource
import socket
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadFailedError,
    NotConfigured,
)
from scrapy.http import HtmlResponse, Response
from stock_crawl import run, site

from tests.adapters.rawserver import RawServer, read_request, until
from webcrawl.base import openfiles
from webcrawl.config.build import admissions_from
from webcrawl.config.fetch import content_type_test, headers_from
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.outcomes import NotSent
from webcrawl.crawl.page_fetch import PageFetch, note, state_of
from webcrawl.downloader.handler import FAILURES, DownloadHandler, _make_sendable
from webcrawl.fetch.exchange import REASONS, Exchange, FetchFailed
from webcrawl.fetch.request import FetchRequest
from webcrawl.frontier.lease import Lease, Step

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
SETTINGS: dict[str, Any] = {
    "TWISTED_REACTOR_ENABLED": False,
    "USER_AGENT": "webcrawl/1",
    "DEFAULT_REQUEST_HEADERS": {"Accept": "text/html", "Accept-Language": "en"},
    "CONTENT_TYPES": ["text/html"],
    "DOWNLOAD_TIMEOUT": 60,
}


class Server(RawServer):
    """Answers every request with the same bytes, and records the requests."""

    def __init__(self, *parts: bytes, hangs: bool = False, **kwargs: Any) -> None:
        self.requests: list[bytes] = []

        def script(connection: socket.socket) -> None:
            self.requests.append(read_request(connection))
            for part in parts:
                connection.sendall(part)
            if hangs:
                connection.recv(1)

        super().__init__(script, **kwargs)

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"http://{host}:{self.port}{path}"


def crawler_with(**settings: Any) -> Crawler:
    crawler = Crawler(Spider, SETTINGS | settings)
    crawler._apply_settings()
    return crawler


def with_handler(
    use: Callable[[DownloadHandler], Awaitable[Any]], crawler: Crawler | None = None
) -> Any:
    async def go() -> Any:
        handler = DownloadHandler.from_crawler(crawler or crawler_with())
        try:
            return await use(handler)
        finally:
            await handler.close()

    return asyncio.run(go())


def download(request: Request, crawler: Crawler | None = None) -> Response:
    response = with_handler(lambda handler: handler.download_request(request), crawler)
    assert isinstance(response, Response)
    return response


def leased(server: RawServer, **kwargs: Any) -> Request:
    """A request of the frontier, for a host that is not in DNS."""
    url = f"http://page.invalid:{server.port}/"
    lease = Lease(host="page.invalid", step=Step.PAGE, url=url, address="127.0.0.1")
    return PageFetch(lease).bind(Request(url, **kwargs))


def test_a_page_becomes_a_response() -> None:
    with Server(OK + b"X-A: 1\r\nX-A: 2\r\n\r\n", b"<p>hi") as server:
        request = leased(server)
        response = download(request)
    assert type(response) is HtmlResponse
    assert (response.status, response.body, response.url) == (200, b"<p>hi", request.url)
    assert response.headers.getlist("x-a") == [b"1", b"2"]
    assert response.ip_address == IPv4Address("127.0.0.1")
    assert (response.protocol, response.certificate, response.flags) == ("HTTP/1.1", None, [])
    exchange = state_of(request).exchange
    assert isinstance(exchange, Exchange)
    assert [exchange.request] == server.requests
    assert 0 < request.meta["download_latency"] <= exchange.total_s


def test_a_request_without_headers_gets_the_defaults() -> None:
    with Server(OK + b"\r\n") as server:
        download(leased(server))
    lines = server.requests[0].split(b"\r\n")
    assert lines == [
        b"GET / HTTP/1.1",
        b"Host: page.invalid:%d" % server.port,
        b"User-Agent: webcrawl/1",
        b"Accept: text/html",
        b"Accept-Language: en",
        b"Accept-Encoding: gzip, deflate",
        b"Connection: keep-alive",
        b"",
        b"",
    ]


def test_the_requests_own_headers_come_first_and_win() -> None:
    own = {"X-B": ["1", "2"], "accept": "*/*", "User-Agent": None, "Proxy-Authorization": "x"}
    with Server(OK + b"\r\n") as server:
        download(leased(server, headers=own))
    lines = server.requests[0].split(b"\r\n")
    assert lines[2:-3] == [
        b"X-B: 1",
        b"X-B: 2",
        b"Accept: */*",
        b"Accept-Language: en",
        b"Accept-Encoding: gzip, deflate",
    ]


def coded(coding: bytes, body: bytes, content_type: bytes = b"text/html") -> tuple[bytes, bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Encoding: %b\r\n\r\n"
    return head % (content_type, coding), body


def test_a_content_coding_is_removed_with_its_header() -> None:
    with Server(*coded(b"gzip", gzip.compress(b"<p>hi"))) as server:
        response = download(leased(server))
    assert type(response) is HtmlResponse
    assert response.body == b"<p>hi"
    assert "Content-Encoding" not in response.headers


def test_a_coding_that_the_body_does_not_have_loses_its_header() -> None:
    with Server(*coded(b"gzip", b"<p>plain")) as server:
        request = leased(server)
        response = download(request)
    assert type(response) is HtmlResponse
    assert response.body == b"<p>plain"
    assert state_of(request).exchange.decode_problem == "not gzip"
    assert state_of(request).exchange.headers[1] == (b"content-encoding", b"gzip")


def test_an_unknown_coding_stays_with_its_header() -> None:
    with Server(*coded(b"br, sdch", b"\x01\x02")) as server:
        response = download(leased(server))
    assert type(response) is Response
    assert response.body == b"\x01\x02"
    assert response.headers.getlist("Content-Encoding") == [b"br", b"sdch"]


def test_the_coding_of_an_answer_to_head_is_kept() -> None:
    with Server(coded(b"gzip", b"")[0]) as server:
        response = download(Request(server.url(), method="HEAD"))
    assert response.headers["Content-Encoding"] == b"gzip"


# CONTENT_TYPES


def test_another_content_type_is_dropped_at_the_header() -> None:
    with Server(b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", hangs=True) as server:
        request = leased(server)
        response = download(request)
    assert (response.flags, response.body) == (["content_type_dropped"], b"")
    assert state_of(request).exchange.body_skipped


def test_a_user_request_gets_any_content_type() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\n\r\n"
    with Server(head, b"\x89PNG") as server:
        assert download(Request(server.url())).body == b"\x89PNG"


@pytest.mark.parametrize(
    ("status", "content_type", "wanted"),
    [
        (200, b"text/html", True),
        (200, b"Text/HTML ; charset=utf-8", True),
        (200, b"", True),
        (200, None, True),
        (200, b"text/htmlx", False),
        (206, b"image/png", False),
        (404, b"image/png", True),
        (302, b"image/png", True),
    ],
)
def test_content_types_select_bodies(status: int, content_type: bytes | None, wanted: bool) -> None:
    wants = content_type_test(
        crawler_with(CONTENT_TYPES="text/html, Application/XHTML+xml").settings
    )
    headers = [] if content_type is None else [(b"content-type", content_type)]
    assert wants(status, headers) is wanted
    assert wants(200, [(b"content-type", b"application/xhtml+xml")])


@pytest.mark.parametrize("content_types", ["", "*/*", "text/html,image/*"])
def test_content_types_may_be_a_family_or_all(content_types: str) -> None:
    wants = content_type_test(crawler_with(CONTENT_TYPES=content_types).settings)
    assert wants(200, [(b"content-type", b"image/png")])
    assert wants(200, [(b"content-type", b"text/html; charset=utf-8")])
    assert wants(200, [(b"content-type", b"text/css")]) is (content_types != "text/html,image/*")


# Truncated bodies

CUT = OK + b"Content-Length: 99\r\n\r\nhell"


def test_a_truncated_page_is_kept() -> None:
    with Server(CUT) as server:
        response = download(leased(server))
    assert (response.body, response.flags) == (b"hell", ["dataloss"])
    with Server(CUT) as server:
        response = download(leased(server), crawler_with(DOWNLOAD_MAXSIZE=3))
    assert (response.body, response.flags) == (b"hel", ["truncated"])


# Failures


def failing(
    request: Request, crawler: Crawler | None = None
) -> tuple[type[Exception], FetchFailed]:
    with pytest.raises(Exception) as caught:
        download(request, crawler)
    failure = state_of(request).failure
    assert state_of(request).exchange is None
    assert failure.__traceback__ is None
    assert str(failure) in str(caught.value)
    return caught.type, failure


def test_the_fault_of_a_server_is_an_exception_and_no_line_of_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    with Server(b"garbage") as server:
        raised, failure = failing(leased(server))
    assert (raised, failure.reason, failure.asked) == (DownloadFailedError, "bad_response", True)
    assert [record for record in caplog.records if record.name.startswith("webcrawl")] == []


def test_the_resolver_of_the_crawl_is_used() -> None:
    asked: list[str] = []

    async def resolve(host: str) -> str:
        asked.append(host)
        if host == "private.test":
            raise FetchFailed("blocked_address")
        return "127.0.0.1"

    crawler = crawler_with()
    crawl_of(crawler).admissions = SimpleNamespace(address=resolve)  # type: ignore[assignment]
    with Server(OK + b"\r\nhi") as server:
        assert download(Request(server.url(host="any.test")), crawler).body == b"hi"
        raised, failure = failing(Request(server.url(host="private.test")), crawler)
    assert (raised, failure.reason) == (CannotResolveHostError, "blocked_address")
    assert asked == ["any.test", "private.test"]


def test_a_retry_removes_the_failure_of_the_try_before() -> None:
    with Server(OK + b"\r\nhi") as server:
        request = leased(server)
        note(request, failure=FetchFailed("timeout"))
        download(request)
    assert state_of(request).failure is None


def test_every_reason_has_an_exception() -> None:
    assert set(FAILURES) <= set(REASONS)


def test_close_ends_fetches_in_progress() -> None:
    with Server(hangs=True) as server:

        async def use(handler: DownloadHandler) -> None:
            request = leased(server)
            task = asyncio.create_task(handler.download_request(request))
            await until(lambda: bool(server.requests))
            await handler.close()
            with pytest.raises(DownloadCancelledError):
                await task
            assert state_of(request).failure.reason == "cancelled"

        with_handler(use)


def test_the_handler_needs_asyncio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webcrawl.downloader.handler.is_asyncio_available", lambda: False)
    with pytest.raises(NotConfigured):
        DownloadHandler.from_crawler(crawler_with())


def test_the_bind_address_is_used() -> None:
    peers: list[str] = []

    def script(connection: socket.socket) -> None:
        peers.append(connection.getpeername()[0])
        read_request(connection)
        connection.sendall(OK + b"\r\n")

    with RawServer(script) as server:
        for bind in ("127.0.0.3", ("127.0.0.4", 0)):
            url = f"http://127.0.0.1:{server.port}/"
            crawler = crawler_with(DOWNLOAD_BIND_ADDRESS=bind)
            download(Request(url), crawler)
            asyncio.run(ask_before_a_page(url, crawler))
    assert peers == ["127.0.0.3"] * 2 + ["127.0.0.4"] * 2


async def ask_before_a_page(url: str, crawler: Crawler) -> None:
    """Send a request before the page, as for robots.txt."""
    nothing: Any = None
    admissions = admissions_from(crawler.settings, outlink=nothing, record=nothing)
    await admissions.client.fetch(FetchRequest("GET", url, "127.0.0.1", []))
    await admissions.close()


def test_without_user_agent_no_header_is_sent() -> None:
    settings = crawler_with(USER_AGENT="", DEFAULT_REQUEST_HEADERS={"Accept": None}).settings
    assert headers_from(settings) == [(b"Accept-Encoding", b"gzip, deflate")]


def test_many_sockets_may_be_open() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def use(_: DownloadHandler) -> tuple[int, int]:
        return resource.getrlimit(resource.RLIMIT_NOFILE)

    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        raised = with_handler(use)
        assert with_handler(use) == raised
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert raised == (min(openfiles.WANTED, hard), hard)


# Whole crawls

SPIDER = """
    import scrapy
    from webcrawl.crawl import state_of

    class S(scrapy.Spider):
        name = "s"

        async def start(self):
            yield scrapy.Request({url!r}, meta={meta!r}, dont_filter=True)

        def parse(self, response):
            self.crawler.stats.set_value("got", response.text)
            is_noted = state_of(response.request).exchange is not None
            self.crawler.stats.set_value("exchange", is_noted)
"""
HANDLERS = dict.fromkeys(("http", "https"), "webcrawl.downloader.DownloadHandler")
QUICK_CRAWL = {"DOWNLOAD_HANDLERS": HANDLERS, "DOWNLOAD_DELAY": 0, "ROBOTSTXT_OBEY": False}


@pytest.mark.parametrize("reactor", [True, False], ids=["reactor", "no reactor"])
def test_the_handler_works_in_stock_scrapy(tmp_path: Path, reactor: bool) -> None:
    settings = QUICK_CRAWL | {"TWISTED_REACTOR_ENABLED": reactor}
    with site({"/a": (302, "/b")}) as pages:
        done = run(tmp_path, SPIDER.format(url=pages.url("/a"), meta={}), settings)
    assert "Traceback" not in done.log
    assert (done.stats["got"], done.stats["exchange"]) == ("<p>page", True)
    assert pages.asked == ["/a", "/b"]


def test_a_copied_meta_does_not_lead_to_the_address_of_another_host() -> None:
    with Server(b"HTTP/1.1 200 OK\r\n\r\n", b"") as server:
        request = leased(server)
        copied = Request("http://other.invalid/", meta=request.meta)
        with pytest.raises(CannotResolveHostError):
            download(copied)
    assert server.requests == []


EVIL = "a\r\nX-I: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n"


@pytest.mark.parametrize(
    "bad",
    [
        {"headers": {EVIL: "a"}},
        {"method": EVIL},
        {"url": "http://a.invalid/" + EVIL, "meta": {"verbatim_url": True}},
        {"url": "http://a\r\n.invalid/", "meta": {"verbatim_url": True}},
        {"meta": {"proxy": "http://127.0.0.1:1/\r\nX-I: 1"}},
    ],
)
@pytest.mark.parametrize("proxied", [True, False])
def test_a_request_that_is_not_http_is_not_sent(
    bad: dict[str, Any], proxied: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if "proxy" in bad.get("meta", {}) and not proxied:
        return
    meta = {"proxy": "http://127.0.0.1:1"} if proxied else {}
    chosen = {"url": "http://127.0.0.1:2/", **bad, "meta": {**meta, **bad.get("meta", {})}}
    request = Request(**chosen)
    if not proxied:
        lease = Lease("a.invalid", Step.PAGE, request.url, "127.0.0.1")
        PageFetch(lease).bind(request)
    caplog.set_level(logging.WARNING)  # a test before may have set that of Scrapy's logger
    with pytest.raises(NotSent):
        download(request)
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("Not sent: ")


def test_line_ends_in_a_value_become_spaces_for_a_proxy_and_its_record() -> None:
    request = Request("http://a.example/", headers={"X-A": EVIL}, meta={"proxy": "http://p:1"})
    _make_sendable(request)
    assert request.headers["X-A"] == b"a X-I: 1 GET /smuggled HTTP/1.1 Host: h"
