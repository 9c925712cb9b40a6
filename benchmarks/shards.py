"""CPU a page of the frontier and its mail: one frontier, one node with shards, several nodes.

One process, no servers: pages with links to hosts of random domains are leased and released, a few
in each turn, as a crawl does that is not short of CPU. The shards' couriers exchange mail over a
bus that costs nothing, in the time that the crawl would take. A crawl spends 1 to 2 ms of CPU on a
page in all.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import time
from pathlib import Path
from random import Random
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.crawls import NotDone, say
from benchmarks.mail import Hub
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.mail.courier import Courier
from webcrawl.cluster.mail.offsets import Offsets
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.disk.frontier import DiskFrontier
from webcrawl.frontier.lease import Fetched, Lane, Lease, Link, Outcome, Resolved
from webcrawl.frontier.politeness import Politeness

FOREVER = 1e12
POLICY = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0), obey_robots=False)
TICK_S = 0.1  # between two turns of the couriers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pages", type=int, default=6_000, help="of each crawl")
    parser.add_argument("--domains", type=int, default=3_000)
    parser.add_argument("--links", type=int, default=10, help="of a page, to other domains")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--nodes", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--rate", type=float, default=100.0, help="pages a second of all nodes")
    parser.add_argument("--turn", type=int, default=9, help="pages of a node's turn")
    parser.add_argument("--rounds", type=int, default=5)


def measure(arguments: argparse.Namespace) -> str:
    spent: dict[int, list[float]] = {nodes: [] for nodes in (0, *arguments.nodes)}
    for _ in range(arguments.rounds):
        for nodes, row in spent.items():
            with TemporaryDirectory(prefix="webcrawl-bench-") as name:
                row.append(asyncio.run(crawl(nodes, Path(name), arguments)))
            gc.collect()
            say(f"  {nodes or 'no'} nodes: {row[-1]:.0f} µs a page")
    plain = median(spent.pop(0))
    told = [
        f"{nodes} nodes {median(row):.0f}, {median(row) - plain:+.0f}"
        for nodes, row in spent.items()
    ]
    return (
        f"{arguments.pages} pages with {arguments.links} links to other domains, µs CPU a page:"
        f" one frontier {plain:.0f}; {arguments.shards} shards on {'; on '.join(told)}"
    )


class Crawl:
    """`nodes` frontiers; 0: a plain one."""

    def __init__(self, nodes: int, folder: Path, shards: int) -> None:
        self.hub = Hub()
        self.couriers: list[Courier] = []
        self.frontiers: list[Frontier] = []
        if not nodes:
            self.frontiers.append(DiskFrontier(folder, POLICY, now=1.0))
        buckets, crews = Buckets(shards), [dict[int, Courier]() for _ in range(nodes)]
        clusters = [ClusterFrontier(buckets) for _ in range(nodes)]
        for number in range(shards if nodes else 0):
            cluster, crew = clusters[number % nodes], crews[number % nodes]
            abroad = buckets.abroad(number)
            cluster.add(number, DiskFrontier(folder / str(number), POLICY, now=1.0, abroad=abroad))
            self.couriers.append(
                Courier(
                    *(number, 1, "x", cluster.mailbox(number), self.hub),
                    shards=shards,
                    offsets=Offsets(None),
                    node=crew,
                )
            )
        self.frontiers += clusters

    async def carry(self, now: float) -> None:
        """The couriers' turns at `now`."""
        for courier in self.couriers:
            await courier.turn(now)
        self.hub.deliver()


async def crawl(nodes: int, folder: Path, arguments: argparse.Namespace) -> float:
    """µs of CPU time a page."""
    crawl = Crawl(nodes, folder, arguments.shards)
    for courier in crawl.couriers:
        await courier.open()
    web = Web(arguments.domains, arguments.links)
    seeds = [web.link(n) for n in range(arguments.domains)]
    for frontier in crawl.frontiers:
        await frontier.put(seeds, 1.0)
    for at in range(2, 9):
        await crawl.carry(float(at))
    for frontier in crawl.frontiers:
        await admit(frontier)
    turn_s = arguments.turn * max(nodes, 1) / arguments.rate
    now, carried_at, pages, spent_s = 10.0, 10.0, 0, 0.0
    while pages < arguments.pages:
        now += turn_s
        for frontier in crawl.frontiers:
            began = time.process_time()
            leases = await frontier.acquire(1.0, arguments.turn)
            spent_s += time.process_time() - began
            done = [(lease, web.page()) for lease in leases]
            began = time.process_time()
            await frontier.release(done, 1.0)
            spent_s += time.process_time() - began
            pages += len(leases)
        began = time.process_time()
        while carried_at < now:
            carried_at += TICK_S
            await crawl.carry(carried_at)
        spent_s += time.process_time() - began
    for _ in range(200):
        now += 1.0
        await crawl.carry(now)
        if not any(courier.unapplied for courier in crawl.couriers):
            break
    counters = [frontier.counters for frontier in crawl.frontiers]
    found = sum(n for each in counters for level, n in each.levels.items() if "found" in level)
    for frontier in crawl.frontiers:
        await frontier.close()
    if found != len(web.made) or pages != sum(each.crawled for each in counters):
        raise NotDone(f"{found} of {len(web.made)} URLs arrived")
    return 1e6 * spent_s / pages


async def admit(frontier: Frontier) -> None:
    """Resolve all hosts."""
    while leases := await frontier.acquire(1.0, 500, Lane.ADMISSIONS):
        await frontier.release([(lease, resolved(lease)) for lease in leases], 1.0)


def resolved(lease: Lease) -> Outcome:
    return Resolved((f"ip of {lease.host}",), FOREVER)


class Web:
    """Pages with new links. `made`: all URLs."""

    def __init__(self, domains: int, links: int) -> None:
        self._random = Random(7)
        self._domains = domains
        self._links = links
        self.made: list[str] = []

    def link(self, domain: int, via: str = "") -> Link:
        host = f"www.site-{domain}.com"
        url = f"https://{host}/section/article-{len(self.made)}/some-words-of-a-title"
        self.made.append(url)
        return Link(url, host, 1, via=via)

    def page(self) -> Outcome:
        via = "https://www.example.com/some/other/page-with-links.html"
        draw = self._random.randrange
        links = tuple(self.link(draw(self._domains), via) for _ in range(self._links))
        return Fetched(200, 0.5, 0.5, links)
