"""Concurrency: the same number of pages with 8, 16 ... 512 concurrent fetches.

Every server delays each answer, so with few concurrent fetches the crawler mostly waits. The sweep
shows where the processor becomes the limit, and the cost of a page beyond that point.
"""

from __future__ import annotations

import argparse
from functools import partial

from benchmarks.crawls import check_same, crawl, say, serving, world


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=1000, help="pages at each concurrency")
    parser.add_argument("--hosts", type=int, default=2000, help="hosts of the simulated web")
    parser.add_argument("--latency", type=float, default=0.1, help="server latency, seconds")
    parser.add_argument(
        "--fetches", type=int, nargs="+", default=[8 << n for n in range(7)], help="concurrency"
    )


def measure(arguments: argparse.Namespace) -> str:
    slow = ("--partial", f"--slowness={arguments.latency}")  # seconds
    costs = {}
    with serving(*world(arguments.hosts, 10, *slow, features="host-plain=0,host-slow=1")) as place:
        once = partial(crawl, place, CLOSESPIDER_PAGECOUNT=arguments.pages)
        for fetches in arguments.fetches:
            cost = once(CONCURRENT_REQUESTS=fetches, CONCURRENT_ADMISSIONS=fetches)
            costs[fetches] = cost
            say(
                f"  {fetches:4} at once: {cost.report['elapsed_s']:6.1f} s,"
                f" {cost.pages_per_s:6.1f} pages/s, {cost.cpu_ms:.2f} ms CPU a page,"
                f" {cost.report['counts']['page_bytes'] / 1e6:.1f} MB"
            )
    check_same(costs.values())
    rates = ", ".join(f"{fetches}: {cost.pages_per_s:.0f}" for fetches, cost in costs.items())
    first, last = costs[arguments.fetches[0]], costs[arguments.fetches[-1]]
    return (
        f"{arguments.pages} pages each, servers of {arguments.latency:g} s; pages/s by fetches at"
        f" once: {rates}; {first.cpu_ms:.2f} to {last.cpu_ms:.2f} ms CPU a page"
    )
