"""Hosts whose pages take long to read: they hold back themselves, neither others nor the end.

A page here is 10 MB of `<svg>`, which takes some seconds to read.
"""

from __future__ import annotations

import socket
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import Crawl, assert_clean, crawl
from tests.crawl.knownsite import answer

pytestmark = pytest.mark.slow

PAGES = 6  # of each healthy host, each with a link to the next
SLOW = b"<svg>" * 2_000_000
HOSTILE = 8
HEALTHY = 10
# Ends 1 s after Ctrl-C, not 5 s: so fewer large pages are enough that some are left.
HURRIED = """
from webcrawl.scheduler import pump
from webcrawl.spiders.broad import BroadSpider
pump.CLOSE_GRACE_S = 1.0
class Hurried(BroadSpider):
    name = "hurried"
"""


class Hosts:
    """Hosts 127.0.1.N have small pages, hosts 127.0.2.N large ones. `sent` counts whole answers."""

    def __init__(self) -> None:
        self.sent: Counter[str] = Counter()
        self.large_pages = SLOW
        self._lock = threading.Lock()

    def serve(self, connection: socket.socket) -> None:
        host = connection.getsockname()[0]
        path = path_of(read_request(connection))
        if path == "/robots.txt":
            connection.sendall(answer(b"", status=b"404 Not Found"))
            return
        number = int(path.removeprefix("/") or 0)
        link = b'<a href="/%d">' % (number + 1) if number + 1 < PAGES else b""
        rest = self.large_pages if host.startswith("127.0.2.") else b""
        page = answer(b"<html>%b %b %b" % (link, host.encode(), rest))
        if host.endswith("5"):  # then it is read as HTML
            page = page.replace(b"Content-Type: text/html\r\n", b"")
        connection.sendall(page)
        with self._lock:
            self.sent[f"http://{host}{path}"] += 1

    def urls(self, kind: int) -> Counter[str]:
        return Counter(
            {u: n for u, n in self.sent.items() if u.startswith(f"http://127.0.{kind}.")}
        )


@contextmanager
def hosts_serving(folder: Path) -> Iterator[tuple[Hosts, str]]:
    """The hosts, and the path of the list of seeds."""
    hosts = Hosts()
    with RawServer(hosts.serve, address="0.0.0.0") as server:
        names = [
            f"127.0.{kind}.{n}"
            for kind, count in ((2, HOSTILE), (1, HEALTHY))
            for n in range(1, count + 1)
        ]
        seeds = folder / "seeds.txt"
        seeds.write_text("\n".join(f"http://{name}:{server.port}/" for name in names))
        yield hosts, str(seeds)


def test_they_hold_back_no_other_host_and_not_the_end(tmp_path: Path) -> None:
    """After Ctrl-C, the next run reads them."""
    spider = tmp_path / "hurried.py"
    spider.write_text(HURRIED)
    settings: dict[str, Any] = {"ALLOW_PRIVATE_ADDRESSES": 1, "JOBDIR": tmp_path / "job"}
    with hosts_serving(tmp_path) as (hosts, seeds):
        first = Crawl(tmp_path / "first", seeds, spider=("runspider", str(spider)), **settings)
        first.until_true(lambda: len(hosts.urls(1)) == HEALTHY * PAGES)
        assert len(hosts.urls(2)) < HOSTILE * PAGES, "their pages take much longer"
        first.until_true(lambda: len(hosts.urls(2)) >= HOSTILE)
        first.interrupt()
        result = first.wait()
        assert_clean(result)
        assert (result.exit_code, result.report["finish_reason"]) == (0, "shutdown")
        assert set(hosts.urls(1).values()) == {1}
        left = result.report["counts"]["pending"]
        assert left > HOSTILE / 2, "few of them were read in the meantime"
        hosts.large_pages = b""
        asked_first = hosts.sent.copy()
        hosts.sent.clear()
        result = crawl(tmp_path / "second", seeds, **settings)
    assert_clean(result)
    assert (result.exit_code, result.report["finish_reason"]) == (0, "finished")
    again = asked_first & hosts.sent
    assert 0 < again.total() <= HOSTILE  # the others were read in the second that the end may take
    assert all(url.startswith("http://127.0.2.") for url in again)
    counts = result.report["counts"]
    assert counts["crawled"] == (HOSTILE + HEALTHY) * PAGES
    assert counts["pending"] == counts["parser_failed"] == 0
