"""Ends the crawl when its WARC files are large enough, or when a disk is nearly full.

With ARCHIVE_STORE a full disk is a pause, as long as files wait for the store: their way there
makes room.

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
from time import monotonic
from typing import Self, cast

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.settings import BaseSettings

from webcrawl.config.build import is_debugging, job_folder, leads_machine, warc_folder
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, report_error
from webcrawl.hub.server import FrontierServer
from webcrawl.live.machine import free_bytes
from webcrawl.scheduler.scheduler import Scheduler
from webcrawl.signals import crawl_closing

logger = logging.getLogger(__name__)

POLL_S = 0.5
ROOM = 1.2  # a pause ends at DISK_FREE_MIN times this: it shall not begin again at once
QUIET_S = 10.0  # without a file that waits for the store: longer than it takes to find one


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
        problem = "" if self._waits else self._too_full()
        if reason := self._used_up() or self._ends_by(problem):
            crawl_of(self._crawler).gate.shut()  # the pump runs until the crawl has ended
            raise CloseSpider(reason)
        self._task = asyncio.create_task(self._watch())

    def end(self) -> None:
        """A signal handler."""
        if self._task is not None:
            self._task.cancel()

    async def _watch(self) -> None:
        while True:
            problem: str = await asyncio.to_thread(self._too_full)
            if problem and self._waits:
                problem = await self._pause(problem)
            if reason := self._used_up() or self._ends_by(problem):
                break
            await asyncio.sleep(POLL_S)
        self._task = None  # so that `end` does not cancel it
        await self._crawler.engine.close_spider_async(reason=reason)

    @property
    def _waits(self) -> bool:
        """Whether files wait for ARCHIVE_STORE, or may: a crawl without it has no such count."""
        return crawl_of(self._crawler).unsent is not None

    async def _pause(self, problem: str) -> str:
        """Pause until there is room. Returns the problem if none comes, since no file waits for the
        store any more: then the crawl stays held, and ends.
        """
        crawl, began_at = crawl_of(self._crawler), monotonic()
        logger.warning("%s: the crawl pauses until ARCHIVE_STORE has taken files", problem)
        crawl.held = problem
        self._hold(is_held=True)
        waited_at = began_at
        while await asyncio.to_thread(self._too_full, ROOM):
            waited_at = monotonic() if crawl.unsent else waited_at
            if monotonic() > waited_at + QUIET_S:
                problem = await asyncio.to_thread(self._too_full)
                if problem:
                    return problem
                break
            await asyncio.sleep(POLL_S)
            self._hold(is_held=True)  # again: a request that was begun just before comes later
        took_s = monotonic() - began_at
        logger.warning("The disk has room again after %.0f s: the crawl continues", took_s)
        crawl.held = ""
        self._hold(is_held=False)
        return ""

    def _hold(self, *, is_held: bool) -> None:
        crawl = crawl_of(self._crawler)
        if isinstance(crawl.frontier, FrontierServer):  # for all processes
            crawl.frontier.hold(is_held=is_held)
        cast("Scheduler", crawl.scheduler).controls.hold(is_held=is_held)

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

    def _ends_by(self, problem: str) -> str:
        """The reason to end the crawl if there is a problem; else ""."""
        if not problem:
            return ""
        report_error(self._crawler, f"{problem}, the crawl ends")
        return "disk_free_min"

    def _too_full(self, room: float = 1.0) -> str:
        """A line if a disk has less than `room` times DISK_FREE_MIN; else ""."""
        for folder in self._folders:
            free = free_bytes(folder) if self._free_min else None
            if free is not None and free < self._free_min * room:
                return (
                    f"DISK_FREE_MIN = {self._free_min}: the disk of {str(folder)!r} has only"
                    f" {free} bytes free"
                )
        return ""


def _folders(settings: BaseSettings) -> Iterator[Path]:
    if settings.getbool("WARC_ENABLED"):
        yield warc_folder(settings).absolute()
    if settings["FRONTIER_STORE"] == "disk":
        yield (job_folder(settings) or Path(gettempdir())).absolute()
