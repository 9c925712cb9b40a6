"""In a process that fetches for a hub on another machine (docs/hubs.md): its life on the bus.

It crawls as a worker does, with a frontier on the bus. `config.joining` has made it a fetcher.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, cast

from scrapy.exceptions import CloseSpider

from webcrawl import scrapy_private
from webcrawl.crawl.crawl import crawl_of
from webcrawl.extensions.worker import WorkerMiddleware
from webcrawl.hub.fetching import HubFrontier
from webcrawl.hub.joining import open_bus

logger = logging.getLogger(__name__)


class FetcherMiddleware(WorkerMiddleware):
    """Spider middleware of a fetcher. In place of the spider's `start` it waits for the end."""

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        frontier, scheduler = self._hub, crawl_of(self._crawler).scheduler
        assert scheduler is not None
        frontier.on_ready = scheduler.wake
        frontier.is_closing = lambda: scrapy_private.is_closing(self._crawler.engine)
        await open_bus(frontier.bus, logger.warning)
        raise CloseSpider(await frontier.wait_for_end())
        yield

    async def spider_closed(self, reason: str) -> None:  # type: ignore[override]
        """A signal handler: send the last message, with this process's stats."""
        self._hub.exit(reason, self._crawler.stats.get_stats())
        await self._hub.leave()
        await self._hub.bus.close()

    @property
    def _hub(self) -> HubFrontier:
        return cast("HubFrontier", crawl_of(self._crawler).frontier)
