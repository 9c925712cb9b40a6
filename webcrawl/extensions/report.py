"""Writes the report of a crawl: report.json for programs and report.txt for people.

Each run writes its own pair of files, some 5 KB. Before, the pair of the previous run is renamed to
the start time of that run: report-20261122T223548Z.json and .txt.

JOBDIR/crawl.json is written as the crawl begins: other commands find by it what belongs to a crawl.
"""

from __future__ import annotations

import json
import logging
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl import __version__
from webcrawl.base.synced import replace_file
from webcrawl.base.wording import utc_now
from webcrawl.config.build import job_folder, leads_crawl, report_folder, warc_folder
from webcrawl.config.table import read, typed_settings
from webcrawl.crawl.crawl import crawl_of, report_error
from webcrawl.frontier.counters import MOMENTARY, Counters
from webcrawl.report.card import FILE, Card, write_card
from webcrawl.report.lines import (
    named_counts,
    named_rates,
    outcome_line,
    summary,
    whole_summary,
    whole_values,
)

logger = logging.getLogger(__name__)

_TIME = "%Y-%m-%dT%H:%M:%SZ"


class CrawlReport:
    """Writes the report when the spider closes, each file whole or not at all."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._crawler = crawler
        self._folder = folder
        self._counters: Counters | None = None
        self._before: dict[str, float] = {}  # the counts of earlier runs of the crawl
        self._started = utc_now()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler, report_folder(settings))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        _write_card(self._crawler, spider)
        self._counters = crawl_of(self._crawler).counters
        if self._counters is not None:
            self._before = named_counts(self._counters)
        self._started = utc_now()

    def spider_closed(self, spider: Spider, reason: str) -> None:
        if self._counters is None:
            return
        crawl = crawl_of(self._crawler)
        elapsed_s, whole = crawl.elapsed_s, crawl.totals
        run_s = elapsed_s - self._counters.earlier_s
        counts = named_counts(self._counters)
        report = {
            "crawl": crawl.crawl_id,
            "spider": spider.name,
            "started": self._started,
            "finished": utc_now(),
            "elapsed_s": round(elapsed_s, 3),
            "finish_reason": reason,
            "problem": crawl.fatal_error,
            "counts": counts,
            "rates": named_rates(self._counters, elapsed_s),
            **({"whole": whole_values(whole)} if whole is not None else {}),
            "this_run": {"elapsed_s": round(run_s, 3), "counts": self._of_this_run(counts)},
            "settings": typed_settings(self._crawler.settings),
        }
        lines = [outcome_line(self._counters, elapsed_s), "", *summary(self._counters, elapsed_s)]
        if whole is not None:
            lines += whole_summary(whole)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            _keep_earlier(self._folder)
            path = self._folder / "report.json"
            text = json.dumps(report, indent=2, default=str) + "\n"
            replace_file(path, text.encode())
            replace_file(self._folder / "report.txt", _as_text(report, lines).encode())
        except OSError as error:
            problem = f"No report in REPORT_DIR = {self._folder}: {error}"
            report_error(self._crawler, problem)
        else:
            logger.info("Report: %s", path)

    def _of_this_run(self, counts: dict[str, float]) -> dict[str, float]:
        """The growth of `counts` in this run, without counts that may also fall (pending, kept)."""
        momentary = {"pending", "earlier_s", "kept", *MOMENTARY}
        return {
            name: count - self._before.get(name, 0)
            for name, count in counts.items()
            if name.partition("/")[0] not in momentary
        }


def _write_card(crawler: Crawler, spider: Spider) -> None:
    """Write JOBDIR/crawl.json, unless the frontier could not be opened."""
    settings, crawl_id = crawler.settings, crawl_of(crawler).crawl_id
    jobdir = job_folder(settings)
    if jobdir is None or not crawl_id:
        return
    card = Card(
        crawl=crawl_id,
        spider=spider.name,
        started=utc_now(),
        pid=os.getpid(),
        warc_dir=str(warc_folder(settings).absolute()),
        report_dir=str(report_folder(settings).absolute()),
        version=__version__,
        store=read(settings, "ARCHIVE_STORE", str),
    )
    try:
        write_card(jobdir, card)
    except OSError as error:  # the frontier writes there as well, and will end the crawl
        logger.warning("JOBDIR: %s cannot be written: %s", FILE, error)


def _keep_earlier(folder: Path) -> None:
    """Rename the report of the previous run. Raises OSError."""
    paths = [path for path in (folder / "report.json", folder / "report.txt") if path.exists()]
    if not paths:
        return
    time, number = _started(paths[0]), 1
    name = f"report-{time}"
    while any((folder / f"{name}{path.suffix}").exists() for path in paths):
        number += 1
        name = f"report-{time}-{number}"
    for path in paths:
        path.rename(folder / f"{name}{path.suffix}")


def reports_in(folder: Path, crawl: str) -> list[tuple[Path, str]]:
    """The reports of a crawl, each with a name that no later run gives to another. OSError."""
    found = []
    for path in sorted(folder.glob("report*.json")):
        try:
            is_ours = json.loads(path.read_bytes())["crawl"] == crawl
        except (KeyError, TypeError, ValueError):  # another program's file
            continue
        name = path.stem if path.stem != "report" else f"report-{_started(path)}"
        if is_ours:
            text = path.with_suffix(".txt")
            found += [(each, f"{name}{each.suffix}") for each in (path, text) if each.exists()]
    return found


def _started(path: Path) -> str:
    """The start time of the run in report `path`, for a file name; else the time of the file."""
    try:
        text = json.loads(path.read_text(encoding="utf-8"))["started"]
        time = datetime.strptime(text, _TIME).replace(tzinfo=UTC)
    except (KeyError, TypeError, ValueError):  # another program's file, or report.txt alone
        time = datetime.fromtimestamp(path.stat().st_mtime, UTC)
    return time.strftime("%Y%m%dT%H%M%SZ")


def _as_text(report: dict[str, Any], lines: list[str]) -> str:
    head = f"{report['spider']}: {report['started']} to {report['finished']}"
    problem = [f"It ended by an error: {report['problem']}"] if report["problem"] else []
    return "\n".join([f"{head} ({report['finish_reason']})", *problem, *lines]) + "\n"
