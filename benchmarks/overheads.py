"""The cost of stats lines, reports and durability, each compared with a crawl without it.

Durability: a JOBDIR that is kept, compared with a frontier on disk that is deleted at the end.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from typing import Any

from benchmarks.crawls import PREPARED, Place, crawl, ratio, serving, taking_turns, world
from webcrawl import settings

TARGET = 3
REPORT = "webcrawl.extensions.report.CrawlReport"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=300, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=15, help="average pages per host")
    parser.add_argument("--turns", type=int, default=6, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    with serving(*world(arguments.hosts, arguments.pages_per_host, PREPARED)) as place:
        costs = taking_turns(
            {name: partial(crawl, place, **chosen) for name, chosen in cases(place).items()},
            arguments.turns,
        )
    times = {name: [cost.cpu_ms for cost in row] for name, row in costs.items()}
    added = {
        "stats lines": ratio(times["default"], times["no stats lines"]),
        "reports": ratio(times["default"], times["no report"]),
        "durability": ratio(times["JOBDIR"], times["default"]),
    }
    shares = ", ".join(f"{name} {100 * share - 100:+.1f} %" for name, share in added.items())
    return f"{costs['default'][0].pages} pages: {shares} CPU (target {TARGET} each)"


def cases(place: Place) -> dict[str, dict[str, Any]]:
    """The settings of each crawl."""
    disk = {"FRONTIER_STORE": "disk"}
    without = json.dumps(settings.EXTENSIONS | {REPORT: None})
    return {
        "default": disk,
        "no stats lines": disk | {"STATS_INTERVAL": 0},
        "no report": disk | {"EXTENSIONS": without},
        "JOBDIR": disk | {"JOBDIR": place.crawled / "job"},
    }
