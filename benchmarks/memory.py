"""Memory of a long crawl with 500 concurrent fetches: is it bounded, and does it stay flat?

The servers answer slowly, so that all these fetches are in progress at the speed that the processor
allows. The line has the peak of open connections at the servers.
"""

from __future__ import annotations

import argparse

from benchmarks.crawls import Cost, check, crawl, serving, world

TARGET_MB = 200
SPEED_TARGET = 1000  # pages per second, sustained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=100_000, help="pages of the crawl")
    parser.add_argument("--hosts", type=int, help="hosts of the web (default: one per 20 pages)")
    parser.add_argument("--fetches", type=int, default=500, help="concurrent fetches")
    parser.add_argument("--latency", type=float, default=0.4, help="server latency, seconds")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")


def measure(arguments: argparse.Namespace) -> str:
    hosts = arguments.hosts or max(arguments.pages // 20, 2 * arguments.fetches)
    slow = ("--partial", f"--slowness={arguments.latency}")  # seconds
    features = "host-plain=0,host-slow=1"
    with serving(*world(hosts, 40, *slow, features=features)) as place:
        cost = crawl(
            place,
            CONCURRENT_REQUESTS=arguments.fetches,
            CLOSESPIDER_PAGECOUNT=arguments.pages,
            FRONTIER_STORE=arguments.store,
            STATS_INTERVAL=1,
        )
    check(cost)
    return (
        f"{cost.pages} pages from {cost.ledger['fetched']['hosts']} hosts at"
        f" {cost.pages_per_s:.0f} pages/s (target {SPEED_TARGET}),"
        f" {cost.cpu_ms:.2f} ms CPU a page; {resident(cost)} (target {TARGET_MB})"
    )


def resident(cost: Cost) -> str:
    """RSS during the crawl, and its peak."""
    parts = (
        f"{next(s.rss_mb for s in cost.samples if s.pages >= part * last(cost)):.0f} MB at"
        f" {100 * part:.0f} %"
        for part in (0.2, 0.6, 1.0)
    )
    return (
        f"{cost.ledger['most_open']} connections at once at most; RSS {', '.join(parts)},"
        f" {cost.peak_mb:.0f} MB at most"
    )


def last(cost: Cost) -> int:
    """The pages in the last stats line."""
    return cost.samples[-1].pages
