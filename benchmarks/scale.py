"""The plan for 15 billion pages in four weeks: a model of 4 to 1,000 nodes. It crawls nothing.

Domains of the sizes that Common Crawl publishes, or those of a list of URLs, go to shards as a
crawl's do. Each node serves all its hosts equally, with their delay. docs/machines.md has the
results.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.crawls import NotDone, say
from benchmarks.scale_model import (
    BUCKETS,
    Course,
    Hosts,
    Prices,
    address_writes,
    buckets_of,
    by_size,
    dealt,
    heartbeats,
    imbalance,
    joined,
    monthly,
    needs,
    pages_of,
    ranges,
    time_of_share,
    totals,
    traffic,
)
from benchmarks.scale_web import Domains, common_crawl, of_list, with_budgets, with_heavy
from webcrawl.settings import DOWNLOAD_DELAY, FRONTIER_ACTIVE_HOSTS
from webcrawl.tools.sweep.plots import Line, Panel, save

DAY_S = 86_400.0
NODES = (4, 8, 12, 16, 32, 64, 128, 256, 512, 1000)
SLOW_HOLD_S = 5.0  # what a longer wait would bring


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pages", type=float, default=15e9, help="pages of the crawl")
    add("--days", type=float, default=28, help="days of the crawl")
    add("--nodes", type=int, nargs="+", default=NODES, help="numbers of nodes")
    add("--shards-per-node", type=int, nargs="+", default=[8], help="numbers of shards per node")
    add("--node-rate", type=float, default=800, help="pages/s of a node (measured: two cores)")
    add("--delay", type=float, default=DOWNLOAD_DELAY, help="seconds between pages of a host")
    add("--urls-per-page", type=float, default=6.5, help="known URLs per page (IRLbot: 41 of 6.3)")
    add("--links", type=float, default=10, help="links per page to other domains, after filters")
    add("--heavy", type=float, default=0.1, help="share of all URLs of one more domain")
    add("--domain-budget", type=float, default=1e6, help="pages per domain at most")
    add("--host-budget", type=float, default=80_000, help="pages per host at most")
    add("--list", type=Path, help="URLs in place of Common Crawl's counts, one a line")
    add("--even-hosts", action="store_true", help="large domains have many hosts; default: one")
    add("--headroom", type=float, default=2, help="capacity that is rented, per capacity needed")
    add("--usd-core", type=float, default=Prices().core, help="US dollars a month")
    add("--usd-memory", type=float, default=Prices().memory_gb, help="of a GB")
    add("--usd-disk", type=float, default=Prices().disk_tb, help="of a TB of NVMe")
    add("--usd-archive", type=float, default=Prices().archive_tb, help="of a TB of the archive")
    add("--seed", type=int, default=1, help="of the draws")
    add("--csv", type=Path, help="writes one row per number of nodes and of shards")
    add("--plot", type=Path, help="writes an SVG file (needs matplotlib)")


class Skew(NamedTuple):
    """The largest node's share of hosts or pages, divided by the mean share."""

    hosts: float
    pages: float
    pages_moved: float  # after whole shards were moved to even it out
    heavy: float  # of all URLs, with the one domain more
    heavy_moved: float
    budget: float  # of pages within the two budgets
    budget_moved: float


class Times(NamedTuple):
    """How long the nodes take at their full speed, shards moved; shares are of all pages."""

    days_to_half: float
    days_to_95: float
    share_in_time: float  # within the days of the plan
    days: float
    budget_pages_share: float  # that the budgets leave
    budget_share_in_time: float
    budget_days_to_95: float
    budget_days: float


class Bus(NamedTuple):
    """Per second, at the plan's speed; `full_...` at the full speed of all nodes."""

    links: float
    rows_per_message: float
    messages: float  # with their answers
    messages_by_node: float  # if the shards of a node shared messages
    messages_by_node_held: float  # and a link waited for SLOW_HOLD_S
    megabytes: float
    address_writes: float  # if each host is crawled to its end without a pause
    address_writes_most: float  # if each host pauses after each page
    heartbeats: float
    full_pages: float
    full_messages: float
    full_address_writes: float
    full_address_writes_most: float


class Machines(NamedTuple):
    """All nodes, at the plan's speed."""

    cores: float
    memory_gb: float
    largest_memory_gb: float  # of the largest node
    frontier_tb: float
    archive_tb: float
    gbit_per_s: float
    machines_usd: float  # a month
    archive_usd: float


