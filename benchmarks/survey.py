"""The funnel of a long URL list: one page per host and per address, without following links.

The list has the same shares as a list of a million lines of the real web (`simweb.survey`). The
targets are the rates of a native crawler on that list with 500 threads. The simulated web knows how
many lines must pass each stage, and the crawl is compared with these numbers.
"""

from __future__ import annotations

import argparse

from benchmarks.crawls import Cost, NotDone, check, crawl, say, serving

# The report's rates: what is counted, and the target per second.
TARGETS = {
    "extracted": ("URLs", 9666),
    "lookups": ("DNS names", 1346),
    "robots_attempted": ("robots", 923),
    "links": ("links", 31476),
}
# The report's counts, and the same counts in the web's ledger.
STAGES = {
    "host_passed": "hosts",
    "resolved": "hosts_in_dns",
    "ip_passed": "addresses",
    "robots_passed": "robots_allowed",
    "crawled": "robots_allowed",
}
# As in that crawl: 27 kB and 54 links per page, nearly all in 2xx answers; 20 links are not shared.
PAGE_BYTES = 35_000
MENU = 49


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=int, default=300_000, help="lines of the list")
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
    """NotDone unless the right number of lines passed each stage."""
    check(cost)
    counts, truth = cost.report["counts"], cost.ledger["survey"]
    for stage, name in STAGES.items():
        if counts[stage] != truth[name]:
            raise NotDone(f"{stage} is {counts[stage]}, and must be {truth[name]}")
