"""Starts the node of a crawl on several machines, and ends the crawl if the node must end."""

from __future__ import annotations

import logging
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.cluster.running import RunningNode
from webcrawl.config.build import leads_crawl
from webcrawl.crawl.crawl import crawl_of, set_fatal_error

logger = logging.getLogger(__name__)


class ClusterNode:
    """Extension of the first process of each node."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.get("CLUSTER") or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        node: RunningNode | None = crawl_of(self._crawler).node
        if node is None:
            return
        node.has_seeds = self._has_seeds
        node.on_problem = self._end
        node.on_lapse = self._give_back
        node.start()

    def _give_back(self) -> None:
        """Give the leases back whose requests are not sent yet."""
        engine = self._crawler.engine
        slot = engine._slot if engine is not None else None
        if slot is not None:
            scheduler: Any = slot.scheduler
            scheduler.controls.give_back(lambda host: True)

    def _has_seeds(self) -> bool:
        engine = self._crawler.engine
        return engine is not None and getattr(engine, "_start", None) is not None

    def _end(self, problem: str) -> None:
        logger.error("%s", problem)
        set_fatal_error(self._crawler, problem)
        engine = self._crawler.engine
        if engine is not None and engine.spider is not None:
            engine.close_spider(engine.spider, "cluster_error")
