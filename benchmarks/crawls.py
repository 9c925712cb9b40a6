"""Runs crawls for benchmarks, each in a process of its own on a simulated web, and measures them.

Measures CPU time, user and system, of a crawler and all its threads: other load on the machine
changes it little. The servers run in another process and are not counted. Crawlers that are
compared run in turns; a ratio is the median over the turns.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.here import ROOT
from simweb import Running, cli, faults, running
from simweb.model import World
from simweb.origins import Ports
from webcrawl.tools.sweep.watching import Sample, watch

# Pages of 25 kB and 100 links, like the median page of the web. Four fifths of the links are a menu
# that all pages of a host share. Three pages in ten are sent with gzip, one in twenty is a 404.
PAGES = "page-plain=40,page-chunked=25,page-gzip=30,page-404=5"
ROBOTS = "robots-allow-all=50,robots-none=25,robots-some=15,robots-wildcards=10"
MENU = 80
STARTS = 5  # crawls of one page, to measure a start
LONGEST_S = 3600.0  # a longer crawl counts as hanging


class NotDone(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """The work was not done, so the measured cost is meaningless."""


@dataclass
class Cost:
    """The cost of one crawl. `pages`: answered pages, as counted by the servers."""

    pages: int
    cpu_s: float
    wall_s: float
    samples: list[Sample]
    ledger: dict[str, Any]
    report: dict[str, Any] = field(default_factory=dict)  # report.json; empty if missing

    @property
    def cpu_ms(self) -> float:
        """CPU time per page."""
        return self.lean_ms(0.0)

    def lean_ms(self, start_s: float) -> float:
        """CPU time per page, without the `start_s` of CPU time of a start."""
        return 1000 * (self.cpu_s - start_s) / self.pages

    @property
    def peak_mb(self) -> float:
        return max((sample.peak_mb for sample in self.samples), default=0.0)

    @property
    def pages_per_s(self) -> float:
        """From the opening of the spider to its close, in this run of the crawl."""
        return self.pages / (self.report["this_run"]["elapsed_s"] if self.report else self.wall_s)


def say(text: str) -> None:
    """Print progress on standard error; standard output has only the result line."""
    print(text, file=sys.stderr, flush=True)


def world(hosts: int, pages_per_host: float, *more: str, features: str = "") -> list[str]:
    """Arguments of a simulated web of realistic pages, without any delay asked for."""
    chosen = ",".join(filter(None, (PAGES, ROBOTS, features)))
    return [
        *(f"--hosts={hosts}", f"--pages-per-host={pages_per_host}", f"--seeds={hosts}"),
        *(f"--features={chosen}", f"--menu={MENU}", "--host-delay=0", *more),
    ]


def described_world(arguments: Sequence[str], web: Running | None = None) -> World:
    """The world of these arguments as values, with the ports that `web` serves it on."""
    parser = argparse.ArgumentParser()
    cli.add_arguments(parser)
    ports = Ports(web.port, web.https) if web else Ports()
    return World(cli.options(parser.parse_args(arguments)).spec, ports)


@dataclass
class Place:
    """A running simulated web, its seed list, and a folder for the files of crawls."""

    web: Running
    folder: Path
    seeds: Path

    def settings(self, **more: Any) -> list[str]:
        """NAME=VALUE of the settings that a crawl needs here; all others have their defaults."""
        chosen = {
            "DNS_SERVERS": self.web.dns,
            "ALLOW_PRIVATE_ADDRESSES": 1,
            "DOWNLOAD_DELAY": 0,
            "IP_DELAY": 0,
            "WARC_DIR": self.crawled,
            **more,
        }
        return [f"{name}={value}" for name, value in chosen.items()]

    @property
    def crawled(self) -> Path:
        """The folder of the last crawl's archive and report."""
        return self.folder / "crawl"

    def one_seed(self) -> Path:
        """A seed list of one page."""
        path = self.folder / "one.txt"
        path.write_text(self.seeds.read_text().split()[0])
        return path


