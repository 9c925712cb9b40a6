"""Shards move while a crawl runs; the servers' ledger judges all nodes as one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simweb import Running, running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless

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
        results = [first.wait(120), late.wait(60)]
        ledger = assert_faultless(web)
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)
    assert "was moved to node" in results[0].log
    assert "has moved to this node" in results[1].log
    crawled = [result.report["counts"]["crawled"] for result in results]
    assert sum(crawled) == ledger["fetched"]["pages"]
    assert all(crawled)
