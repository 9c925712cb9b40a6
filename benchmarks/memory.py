"""Memory of a long crawl with 500 fetches at once: is it bounded, and does it stay flat?

The servers take their time, so that so many fetches are under way at the speed that the processor
allows; the most connections that were open at the servers are in the line.
"""

from __future__ import annotations

import argparse

from benchmarks.crawls import Cost, check, crawl, serving, world

TARGET_MB = 200
SPEED_TARGET = 1000  # pages a second, sustained


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=100_000, help="of the crawl")
    parser.add_argument("--hosts", type=int, help="of the web (default: one for 20 pages)")
    parser.add_argument("--fetches", type=int, default=500, help="at once")
    parser.add_argument("--latency", type=float, default=0.4, help="of the servers, in seconds")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")


def measure(arguments: argparse.Namespace) -> str:
    hosts = arguments.hosts or max(arguments.pages // 20, 2 * arguments.fetches)
    slow = ("--partial", f"--slowness={arguments.latency}")  # of a second
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
    """RSS on the way, and at most."""
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
    """Pages of the last stats line."""
    return cost.samples[-1].pages
