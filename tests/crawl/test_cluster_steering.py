"""Crawls on several nodes that are joined, left, steered and ended, on a real bus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simweb import Running, faults, running
from tests.contracts.natsserver import NatsServer
from tests.crawl.crawling import Result, assert_clean
from tests.crawl.steered import Steered
from webcrawl.report.card import read_card

pytestmark = pytest.mark.slow
WORLD = (
    *("--seed", "6", "--hosts", "16", "--seeds", "16", "--pages-per-host", "8", "--menu", "3"),
    *("--features", "none,page-404,page-gzip", "--ip-delay", "0", "--host-delay", "0.3"),
)
PAUSE_S = 1.5


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


def node(folder: Path, bus: NatsServer, web: Running, **settings: Any) -> Steered:
    chosen = {"CLUSTER": bus.url, "CLUSTER_SHARDS": 4, "IP_DELAY": 0, "DOWNLOAD_DELAY": 0.3}
    return Steered(folder, web=web, **(chosen | settings))


def assert_ended(*results: Result) -> None:
    for result in results:
        assert result.exit_code == 0, result.log[-3000:]
        assert_clean(result)


def test_a_command_holds_for_all_nodes_and_one_that_leaves_is_waited_for(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD) as web:
        one, other = (node(tmp_path / name, bus, web) for name in "ab")
        for each in (one, other):
            each.until("is begun on this node")
        one.after(10)
        assert one.ctl("pause").startswith("paused on 2 nodes: no request is sent until resume")
        paused_at = time.monotonic()
        assert other.ctl("status").startswith("paused: ")
        denied = web.seeds[-1].split("/")[2].split(":")[0]
        assert other.ctl("deny", denied).startswith("1 entry added on 2 nodes: ")
        time.sleep(PAUSE_S)
        assert one.requests_since(paused_at) == []
        assert other.ctl("resume") == "resumed on 2 nodes"
        one.until_true(lambda: len(one.requests_since(paused_at)) > 5)

        other.interrupt()
        assert_ended(other.wait(300))
        refused = node(tmp_path / "c", bus, web, MAX_PAGES_PER_HOST=3).wait(300)
        assert refused.exit_code == 2
        line = refused.log.splitlines()[-1]
        assert line.startswith("CLUSTER: MAX_PAGES_PER_HOST = 3, and the nodes of the crawl ")
        one.until("Nothing is left to do here: the crawl waits for shards ")

        back = node(tmp_path / "b", bus, web)
        back.until(f"steering: deny {denied}, from ")
        assert_ended(one.wait(120), back.wait(120))
        assert not [url for url in one.requests_since(paused_at) if url.startswith(denied)]
        assert [line for line in faults(web.ledger()) if " pages missing" not in line] == []


def test_a_stop_ends_all_nodes_and_the_target_is_that_of_all_runs(
    tmp_path: Path, bus: NatsServer
) -> None:
    with running(*WORLD) as web:
        nodes = [node(tmp_path / name, bus, web, CLOSESPIDER_PAGECOUNT=60) for name in "ab"]
        for each in nodes:
            each.until("is begun on this node")
        nodes[0].after(10)
        assert nodes[0].ctl("stop").startswith("stopping on 2 nodes: ")
        assert_ended(*(each.wait(300) for each in nodes))
        again = [node(tmp_path / name, bus, web, CLOSESPIDER_PAGECOUNT=60) for name in "ab"]
        results = [each.wait(120) for each in again]
        assert_ended(*results)
        assert sum(result.report["counts"]["crawled"] for result in results) == 60
        cards = [read_card(each.jobdir) for each in again]
        assert len({card.crawl for card in cards if card}) == 1
        assert [line for line in faults(web.ledger()) if " pages missing" not in line] == []
