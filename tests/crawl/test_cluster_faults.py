"""Nodes and the bus of one crawl die; the servers' ledger judges all their runs as one crawl."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from simweb import running
from tests.contracts.natsserver import NatsServer
from tests.contracts.slowproxy import SlowProxy
from tests.crawl.nodes import Node, assert_one_crawl_of_nodes
from webcrawl.cluster.agreement.members import STALE_S

pytestmark = pytest.mark.slow

SHARDS = 4
FEATURES = "none,page-30*,page-404,page-chunked,page-gzip,robots-none"
WORLD = ("--seed", "6", "--hosts", "30", "--pages-per-host", "8", "--features", FEATURES)
SMALL = (*WORLD, "--hosts", "10")
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0")


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    """Those that a test adds are killed after it."""
    nodes: list[Node] = []
    yield nodes
    for node in nodes:
        if node.crawl.process.poll() is None:
            node.send(signal.SIGKILL)


def wait_until(condition: Callable[[], object], nodes: Sequence[Node]) -> None:
    deadline = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < deadline, [node.log[-2000:] for node in nodes]
        time.sleep(0.05)


def test_nodes_and_the_bus_are_killed(tmp_path: Path, bus: NatsServer, nodes: list[Node]) -> None:
    """A shard whose folder is missing is not begun again: its node ends, and the others wait."""
    with running(*WORLD, *PROMISES) as web:
        nodes += [
            Node(tmp_path / f"node{number}", web, bus, CLUSTER_SHARDS=SHARDS) for number in range(2)
        ]
        first, second = nodes
        first.start()
        second.start()
        begun = "is begun on this node"
        wait_until(lambda: (first.log + second.log).count(begun) == SHARDS, nodes)
        wait_until(lambda: web.totals().get("pages", 0) > 30, nodes)
        killed = first if begun in first.log else second
        killed.kill()
        shard = min((killed.job / "shards").iterdir())
        shard.rename(tmp_path / "aside")
        killed.start()
        refused = killed.wait(300)
        assert refused.exit_code == 1
        (line,) = [line for line in refused.log.splitlines() if " ERROR: " in line]
        assert f"{shard} is missing" in line
        assert not shard.exists()
        killed.end_run()
        bus.kill()
        bus.start()
        (tmp_path / "aside").rename(shard)
        killed.start()
        killed.crawl.until("is resumed on this node")
        for node in nodes:
            node.kill()
        bus.kill()
        for node in nodes:
            node.start()
        bus.start()
        results = [node.wait() for node in nodes]
        assert_one_crawl_of_nodes(web, nodes, results)


def test_a_kill_before_the_folder_of_a_new_shard_is_on_the_disk(
    tmp_path: Path, bus: NatsServer, nodes: list[Node]
) -> None:
    """Nothing was put into the shard, so the next run begins it."""
    points = "before-open:1,after-open:1,after-commit:1,after-folder:1"
    with running(*SMALL, *PROMISES) as web:
        nodes.append(Node(tmp_path / "node", web, bus, CLUSTER_SHARDS=SHARDS))
        kills = str(tmp_path / "kills.jsonl")
        program = ("tests.crawl.faulty", points, kills, str(web.port), "--")
        nodes[0].start(program=program)
        result = nodes[0].wait()
        assert Path(kills).read_text().count("\n") == 4
        assert_one_crawl_of_nodes(web, nodes, [result])


def test_a_node_whose_bus_is_silent_asks_nobody(
    tmp_path: Path, bus: NatsServer, nodes: list[Node]
) -> None:
    with running(*SMALL, *PROMISES) as web:
        nodes.append(Node(tmp_path / "node", web, bus, CLUSTER_SHARDS=SHARDS, CRAWL_PROCESSES=2))
        nodes[0].start()
        wait_until(lambda: web.totals().get("pages", 0) > 10, nodes)
        bus.send(signal.SIGSTOP)
        nodes[0].send(signal.SIGSTOP)  # in which its time without a bus goes on
        time.sleep(STALE_S)
        asked = web.totals()["requests"]
        nodes[0].send(signal.SIGCONT)
        time.sleep(2)
        assert web.totals()["requests"] == asked
        bus.send(signal.SIGCONT)
        assert_one_crawl_of_nodes(web, nodes, [nodes[0].wait()])


def test_a_slow_bus_stops_no_node(tmp_path: Path, bus: NatsServer, nodes: list[Node]) -> None:
    """Not all calls of two rounds end within `members.STALE_S`: a call takes 0.8 s."""
    with running(*SMALL, *PROMISES) as web, SlowProxy(bus.port, 0.4) as proxy:
        nodes.append(Node(tmp_path / "node", web, proxy.url, CLUSTER_SHARDS=1))
        nodes[0].start()
        wait_until(lambda: web.totals().get("pages", 0) > 10, nodes)
        time.sleep(2 * STALE_S)
        assert nodes[0].log.count("The bus does not answer") <= 1, "at its start"
