"""Caps on the pages per host and per registered domain. A cap of 1 is uniqueness."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config.build import caps_from
from webcrawl.frontier.caps import Caps
from webcrawl.middlewares.verifier import Verifier, is_counted, is_page
from webcrawl.parse.urls import host_of


class HostUniqueness(Verifier):
    """Drops requests over MAX_PAGES_PER_HOST or MAX_PAGES_PER_DOMAIN."""

    name = "host_uniqueness"

    def __init__(self, crawler: Crawler, caps: Caps) -> None:
        super().__init__(crawler)
        self._caps = caps

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        caps = caps_from(crawler.settings)
        if not caps.per_host and not caps.per_domain:
            raise NotConfigured
        return cls(crawler, caps)

    def decide(self, url: str, request: Request) -> None:
        if not is_page(url, request) or is_counted(request, url, self.name):
            return
        if reason := self._caps.take_url(host_of(url)):
            self.refuse(reason)
