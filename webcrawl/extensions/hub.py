"""Makes the first process of a crawl its hub, for fetchers on other machines (docs/cluster.md)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from webcrawl.config.build import leads_crawl
from webcrawl.config.kinds import SettingError
from webcrawl.crawl.crawl import crawl_of, set_fatal_error
from webcrawl.extensions.processes import add_counts
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.signals import crawl_closing

logger = logging.getLogger(__name__)

RESUMED = frozenset({"shutdown", "cluster_error", "frontier_error", "settings_error"})


class Hub:
    """Scrapy extension of the hub."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats: list[dict[str, Any]] = []  # of fetchers that have left
        self._opening: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.get("CLUSTER") or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        # Only a crawl with a hub loads nats-py.
        from webcrawl.config import hub as config  # noqa: PLC0415
        from webcrawl.hub.service import HubService  # noqa: PLC0415
        from webcrawl.hub.sessions import Sessions  # noqa: PLC0415

        crawl, settings = crawl_of(self._crawler), self._crawler.settings
        server = crawl.frontier
        if not isinstance(server, FrontierServer):
            return  # the frontier could not be opened, or SCHEDULER is not ours
        try:
            brief = config.brief_of(self._crawler)
        except SettingError as error:
            set_fatal_error(self._crawler, error)
            logger.error("%s", error)
            raise CloseSpider("settings_error") from None
        self._server = server
        server.shared = True  # whether or not a fetcher is there already
        self._bus = config.bus_from(settings)
        sessions = Sessions(
            self._bus,
            server,
            brief,
            crawl.rules,
            longest_fetch_s=config.longest_fetch_s(settings),
            clock=time.monotonic,
            new_name=config.new_name,
            on_exit=lambda reason, stats: self._stats.append(stats),
        )
        ownership = config.ownership_from(settings, self._bus, brief, is_new=not server.resumed)
        self._service = HubService(
            *(self._bus, ownership, sessions),
            allow=self._allow_until,
            refuse=self._refuse,
            clock=time.monotonic,
        )
        self._allow_until(time.monotonic())
        self._opening = asyncio.create_task(self._open())
        self._crawler.signals.connect(self.crawl_closing, crawl_closing)
        self._crawler.signals.connect(self.spider_closed, signals.spider_closed)

    async def _open(self) -> None:
        from webcrawl.hub.bus import Refused  # noqa: PLC0415
        from webcrawl.hub.joining import open_bus  # noqa: PLC0415

        try:
            await open_bus(self._bus, logger.warning)
        except Refused as refusal:
            self._refuse(str(refusal))
        else:
            logger.info("This process is the hub of the crawl, on %r", self._bus)
            self._service.start()

    def _allow_until(self, until: float) -> None:
        crawl = crawl_of(self._crawler)
        crawl.gate.allow_until(until)
        self._server.allow_until(until)
        if crawl.scheduler is not None:
            crawl.scheduler.wake()

    def _refuse(self, problem: str) -> None:
        logger.error("%s", problem)
        set_fatal_error(self._crawler, problem)
        crawl_of(self._crawler).is_refused = True
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            coro = engine.close_spider_async(reason="cluster_error")
            self._closing = asyncio.create_task(coro)

    def crawl_closing(self) -> None:
        """A signal handler. Tells the fetchers to end, with the reason if it is known already."""
        self._server.end("finished" if self._server.is_finished() else "shutdown")

    async def spider_closed(self, reason: str) -> None:
        """A signal handler: the frontier is closed."""
        if self._opening is not None:
            self._opening.cancel()
        await self._service.close("" if reason in RESUMED else reason)
        await self._bus.close()
        for stats in self._stats:
            add_counts(self._crawler, stats)
