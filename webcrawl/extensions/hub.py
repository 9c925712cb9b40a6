"""Makes the first process of a crawl its hub, for fetchers on other machines (docs/cluster.md)."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.wording import SettingError, utc_now
from webcrawl.config.build import leads_crawl
from webcrawl.crawl.crawl import crawl_of, end_crawl, refuse, report_error
from webcrawl.extensions.processes import add_counts
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.hub.server import FrontierServer
from webcrawl.signals import crawl_closing

if TYPE_CHECKING:
    from webcrawl.cluster.several import SeveralHubs

logger = logging.getLogger(__name__)

RESUMED = frozenset({"shutdown", "cluster_error", "frontier_error", "settings_error"})


class Hub:
    """Scrapy extension of the hub."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._stats: list[dict[str, Any]] = []  # of fetchers that have left
        self._opening: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.get("CLUSTER") or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        # Only a crawl with a hub loads nats-py.
        from webcrawl.cluster.claims import Claim  # noqa: PLC0415
        from webcrawl.cluster.service import HubService  # noqa: PLC0415
        from webcrawl.cluster.sessions import Sessions  # noqa: PLC0415
        from webcrawl.config import cluster as config  # noqa: PLC0415

        crawl, settings = crawl_of(self._crawler), self._crawler.settings
        server = crawl.frontier
        if not isinstance(server, FrontierServer):
            return  # the frontier could not be opened, or SCHEDULER is not ours
        _, arguments = getattr(self._crawler.spider, "crawl_arguments", ((), {}))
        try:
            brief = config.brief_of(self._crawler)
            record = config.record_of(self._crawler, arguments, crawl.crawl_id)
        except SettingError as error:
            refuse(self._crawler, "settings_error", error)
        self._server = server
        server.shared = True  # whether or not a fetcher is there already
        claim = crawl.claim or Claim(crawl.crawl_id, 0, 1)
        several = self._several = crawl.several
        self._name = f"hub {claim.number} of {claim.hubs}" if several is not None else "the hub"
        self._bus = several.bus if several is not None else config.bus_from(settings)
        sessions = Sessions(
            self._bus,
            server,
            brief,
            crawl.rules,
            longest_fetch_s=config.longest_fetch_s(settings),
            clock=time.monotonic,
            new_name=config.new_name,
            on_exit=lambda reason, stats: self._stats.append(stats),
            number=claim.number,
        )
        self._ownership = config.ownership_from(
            *(settings, self._bus, record, claim.number), is_new=not server.local.resumed
        )
        self._service = HubService(
            *(self._bus, self._ownership, sessions, several),
            allow=self._allow_until,
            refuse=self._refuse,
            clock=time.monotonic,
        )
        local = server.local
        if several is not None:
            self._join_others(several, local)
        self._checkpoints = crawl.checkpoints = config.checkpoints_from(
            *(settings, claim, local),
            serves=lambda: self._service.sessions.serves,
            on_made=several.courier.set_kept if several is not None else lambda inbox: None,
        )
        self._allow_until(time.monotonic())
        self._opening = asyncio.create_task(self._open())
        self._crawler.signals.connect(self.crawl_closing, crawl_closing)
        self._crawler.signals.connect(self.spider_closed, signals.spider_closed)

    def _join_others(self, several: SeveralHubs, frontier: LocalFrontier) -> None:
        from webcrawl.extensions.hubprocess import HubProcess  # noqa: PLC0415  (as above)

        several.join(
            *(self._server, frontier, HubProcess(self._crawler)),
            utc=utc_now,
            ownership=self._ownership,
            refuse=self._refuse,
        )
        crawl_of(self._crawler).whole = several.whole
        if not self._crawler.settings.get("CLUSTER_CHECKPOINTS"):
            logger.warning(
                "CLUSTER_CHECKPOINTS is not set: if a hub's disk is lost, so is its part of the"
                " crawl"
            )

    async def _open(self) -> None:
        from webcrawl.cluster.bus import Refused  # noqa: PLC0415
        from webcrawl.cluster.joining import open_bus  # noqa: PLC0415

        try:
            await open_bus(self._bus, logger.warning)
        except Refused as refusal:
            self._refuse(str(refusal))
        else:
            logger.info("This process is %s of the crawl, on %r", self._name, self._bus)
            self._service.start()

    def _allow_until(self, until: float) -> None:
        crawl = crawl_of(self._crawler)
        if crawl.scheduler is not None and crawl.gate.is_cut_off:
            crawl.scheduler.give_back(lambda host: True)
        crawl.gate.allow_until(until)
        self._server.allow_until(until)
        if crawl.scheduler is not None:
            crawl.scheduler.wake()

    def _refuse(self, problem: str) -> None:
        report_error(self._crawler, problem)
        crawl_of(self._crawler).is_refused = True
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            end_crawl(self._crawler, "cluster_error")

    def crawl_closing(self) -> None:
        """A signal handler. Tells the fetchers to end, with the reason if it is known already."""
        self._server.end("finished" if self._server.is_finished() else "shutdown")
        if self._checkpoints is not None:
            self._checkpoints.stop()

    async def spider_closed(self, reason: str) -> None:
        """A signal handler: the frontier is closed."""
        if self._opening is not None:
            self._opening.cancel()
        if self._checkpoints is not None:
            await self._checkpoints.close(is_clean=reason != "frontier_error")
        if self._several is not None:
            reason = self._several.whole.share.end or "shutdown"  # of the crawl, not of this hub
        await self._service.close("" if reason in RESUMED else reason)
        await self._bus.close()
        for stats in self._stats:
            add_counts(self._crawler, stats)
