"""A hub with fetchers, compared with a hub alone, and with a crawl without a bus: CPU a page.

All crawl the same web on this machine to its end, with the frontier on disk. The CPU time is that
of all processes; the start of each (a crawl of one page) is not in it. That of the nats-server is
told apart.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.crawls import (
    Cost,
    NotDone,
    Place,
    by_ledger,
    check_end,
    crawl,
    ratio,
    serving,
    start_up,
    taking_turns,
    world,
)
from benchmarks.processes import Bus, NoBus, Process, serving_bus

LONGEST_S = 1800.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=200, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=40, help="average pages per host")
    parser.add_argument("--turns", type=int, default=2, help="runs of each crawl")
    parser.add_argument("--fetchers", type=int, default=2)


def measure(arguments: argparse.Namespace) -> str:
    described = world(arguments.hosts, arguments.pages_per_host)
    with serving(*described) as place:
        try:
            with serving_bus(place.folder / "bus") as bus:
                by_hub = partial(crawl_by_hub, place, bus)
                runs = {
                    "without a bus": partial(crawl_alone, place),
                    "a hub alone": partial(by_hub, 0),
                    "with fetchers": partial(by_hub, arguments.fetchers),
                }
                one = {"seeds": place.one_seed(), "FOLLOW_LINKS": 0}
                start_s = start_up(
                    {name: partial(runs[name], **one) for name in ("without a bus", "a hub alone")}
                )
                start_s["with fetchers"] = (1 + arguments.fetchers) * start_s["a hub alone"]
                before_s = bus.process.cpu_so_far_s()
                costs = taking_turns(runs, arguments.turns)
                bus_s = bus.process.cpu_so_far_s() - before_s
        except NoBus as reason:
            raise NotDone(str(reason)) from None
    return told(costs, start_s, bus_s, arguments.fetchers)


def told(
    costs: Mapping[str, list[Cost]], start_s: Mapping[str, float], bus_s: float, fetchers: int
) -> str:
    lean = {name: [c.lean_ms(start_s[name]) for c in row] for name, row in costs.items()}
    alone, hub, several = lean.values()
    served = sum(cost.pages for cost in costs["with fetchers"])
    return (
        f"{costs['with fetchers'][0].pages} pages: without a bus {median(alone):.2f} ms CPU a page;"
        f" a hub alone {ratio(hub, alone):.2f} times; a hub and {fetchers} fetchers"
        f" {ratio(several, alone):.2f} times; bus {1000 * bus_s / served:.3f} ms"
    )


def crawl_alone(place: Place, **settings: Any) -> Cost:
    return crawl(place, JOBDIR=place.crawled / "job", **settings)


def crawl_by_hub(
    place: Place, bus: Bus, fetchers: int, *, seeds: Path | None = None, **settings: Any
) -> Cost:
    """Run a hub and its fetchers to the end of the crawl, with a new ledger. NotDone."""
    shutil.rmtree(place.crawled, ignore_errors=True)
    place.web.reset()
    began, url = time.monotonic(), f"{bus.url}/bench-{time.time_ns()}"
    running = []
    try:
        for number in range(1 + fetchers):
            folder = place.crawled / str(number)
            folder.mkdir(parents=True)
            own = {} if number else {"JOBDIR": folder / "job"}
            options = place.settings(CLUSTER=url, WARC_DIR=folder, **own, **settings)
            command = ["scrapy", "crawl", "broad"]
            command += [] if number else ["-a", f"seeds={seeds or place.seeds}"]
            command += [part for option in options for part in ("-s", option)]
            running.append(Process([sys.executable, "-m", *command], folder / "log.txt"))
        for process in running:
            code = process.wait(LONGEST_S)
            check_end("a process", code, process.log.read_text(errors="replace"))
    finally:
        for process in running:
            process.kill()
    cpu_s = sum(process.cpu_s for process in running)
    return by_ledger(place, cpu_s, time.monotonic() - began, [])
