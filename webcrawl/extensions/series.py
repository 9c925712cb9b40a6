"""Writes the time series of a crawl: its counts every two seconds at first, later less often.

`REPORT_DIR/series-ID.jsonl` is for `scrapy report` (docs/watching.md has the fields). If it cannot
be written, the log has one warning, and the crawl goes on without these points.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.wording import utc_now
from webcrawl.config.build import leads_crawl, report_folder
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.counters import STAGES, Counters
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.store import StoreError
from webcrawl.live.machine import process_stats
from webcrawl.report.lines import named_counts
from webcrawl.report.series import SeriesFile, series_path

logger = logging.getLogger(__name__)


class Series:
    """Extension of the first process. A point costs 1 ms, and 0.5 µs per active host."""

    def __init__(self, crawler: Crawler, folder: Path) -> None:
        self._crawler = crawler
        self._folder = folder
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_warned = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler, report_folder(settings))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        crawl = crawl_of(self._crawler)
        if crawl.local is not None and crawl.crawl_id:
            file = SeriesFile(series_path(self._folder, crawl.crawl_id))
            self._task = asyncio.create_task(self._watch(file, crawl.local))

    async def spider_closed(self) -> None:
        self._closing.set()
        if self._task is not None:
            await self._task

    async def _watch(self, file: SeriesFile, frontier: LocalFrontier) -> None:
        """Write a point now, at each interval, and at the end of the run."""
        while True:
            is_last = self._closing.is_set()
            hosts = await _hosts(frontier)
            await self._write(file, self._point(frontier.counters, hosts))
            if is_last:
                return
            with suppress(TimeoutError):
                async with asyncio.timeout(file.interval_s):
                    await self._closing.wait()

    def _point(self, counters: Counters, hosts: dict[str, int]) -> dict[str, Any]:
        crawl = crawl_of(self._crawler)
        stats = process_stats(crawl.workers).values()
        return {
            "t": round(crawl.elapsed_s, 3),
            "time": utc_now("milliseconds"),
            "counts": named_counts(counters),
            "under_way": {stage: counters.stage_under_way[stage] for stage in STAGES},
            "rss_bytes": sum(stat.rss_bytes for stat in stats),
            **({"hosts": hosts} if hosts else {}),
        }

    async def _write(self, file: SeriesFile, point: dict[str, Any]) -> None:
        try:
            await asyncio.to_thread(file.append, point)
        except OSError as error:
            if not self._is_warned:
                self._is_warned = True
                logger.warning("REPORT_DIR: the time series misses points: %s", error)


async def _hosts(frontier: LocalFrontier) -> dict[str, int]:
    """The number of hosts by state; empty if the frontier has failed."""
    try:
        return (await frontier.overview(time.monotonic(), 0)).hosts
    except StoreError:
        return {}
