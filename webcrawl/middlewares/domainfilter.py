"""Keeps requests within the crawl's scope."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler

from webcrawl.config.build import domains_of, scope_from
from webcrawl.crawl.crawl import has_our_scheduler
from webcrawl.middlewares.verifier import Verifier, is_robots_task
from webcrawl.parse.urls import host_of
from webcrawl.scope import Scope


class DomainFilter(Verifier):
    """Drops requests that are out of scope: by SCOPE_*, URL limits, ports (ALLOW_PORTS), or the
    spider's `allowed_domains`.
    """

    name = "domain_filter"

    def __init__(self, crawler: Crawler, scope: Scope) -> None:
        super().__init__(crawler)
        self._scope = scope

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # With another scheduler, Scrapy's OffsiteMiddleware knows `allowed_domains`.
        domains = domains_of(crawler) if has_our_scheduler(crawler.settings) else []
        return cls(crawler, scope_from(crawler.settings, domains))

    def decide(self, url: str, request: Request) -> None:
        reason = self._scope.refuses(url, host_of(url))
        # RFC 9309, 2.3.1.2: a robots.txt may redirect to other hosts.
        if reason and (reason == "port" or not is_robots_task(request)):
            self.refuse(reason)
