"""Scrapy's CloseSpider without CLOSESPIDER_PAGECOUNT, which the scheduler meets exactly."""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.extensions import closespider

from webcrawl.crawl.crawl import crawl_of


class CloseSpider(closespider.CloseSpider):
    """Handles CLOSESPIDER_TIMEOUT and all other CLOSESPIDER_*, except CLOSESPIDER_PAGECOUNT.

    While the crawl is paused, CLOSESPIDER_TIMEOUT runs on, but CLOSESPIDER_TIMEOUT_NO_ITEM does
    not: no item can come.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.close_on["pagecount"] = 0

    def _count_items_produced(self) -> None:
        if not crawl_of(self.crawler).gate.is_shut:
            super()._count_items_produced()
