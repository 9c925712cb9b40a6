"""An hour at full speed: are pages per second and memory steady?

The archive grows by about 10 kB per page: make sure that --folder, which holds all temporary files,
has room (30 GB per hour at 1,000 pages per second). `scrapy sweep --long` draws such a crawl.
"""

from __future__ import annotations

import argparse
import tempfile
from statistics import fmean

from benchmarks.crawls import NotDone, check, crawl, pages_per_s, serving, world

WARM_UP = 0.02  # share of the crawl, left out of its first quarter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=60, help="minutes of crawling")
    parser.add_argument("--hosts", type=int, default=8000, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=600, help="average pages per host")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for temporary files")


def measure(arguments: argparse.Namespace) -> str:
    tempfile.tempdir = arguments.folder
    described = world(arguments.hosts, arguments.pages_per_host, "--partial")
    with serving(*described) as place:
        cost = crawl(
            place,
            longest_s=60 * arguments.minutes + 600,
            JOBDIR=place.crawled / "job",
            CLOSESPIDER_TIMEOUT=60 * arguments.minutes,
            STATS_INTERVAL=1,
        )
    check(cost)
    if cost.report["finish_reason"] != "closespider_timeout":
        raise NotDone(f"the web was too small: {cost.report['finish_reason']}")
    steps = [sample for sample in cost.samples if sample.pages]
    if len(steps) < 8:
        raise NotDone(f"{len(steps)} samples are too few: crawl longer")
    quarter = len(steps) // 4
    first, last = steps[int(len(steps) * WARM_UP) : quarter + 1], steps[-quarter - 1 :]
    rates = [pages_per_s(part) for part in (first, last)]
    resident = [fmean(sample.rss_mb for sample in part) for part in (first, last)]
    return (
        f"{arguments.minutes:g} minutes, {cost.pages} pages: {rates[0]:.0f} pages/s in the first"
        f" quarter, {rates[1]:.0f} in the last ({100 * rates[1] / rates[0] - 100:+.1f} %); RSS"
        f" {resident[0]:.0f} MB and {resident[1]:.0f}, {cost.peak_mb:.0f} at most;"
        f" {cost.cpu_ms:.2f} ms CPU a page"
    )
