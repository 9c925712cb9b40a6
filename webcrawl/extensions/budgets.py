"""Ends the crawl when its WARC files are large enough, or when a disk is nearly full.

Runs in the first process of each machine, which has the counts of its processes. Polls every
POLL_S seconds. So the WARC files exceed WARC_MAX_TOTAL by what is written in that time, in the
second between two heartbeats of a worker, and by the pages under way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from tempfile import gettempdir
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.settings import BaseSettings

from webcrawl.config.build import is_debugging, job_folder, leads_machine, warc_folder
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, report_error
from webcrawl.live.diskuse import free_bytes
from webcrawl.signals import crawl_closing

logger = logging.getLogger(__name__)

POLL_S = 0.5


class Budgets:
    """Scrapy extension. `warc_max`, `free_min`: bytes; 0 is no budget."""

    def __init__(
        self, crawler: Crawler, warc_max: int, free_min: int, folders: tuple[Path, ...]
    ) -> None:
        self._crawler = crawler
        self._warc_max = warc_max
        self._free_min = free_min
        self._folders = folders  # whose disks are watched
        self._task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        warc_max = read(settings, "WARC_MAX_TOTAL", int)
        free_min = read(settings, "DISK_FREE_MIN", int)
        if is_debugging(crawler) or not leads_machine(crawler) or not (warc_max or free_min):
            raise NotConfigured
        extension = cls(crawler, warc_max, free_min, tuple(_folders(settings)))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.end, crawl_closing)
        crawler.signals.connect(extension.end, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        if reason := self._used_up() or self._disk_full():
            crawl_of(self._crawler).gate.shut()  # the pump runs until the crawl has ended
            raise CloseSpider(reason)
        self._task = asyncio.create_task(self._watch())

    def end(self) -> None:
        """A signal handler."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            if reason := self._used_up() or await asyncio.to_thread(self._disk_full):
                break
        self._task = None  # so that `end` does not cancel it
        await self._crawler.engine.close_spider_async(reason=reason)

    def _used_up(self) -> str:
        """The reason to end the crawl if its WARC files are large enough; else ""."""
        counters = crawl_of(self._crawler).counters
        if not self._warc_max or counters is None or counters.warc_bytes < self._warc_max:
            return ""
        logger.info(
            "WARC_MAX_TOTAL = %d: the WARC files of this crawl have %d bytes, the crawl ends",
            *(self._warc_max, counters.warc_bytes),
        )
        return "warc_max_total"

    def _disk_full(self) -> str:
        """The reason to end the crawl if a disk is nearly full; else ""."""
        for folder in self._folders:
            free = free_bytes(folder) if self._free_min else None
            if free is not None and free < self._free_min:
                problem = (
                    f"DISK_FREE_MIN = {self._free_min}: the disk of {str(folder)!r} has only"
                    f" {free} bytes free, the crawl ends"
                )
                report_error(self._crawler, problem)
                return "disk_free_min"
        return ""


def _folders(settings: BaseSettings) -> Iterator[Path]:
    if settings.getbool("WARC_ENABLED"):
        yield warc_folder(settings).absolute()
    if settings["FRONTIER_STORE"] == "disk":
        yield (job_folder(settings) or Path(gettempdir())).absolute()
