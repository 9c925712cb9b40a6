"""The cost of what a crawl may leave out, each compared with a crawl without it.

Durability is a JOBDIR that is kept, compared with a frontier on disk that is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from benchmarks.crawls import (
    crawl,
    ratio,
    serving,
    taking_turns,
    world,
)

REPORT = "webcrawl.extensions.report.CrawlReport"
# A cost: the crawl with it, the one without it.
COMPARED = {
    "stats lines": ("default", "no stats lines"),
    "reports": ("default", "no report"),
    "durability": ("JOBDIR", "default"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=15, help="average pages per host")
    parser.add_argument("--turns", type=int, default=6, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    with serving(*world(arguments.hosts, arguments.pages_per_host)) as place:
        disk: dict[str, Any] = {"FRONTIER_STORE": "disk"}
        without_report = json.dumps({REPORT: None})
        costs = taking_turns(
            {
                "default": partial(crawl, place, **disk),
                "no stats lines": partial(crawl, place, STATS_INTERVAL=0, **disk),
                "no report": partial(crawl, place, EXTENSIONS=without_report, **disk),
                "JOBDIR": partial(crawl, place, JOBDIR=place.crawled / "job"),
            },
            arguments.turns,
        )
    times = {name: [cost.cpu_ms for cost in row] for name, row in costs.items()}
    added = (
        f"{name} {100 * ratio(times[with_it], times[without_it]) - 100:+.1f} %"
        for name, (with_it, without_it) in COMPARED.items()
    )
    return f"{costs['default'][0].pages} pages: {', '.join(added)} CPU (target 3 each)"
