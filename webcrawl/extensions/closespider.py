"""Scrapy's CloseSpider without its page count, which the scheduler keeps exactly."""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.extensions import closespider


class CloseSpider(closespider.CloseSpider):
    """CLOSESPIDER_TIMEOUT and all the others, save CLOSESPIDER_PAGECOUNT."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self.close_on["pagecount"] = 0
