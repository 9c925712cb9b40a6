"""An hour at full speed: are pages per second and memory steady?

Writes soak.csv, with one line per second, and soak.svg. The archive grows by about 10 kB per page:
make sure that --folder, which holds all temporary files, has room (30 GB per hour at 1,000 pages
per second).
"""

from __future__ import annotations

import argparse
import csv
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from statistics import fmean

from benchmarks.crawls import Cost, NotDone, check, crawl, pages_per_s, serving, world
from benchmarks.here import ROOT
from webcrawl.tools.sweep.watching import Sample

BINS = 240
WARM_UP = 0.02  # share of the crawl, left out of its first quarter


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--minutes", type=float, default=60, help="minutes of crawling")
    parser.add_argument("--hosts", type=int, default=8000, help="hosts of the simulated web")
    parser.add_argument("--pages-per-host", type=int, default=600, help="average pages per host")
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="for temporary files")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "crawl" / "soak", help="for the two files"
    )


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
    steps = thinned(cost.samples)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_csv(arguments.out / "soak.csv", cost.samples)
    draw(arguments.out / "soak.svg", cost, steps)
    quarter = len(steps) // 4
    first, last = steps[int(len(steps) * WARM_UP) : quarter + 1], steps[-quarter - 1 :]
    rates = [pages_per_s(part) for part in (first, last)]
    resident = [fmean(sample.rss_mb for sample in part) for part in (first, last)]
    return (
        f"{arguments.minutes:g} minutes, {cost.pages} pages: {rates[0]:.0f} pages/s in the first"
        f" quarter, {rates[1]:.0f} in the last ({100 * rates[1] / rates[0] - 100:+.1f} %); RSS"
        f" {resident[0]:.0f} MB and {resident[1]:.0f}, {cost.peak_mb:.0f} at most;"
        f" {cost.cpu_ms:.2f} ms CPU a page; {arguments.out / 'soak.svg'}"
    )


def thinned(samples: Sequence[Sample]) -> list[Sample]:
    """The samples of the crawl without its start and end: at most BINS + 1."""
    crawling = [sample for sample in samples if sample.pages]
    if len(crawling) < 8:
        raise NotDone(f"{len(crawling)} samples are too few: crawl longer")
    return crawling[:: max(1, len(crawling) // BINS)]


def write_csv(path: Path, samples: Sequence[Sample]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, fieldnames=list(asdict(samples[0])))
        rows.writeheader()
        rows.writerows(
            {name: round(value, 3) for name, value in asdict(s).items()} for s in samples
        )


def draw(path: Path, cost: Cost, steps: Sequence[Sample]) -> None:
    # Only here: matplotlib takes 40 MB, and `store` prints the memory of its own process.
    from webcrawl.tools.sweep.plots import Line, Panel, save  # noqa: PLC0415

    pairs = list(pairwise(steps))
    rates = [(b.pages - a.pages) / (b.at_s - a.at_s) for a, b in pairs]
    busy = [(b.cpu_s - a.cpu_s) / (b.at_s - a.at_s) for a, b in pairs]
    minutes = [b.at_s / 60 for _, b in pairs]
    quantities = {
        "pages per second": rates,
        "resident memory, MB": [b.rss_mb for _, b in pairs],
        "processors busy": busy,
        "archive and frontier on disk, GB": [b.disk_mb / 1000 for _, b in pairs],
    }
    panels = [
        Panel(label, "minutes since the start", [Line("", minutes, values)])
        for label, values in quantities.items()
    ]
    save(path, f"{cost.pages:,} pages", panels)
