"""The plan for 15 billion pages in four weeks: a model of 1 to 256 hubs. It crawls nothing.

Domains of the sizes that Common Crawl publishes, or those of a list of URLs, go to hubs as a
crawl's do. The hosts of a hub are asked equally often, with their delay. docs/machines.md has the
results.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from benchmarks.crawls import NotDone, say
from benchmarks.scale_model import (
    Course,
    Hosts,
    Prices,
    buckets_of,
    imbalance,
    joined,
    monthly,
    needs,
    pages_of,
    time_of_share,
)
from benchmarks.scale_web import Domains, common_crawl, of_list, with_budgets, with_heavy
from webcrawl.cluster.buckets import BUCKETS, HUBS_MAX
from webcrawl.settings import DOWNLOAD_DELAY
from webcrawl.wording import needs_extra

DAY_S = 86_400.0
HUBS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--pages", type=float, default=15e9, help="pages of the crawl")
    add("--days", type=float, default=28, help="days of the crawl")
    add("--hubs", type=int, nargs="+", default=HUBS, help="numbers of hubs")
    add("--hub-rate", type=float, default=3100, help="pages/s of a hub (measured: one core)")
    add("--delay", type=float, default=DOWNLOAD_DELAY, help="seconds between pages of a host")
    add("--urls-per-page", type=float, default=6.5, help="known URLs per page (IRLbot: 41 of 6.3)")
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
    add("--csv", type=Path, help="writes one row per number of hubs")
    add("--plot", type=Path, help="writes an SVG file (needs matplotlib)")


class Skew(NamedTuple):
    """The largest hub's share of pages, divided by the mean share."""

    pages: float
    heavy: float  # of all URLs, with the one domain more
    budget: float  # of pages within the two budgets


class Times(NamedTuple):
    """How long the hubs take at their full speed; shares are of all pages."""

    days_to_half: float
    days_to_95: float
    share_in_time: float  # within the days of the plan
    days: float
    budget_pages_share: float  # that the budgets leave
    budget_share_in_time: float
    budget_days: float


class Machines(NamedTuple):
    """All machines, at the plan's speed; `largest_...` of the largest hub."""

    cores: float
    hub_cores: float
    memory_gb: float
    largest_memory_gb: float
    frontier_tb: float
    largest_frontier_tb: float
    archive_tb: float
    gbit_per_s: float
    machines_usd: float  # a month
    archive_usd: float


class Row(NamedTuple):
    """One number of hubs."""

    hubs: int
    skew: Skew
    times: Times
    machines: Machines

    def cells(self) -> dict[str, float]:
        parts = (self.skew, self.times, self.machines)
        named = {
            f"{type(p).__name__.lower()}_{k}": v for p in parts for k, v in p._asdict().items()
        }
        return {"hubs": self.hubs} | named


def measure(arguments: argparse.Namespace) -> str:
    if min(arguments.hubs) < 1 or max(arguments.hubs) > HUBS_MAX:
        raise NotDone(f"--hubs: 1 to {HUBS_MAX}")
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
        try:
            draw(arguments.plot, rows)
        except ModuleNotFoundError as error:
            raise NotDone(needs_extra("--plot", str(error.name), "tools")) from None
    return summary(web, rows, arguments)


def simulated(web: Sequence[Domains], arguments: argparse.Namespace) -> Iterator[Row]:
    budgeted = with_budgets(web, arguments.domain_budget, arguments.host_budget)
    webs = [web, with_heavy(web, arguments.heavy), budgeted]
    buckets = [buckets_of(each, arguments.seed) for each in webs]
    for hubs in arguments.hubs:
        say(f"  {hubs} hubs")
        plain, heavy, budget = (on_hubs(each, hubs) for each in buckets)
        skew = Skew(
            *(imbalance([pages_of(hub) for hub in each]) for each in (plain, heavy, budget))
        )
        yield Row(
            hubs,
            skew,
            times_of(plain, budget, arguments),
            machines_of(hubs, skew, arguments),
        )


