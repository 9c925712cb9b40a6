"""The experiments of `scrapy sweep`: crawls one after the other, their figures as CSV and plots.

Each crawl is a `scrapy crawl broad` in a process and a folder of its own. Its figures come from its
report.json and its samples. They are written as soon as the crawl has ended, so an interrupted
experiment keeps all crawls before. Memory: the samples of one crawl, one a second.
"""

from __future__ import annotations

import csv
import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any

from webcrawl.base.synced import replace_file
from webcrawl.parse.urls import MAX_LEVEL
from webcrawl.report.series import read_series
from webcrawl.tools.sweep.plots import Line, Panel, save
from webcrawl.tools.sweep.watching import Run, Sample, watch

GRACE_S = 300.0  # beyond its time limit, for a crawl to start and to end
PROGRESS_S = 10  # samples are a second apart
RATE_S = 60.0  # pages per second are means over two default delays of a host
STORES = ("memory", "disk")
LEVELS = range(1, MAX_LEVEL + 1)

Say = Callable[[str], None]
Figures = dict[str, Any]  # a row of a CSV file
Point = Mapping[str, Any]  # of a time series: t, counts


class CrawlFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """A crawl without a result: one line that says why."""


@dataclass
class Lab:
    """Where crawls run: seeds, settings that all of them share, and the folder of the results.

    `judge` returns the faults that servers found in the last crawl, if they look for any. `pause_s`
    is the wait between two crawls, so that no server is asked early.
    """

    seeds: str
    folder: Path
    say: Say  # progress
    settings: Mapping[str, Any] = field(default_factory=dict)
    longest_s: float = 900.0  # of each crawl
    pause_s: float = 0.0
    keep: bool = False  # archives and frontiers
    judge: Callable[[], list[str]] = list
    _crawled: bool = field(default=False, init=False)

    def crawl(self, name: str, **settings: Any) -> tuple[Figures, list[Sample]]:
        """Run a crawl to its end; its figures, and its samples. CrawlFailed."""
        if self._crawled and self.pause_s:
            self.say(f"waits {self.pause_s:g} s, the delay of hosts")
            time.sleep(self.pause_s)
        self._crawled = True
        folder = self.folder / name
        folder.mkdir()
        chosen = {
            **self.settings,
            "CLOSESPIDER_TIMEOUT": self.longest_s,
            "JOBDIR": folder / "job",
            "WARC_DIR": folder / "warc",
            "REPORT_DIR": folder,
            "STATS_INTERVAL": 1,
            **settings,
        }
        options = [part for key, value in chosen.items() for part in ("-s", f"{key}={value}")]
        command = ["scrapy", "crawl", "broad", "-a", f"seeds={self.seeds}", *options]

        def progress(sample: Sample) -> None:
            if round(sample.at_s) % PROGRESS_S == PROGRESS_S - 1:
                self.say(f"{name}: {sample.pages:,} pages after {sample.at_s:.0f} s")

        try:
            run = watch(command, folder, self.longest_s + GRACE_S, on_sample=progress)
            figures = self._figures(folder, run)
        finally:
            if not self.keep:
                shutil.rmtree(folder / "warc", ignore_errors=True)
                shutil.rmtree(folder / "job", ignore_errors=True)
        return figures, run.samples

    def _figures(self, folder: Path, run: Run) -> Figures:
        report_path = folder / "report.json"
        if run.exit_code or not report_path.exists():
            lines = run.log.strip().splitlines() or [f"exit code {run.exit_code}"]
            raise CrawlFailed(f"{lines[-1]} ({folder / 'log.txt'})")
        if faults := self.judge():
            raise CrawlFailed(f"the servers found a fault: {faults[0]}")
        report = json.loads(report_path.read_text(encoding="utf-8"))
        counts, elapsed_s = report["counts"], report["elapsed_s"]
        archive = (folder / "warc").rglob("*.warc.gz")
        return {
            "pages": counts["crawled"],
            "elapsed_s": round(elapsed_s, 1),
            "pages_per_s": round(counts["crawled"] / elapsed_s, 1),
            "mean_request_s": round(report["rates"]["mean_request_s"], 3),
            "html_pages": counts["html_pages"],
            "html_bytes": counts["html_bytes"],
            "warc_bytes": sum(path.stat().st_size for path in archive),
            "cpu_s": round(run.cpu_s, 1),
            "peak_mb": round(max((each.peak_mb for each in run.samples), default=0.0)),
            "finish_reason": report["finish_reason"],
        }


# The experiments. Each says its results line by line, and writes NAME.csv and NAME.svg.


def concurrency(lab: Lab, steps: Sequence[int], pages: int, result: Say) -> None:
    """Crawl `pages` pages with each number of fetches at once."""
    rows: list[Figures] = []
    try:
        for number, fetches in enumerate(steps, 1):
            lab.say(f"{number}/{len(steps)}: {fetches} fetches at once")
            figures, _ = lab.crawl(
                f"fetches-{fetches:03}",
                CONCURRENT_REQUESTS=fetches,
                CLOSESPIDER_PAGECOUNT=pages,
            )
            rows.append({"fetches": fetches, **figures})
            write_csv(lab.folder / "concurrency.csv", rows)
            result(f"{fetches:4} at once: {_sentence(figures)}")
    finally:
        if rows:
            save(
                lab.folder / "concurrency.svg",
                f"{pages:,} pages, by fetches at once",
                _by_fetches(rows),
            )


