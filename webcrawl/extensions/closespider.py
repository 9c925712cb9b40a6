"""Scrapy's CloseSpider without CLOSESPIDER_PAGECOUNT, which the scheduler meets exactly."""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.extensions import closespider


class CloseSpider(closespider.CloseSpider):
    """Handles CLOSESPIDER_TIMEOUT and all other CLOSESPIDER_*, except CLOSESPIDER_PAGECOUNT.

    All of them run on while the crawl is paused.
    """

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.close_on["pagecount"] = 0
