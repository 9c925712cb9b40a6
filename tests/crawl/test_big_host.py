"""A whole crawl beside a host with very many links."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.adapters.rawserver import RawServer, read_request
from tests.crawl.crawling import assert_clean, crawl
from tests.crawl.knownsite import answer, served

pytestmark = pytest.mark.slow

LINKS = 100_000
CHAIN = 30


def serve_many(connection: socket.socket) -> None:
    """A first page with all the links, and pages for them."""
    path = read_request(connection).split(b" ")[1]
    body = b"".join(b"<a href=/p%d>x" % number for number in range(LINKS)) if path == b"/" else path
    connection.sendall(answer(body))


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_another_host_is_not_held_up(tmp_path: Path, store: str) -> None:
    """Each is asked once in a delay; of 80 pages no more than 50 can be the big host's."""
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
            FRONTIER_STORE=store,
            CLOSESPIDER_PAGECOUNT=80,
        )
    assert_clean(result)
    assert all(len(site.requests[path]) == 1 for path in pages | last)
    counts = result.report["counts"]
    assert counts["links"] == LINKS + CHAIN - 1
    assert counts["pending"] + counts["crawled"] == 1 + LINKS + CHAIN