def on_hubs(buckets: Sequence[Hosts], hubs: int) -> list[Hosts]:
    ends = [hub * BUCKETS // hubs for hub in range(hubs + 1)]
    return [joined(buckets[first:end]) for first, end in pairwise(ends)]


def times_of(
    plain: Sequence[Hosts], budget: Sequence[Hosts], arguments: argparse.Namespace
) -> Times:
    in_s, pages = DAY_S * arguments.days, sum(map(pages_of, plain))
    free, bound = (
        [Course(hosts, arguments.delay, arguments.hub_rate) for hosts in each]
        for each in (plain, budget)
    )
    in_time = [sum(course.pages_at(in_s) for course in courses) for courses in (free, bound)]
    return Times(
        days_to_half=time_of_share(free, 0.5) / DAY_S,
        days_to_95=time_of_share(free, 0.95) / DAY_S,
        share_in_time=in_time[0] / pages,
        days=max(course.end_s for course in free) / DAY_S,
        budget_pages_share=sum(map(pages_of, budget)) / pages,
        budget_share_in_time=in_time[1] / pages,
        budget_days=max(course.end_s for course in bound) / DAY_S,
    )


def machines_of(hubs: int, skew: Skew, arguments: argparse.Namespace) -> Machines:
    pages = arguments.pages
    rate = pages / (DAY_S * arguments.days)
    needed = needs(pages, rate, pages * arguments.urls_per_page, hubs, arguments.delay)
    prices = Prices(
        arguments.usd_core, arguments.usd_memory, arguments.usd_disk, arguments.usd_archive
    )
    largest = skew.pages / hubs
    return Machines(
        needed.cores,
        needed.hub_cores,
        needed.memory_gb,
        needed.memory_gb * largest,
        needed.frontier_tb,
        needed.frontier_tb * largest,
        needed.archive_tb,
        needed.gbit_per_s,
        *monthly(needed, prices, arguments.headroom),
    )


def summary(web: Sequence[Domains], rows: Sequence[Row], arguments: argparse.Namespace) -> str:
    """The line: the fewest hubs that are fast enough, and what grows with hubs."""
    rate = arguments.pages / (DAY_S * arguments.days)
    enough = [row for row in rows if row.hubs * arguments.hub_rate >= arguments.headroom * rate]
    plan, first, last = (enough or rows[-1:])[0], rows[0], rows[-1]
    needed = plan.machines
    return (
        f"{arguments.pages:,.0f} pages of {sum(each.number for each in web):,} domains, {rate:,.0f}"
        f" pages/s: {plan.hubs} hubs: {needed.cores:.1f} cores, {needed.hub_cores:.1f} of them of"
        f" the hubs, {needed.memory_gb:.0f} GB memory, {needed.frontier_tb:.1f} TB frontier,"
        f" {needed.archive_tb:.0f} TB archive; the largest hub {needed.largest_memory_gb:.0f} GB"
        f" and {needed.largest_frontier_tb:.1f} TB;"
        f" {needed.machines_usd:,.0f} and {needed.archive_usd:,.0f} USD a month;"
        f" {100 * plan.times.share_in_time:.1f} % of the pages in {arguments.days:g} days;"
        f" {first.hubs} to {last.hubs} hubs: largest hub {first.skew.pages:.2f} to"
        f" {last.skew.pages:.2f} times the mean (budgets: {first.skew.budget:.2f} to"
        f" {last.skew.budget:.2f})"
    )


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0].cells()))
        table.writeheader()
        table.writerows(
            {name: round(value, 4) for name, value in row.cells().items()} for row in rows
        )


def draw(path: Path, rows: Sequence[Row]) -> None:
    # Only here: matplotlib takes 40 MB, and `store` prints the memory of its own process.
    from webcrawl.tools.sweep.plots import Line, Panel, save  # noqa: PLC0415

    hubs = [row.hubs for row in rows]
    panels = {
        "largest hub / mean": {
            "pages": [row.skew.pages for row in rows],
            "pages within budgets": [row.skew.budget for row in rows],
            "URLs, with one heavy domain": [row.skew.heavy for row in rows],
        },
        "% of all pages in time": {
            "no budgets": [100 * row.times.share_in_time for row in rows],
            "within budgets": [100 * row.times.budget_share_in_time for row in rows],
        },
        "GB memory of the largest hub": {
            "GB": [row.machines.largest_memory_gb for row in rows],
        },
    }
    drawn = [
        Panel(label, "hubs", [Line(name, hubs, y) for name, y in lines.items()], doubling=True)
        for label, lines in panels.items()
    ]
    save(path, "A crawl with many hubs, simulated", drawn)
