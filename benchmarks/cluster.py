"""A crawl of three nodes, compared with one node, and with a crawl without a bus: CPU a page.

All crawl the same web on this machine to its end, with the frontier on disk. The CPU time is that
of all nodes with their children; the start of each (a crawl of one page) is not in it. That of the
nats-server is told apart. `mail` has the cost of a link without a bus.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.crawls import (
    PREPARED,
    Cost,
    NotDone,
    Place,
    crawl,
    ratio,
    say,
    serving,
    taking_turns,
    world,
)
from benchmarks.nodes import Bus, NoBus, Process, serving_bus

TARGET = 1.10
LONGEST_S = 1800.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=200, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=40, help="average pages per host")
    parser.add_argument("--turns", type=int, default=2, help="runs of each crawl")
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--shards", type=int, default=8, help="CLUSTER_SHARDS")


def measure(arguments: argparse.Namespace) -> str:
    described = world(arguments.hosts, arguments.pages_per_host, PREPARED)
    nodes, shards = arguments.nodes, arguments.shards
    with serving(*described) as place:
        try:
            with serving_bus(place.folder / "bus") as bus:
                traffic = Traffic(bus)
                several = partial(crawl_by_nodes, place, bus, shards)
                runs = {
                    "without a bus": partial(crawl_alone, place),
                    "one node": partial(several, 1),
                    "nodes": partial(traffic.of, partial(several, nodes)),
                }
                one = {"seeds": place.one_seed(), "FOLLOW_LINKS": 0}
                start_s = {
                    name: started(name, partial(runs[name], **one)) for name in list(runs)[:2]
                }
                start_s["nodes"] = nodes * start_s["one node"]
                costs = taking_turns(runs, arguments.turns)
        except NoBus as reason:
            raise NotDone(str(reason)) from None
    lean = {name: [c.lean_ms(start_s[name]) for c in row] for name, row in costs.items()}
    whole = {name: [c.cpu_ms for c in row] for name, row in costs.items()}
    alone, one_node, all_nodes = lean.values()
    return (
        f"{costs['nodes'][0].pages} pages, {shards} shards: without a bus {median(alone):.2f} ms"
        f" CPU a page; one node {ratio(one_node, alone):.2f} times; {nodes} nodes"
        f" {ratio(all_nodes, alone):.2f} times, {ratio(all_nodes, one_node):.2f} times one node"
        f" (target {TARGET:.2f}); with their starts"
        f" {ratio(whole['nodes'], whole['without a bus']):.2f} times; bus: {traffic.told(costs)}"
    )


class Traffic:
    """What the nats-server did in crawls."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self.runs: list[dict[str, float]] = []

    def of(self, run: partial[Cost], **more: Any) -> Cost:
        before, began_s = self._bus.figures(), self._bus.process.cpu_so_far_s()
        cost = run(**more)
        after = self._bus.figures()
        figures = {name: after[name] - before[name] for name in ("in_msgs", "in_bytes")}
        self.runs.append(figures | {"cpu_s": self._bus.process.cpu_so_far_s() - began_s})
        return cost

    def told(self, costs: Mapping[str, list[Cost]]) -> str:
        pages = costs["nodes"][0].pages
        sums = {name: median(run[name] for run in self.runs) for name in self.runs[0]}
        return (
            f"{1000 * sums['cpu_s'] / pages:.3f} ms CPU, {sums['in_msgs'] / pages:.2f} messages"
            f" and {sums['in_bytes'] / pages:.0f} bytes a page"
        )


def started(name: str, run: partial[Cost]) -> float:
    """CPU seconds of a crawl of one page."""
    cost = run()
    if cost.pages != 1:
        raise NotDone(f"{name} was answered {cost.pages} pages, not one")
    say(f"  {name} starts in {cost.cpu_s:.2f} s CPU")
    return cost.cpu_s


def crawl_alone(place: Place, **settings: Any) -> Cost:
    return crawl(place, JOBDIR=place.crawled / "job", **settings)


def crawl_by_nodes(
    place: Place, bus: Bus, shards: int, nodes: int, *, seeds: Path | None = None, **settings: Any
) -> Cost:
    """Run all nodes to the end of the crawl, with a new ledger. NotDone."""
    shutil.rmtree(place.crawled, ignore_errors=True)
    place.web.reset()
    began = time.monotonic()
    shared = {
        "CLUSTER": bus.url,
        "CLUSTER_NAME": f"bench-{time.time_ns()}",
        "CLUSTER_SHARDS": shards,
    }
    running = []
    try:
        for number in range(nodes):
            folder = place.crawled / str(number)
            folder.mkdir(parents=True)
            own = {"WARC_DIR": folder, "JOBDIR": folder / "job"}
            options = place.settings(**shared, **own, **settings)
            command = ["scrapy", "crawl", "broad", "-a", f"seeds={seeds or place.seeds}"]
            command += [part for option in options for part in ("-s", option)]
            running.append(Process([sys.executable, "-m", *command], folder / "log.txt"))
        for process in running:
            code = process.wait(LONGEST_S)
            log = process.log.read_text(errors="replace")
            if code or "Traceback" in log or " ERROR: " in log:
                raise NotDone(f"a node ended with {code}: {log[-2000:]}")
    finally:
        for process in running:
            process.kill()
    ledger = place.web.ledger()
    pages = sum(n for name, n in ledger["totals"].items() if re.fullmatch(r"pages_\dxx", name))
    if not pages:
        raise NotDone("the nodes were answered no page")
    cpu_s = sum(process.cpu_s for process in running)
    return Cost(pages, cpu_s, time.monotonic() - began, [], ledger)
