"""PAGE_REQUISITES: what pages show is in the archive, from any host, and is no page anywhere else."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.adapters.rawserver import RawServer
from tests.crawl.crawling import Crawl, Result, crawl
from tests.crawl.crawllog import assert_log
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
            <div style="background: url({cdn}/denied.png)"></div><script src={cdn}/moved.js></script>
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


@pytest.fixture(scope="module")
def web() -> Iterator[TwoHosts]:
    web = TwoHosts()
    with ExitStack() as stack:
        for host, address in ((web.site, "127.0.0.1"), (web.cdn, "127.0.0.2")):
            host.port = stack.enter_context(RawServer(host.serve, address=address)).port
        web.begin()
        yield web


@pytest.fixture(scope="module")
def result(web: TwoHosts, tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("requisites")
    seed = f"{web.site.url}/p0.html"
    return crawl(folder, seed, **web.settings(), FEEDS=json.dumps({f"{folder}/f.jsonl": {"format": "jsonlines"}}))
