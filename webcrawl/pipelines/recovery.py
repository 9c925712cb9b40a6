"""Recovers the files of killed processes, and gives what they have archived its lines in the log.

`warc.recovery` mends the files, `crawl.lost` finds the answers without a line. Here is when: at the
start of a run, when a worker dies, and at the end. A fetcher tells its hubs, which have the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from scrapy.crawler import Crawler

from webcrawl.config.build import leads_machine
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.lost import log_lost, report_lost
from webcrawl.frontier.store import StoreError
from webcrawl.signals import process_died
from webcrawl.warc.captures import crawls_of
from webcrawl.warc.files import open_files
from webcrawl.warc.recovery import recover

logger = logging.getLogger(__name__)

_WORKERS_END_S: Final = 6.0  # longer than the workers of a killed process go on (extensions.worker)
_POLL_S: Final = 0.1


class Recovery:
    """Of the files in `folder`. `on_error` gets an OSError of a recovery while the crawl runs."""

    def __init__(
        self, crawler: Crawler, folder: Path, on_error: Callable[[Exception], None]
    ) -> None:
        self._crawl = crawl_of(crawler)
        self._folder = folder
        self._on_error = on_error
        self._leads = leads_machine(crawler)
        self._has_bus = bool(crawler.settings.get("CLUSTER"))
        self._deaths = 0  # of workers whose files are not recovered yet
        self._one_by_one = asyncio.Lock()
        self._has_ended = False
        self._reporting: asyncio.Task[None] | None = None
        crawler.signals.connect(self.process_died, process_died)

    async def begin(self) -> None:
        """Recover the files of earlier runs, before this process writes its own. OSError.

        A fetcher does it while the crawl runs: its hubs may not be there yet.
        """
        if not self._leads:
            return
        if self._crawl.assignment is not None:
            self._reporting = asyncio.create_task(self._report())
            return
        if self._has_bus:  # files of fetchers may be in the same folder
            await self._report()
        for _ in range(int(_WORKERS_END_S / _POLL_S)):
            await self._recover()
            left = await asyncio.to_thread(lambda: [*map(crawls_of, open_files(self._folder))])
            # Else a worker of a killed run still finishes its file.
            if self._has_bus or not any(self._crawl.crawl_id in each for each in left):
                break
            await asyncio.sleep(_POLL_S)
        await self._log()

    async def process_died(self, pid: int) -> None:
        """A signal handler: a worker has died, and its leases are back.

        After the end nothing is done: the frontier is closed, and the next run finds the file.
        """
        self._deaths += 1
        async with self._one_by_one:
            self._deaths -= 1
            if self._has_ended:
                return
            try:
                await self._recover()
                await self._log(pid)
            except OSError as error:
                self._on_error(error)

    async def end(self) -> None:
        """Recover the files of workers that were not replaced. OSError."""
        if self._reporting is not None:
            self._reporting.cancel()  # the next fetcher in this folder goes on with it
        async with self._one_by_one:
            self._has_ended = True
            if not self._has_bus:
                await self._recover()

    def _is_ours(self, host: str) -> bool:
        hubs = self._crawl.several
        return hubs is None or hubs.partition(host) is None

    async def _recover(self) -> None:
        """Recover the files of dead processes. OSError."""
        for recovered in await asyncio.to_thread(recover, self._folder):
            logger.info("%s", recovered)

    async def _report(self) -> None:
        """Tell the hubs what killed fetchers have archived, then recover their files."""
        try:
            if self._crawl.frontier is not None:
                await report_lost(self._crawl.frontier, self._folder, self._is_ours)
            await self._recover()
        except StoreError:  # the pump reports it too
            pass
        except OSError as error:
            self._on_error(error)

    async def _log(self, pid: int = 0) -> None:
        """Log the answers in files of worker `pid`, or of all, that have no line. OSError."""
        local, is_all = self._crawl.local, not self._deaths
        if local is None:
            return
        try:
            await log_lost(local, self._folder, pid, self._is_ours, is_all=is_all)
        except StoreError:  # the pump reports it too
            pass
