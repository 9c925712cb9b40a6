"""Pages per CPU second over HTTPS compared with HTTP, on webs that are otherwise equal.

Each page has its own connection and full handshake, as in a crawl of many hosts: TLS 1.3 and an EC
certificate. The figures exclude the start.
"""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from functools import partial
from statistics import median

from benchmarks.crawls import PREPARED, crawl, ratio, serving, start_up, taking_turns, world

TARGET = 0.5
# The first of each family of features cannot be switched off, but its share can be set.
WEBS = {"http": "origin-http", "https": "origin-http=0,origin-https=1"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=200, help="hosts of each simulated web")
    parser.add_argument("--pages-per-host", type=int, default=30, help="average pages per host")
    parser.add_argument("--turns", type=int, default=3, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    size = arguments.hosts, arguments.pages_per_host
    with ExitStack() as stack:
        places = {
            name: stack.enter_context(serving(*world(*size, PREPARED, features=origins)))
            for name, origins in WEBS.items()
        }
        one = partial(crawl, places["http"], seeds=places["http"].one_seed(), FOLLOW_LINKS=0)
        start_s = start_up({"webcrawl": one})["webcrawl"]
        costs = taking_turns(
            {name: partial(crawl, place) for name, place in places.items()}, arguments.turns
        )
    http, https = ([cost.lean_ms(start_s) for cost in costs[name]] for name in WEBS)
    return (
        f"{costs['https'][0].pages} pages: HTTPS {median(https):.2f} ms CPU a page,"
        f" HTTP {median(http):.2f}: {ratio(http, https):.2f} of its speed (target {TARGET})"
    )
