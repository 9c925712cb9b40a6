"""Pages that another download handler fetched: archived and counted like all other pages."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.stock_crawl import Site, site
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.knownsite import AT_ONCE, Record, records
from webcrawl.tools.warccheck.check import check

pytestmark = pytest.mark.slow

PAGES = {
    "/": (200, '<a href="/a">a</a> <a href="/b">b</a> <a href="/gone">gone</a>'),
    "/a": (200, "<p>a"),
    "/b": (302, "/c"),
    "/c": (200, "<p>a"),
    "/gone": (404, "<p>gone"),
}
ANOTHER = """
import time

from scrapy.core.downloader.handlers.base import BaseDownloadHandler
from scrapy.http import HtmlResponse, Response
from webcrawl import settings
from webcrawl.spiders.broad import BroadSpider

class Rendering(BaseDownloadHandler):
    lazy = False

    async def download_request(self, request):
        request.meta["download_latency"] = 0.25
        if request.url.endswith("/a"):
            headers = {"Content-Type": "image/png"}
            return Response(request.url, headers=headers, body=b"an image")
        headers = {"Content-Type": "text/html", "Set-Cookie": "a=1\\nb=2"}
        body = b'<a href="/a">a</a> <a href="/b">b</a>'
        return HtmlResponse(request.url, headers=headers, body=body, ip_address="192.0.2.1")

    async def close(self):
        pass

class Answering:
    def process_request(self, request):
        headers = {"Content-Type": "text/html"}
        body = b'<a href="/a">a</a> <a href="/b">b</a>'
        if "/robots.txt" not in request.url:
            return HtmlResponse(request.url, headers=headers, body=body)

class Users(BroadSpider):
    name = "users"
    custom_settings = {settings}
