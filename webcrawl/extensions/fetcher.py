"""In a process that fetches for a hub on another machine (docs/cluster.md): its life on the bus.

It crawls as a worker does, with a frontier on the bus. `config.joining` has made it a fetcher.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any, cast

from scrapy.exceptions import CloseSpider

from webcrawl.cluster.allhubs import AllHubs
from webcrawl.cluster.fetching import HubFrontier
from webcrawl.cluster.joining import open_bus
from webcrawl.cluster.packets import TICK_S
from webcrawl.config.build import warc_folder
from webcrawl.crawl import scrapy_private
from webcrawl.crawl.crawl import crawl_of
from webcrawl.extensions.worker import WorkerMiddleware
from webcrawl.warc.files import OPEN

logger = logging.getLogger(__name__)


class FetcherMiddleware(WorkerMiddleware):
    """Spider middleware of a fetcher. In place of the spider's `start` it waits for the end."""

    _life: asyncio.Task[None] | None = None

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        frontier, scheduler = self._hub, crawl_of(self._crawler).scheduler
        assert scheduler is not None
        frontier.on_ready = scheduler.wake
        frontier.is_closing = lambda: scrapy_private.is_closing(self._crawler.engine)
        reason: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._life = asyncio.create_task(self._live(reason))
        raise CloseSpider(await reason)
        yield

    async def _live(self, reason: asyncio.Future[str]) -> None:
        """Until the spider is closed, and not only until the crawl ends.

        Scrapy cancels `process_start` before it closes the spider; what waits for the hub while it
        closes would wait for ever without ticks.
        """
        frontier = self._hub
        try:
            await open_bus(frontier.bus, logger.warning)
            why = await frontier.wait_for_end()
        except Exception as error:
            if not reason.done():
                reason.set_exception(error)
        else:
            if not reason.done():
                reason.set_result(why)
        while True:
            await asyncio.sleep(TICK_S)
            frontier.tick()

    async def spider_closed(self, reason: str) -> None:  # type: ignore[override]
        """A signal handler: send the last message, with this process's stats.

        Files with answers of which no hub knows stay as a killed process leaves them: the next one
        tells the hubs.
        """
        if self._life is not None:
            self._life.cancel()
        self._hub.exit(reason, self._crawler.stats.get_stats())
        await self._hub.leave()
        await self._hub.bus.close()
        for name in self._hub.unheard:
            path = warc_folder(self._crawler.settings) / name
            with suppress(FileNotFoundError):  # ARCHIVE_STORE has taken it
                path.rename(f"{path}{OPEN}")

    @property
    def _hub(self) -> HubFrontier | AllHubs:
        return cast("HubFrontier | AllHubs", crawl_of(self._crawler).frontier)
