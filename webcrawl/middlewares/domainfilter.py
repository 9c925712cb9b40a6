"""Keeps requests within the crawl's scope."""

from __future__ import annotations

from typing import Self

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.config.build import domains_of, scope_from
from webcrawl.config.table import TABLE
from webcrawl.middlewares.verifier import Verifier, is_robots_task
from webcrawl.parse.urls import host_of
from webcrawl.scope import Scope

SETTINGS = ("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW", "SCOPE_RULES")


class DomainFilter(Verifier):
    """Drops requests that SCOPE_SUFFIXES, SCOPE_DENY, SCOPE_ALLOW, SCOPE_RULES or the spider's
    `allowed_domains` exclude.
    """

    name = "domain_filter"

    def __init__(self, crawler: Crawler, scope: Scope) -> None:
        super().__init__(crawler)
        self._scope = scope

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        # With another scheduler, Scrapy's OffsiteMiddleware does it.
        is_ours = TABLE["SCHEDULER"].kind.fits(crawler.settings["SCHEDULER"])
        domains = domains_of(crawler) if is_ours else []
        if not domains and not any(crawler.settings.getlist(name) for name in SETTINGS):
            raise NotConfigured
        return cls(crawler, scope_from(crawler.settings, domains))

    def decide(self, url: str, request: Request) -> None:
        if is_robots_task(request):  # RFC 9309, 2.3.1.2: a robots.txt may redirect to other hosts
            return
        if reason := self._scope.refuses(url, host_of(url)):
            self.refuse(reason)
