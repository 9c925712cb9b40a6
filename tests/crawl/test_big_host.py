"""A whole crawl of two hosts, one of which has very many links."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import assert_clean, crawl
from tests.crawl.knownsite import answer, served

pytestmark = pytest.mark.slow

LINKS = 100_000
CHAIN = 30


def serve_many(connection: socket.socket) -> None:
    """Serve a first page with all links, and the pages that they lead to."""
    path = path_of(read_request(connection))
    links = (b"<a href=/p%d>x" % number for number in range(LINKS))
    body = b"".join(links) if path == "/" else path.encode()
    connection.sendall(answer(body))


def test_a_host_with_many_links_does_not_hold_up_another_host(tmp_path: Path) -> None:
    """Each host gets one request per delay: at most 50 of 80 pages can come from the big host."""
    pages = {f"/{n}": answer(b'%d <a href="/%d">next</a>' % (n, n + 1)) for n in range(1, CHAIN)}
    last = {f"/{CHAIN}": answer(b"end")}
    with served(pages | last) as site, RawServer(serve_many, address="127.0.0.2") as big:
        result = crawl(
            tmp_path,
            f"http://127.0.0.2:{big.port}/",
            f"{site.url}/1",
            ALLOW_PRIVATE_ADDRESSES=1,
            DOWNLOAD_DELAY=0.1,
            IP_DELAY=0,
            FRONTIER_STORE="disk",
            CLOSESPIDER_PAGECOUNT=80,
        )
    assert_clean(result)
    assert all(len(site.requests[path]) == 1 for path in pages | last)
    counts = result.report["counts"]
    assert counts["links"] == LINKS + CHAIN - 1
    assert counts["pending"] + counts["crawled"] == 1 + LINKS + CHAIN