"""
WAYS = {
    "handler": '{"DOWNLOAD_HANDLERS": {"http": Rendering}}',
    "middleware": '{"DOWNLOADER_MIDDLEWARES": {**settings.DOWNLOADER_MIDDLEWARES, Answering: 500}}',
}


def run(folder: Path, host: Site, *spider: str, **settings: Any) -> Result:
    feeds = {str(folder / "items.jsonl"): {"format": "jsonlines"}}
    chosen = AT_ONCE | {"FEEDS": json.dumps(feeds)} | settings
    result = crawl(folder, host.url(), spider=spider or ("crawl", "broad"), **chosen)
    assert_clean(result)
    return result


def items(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "items.jsonl").read_text().splitlines()
    return {item["url"]: item for item in map(json.loads, lines)}


def archived(result: Result, kinds: Sequence[str] = ("response", "revisit")) -> dict[str, Record]:
    """The records of pages, by URL."""
    assert [problem for path in result.warcs for problem in check(path)] == []
    return {
        each.url: each
        for path in result.warcs
        for each in records(path)
        if each.type in kinds and not each.url.endswith("/robots.txt")
    }


@pytest.mark.parametrize(("way", "archive"), [("handler", True), ("middleware", False)])
def test_pages_that_a_user_renders_are_archived(tmp_path: Path, way: str, archive: bool) -> None:
    module = tmp_path / "users.py"
    module.write_text(ANOTHER.replace("{settings}", WAYS[way]))
    reports = tmp_path / "warc"
    with site(PAGES) as host:
        result = run(
            tmp_path, host, "runspider", str(module),
            WARC_ENABLED=archive, REPORT_DIR=reports,
        )  # fmt: skip
        urls = [host.url("/"), host.url("/b")]
        if way == "middleware":
            urls.insert(1, host.url("/a"))
    assert host.asked == ["/robots.txt"]
    found = items(tmp_path)
    assert sorted(found) == urls  # an image is dropped, whichever handler fetched it
    for item in found.values():
        assert item["payload_digest"].startswith("sha1:")
        assert item["fetched_at"].startswith("20")
        assert item["ip"] == ("192.0.2.1" if way == "handler" else "")
        assert item["fetch_s"] == (0.25 if way == "handler" else 0.0)
    counts = result.report["counts"]
    assert counts["crawled"] == 3
    assert counts["html_pages"] == len(urls)
    assert counts["page_bytes"] > counts["html_bytes"] > 0
    assert (result.report["counts"]["fetch_s"] > 0) is (way == "handler")
    if not archive:
        assert result.warcs == []
        return
    assert sorted(archived(result)) == urls
    metadata = archived(result, ["metadata"])
    assert all(b"\r\nreconstructed: true\r\n" in each.block for each in metadata.values())
    if way == "handler":
        assert b"\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n" in archived(result)[urls[0]].block


def test_pages_of_scrapys_http_cache_are_archived(tmp_path: Path) -> None:
    cache = {"HTTPCACHE_ENABLED": 1, "HTTPCACHE_DIR": tmp_path / "cache"}
    runs, began = [], ""
    with site(PAGES) as host:
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            began = datetime.now(UTC).isoformat()
            runs.append(run(tmp_path / name, host, **cache))
        assert sorted(host.asked) == sorted([*PAGES, "/robots.txt", "/robots.txt"])
    first, second = (items(tmp_path / name) for name in ("first", "second"))
    assert len(first) == len(PAGES)
    assert first.keys() == second.keys()
    for url, item in second.items():
        for name in ("status", "links", "payload_digest", "redirect_to"):
            assert item[name] == first[url][name], name
        assert item["fetched_at"] < began  # the Date that the server sent
    one, two = (each.report["counts"] for each in runs)
    for name in ("crawled", "html_pages", "html_bytes", "links"):
        assert one[name] == two[name], name
    assert two["page_bytes"] > two["html_bytes"]
    assert archived(runs[0]).keys() == archived(runs[1]).keys()
    for marked, each in zip((False, True), runs, strict=True):
        for record in archived(each, ["metadata"]).values():
            assert (b"\r\nreconstructed: true\r\ncached: true\r\n" in record.block) is marked


def test_another_handler_gets_no_url_that_robots_txt_refuses(tmp_path: Path) -> None:
    module = tmp_path / "users.py"
    module.write_text(
        ANOTHER.replace("{settings}", WAYS["handler"])
        + """
    async def parse(self, response, **kwargs):
        async for page in super().parse(response):
            page.links = []
            yield page
        yield response.follow("/private", self.parse, errback=self.told)

    def told(self, failure):
        yield {"url": failure.request.url, "error": failure.type.__name__}
"""
    )
    robots = {"/robots.txt": (200, "User-agent: *\nDisallow: /private\n")}
    with site(PAGES | robots) as host:
        run(tmp_path, host, "runspider", str(module))
    found = items(tmp_path)
    assert found.keys() == {host.url("/"), host.url("/private")}
    assert found[host.url("/private")]["error"] == "IgnoreRequest"


def test_a_page_that_was_not_archived_has_no_revisit(tmp_path: Path) -> None:
    same = {f"/{number}": (200, "<p>the same") for number in range(3)}
    runs = []
    with site(same) as host:
        for path in same:
            archive = path != "/0"
            chosen = {"WARC_ENABLED": archive, "REPORT_DIR": tmp_path / path[1:] / "warc"}
            result = crawl(
                tmp_path / path[1:], host.url(path), **chosen,
                JOBDIR=tmp_path / "job", ALLOW_PRIVATE_ADDRESSES=1,
            )  # fmt: skip
            assert_clean(result)
            runs.append(archived(result).values())
        original = f"\r\nduplicateOf: {host.url('/0')}\r\n".encode()
    assert [[record.type for record in each] for each in runs] == [[], ["response"], ["revisit"]]
    (page,) = archived(Result(0, "", "", tmp_path / "1", 0.0), ["metadata"]).values()
    assert original in page.block
