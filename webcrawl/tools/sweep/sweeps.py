"""The experiments of `scrapy sweep`: crawls one after the other, their figures as CSV and plots.

Each crawl is a `scrapy crawl broad` in a process and a folder of its own. Its figures come from its
report.json and its samples. They are written as soon as the crawl has ended, so an interrupted
experiment keeps all crawls before. Memory: the samples of all crawls, one a second.
"""

from __future__ import annotations

import csv
import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from webcrawl.base.synced import replace_file
from webcrawl.tools.sweep.plots import Curve, save
from webcrawl.tools.sweep.watching import Sample, watch

GRACE_S = 300.0  # beyond its time limit, for a crawl to start and to end
PROGRESS_S = 10  # samples are a second apart

Figures = dict[str, Any]  # a row of a CSV file


class CrawlFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """A crawl without a result: one line that says why."""


class Done(NamedTuple):
    """A crawl that has ended: its row, and what was seen while it ran."""

    row: Figures
    samples: list[Sample]


@dataclass
class Lab:
    """Where crawls run: seeds, settings that all of them share, and the folder of the results.

    `judge` returns the faults that servers found in the last crawl, if they look for any. `pause_s`
    is the wait between two crawls, so that no server is asked early.
    """

    seeds: str
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    longest_s: float = 900.0  # of each crawl
    pause_s: float = 0.0
    keep: bool = False  # archives and frontiers
    judge: Callable[[], list[str]] = list

    def crawl(self, name: str, settings: Mapping[str, Any]) -> Done:
        """Run a crawl to its end. CrawlFailed."""
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
                say(f"{name}: {sample.pages:,} pages after {sample.at_s:.0f} s")

        try:
            run = watch(command, folder, self.longest_s + GRACE_S, on_sample=progress)
            if run.exit_code or not (folder / "report.json").exists():
                lines = run.log.strip().splitlines() or [f"exit code {run.exit_code}"]
                raise CrawlFailed(f"{lines[-1]} ({folder / 'log.txt'})")
            if faults := self.judge():
                raise CrawlFailed(f"the servers found a fault: {faults[0]}")
            peak_mb = max((each.peak_mb for each in run.samples), default=0.0)
            return Done(_figures(folder, run.cpu_s, peak_mb), run.samples)
        finally:
            if not self.keep:
                shutil.rmtree(folder / "warc", ignore_errors=True)
                shutil.rmtree(folder / "job", ignore_errors=True)


def _figures(folder: Path, cpu_s: float, peak_mb: float) -> Figures:
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
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
        "cpu_s": round(cpu_s, 1),
        "peak_mb": round(peak_mb),
        "finish_reason": report["finish_reason"],
    }


class Experiment(NamedTuple):
    """Crawls whose rows are NAME.csv. `crawls`: of each what it is, its name and its settings.

    `title` and `curves`: of NAME.svg.
    """

    name: str
    key: str  # the first column
    crawls: Sequence[tuple[Any, str, Mapping[str, Any]]]
    title: str
    curves: Callable[[Sequence[Done]], Sequence[Curve]]

    def run(self, lab: Lab) -> list[Done]:
        """Run the crawls, and print a line for each. CrawlFailed, OSError."""
        done: list[Done] = []
        try:
            for number, (value, name, settings) in enumerate(self.crawls, 1):
                if done and lab.pause_s:
                    say(f"waits {lab.pause_s:g} s, the delay of hosts")
                    time.sleep(lab.pause_s)
                say(f"{number}/{len(self.crawls)}: {name}")
                row, samples = lab.crawl(name, settings)
                done.append(Done({self.key: value, **row}, samples))
                write_csv(lab.folder / f"{self.name}.csv", [each.row for each in done])
                print(f"{name:11}: {_sentence(row)}", flush=True)
        finally:
            if curves := self.curves(done) if done else ():
                save(lab.folder / f"{self.name}.svg", self.title, curves)
        return done


def concurrency(steps: Sequence[int], pages: int) -> Experiment:
    """Crawl `pages` pages with each number of fetches at once."""

    def curves(done: Sequence[Done]) -> list[Curve]:
        x = [each.row["fetches"] for each in done]
        return [
            Curve(label, "fetches at once", "", x, [each.row[name] / unit for each in done])
            for label, name, unit in (
                ("total time, s", "elapsed_s", 1),
                ("pages per second", "pages_per_s", 1),
                ("collection, MB of HTML", "html_bytes", 1e6),
            )
        ]

    crawls = [
        (n, f"fetches-{n:03}", {"CONCURRENT_REQUESTS": n, "CLOSESPIDER_PAGECOUNT": pages})
        for n in steps
    ]
    title = f"{pages:,} pages, by fetches at once"
    return Experiment("concurrency", "fetches", crawls, title, curves)


def memory_against_disk(pages: int) -> Experiment:
    """Crawl `pages` pages with the frontier in memory, then with the frontier on disk."""

    def curves(done: Sequence[Done]) -> list[Curve]:
        found = []
        for row, samples in done:
            seen = [sample for sample in samples if sample.pages]
            x = [sample.pages for sample in seen]
            found += [
                Curve(label, "pages", row["store"], x, [getattr(each, name) for each in seen])
                for label, name in (
                    ("seconds", "at_s"),
                    ("seconds of CPU", "cpu_s"),
                    ("resident memory, MB", "rss_mb"),
                )
            ]
        return found

    each = {"CLOSESPIDER_PAGECOUNT": pages}
    crawls = [
        ("memory", "memory", {**each, "FRONTIER_STORE": "memory", "JOBDIR": ""}),
        ("disk", "disk", {**each, "FRONTIER_STORE": "disk"}),
    ]
    title = f"{pages:,} pages, frontier in memory and on disk"
    return Experiment("memory-vs-disk", "store", crawls, title, curves)


# One crawl for the longest time of the lab. `scrapy report` plots its course.
LONG_CRAWL = Experiment("long", "crawl", [("long", "long", {})], "", lambda done: ())


def _sentence(row: Figures) -> str:
    ending = row["finish_reason"]
    early = "" if ending == "closespider_pagecount" else f" ({ending})"
    return (
        f"{row['pages']:,} pages in {row['elapsed_s']:.1f} s,"
        f" {row['pages_per_s']:.1f} pages/s, {row['html_bytes'] / 1e6:.1f} MB of HTML,"
        f" {row['cpu_s']:.1f} s of CPU, {row['peak_mb']} MB of memory{early}"
    )


def write_csv(path: Path, rows: Sequence[Figures]) -> None:
    """Write `rows`, which have the same names. The file is whole or the one before."""
    text = StringIO()
    if rows:
        writer = csv.DictWriter(text, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    replace_file(path, text.getvalue().encode())  # with the line ends of RFC 4180


def say(line: str) -> None:
    """A line of progress."""
    print(f"  {line}", file=sys.stderr, flush=True)
