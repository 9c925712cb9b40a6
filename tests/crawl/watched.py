"""`python -m tests.crawl.watched crawl broad ...`: a crawl that writes its snapshots to a file.

Its extension stands in for a reader of the live page. WATCH_FILE gets a snapshot as a line of JSON
every 0.2 s.
"""

from __future__ import annotations

import asyncio
import json
import sys
from math import inf
from pathlib import Path
from typing import Any, Self

from scrapy import signals
from scrapy.cmdline import execute
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from tests.crawl.crawling import Crawl
from webcrawl import settings
from webcrawl.config.build import is_worker
from webcrawl.live import limit
from webcrawl.live.snapshot import Snapshots


class Watcher:
    def __init__(self, crawler: Crawler, path: Path) -> None:
        self._crawler = crawler
        self._path = path

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if is_worker(crawler):
            raise NotConfigured
        watcher = cls(crawler, Path(crawler.settings["WATCH_FILE"]))
        crawler.signals.connect(watcher.spider_opened, signals.spider_opened)
        crawler.signals.connect(watcher.spider_closed, signals.spider_closed)
        return watcher

    def spider_opened(self) -> None:
        self._snapshots = Snapshots(self._crawler)
        self._task = asyncio.create_task(self._watch())

    async def spider_closed(self) -> None:
        self._task.cancel()
        await self._look()

    async def _watch(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(0.2)

    async def _look(self) -> None:
        line = json.dumps(await self._snapshots.take(), allow_nan=False)
        with self._path.open("a") as file:
            file.write(line + "\n")


class Watched(Crawl):
    """A crawl whose snapshots so far are its `looks`."""

    def __init__(self, folder: Path, **arguments: Any) -> None:
        self._watch_file = folder / "snapshots.jsonl"
        program = ("tests.crawl.watched",)
        super().__init__(folder, program=program, WATCH_FILE=self._watch_file, **arguments)

    @property
    def looks(self) -> list[dict[str, Any]]:
        lines = self._watch_file.read_text() if self._watch_file.exists() else ""
        return [json.loads(line) for line in lines.rpartition("\n")[0].splitlines()]


if __name__ == "__main__":
    limit._BUSY = inf  # type: ignore[misc]  # on a busy machine each crawl waits for a processor
    # By its full name: settings are pickled for the other processes.
    settings.EXTENSIONS["tests.crawl.watched.Watcher"] = 0
    execute(["scrapy", *sys.argv[1:]])
