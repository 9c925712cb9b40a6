"""Time and memory of the frontier as it grows: put, acquire, release, without a network.

Links are put, leased and released as fast as possible, with delays of 0. Host names have the usual
length. Each page has links to random hosts: new URLs, and with `--known` also URLs put before. With
several `--order` the orders take turns, and are compared.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count, islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.crawls import say
from webcrawl.frontier.base import Policy
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.database import size_bytes
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    Step,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.politeness import Politeness
from webcrawl.live.machine import process_stats
from webcrawl.parse.robots import RobotsRules

FOREVER = 1e12
BATCH = 1000
LINKS = 10  # new ones of a page
TURN = 50  # leases per acquire, as in a turn of the scheduler's pump
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ndisallow: /*.cgi\n", "webcrawl")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--urls", type=int, default=1_000_000, help="URLs that are put")
    parser.add_argument("--hosts", type=int, default=100_000, help="their hosts")
    parser.add_argument("--active", type=int, default=50_000, help="FRONTIER_ACTIVE_HOSTS")
    parser.add_argument("--pages", type=int, default=20_000, help="pages leased at each size")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")
    parser.add_argument("--folder", type=Path, help="for the store (default: a temporary folder)")
    parser.add_argument("--known", type=int, default=0, help="links per page to known URLs")
    parser.add_argument(
        "--order", choices=ORDERINGS, nargs="+", default=["level"], help="FRONTIER_ORDER"
    )
    parser.add_argument("--rounds", type=int, default=1, help="runs of each order")


def measure(arguments: argparse.Namespace) -> str:
    spent_s: dict[str, list[float]] = defaultdict(list)
    last = ""
    for order in arguments.order * arguments.rounds:
        with TemporaryDirectory(dir=arguments.folder) as folder:
            began = time.process_time()
            last = run(order, arguments, Path(folder) / "frontier")
            spent_s[order].append(time.process_time() - began)
    first, *others = arguments.order
    compared = [f"{o}: {min(spent_s[o]) / min(spent_s[first]):.2f} times {first}" for o in others]
    return f"CPU of all threads; {'; '.join(compared) or last}"


def run(order: str, arguments: argparse.Namespace, folder: Path) -> str:
    """Put URLs up to each power of ten, and crawl there. The line of the largest size."""
    store = Store(folder if arguments.store == "disk" else None)
    policy = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0))
    state = CrawlState(store, policy, ordering=ORDERINGS[order](), active_max=arguments.active)
    links = RandomLinks(Random(1), arguments.hosts, arguments.known)
    line, size, known = "", max(arguments.urls // 100, BATCH), 0
    while known < arguments.urls:
        more = min(size, arguments.urls) - known
        began = time.process_time()
        put(state, islice(links.seeds(), more))
        put_us = 1e6 * (time.process_time() - began) / more
        known += more
        times = work(state, links, arguments.pages)
        disk = size_bytes(folder) // 1_000_000 if folder.exists() else 0
        rss_mb = process_stats({})["main"].rss_bytes // 1_000_000
        line = (
            f"{order}, {known:,} URLs: {rss_mb} MB memory, {disk:,} MB disk; µs: put {put_us:.1f},"
            f" acquire {times['acquire']:.1f}, release {times['release']:.1f} with"
            f" {LINKS + arguments.known} links at most"
        )
        say(f"  {line}")
        size *= 10
    store.close()
    return line


class RandomLinks:
    """Links to URLs of random hosts.

    Three in four of a page's known URLs are on its own host. The others are on any host; URLs made
    earlier are linked to more often."""

    def __init__(self, random: Random, hosts: int, known: int) -> None:
        self._random = random
        self._hosts = hosts
        self._known = known
        self._numbers = count()
        self._made: list[str] = []
        self._of_host: dict[str, list[str]] = defaultdict(list)

    def seeds(self) -> Iterator[Link]:
        while True:
            yield Link(*self._new())

    def of_page(self, host: str) -> tuple[Link, ...]:
        random, made, near = self._random.random, self._made, self._of_host.get(host, ())
        on_host = self._known * 3 // 4
        links = [self._new() for _ in range(LINKS)]
        links += [(near[int(len(near) * random())], host) for _ in range(on_host)]
        for _ in range(self._known - on_host):
            url = made[int(len(made) * random() ** 3)]
            links.append((url, url.split("/", 3)[2]))
        via = "http://www.example.com/some/other/page.html"
        return tuple(Link(url, host, 1, via=via) for url, host in dict(links).items())

    def _new(self) -> tuple[str, str]:
        random = self._random
        host = f"www.host-{random.randrange(self._hosts)}.example.com"
        path = "/".join(("section", "article", "page")[: random.randrange(4)])
        url = f"http://{host}/{path}/{next(self._numbers)}.html"
        if self._known:  # otherwise all memory belongs to the frontier
            self._made.append(url)
            self._of_host[host].append(url)
        return url, host


def put(state: CrawlState, links: Iterator[Link]) -> None:
    while batch := list(islice(links, BATCH)):
        state.put(batch, 1.0)


def work(state: CrawlState, links: RandomLinks, pages: int) -> dict[str, float]:
    """Fetch this many pages; the µs per page of each call, admissions not counted."""
    spent_s, done = {"acquire": 0.0, "release": 0.0}, 0

    def timed(name: str, call: Callable[[], Any]) -> Any:
        began = time.process_time()
        result = call()
        spent_s[name] += time.process_time() - began
        return result

    while done < pages:
        for _ in range(4):  # until TURN pages are ready, or no host is left
            for lease in state.acquire(1.0, TURN, Lane.ADMISSIONS):
                state.release([(lease, admitted(lease))], 1.0)
        leases = timed("acquire", partial(state.acquire, 1.0, TURN))
        outcomes = [(each, Fetched(200, 0.5, 0.5, links.of_page(each.host))) for each in leases]
        timed("release", partial(state.release, outcomes, 1.0))
        done += len(leases)
    return {name: 1e6 * seconds / done for name, seconds in spent_s.items()}


def admitted(lease: Lease) -> Outcome:
    if lease.step is Step.RESOLVE:
        return Resolved((f"10.{hash(lease.host) % 255}.1.1",), FOREVER)
    return RobotsFetched(RULES, FOREVER, 0.5, 0.5)
