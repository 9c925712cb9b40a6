"""The cost of Scrapy's engine: a crawl, and the same crawl by webcrawl's parts alone.

The floor (benchmarks/engineless.py) calls frontier, admissions, fetch client, link reader and WARC
writer directly from asyncio. The difference is the price of being a Scrapy project: its engine,
requests, responses, middlewares, signals and pipelines. The figures exclude the start of each,
measured with a crawl of one page.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.crawls import (
    PREPARED,
    Cost,
    Place,
    crawl,
    ratio,
    run,
    serving,
    start_up,
    taking_turns,
    world,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=200, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=40, help="average pages per host")
    parser.add_argument("--store", choices=("disk", "memory"), default="disk", help="frontier")
    parser.add_argument("--turns", type=int, default=3, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    runs = {"by Scrapy": crawl, "parts alone": parts_alone}
    store = {"FRONTIER_STORE": arguments.store}
    with serving(*world(arguments.hosts, arguments.pages_per_host, PREPARED)) as place:
        one = {"seeds": place.one_seed(), "FOLLOW_LINKS": 0, **store}
        start_s = start_up({name: partial(run, place, **one) for name, run in runs.items()})
        costs = taking_turns(
            {name: partial(run, place, **store) for name, run in runs.items()}, arguments.turns
        )
    scrapy, parts = ([cost.lean_ms(start_s[name]) for cost in costs[name]] for name in runs)
    return (
        f"{costs['by Scrapy'][0].pages} pages: by Scrapy {median(scrapy):.2f} ms CPU a page,"
        f" its parts alone {median(parts):.2f}, {ratio(scrapy, parts):.2f} times"
    )


def parts_alone(place: Place, *, seeds: Path | None = None, **settings: Any) -> Cost:
    """Run one crawl without the engine."""
    options = place.settings(**settings)
    return run(place, ["benchmarks.engineless", str(seeds or place.seeds), *options])