def memory_against_disk(lab: Lab, pages: int, result: Say) -> None:
    """Crawl `pages` pages with the frontier in memory, then with the frontier on disk."""
    totals: list[Figures] = []
    curves: dict[str, list[Sample]] = {}
    try:
        for store in STORES:
            lab.say(f"frontier: {store}")
            more = {"JOBDIR": ""} if store == "memory" else {}
            chosen = {"FRONTIER_STORE": store, "CLOSESPIDER_PAGECOUNT": pages, **more}
            figures, samples = lab.crawl(store, **chosen)
            totals.append({"store": store, **figures})
            curves[store] = [sample for sample in samples if sample.pages]
            write_csv(lab.folder / "memory-vs-disk.csv", totals)
            lines = ((name, each) for name, samples in curves.items() for each in samples)
            write_csv(
                lab.folder / "memory-vs-disk-samples.csv",
                [{"store": name, **asdict(each)} for name, each in lines],
            )
            result(f"{store:6}: {_sentence(figures)}")
    finally:
        if any(curves.values()):
            title = f"{pages:,} pages, frontier in memory and on disk"
            save(lab.folder / "memory-vs-disk.svg", title, _by_store(curves))


def long_crawl(lab: Lab, result: Say) -> None:
    """Crawl for the longest time of `lab`, and plot the course of the crawl."""
    lab.say(f"one crawl of {lab.longest_s:g} s")
    figures, _ = lab.crawl("long")
    write_csv(lab.folder / "long.csv", [figures])
    result(_sentence(figures))
    series = sorted((lab.folder / "long").glob("series-*.jsonl"))
    if panels := course([*read_series(series[-1])] if series else []):
        save(lab.folder / "long.svg", f"{figures['pages']:,} pages", panels)
    else:
        lab.say("no plot: the crawl was shorter than a minute")


def course(points: Sequence[Point]) -> list[Panel]:
    """Panels of one crawl's time series: pages per second, queued URLs, URLs by level."""
    panels = []
    minutes, rates = _rates(points)
    if rates:
        panels.append(Panel("pages per second", "minutes", [Line("", minutes, rates)]))
    last = points[-1]["counts"] if points else {}
    if "pending" in last:
        times = [point["t"] / 60 for point in points]
        pending = [point["counts"]["pending"] for point in points]
        panels.append(Panel("URLs queued", "minutes", [Line("", times, pending)]))
    if any(f"levels/found/{level}" in last for level in LEVELS):
        panels.append(Panel("URLs", "level", _by_level(last), bars=True))
    return panels


def _rates(points: Sequence[Point]) -> tuple[list[float], list[float]]:
    """Minutes, and pages per second: means over RATE_S, or a little more."""
    minutes, rates = [], []
    before = points[0] if points else {}
    for point in points:
        if (took_s := point["t"] - before["t"]) >= RATE_S:
            minutes.append(point["t"] / 60)
            rates.append((point["counts"]["crawled"] - before["counts"]["crawled"]) / took_s)
            before = point
    return minutes, rates


def _by_level(counts: Mapping[str, float]) -> list[Line]:
    """Found URLs by level, in the parts that have ended and that are queued."""

    def of(name: str) -> list[float]:
        return [counts.get(f"levels/{name}/{level}", 0) for level in LEVELS]

    found, ended = of("found"), of("ended")
    queued = [a - b for a, b in zip(found, ended, strict=True)]
    return [Line("fetched or dropped", LEVELS, ended), Line("queued", LEVELS, queued)]


def _by_fetches(rows: Sequence[Figures]) -> list[Panel]:
    x = [row["fetches"] for row in rows]
    quantities = {
        "total time, s": [row["elapsed_s"] for row in rows],
        "pages per second": [row["pages_per_s"] for row in rows],
        "collection, MB of HTML": [row["html_bytes"] / 1e6 for row in rows],
    }
    return [
        Panel(label, "fetches at once", [Line("", x, values)], doubling=True)
        for label, values in quantities.items()
    ]


def _by_store(curves: Mapping[str, Sequence[Sample]]) -> list[Panel]:
    quantities: dict[str, Callable[[Sample], float]] = {
        "seconds": lambda sample: sample.at_s,
        "seconds of CPU": lambda sample: sample.cpu_s,
        "resident memory, MB": lambda sample: sample.rss_mb,
    }
    return [
        Panel(
            label,
            "pages",
            [
                Line(store, [each.pages for each in samples], [value(each) for each in samples])
                for store, samples in curves.items()
            ],
        )
        for label, value in quantities.items()
    ]


def _sentence(figures: Figures) -> str:
    ending = figures["finish_reason"]
    early = "" if ending == "closespider_pagecount" else f" ({ending})"
    return (
        f"{figures['pages']:,} pages in {figures['elapsed_s']:.1f} s,"
        f" {figures['pages_per_s']:.1f} pages/s, {figures['html_bytes'] / 1e6:.1f} MB of HTML,"
        f" {figures['cpu_s']:.1f} s of CPU, {figures['peak_mb']} MB of memory{early}"
    )


def write_csv(path: Path, rows: Sequence[Figures]) -> None:
    """Write `rows`, which have the same names. The file is whole or the one before."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    replace_file(path, text.getvalue().encode())  # with the line ends of RFC 4180
