"""Memory and speed of a crawl whose frontier on disk has millions of URLs pending.

The frontier's store is first filled with URLs of the simulated web; then a crawl resumes with it.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from benchmarks import crawls
from benchmarks.crawls import (
    NotDone,
    Place,
    check,
    crawl,
    described_world,
    project_settings,
    say,
    serving,
)
from benchmarks.memory import TARGET_MB, resident
from simweb.model import World
from simweb.spec import Place as Page
from webcrawl.config import build
from webcrawl.frontier.lease import Link
from webcrawl.parse.urls import host_of

BATCH = 10_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pending", type=int, default=1_000_000, help="URLs in the frontier")
    parser.add_argument("--hosts", type=int, default=100_000, help="hosts of these URLs")
    parser.add_argument("--pages", type=int, default=20_000, help="pages to crawl")
    parser.add_argument("--fetches", type=int, default=500, help="concurrent fetches")
    parser.add_argument("--latency", type=float, default=0.4, help="server latency, seconds")


def measure(arguments: argparse.Namespace) -> str:
    pages_per_host = 3 * arguments.pending / arguments.hosts  # the smallest have 0.4 times that
    slow = ("--partial", f"--slowness={arguments.latency}", "--seeds=1")
    described = crawls.world(
        arguments.hosts, pages_per_host, *slow, features="host-plain=0,host-slow=1"
    )
    with serving(*described) as place:
        job = place.folder / "job"
        known = described_world(described, place.web)
        put = asyncio.run(fill(place, job, pages(known, arguments.pending)))
        if put != arguments.pending:
            raise NotDone(f"{put} URLs are pending, and must be {arguments.pending}")
        del known
        disk_gb = sum(path.stat().st_size for path in job.rglob("*")) / 1e9
        cost = crawl(
            place,
            seeds=place.one_seed(),
            JOBDIR=job,
            CONCURRENT_REQUESTS=arguments.fetches,
            CLOSESPIDER_PAGECOUNT=arguments.pages,
            STATS_INTERVAL=1,
        )
    check(cost)
    return (
        f"{arguments.pending} URLs pending on {arguments.hosts} hosts ({disk_gb:.2f} GB),"
        f" {cost.pages} pages at {cost.pages_per_s:.0f} pages/s, {cost.cpu_ms:.2f} ms CPU a page;"
        f" {resident(cost)} (target {TARGET_MB})"
    )


def pages(known: World, count: int) -> Iterator[str]:
    """The URLs of the first pages of each host, the same number per host."""
    hosts = known.spec.hosts
    each = -(-count // hosts)
    return islice(
        (known.url(Page(host, page)) for host in range(hosts) for page in range(each)), count
    )


async def fill(place: Place, job: Path, urls: Iterator[str]) -> int:
    """Put `urls` into the frontier of `job`; return how many were new."""
    frontier = build.frontier_from(project_settings(*place.settings(JOBDIR=job)))
    began = time.monotonic()
    done = 0
    while batch := [Link(url, host_of(url)) for url in islice(urls, BATCH)]:
        done += await frontier.put(batch, time.monotonic())
        if done % (50 * BATCH) == 0:
            say(f"  {done} URLs pending after {time.monotonic() - began:.0f} s")
    await frontier.close()
    return done
