"""Shards move while a crawl runs; the servers' ledger judges all nodes as one."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from simweb import Running, running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.bus import BusError, bus_from
from webcrawl.cluster.errors import MoveError
from webcrawl.cluster.moving.mover import order

pytestmark = pytest.mark.slow
WORLD = (
    *("--seed", "6", "--hosts", "12", "--pages-per-host", "45", "--ip-delay", "0"),
    *("--features", "none,page-404,page-chunked", "--host-delay", "0.4"),
)


def node(folder: Path, web: Running, bus: NatsServer, **settings: Any) -> Crawl:
    settings = {"JOBDIR": folder / "job", "CLUSTER": bus.url, "IP_DELAY": 0} | settings
    return Crawl(folder, web=web, **settings)


def test_a_node_that_joins_late_gets_shards(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "bus") as bus, running(*WORLD) as web:
        first = node(tmp_path / "first", web, bus, CLUSTER_SHARDS=4, DOWNLOAD_DELAY=0.4)
        first.until("Shard 3 is begun")
        first.until(" C  ")
        late = node(tmp_path / "late", web, bus, CLUSTER_SHARDS=4, DOWNLOAD_DELAY=0.4)
        results = [first.wait(300), late.wait(300)]
        ledger = assert_faultless(web)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    assert "was moved to node" in results[0].log
    assert "has moved to this node" in results[1].log
    crawled = [result.report["counts"]["crawled"] for result in results]
    assert sum(crawled) == ledger["fetched"]["pages"]
    assert all(crawled)


def test_a_target_is_met_exactly_while_shards_move(tmp_path: Path) -> None:
    """Also by the counts of the reports: a shard that moves at the end is in one of them."""
    settings = {"CLUSTER_SHARDS": 4, "CLOSESPIDER_PAGECOUNT": 150, "CLUSTER_REBALANCE": 0}
    with NatsServer(tmp_path / "bus") as bus, running(*WORLD, "--host-delay", "0.1") as web:
        crawls = [node(tmp_path / name, web, bus, **settings) for name in ("first", "second")]
        for crawl in crawls:
            crawl.until("is begun on this node")
        asyncio.run(move_until_the_end(bus, crawls))
        results = [crawl.wait(300) for crawl in crawls]
        totals = web.ledger()["totals"]
    assert [result.exit_code for result in results] == [0, 0]
    assert sum(totals.get(f"pages_{kind}xx", 0) for kind in (2, 3, 4)) == 150
    assert sum(result.report["counts"]["crawled"] for result in results) == 150
    assert "was moved to node" in results[0].log + results[1].log


async def move_until_the_end(server: NatsServer, crawls: list[Crawl]) -> None:
    bus = bus_from(server.url, "webcrawl")
    await bus.open()
    names = [NodeStore(crawl.folder / "job").content.node for crawl in crawls]
    shard = 0
    while all(crawl.process.poll() is None for crawl in crawls):
        for giver, taker in (names, names[::-1]):
            with suppress(BusError, MoveError):  # it is not there, or the node ends
                await order(bus, giver, ["give", str(shard), taker], 5.0)
        shard = (shard + 1) % 4
        await asyncio.sleep(0.1)
    await bus.close()
