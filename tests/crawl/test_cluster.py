"""One crawl by several nodes, on a real bus: the servers' ledger judges all of them as one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from simweb import running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless

pytestmark = pytest.mark.slow
WORLD = (
    *("--seed", "6", "--hosts", "30", "--pages-per-host", "8", "--ip-delay", "0"),
    *("--features", "none,page-404,page-chunked"),
)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path / "bus")
    server.start()
    yield server
    server.kill()


def test_addresses_are_shared_politely_by_the_shards_of_two_nodes(
    tmp_path: Path, bus: NatsServer
) -> None:
    """Each address has hosts of several shards, so the nodes take turns at it."""
    world = ("--seed", "6", "--hosts", "16", "--pages-per-host", "6", "--ips", "4")
    rules = ("--ip-delay", "0.3", "--host-delay", "0.3")
    with running(*world, *rules, "--features", "none,page-404") as web:
        crawls = [
            Crawl(
                tmp_path / f"node{number}",
                web=web,
                JOBDIR=tmp_path / f"node{number}" / "job",
                CLUSTER=bus.url,
                DOWNLOAD_DELAY=0.3,
                IP_DELAY=0.3,
            )
            for number in range(2)
        ]
        results = [crawl.wait(200) for crawl in crawls]
        ledger = assert_faultless(web)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    crawled = [result.report["counts"]["crawled"] for result in results]
    assert sum(crawled) == ledger["fetched"]["pages"]
    assert all(crawled)


def test_every_page_is_fetched_once_and_politely(tmp_path: Path, bus: NatsServer) -> None:
    """By three nodes; other tests have one node, and two."""
    with running(*WORLD, "--host-delay", "0.1") as web:
        crawls = [
            Crawl(
                tmp_path / f"node{number}",
                web=web,
                JOBDIR=tmp_path / f"node{number}" / "job",
                CLUSTER=bus.url,
                IP_DELAY=0,
            )
            for number in range(3)
        ]
        results = [crawl.wait(200) for crawl in crawls]
        ledger = assert_faultless(web)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    crawled = [result.report["counts"]["crawled"] for result in results]
    assert sum(crawled) == ledger["fetched"]["pages"]
    assert all(crawled)
