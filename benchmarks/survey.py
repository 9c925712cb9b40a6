"""The funnel of a long URL list: one page a host and an address, no links followed.

The list has the shares of one of a million lines of the web (`simweb.survey`). The targets
are what a native crawler reached on that with 500 threads. How many lines must pass each stage the
simulated web knows, and the crawl is held against that.
"""

from __future__ import annotations

import argparse

from benchmarks.crawls import Cost, NotDone, check, crawl, say, serving

# Of the report's rates: what is counted, and how many a second.
TARGETS = {
    "extracted": ("URLs", 9666),
    "lookups": ("DNS names", 1346),
    "robots_attempted": ("robots", 923),
    "links": ("links", 31476),
}
# The report's counts, and what the web calls the same.
STAGES = {
    "host_passed": "hosts",
    "resolved": "hosts_in_dns",
    "ip_passed": "addresses",
    "robots_passed": "robots_allowed",
    "crawled": "robots_allowed",
}
# As in that crawl: 27 kB and 54 links a page, which the 2xx have nearly all. 20 links are its own.
PAGE_BYTES = 35_000
MENU = 49


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=int, default=300_000, help="of the list")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")
    parser.add_argument("--processes", type=int, default=1, help="CRAWL_PROCESSES")


def measure(arguments: argparse.Namespace) -> str:
    described = (f"--survey={arguments.lines}", f"--menu={MENU}", f"--page-bytes={PAGE_BYTES}")
    with serving(*described, "--host-delay=0", "--partial") as place:
        say("  the web is up")
        cost = crawl(
            place,
            FRONTIER_STORE=arguments.store,
            CRAWL_PROCESSES=arguments.processes,
            FOLLOW_LINKS=0,
            MAX_PAGES_PER_HOST=1,
            MAX_PAGES_PER_IP=1,
        )
    check_funnel(cost)
    rates = ", ".join(
        f"{cost.report['rates'][f'{count}_per_s']:.0f} {name}/s (target {target})"
        for count, (name, target) in TARGETS.items()
    )
    return (
        f"{arguments.lines} lines, {cost.pages} pages in {cost.report['elapsed_s']:.1f} s: {rates};"
        f" {cost.pages_per_s:.0f} pages/s, {cost.cpu_s:.1f} s CPU"
    )


def check_funnel(cost: Cost) -> None:
    """NotDone unless each stage let pass what it must."""
    check(cost)
    counts, truth = cost.report["counts"], cost.ledger["survey"]
    for stage, name in STAGES.items():
        if counts[stage] != truth[name]:
            raise NotDone(f"{stage} is {counts[stage]}, and must be {truth[name]}")
