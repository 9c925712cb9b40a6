"""Calls of functions per page, Python's and builtin: the cost of a page as an exact number.

cProfile counts the calls of the crawler's main thread in virtual time (`benchmarks.virtual`), in a
large crawl less those of a small one: start and end are not in it, nor is the event loop. Three
webs: a deep one (many pages a host), a broad one (two pages a host, some redirects and errors), and
a survey (one page a host, no links followed), there per line. The numbers are the same in each run,
on a busy machine too. A test compares them with benchmarks/calls.txt; `--write` records new ones.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import scrapy

from benchmarks.crawls import NotDone, world
from benchmarks.here import ROOT

RECORD = Path(__file__).with_name("calls.txt")
GROWTH_MAX = 1.02  # a figure that is larger than the recorded one by more is a fault
ALL = "all"
_LEAST = 3.0  # calls per page of a function that the record names
_NAMED = 12  # functions that a message names
_LONGEST_S = 280.0  # all take 10 s
_FAULTS = (
    "dns-a,dns-nxdomain=3,dns-cname=5,host-plain,host-close=10,robots-moved=3,page-301=3,page-302=2,"
    "page-500=1,page-flaky=1"
)


class _Web(NamedTuple):
    small: list[str]
    large: list[str]
    settings: tuple[str, ...] = ()
    lines: int = 0  # of a survey, large less small; 0: the unit is the page


WEBS = {
    "deep": _Web(world(10, 20), world(10, 60)),
    "broad": _Web(world(80, 2, features=_FAULTS), world(280, 2, features=_FAULTS)),
    "survey": _Web(
        world(80, 2, "--ips=80", features=_FAULTS),
        world(280, 2, "--ips=280", features=_FAULTS),
        ("FOLLOW_LINKS=0", "MAX_PAGES_PER_HOST=1", "MAX_PAGES_PER_IP=1"),
        200,
    ),
}


class _Counted(NamedTuple):
    pages: int  # that the servers have answered
    calls: Counter[str]  # the crawler's


Figures = dict[str, Counter[str]]  # by web: calls per page by function, and ALL


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--write", action="store_true", help="record the figures")


def measure(arguments: argparse.Namespace) -> str:
    figures = counted()
    if arguments.write:
        RECORD.write_text(_table(figures))
    elif problem := growth(figures, recorded()):
        raise NotDone(problem)
    return ", ".join(f"{web} {calls[ALL]:.1f}" for web, calls in figures.items()) + " calls a page"


def counted() -> Figures:
    """The figures of this checkout. Six crawls, some 10 s of CPU. NotDone."""
    crawls = [(web.settings, size) for web in WEBS.values() for size in (web.small, web.large)]
    found = iter(_crawl(crawls))
    return {
        name: _per_page(web, small, large)
        for (name, web), small, large in zip(WEBS.items(), found, found, strict=True)
    }


def circumstances() -> str:
    """What the figures hold for: other versions make other calls."""
    scan = "with" if find_spec("webcrawl_scan") else "without"
    python = ".".join(platform.python_version_tuple()[:2])
    return f"Python {python}, Scrapy {scrapy.__version__}, {scan} webcrawl_scan"


def recorded() -> Figures:
    """The figures of the record. NotDone if it was made in other circumstances."""
    about, names, *rows = RECORD.read_text().splitlines()
    if about != circumstances():
        raise NotDone(f"the record is of {about}; this is {circumstances()}")
    webs = names.split()
    figures: Figures = {web: Counter() for web in webs}
    for row in rows:
        *numbers, function = row.split(maxsplit=len(webs))
        for web, number in zip(webs, numbers, strict=True):
            figures[web][function] = float(number)  # type: ignore[assignment]
    return figures


def growth(now: Figures, before: Figures) -> str:
    """The webs whose figure has grown, and by which functions; "" if none has by GROWTH_MAX."""
    found = []
    for web, calls in now.items():
        then = before[web]
        if calls[ALL] <= GROWTH_MAX * then[ALL]:
            continue
        grown = Counter({each: calls[each] - then[each] for each in calls if calls[each] >= _LEAST})
        del grown[ALL]
        names = [f"{more:+.1f} {each}" for each, more in grown.most_common(_NAMED) if more > 0]
        what = f"{web}: {calls[ALL]:.1f} calls a page, where {then[ALL]:.1f} are recorded"
        found.append("\n  ".join([what, *names]))
    return "\n".join(found)


def _per_page(web: _Web, small: _Counted, large: _Counted) -> Counter[str]:
    large.calls.subtract(small.calls)
    unit = web.lines or large.pages - small.pages
    figures: Any = Counter({function: count / unit for function, count in large.calls.items()})
    figures[ALL] = sum(figures.values())
    return figures  # type: ignore[no-any-return]


def _crawl(crawls: Sequence[tuple[Sequence[str], Sequence[str]]]) -> list[_Counted]:
    """Crawl with these settings these worlds, one after the other."""
    settings = [
        "ASYNCIO_EVENT_LOOP=benchmarks.virtual.Loop",
        *("DNS_SERVERS=127.0.0.1:53", "ALLOW_PRIVATE_ADDRESSES=1"),
        *("DOWNLOAD_DELAY=0", "IP_DELAY=0", "STATS_INTERVAL=0"),
    ]
    jobs = [([*settings, *chosen], described) for chosen, described in crawls]
    with TemporaryDirectory(prefix="webcrawl-bench-") as folder:
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.virtual", folder, json.dumps(jobs)],
            cwd=ROOT,
            env=os.environ | {"PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            timeout=_LONGEST_S,
            check=False,
        )
        if done.returncode or "Traceback" in done.stderr:
            raise NotDone(f"a crawl ended with {done.returncode}: {done.stderr[-2000:]}")
        found = [
            json.loads(Path(folder, str(number), "calls.json").read_text())
            for number in range(len(jobs))
        ]
    return [_Counted(each["pages"], Counter(each["calls"])) for each in found]


def _table(figures: Figures) -> str:
    functions = {each for calls in figures.values() for each in calls if calls[each] >= _LEAST}
    rows = sorted(functions, key=lambda each: (-max(c[each] for c in figures.values()), each))
    lines = [" ".join(f"{c[each]:8.1f}" for c in figures.values()) + f" {each}" for each in rows]
    return "\n".join([circumstances(), " ".join(f"{web:>8}" for web in figures), *lines, ""])
