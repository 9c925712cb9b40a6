"""PAGE_REQUISITES: what pages show is archived, from any host, and is no page anywhere else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.adapters.rawserver import RawServer
from tests.crawl.crawling import Crawl, crawl
from tests.crawl.crawllog import assert_log, log_lines
from tests.crawl.joined import assert_joined
from tests.crawl.knownsite import CLOSE, Record, Site, records
from webcrawl.tools.wacz.parts import make_wacz

CSS, PNG, HTML = b"text/css", b"image/png", b"text/html"
PAGES = 6


def answer(media_type: bytes, body: bytes, *fields: bytes, status: bytes = b"200 OK") -> bytes:
    length = b"Content-Length: %d" % len(body)
    lines = [b"HTTP/1.1 " + status, b"Content-Type: " + media_type, length, CLOSE, *fields]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


class TwoHosts:
    """A site, which is in scope, and a CDN, which is not."""

    def __init__(self) -> None:
        self.cdn = Site({
            "/robots.txt": answer(b"text/plain", b"User-agent: *\nDisallow: /private"),
            "/style.css": answer(CSS, b'@import "more.css"; a { background: url(dot.png) }'),
            "/more.css": answer(CSS, b"@import url('style.css'); b { cursor: u\\72l(far/p.cur) }"),
            "/dot.png": answer(PNG, b"dot"),
            "/far/p.cur": answer(b"image/x-icon", b"cursor"),
            "/private.png": answer(PNG, b"private"),
            "/denied.png": answer(PNG, b"denied"),
            "/moved.js": answer(HTML, b"", b"Location: /new.js", status=b"301 Moved Permanently"),
            "/new.js": answer(b"text/javascript", b"new()"),
            "/frame.html": answer(HTML, b"<title>Shown</title><a href=/linked.html>x</a>"),
            "/kept.png": answer(PNG, b"kept", b"X-Robots-Tag: noarchive"),
        })  # fmt: skip
        self.site = Site({
            "/robots.txt": answer(b"text/plain", b""),
            "/deep/one.png": answer(PNG, b"one"),
            "/deep/two.png": answer(PNG, b"two"),
            "/deep/copy.png": answer(PNG, b"one"),
            "/deep/linked.png": answer(PNG, b"linked"),
            "/secret.html": answer(HTML, b"<img src=secret.png>", b"X-Robots-Tag: noarchive"),
        })  # fmt: skip

    def begin(self) -> None:
        """Write the pages, which name the ports."""
        cdn = f"http://127.0.0.2:{self.cdn.port}"
        shown = f"""<base href=/deep/><link rel=stylesheet href={cdn}/style.css>
            <img src=one.png srcset="two.png 2x, copy.png 3x"><img src={cdn}/private.png>
            <p style="background: url({cdn}/denied.png)"></p><script src={cdn}/moved.js></script>
            <object data={cdn}/frame.html></object><img src={cdn}/kept.png>
            <a href=linked.png><img src=linked.png></a><a href={cdn}/out.html>out</a>"""
        for number in range(PAGES):
            links = "".join(f"<a href=/p{n}.html>{n}</a>" for n in (number + 1, number + 2))
            page = f"<title>Page {number}</title>{shown}{links}<a href=/secret.html>s</a>"
            self.site.pages[f"/p{number}.html"] = answer(HTML, page.encode())
        for number in (PAGES, PAGES + 1):
            self.site.pages[f"/p{number}.html"] = answer(HTML, b"the end")

    def settings(self) -> dict[str, object]:
        return {
            "PAGE_REQUISITES": 1,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "DOWNLOAD_DELAY": 0.01,
            "IP_DELAY": 0,
            "SCOPE_ALLOW": f"re:^{self.site.url}/",
            "SCOPE_DENY": "re:/denied",
            "OBEY_NOARCHIVE": 1,
        }


@pytest.fixture
def web() -> Iterator[TwoHosts]:
    web = TwoHosts()
    with ExitStack() as stack:
        for host, address in ((web.site, "127.0.0.1"), (web.cdn, "127.0.0.2")):
            host.port = stack.enter_context(RawServer(host.serve, address=address)).port
        web.begin()
        yield web


def asked(web: TwoHosts) -> Counter[str]:
    """How often each path of both hosts was asked for."""
    both = (web.site.requests, web.cdn.requests)
    return Counter({path: len(sent) for each in both for path, sent in each.items()})


SHOWN = {
    *("/deep/one.png", "/deep/two.png", "/deep/copy.png", "/deep/linked.png"),
    *("/style.css", "/more.css", "/dot.png", "/far/p.cur", "/moved.js", "/new.js", "/frame.html"),
}


def test_what_pages_show_is_archived_and_is_no_page(web: TwoHosts, tmp_path: Path) -> None:
    feeds = json.dumps({f"{tmp_path}/feed.jsonl": {"format": "jsonlines"}})
    result = crawl(tmp_path, f"{web.site.url}/p0.html", **web.settings(), FEEDS=feeds)
    assert result.exit_code == 0
    pages = PAGES + 2 + len(["/secret.html", "/deep/linked.png"])
    counts = result.report["counts"]
    assert [counts[name] for name in ("extracted", "robots_passed", "crawled")] == [pages] * 3
    assert (counts["requisites/2xx"], counts["requisites/3xx"]) == (len(SHOWN), 1)
    assert (counts["requisites/robots"], counts["requisites/scope_deny"]) == (1, PAGES)
    assert f"Page requisites: {len(SHOWN) + 2 + PAGES} (" in result.output
    # Each once, of the same URL as a page once more; nothing that is denied, or only linked.
    expected = dict.fromkeys([*SHOWN, "/kept.png", "/secret.html"], 1) | {"/deep/linked.png": 2}
    expected |= {f"/p{n}.html": 1 for n in range(PAGES + 2)} | {"/robots.txt": 1}
    assert asked(web) == expected

    lines = assert_log(result)
    assert_joined(tmp_path / "warc")
    found = {line["url"]: line for line in lines if line["kind"] == "requisite"}
    site, cdn = web.site.url, f"http://127.0.0.2:{web.cdn.port}"
    assert len(found) == len(SHOWN) + 2
    assert found[f"{cdn}/far/p.cur"]["via"] == f"{cdn}/more.css"
    assert found[f"{cdn}/new.js"]["redirects"] == 1
    assert found[f"{site}/deep/copy.png"]["duplicate_of"] == f"{site}/deep/one.png"
    assert "warc" not in found[f"{cdn}/kept.png"], "its owner forbids a copy"
    feed = (tmp_path / "feed.jsonl").read_text().splitlines()
    items = {json.loads(line)["url"] for line in feed}
    assert items == {f"{site}/p{n}.html" for n in range(PAGES + 2)} | {f"{site}/secret.html"}

    archived = {(each.type, each.url): each for path in result.warcs for each in records(path)}
    assert archived["response", f"{cdn}/style.css"].block.endswith(b"url(dot.png) }")
    assert ("revisit", f"{site}/deep/copy.png") in archived
    assert hops(archived["metadata", f"{cdn}/dot.png"]) == "EE"
    assert hops(archived["metadata", f"{cdn}/new.js"]) == "ER"
    wacz = tmp_path / "crawl.wacz"
    make_wacz(result.warcs, wacz, 0, has_text=False, progress=lambda size_bytes: None)
    with ZipFile(wacz) as packed:
        listed = packed.read("pages/pages.jsonl") + packed.read("pages/extraPages.jsonl")
    assert b"/p1.html" in listed
    assert b"/frame.html" not in listed


def hops(metadata: Record) -> str:
    (line,) = (line for line in metadata.block.splitlines() if line.startswith(b"hopsFromSeed"))
    return line.partition(b": ")[2].decode()


def test_a_target_counts_pages_alone_and_the_crawl_ends_with_their_requisites(
    web: TwoHosts, tmp_path: Path
) -> None:
    settings = web.settings() | {"CLOSESPIDER_PAGECOUNT": 1, "DOWNLOAD_DELAY": 0.1}
    result = crawl(tmp_path, f"{web.site.url}/p0.html", **settings)
    assert result.report["finish_reason"] == "closespider_pagecount"
    assert asked(web) == dict.fromkeys([*SHOWN, "/kept.png", "/p0.html", "/robots.txt"], 1)


@pytest.mark.parametrize("processes", [1, 3])
def test_a_killed_crawl_loses_no_requisite(processes: int, web: TwoHosts, tmp_path: Path) -> None:
    settings = web.settings() | {
        "JOBDIR": tmp_path / "job", "DOWNLOAD_DELAY": 0.1, "CRAWL_PROCESSES": processes,
    }  # fmt: skip
    running = Crawl(tmp_path, f"{web.site.url}/p0.html", **settings)
    running.until_true(lambda: "/more.css" in web.cdn.requests)
    running.kill()
    result = crawl(tmp_path, f"{web.site.url}/p0.html", **settings)
    assert result.exit_code == 0
    again = asked(web)
    assert again.keys() >= SHOWN | {"/kept.png"}
    assert sum(n > 1 for path, n in again.items() if path != "/robots.txt") <= 1 + 2 * processes
    assert_joined(tmp_path / "warc")
    done = {line["url"] for line in log_lines(tmp_path / "warc") if line["kind"] == "requisite"}
    assert {path for path in SHOWN if any(url.endswith(path) for url in done)} == SHOWN