class Row(NamedTuple):
    """One size of the cluster."""

    nodes: int
    shards: int
    skew: Skew
    times: Times
    bus: Bus
    machines: Machines

    def cells(self) -> dict[str, float]:
        parts = (self.skew, self.times, self.bus, self.machines)
        named = {
            f"{type(p).__name__.lower()}_{k}": v for p in parts for k, v in p._asdict().items()
        }
        return {"nodes": self.nodes, "shards": self.shards} | named


def measure(arguments: argparse.Namespace) -> str:
    if min(arguments.nodes) < 2 or max(arguments.nodes) > BUCKETS:
        raise NotDone(f"--nodes: 2 to {BUCKETS}, at least one bucket each")
    pages = arguments.pages
    if arguments.list:
        try:
            web = of_list(arguments.list, pages)
        except (OSError, ZeroDivisionError) as error:
            raise NotDone(f"--list: no URLs in {arguments.list}: {error}") from None
    else:
        web = common_crawl(pages, even_hosts=arguments.even_hosts)
    rows = list(simulated(web, arguments))
    if arguments.csv:
        write_csv(arguments.csv, rows)
    if arguments.plot:
        draw(arguments.plot, rows)
    return summary(web, rows, arguments)


def simulated(web: Sequence[Domains], arguments: argparse.Namespace) -> Iterator[Row]:
    budgeted = with_budgets(web, arguments.domain_budget, arguments.host_budget)
    webs = [web, with_heavy(web, arguments.heavy), budgeted]
    buckets = [buckets_of(each, arguments.seed) for each in webs]
    for nodes in arguments.nodes:
        for per_node in arguments.shards_per_node:
            shards = nodes * min(per_node, BUCKETS // nodes)
            say(f"  {nodes} nodes, {shards} shards")
            plain, heavy, budget = (Placed(each, shards, nodes) for each in buckets)
            skew = skew_of(plain, heavy, budget)
            yield Row(
                nodes,
                shards,
                skew,
                times_of(plain, budget, arguments),
                bus_of(plain, arguments),
                machines_of(plain, skew, arguments),
            )


class Placed:
    """The hosts of a web on shards and nodes: neighbours together, or moved by size."""

    def __init__(self, buckets: Sequence[Hosts], shards: int, nodes: int) -> None:
        self.shards = [joined(buckets[at] for at in each) for each in ranges(shards)]
        self.nodes = nodes
        self.sizes = [pages_of(shard) for shard in self.shards]
        self.dealt = dealt(shards, nodes)
        self.moved = min(self.dealt, by_size(self.sizes, nodes), key=self.largest)

    def largest(self, placed: Sequence[int]) -> float:
        return imbalance(totals(self.sizes, placed, self.nodes))

    def hosts(self) -> float:
        counts = [shard.total() for shard in self.shards]
        return imbalance(totals(counts, self.dealt, self.nodes))

    def courses(self, delay_s: float, node_rate: float) -> list[Course]:
        """Of the nodes, after the move."""
        held = [Hosts() for _ in range(self.nodes)]
        for shard, node in zip(self.shards, self.moved, strict=True):
            held[node].update(shard)
        active = FRONTIER_ACTIVE_HOSTS * len(self.shards) / self.nodes
        rate = min(node_rate, active / delay_s)
        return [Course(hosts, delay_s, rate) for hosts in held]


def skew_of(plain: Placed, heavy: Placed, budget: Placed) -> Skew:
    both = [
        each.largest(placed)
        for each in (plain, heavy, budget)
        for placed in (each.dealt, each.moved)
    ]
    return Skew(plain.hosts(), *both)


def times_of(plain: Placed, budget: Placed, arguments: argparse.Namespace) -> Times:
    in_s, pages = DAY_S * arguments.days, sum(plain.sizes)
    free, bound = (each.courses(arguments.delay, arguments.node_rate) for each in (plain, budget))
    in_time = [sum(course.pages_at(in_s) for course in courses) for courses in (free, bound)]
    return Times(
        days_to_half=time_of_share(free, 0.5) / DAY_S,
        days_to_95=time_of_share(free, 0.95) / DAY_S,
        share_in_time=in_time[0] / pages,
        days=max(course.end_s for course in free) / DAY_S,
        budget_pages_share=sum(budget.sizes) / pages,
        budget_share_in_time=in_time[1] / pages,
        budget_days_to_95=time_of_share(bound, 0.95) / DAY_S,
        budget_days=max(course.end_s for course in bound) / DAY_S,
    )


def bus_of(plain: Placed, arguments: argparse.Namespace) -> Bus:
    nodes, shards, links = plain.nodes, len(plain.shards), arguments.links
    in_s, hosts = DAY_S * arguments.days, sum(shard.total() for shard in plain.shards)
    rate = arguments.pages / in_s
    full = min(nodes * arguments.node_rate, hosts / arguments.delay)
    shared = traffic(rate, links, shards, shards // nodes)
    writes = address_writes(rate, hosts, in_s)
    full_writes = address_writes(full, hosts, arguments.pages / full)
    return Bus(
        links=shared.links,
        rows_per_message=shared.per_message,
        messages=shared.messages,
        messages_by_node=traffic(rate, links, nodes, 1).messages,
        messages_by_node_held=traffic(rate, links, nodes, 1, SLOW_HOLD_S).messages,
        megabytes=shared.megabytes,
        address_writes=writes[0],
        address_writes_most=writes[1],
        heartbeats=heartbeats(nodes),
        full_pages=full,
        full_messages=traffic(full, links, shards, shards // nodes).messages,
        full_address_writes=full_writes[0],
        full_address_writes_most=full_writes[1],
    )


def machines_of(plain: Placed, skew: Skew, arguments: argparse.Namespace) -> Machines:
    pages, nodes = arguments.pages, plain.nodes
    rate = pages / (DAY_S * arguments.days)
    needed = needs(
        pages, rate, pages * arguments.urls_per_page, len(plain.shards), nodes, arguments.delay
    )
    prices = Prices(
        arguments.usd_core, arguments.usd_memory, arguments.usd_disk, arguments.usd_archive
    )
    rent = monthly(needed, prices, arguments.headroom)
    return Machines(
        needed.cores,
        needed.memory_gb,
        needed.memory_gb / nodes * skew.pages_moved,
        needed.frontier_tb,
        needed.archive_tb,
        needed.gbit_per_s,
        *rent,
    )


def summary(web: Sequence[Domains], rows: Sequence[Row], arguments: argparse.Namespace) -> str:
    """The line: the smallest cluster that is fast enough, and what grows with nodes."""
    rate = arguments.pages / (DAY_S * arguments.days)
    enough = [row for row in rows if row.nodes * arguments.node_rate >= arguments.headroom * rate]
    plan, first, last = (enough or rows[-1:])[0], rows[0], rows[-1]
    needed, bus = plan.machines, plan.bus
    return (
        f"{arguments.pages:,.0f} pages of {sum(each.number for each in web):,} domains, {rate:,.0f}"
        f" pages/s: {plan.nodes} nodes with {plan.shards} shards: {needed.cores:.1f} cores,"
        f" {needed.memory_gb:.0f} GB memory, {needed.frontier_tb:.1f} TB frontier,"
        f" {needed.archive_tb:.0f} TB archive, {bus.messages:,.0f} messages/s,"
        f" {needed.machines_usd:,.0f} and {needed.archive_usd:,.0f} USD a month;"
        f" {100 * plan.times.share_in_time:.1f} % of the pages in {arguments.days:g} days;"
        f" {first.nodes} to {last.nodes} nodes: largest node {first.skew.pages:.2f} to"
        f" {last.skew.pages:.2f} times the mean (budgets: {first.skew.budget_moved:.2f} to"
        f" {last.skew.budget_moved:.2f}), {first.bus.messages:,.0f} to"
        f" {last.bus.messages:,.0f} messages/s"
    )


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0].cells()))
        table.writeheader()
        table.writerows(
            {name: round(value, 4) for name, value in row.cells().items()} for row in rows
        )


def draw(path: Path, rows: Sequence[Row]) -> None:
    nodes = [row.nodes for row in rows]
    panels = {
        "largest node / mean": {
            "pages, shards as dealt": [row.skew.pages for row in rows],
            "pages, shards moved": [row.skew.pages_moved for row in rows],
            "within budgets, shards moved": [row.skew.budget_moved for row in rows],
        },
        "% of all pages in time": {
            "no budgets": [100 * row.times.share_in_time for row in rows],
            "within budgets": [100 * row.times.budget_share_in_time for row in rows],
        },
        "messages/s, plan's speed": {
            "shard to shard": [row.bus.messages for row in rows],
            "node to node": [row.bus.messages_by_node for row in rows],
            f"node to node, {SLOW_HOLD_S:g} s": [row.bus.messages_by_node_held for row in rows],
        },
    }
    drawn = [
        Panel(label, "nodes", [Line(name, nodes, y) for name, y in lines.items()], doubling=True)
        for label, lines in panels.items()
    ]
    save(path, "A crawl by many nodes, simulated", drawn)