@contextmanager
def serving(*arguments: str) -> Iterator[Place]:
    """A web with these arguments, served until the end of the block."""
    with TemporaryDirectory(prefix="webcrawl-bench-") as name:
        seeds = Path(name) / "seeds.txt"
        with running(*arguments, f"--seeds-out={seeds}") as web:
            yield Place(web, Path(name), seeds)


def crawl(
    place: Place, *, seeds: Path | None = None, longest_s: float = LONGEST_S, **settings: Any
) -> Cost:
    """Run `scrapy crawl broad` to its end, with default settings except the delays."""
    options = [part for setting in place.settings(**settings) for part in ("-s", setting)]
    command = ["scrapy", "crawl", "broad", "-a", f"seeds={seeds or place.seeds}", *options]
    cost = run(place, command, longest_s)
    report = place.crawled / "report.json"
    cost.report = json.loads(report.read_text()) if report.exists() else {}
    return cost


def run(place: Place, command: Sequence[str], longest_s: float = LONGEST_S) -> Cost:
    """Run a crawler, `python -m COMMAND`, to its end, with a new ledger. NotDone."""
    shutil.rmtree(place.crawled, ignore_errors=True)
    place.web.reset()
    done = watch(command, place.folder, longest_s, cwd=ROOT)
    check_end(command[0], done.exit_code, done.log)
    return by_ledger(place, done.cpu_s, done.wall_s, done.samples)


def check_end(name: str, exit_code: int | None, log: str) -> None:
    """NotDone unless the process `name` ended well."""
    if exit_code or "Traceback" in log or " ERROR: " in log:
        raise NotDone(f"{name} ended with {exit_code}: {log[-2000:]}")


def by_ledger(place: Place, cpu_s: float, wall_s: float, samples: list[Sample]) -> Cost:
    """The cost of the crawl that the servers saw. NotDone if no page was answered."""
    ledger = place.web.ledger()
    totals = ledger["totals"]
    pages = sum(count for name, count in totals.items() if re.fullmatch(r"pages_\dxx", name))
    if not pages:
        raise NotDone("no page was answered")
    return Cost(pages, cpu_s, wall_s, samples, ledger)


def pages_per_s(part: Sequence[Sample]) -> float:
    """Pages per second of a part of a crawl. NotDone if it has fewer than two stats lines."""
    if len(part) < 2:
        raise NotDone(f"{len(part)} samples are too few: crawl longer")
    return (part[-1].pages - part[0].pages) / (part[-1].at_s - part[0].at_s)


# Comparisons.


def start_up(runs: Mapping[str, Callable[[], Cost]]) -> dict[str, float]:
    """CPU seconds of a crawl of one page, by name: the median of STARTS crawls."""
    started = {}
    for name, once in runs.items():
        costs = [once() for _ in range(STARTS)]
        if any(cost.pages != 1 for cost in costs):
            raise NotDone(f"{name} was answered {[cost.pages for cost in costs]} pages, not one")
        started[name] = median(cost.cpu_s for cost in costs)
        say(f"  {name} starts in {started[name]:.2f} s CPU")
    return started


def taking_turns(runs: Mapping[str, Callable[[], Cost]], turns: int) -> dict[str, list[Cost]]:
    """Run all, then all in reverse order, `turns` times. NotDone unless all do the same work."""
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    for turn in range(turns):
        for name in reversed(list(runs)) if turn % 2 else runs:
            cost = runs[name]()
            costs[name].append(cost)
            say(
                f"  {turn + 1}/{turns} {name}: {cost.pages} pages in {cost.wall_s:.1f} s,"
                f" {cost.cpu_ms:.3f} ms CPU a page"
            )
    check_same(cost for row in costs.values() for cost in row)
    return costs


def check(cost: Cost) -> None:
    """NotDone if the servers found a fault in a crawl."""
    if wrong := faults(cost.ledger):
        raise NotDone("; ".join(wrong))


def check_same(costs: Iterable[Cost]) -> None:
    """NotDone unless all crawls got the same number of pages, without a fault."""
    counts = set()
    for cost in costs:
        check(cost)
        counts.add(cost.pages)
    if len(counts) != 1:
        raise NotDone(f"not the same work: {sorted(counts)} pages")


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median over all turns of `over` divided by `under`."""
    return median(a / b for a, b in zip(over, under, strict=True))
