"""Starts the node of a crawl on several machines, and ends the crawl if the node must end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config.build import leads_crawl
from webcrawl.crawl.crawl import crawl_of, set_fatal_error
from webcrawl.extensions.nodeview import NodeDescription
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.scrapy_private import reads_seeds

if TYPE_CHECKING:  # only a crawl with CLUSTER loads it
    from webcrawl.cluster.running import RunningNode
    from webcrawl.cluster.views import NodeView

logger = logging.getLogger(__name__)


class ClusterNode:
    """Extension of the first process of each node: the `Process` of its node."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._description: NodeDescription | None = None
        self._closing: asyncio.Future[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.get("CLUSTER") or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        node: RunningNode | None = crawl_of(self._crawler).node
        if node is None or crawl_of(self._crawler).frontier is None:
            return  # it has not joined: the crawl ends
        self._description = NodeDescription(self._crawler, node)
        node.start(self)

    # `cluster.process.Process`

    def has_seeds(self) -> bool:
        """Whether the spider still gives seeds, or links and commands are on their way."""
        engine, scheduler = self._crawler.engine, crawl_of(self._crawler).scheduler
        is_starting = engine is not None and reads_seeds(engine)
        return is_starting or (scheduler is not None and scheduler.holds_work())

    def describe(self) -> NodeView:
        assert self._description is not None
        return self._description.make()

    def allow_until(self, at: float) -> None:
        frontier = crawl_of(self._crawler).frontier
        if isinstance(frontier, FrontierServer):
            frontier.allow_until(at)

    def stop(self) -> None:
        """Another node has ended the crawl by `scrapy ctl`: as that command does here."""
        logger.info("The crawl is stopped in all nodes")
        self._closing = asyncio.ensure_future(self._crawler.stop_async())

    def wake(self) -> None:
        scheduler = crawl_of(self._crawler).scheduler
        if scheduler is not None:
            scheduler.wake()

    def give_back(self, matches: Callable[[str], bool]) -> None:
        scheduler = crawl_of(self._crawler).scheduler
        if scheduler is not None:
            scheduler.give_back(matches)

    def leave(self) -> None:
        """All shards are on other nodes."""
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            self._closing = asyncio.ensure_future(engine.close_spider_async(reason="left"))

    def fail(self, problem: str) -> None:
        logger.error("%s", problem)
        set_fatal_error(self._crawler, problem)
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            self._closing = asyncio.ensure_future(engine.close_spider_async(reason="cluster_error"))
