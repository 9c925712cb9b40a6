"""Pages per CPU second, compared with plain Scrapy set up as its broad-crawls page advises.

Both crawl the same web to its end. webcrawl uses its default settings, with a frontier on disk, DNS
and WARC files; plain Scrapy (benchmarks/plain_scrapy.py) has none of these. The first figures
exclude the start of each, measured with a crawl of one page.
"""

from __future__ import annotations

import argparse
import json
from functools import partial
from statistics import median

from benchmarks.crawls import (
    crawl,
    described_world,
    ratio,
    run,
    serving,
    start_up,
    taking_turns,
    world,
)

TARGET = 12


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--hosts", type=int, default=60, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=40, help="average pages per host")
    parser.add_argument("--turns", type=int, default=2, help="runs of each crawl")


def measure(arguments: argparse.Namespace) -> str:
    described = world(arguments.hosts, arguments.pages_per_host)
    with serving(*described) as place:
        table = place.folder / "hosts.json"
        known = described_world(described, place.web)
        addresses = [known.host(host).dns.addresses[0] for host in range(arguments.hosts)]
        table.write_text(json.dumps(dict(zip(known.names(), addresses, strict=True))))
        one = place.one_seed()
        plain = ["benchmarks.plain_scrapy", str(table)]
        ours = partial(crawl, place, FRONTIER_STORE="disk")
        start_s = start_up(
            {
                "webcrawl": partial(ours, seeds=one, FOLLOW_LINKS=0),
                "Scrapy": partial(run, place, [*plain, str(one), "--seeds-only"]),
            }
        )
        costs = taking_turns(
            {"webcrawl": ours, "Scrapy": partial(run, place, [*plain, str(place.seeds)])},
            arguments.turns,
        )
    webcrawl, scrapy = (
        [cost.lean_ms(start_s[name]) for cost in costs[name]] for name in ("webcrawl", "Scrapy")
    )
    whole = ratio(*([cost.cpu_ms for cost in costs[name]] for name in ("Scrapy", "webcrawl")))
    return (
        f"{costs['webcrawl'][0].pages} pages: webcrawl {median(webcrawl):.2f} ms CPU a page,"
        f" plain Scrapy {median(scrapy):.2f}, {ratio(scrapy, webcrawl):.1f} times"
        f" (target {TARGET}); {whole:.1f} times with {start_s['webcrawl']:.1f} and"
        f" {start_s['Scrapy']:.1f} s to start"
    )
