"""The frontier on disk compared with the one in memory, on the same crawl, without the start."""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median

from benchmarks.crawls import PREPARED, crawl, ratio, serving, start_up, taking_turns, world

STORES = ("memory", "disk")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=500, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=20, help="average pages per host")
    parser.add_argument("--turns", type=int, default=3, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    with serving(*world(arguments.hosts, arguments.pages_per_host, PREPARED)) as place:
        one = partial(crawl, place, seeds=place.one_seed(), FOLLOW_LINKS=0)
        start_s = start_up({store: partial(one, FRONTIER_STORE=store) for store in STORES})
        costs = taking_turns(
            {store: partial(crawl, place, FRONTIER_STORE=store) for store in STORES},
            arguments.turns,
        )
    memory, disk = ([cost.lean_ms(start_s[store]) for cost in costs[store]] for store in STORES)
    rates = {store: median(cost.pages_per_s for cost in costs[store]) for store in STORES}
    peaks = {store: max(cost.peak_mb for cost in costs[store]) for store in STORES}
    return (
        f"{costs['disk'][0].pages} pages: disk {median(disk):.2f} ms CPU a page, memory"
        f" {median(memory):.2f}, {ratio(disk, memory):.2f} times; {rates['disk']:.0f} and"
        f" {rates['memory']:.0f} pages/s, at most {peaks['disk']:.0f} and {peaks['memory']:.0f} MB"
    )
