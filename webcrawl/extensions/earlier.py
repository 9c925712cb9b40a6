"""Opens the index of earlier archives (DEDUP_INDEX), for the spider's comparison of each page."""

from __future__ import annotations

from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config.build import is_debugging
from webcrawl.config.earlier import earlier_from, prepare_earlier
from webcrawl.config.kinds import SettingError
from webcrawl.crawl.crawl import crawl_of, refuse


class EarlierArchives:
    """Scrapy extension of each process. If the index cannot be used, the crawl does not start."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.get("DEDUP_INDEX") or is_debugging(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        settings, crawl = self._crawler.settings, crawl_of(self._crawler)
        if crawl.assignment is not None:
            crawl.earlier_folder = crawl.assignment.earlier_folder
        try:
            if crawl.earlier_folder is None:  # a script's crawl: its event loop waits meanwhile
                crawl.earlier_folder = prepare_earlier(settings)
            if crawl.earlier_folder is not None:
                crawl.earlier = earlier_from(settings, crawl.earlier_folder)
        except SettingError as error:
            refuse(self._crawler, "settings_error", error)

    def spider_closed(self) -> None:
        earlier, crawl_of(self._crawler).earlier = crawl_of(self._crawler).earlier, None
        if earlier is not None:
            earlier.close()
