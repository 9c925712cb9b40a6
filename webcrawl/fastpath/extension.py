"""Switches the fast path on: `webcrawl.fastpath.engine` in place of Scrapy's engine."""

from __future__ import annotations

import logging
from typing import Self

from scrapy import __version__ as scrapy_version
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.asyncio import is_asyncio_available

from webcrawl.crawl.scrapy_private import no_fast_path

logger = logging.getLogger(__name__)


class FastPath:
    """Installs the fast path as the spider opens. None in `EXTENSIONS`: Scrapy's own engine."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not is_asyncio_available():
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self) -> None:
        if why := no_fast_path():
            logger.warning(
                "Scrapy %s runs its own engine, which takes more time per page: %s",
                *(scrapy_version, why),
            )
        else:
            from webcrawl.fastpath import engine  # noqa: PLC0415  (needs these names)

            engine.install(self._crawler.engine)


class StatsCollector(MemoryStatsCollector):
    """`STATS_CLASS` setting: without the shim for the deprecated `spider` argument.

    Scrapy's looks up each attribute twice and wraps each method, to warn of that argument.
    """

    __getattribute__ = object.__getattribute__
