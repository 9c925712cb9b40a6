"""Keeps requests within the crawl's scope and caps, and away from private addresses."""

from __future__ import annotations

from time import monotonic
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.admission.dns import ResolutionFailed, Resolver
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.proxied import ProxyResolver
from webcrawl.config.build import caps_from, domains_of, guard_from, resolver_from, scope_from
from webcrawl.config.table import read
from webcrawl.crawl.crawl import has_our_scheduler
from webcrawl.frontier.caps import Caps
from webcrawl.middlewares.verifier import Verifier, is_counted, is_page, is_robots_task
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


class HostUniqueness(Verifier):
    """Drops requests over MAX_PAGES_PER_HOST or MAX_PAGES_PER_DOMAIN. A cap of 1 is uniqueness."""

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


class IpUniqueness(Verifier):
    """Drops requests to private addresses, and requests over MAX_PAGES_PER_IP.

    Judges the addresses that DNS_SERVERS answer at this moment. This project's download handler
    connects to an address that was judged. The handler of another project looks the name up again,
    and may get another address.
    """

    name = "ip_uniqueness"

    def __init__(
        self,
        crawler: Crawler,
        caps: Caps,
        guard: AddressGuard,
        resolver: Resolver | ProxyResolver,
    ) -> None:
        super().__init__(crawler)
        self._caps = caps
        self._guard = guard
        self._resolver = resolver

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        caps = caps_from(settings)
        if not caps.per_ip and read(settings, "ALLOW_PRIVATE_ADDRESSES", bool):
            raise NotConfigured
        middleware = cls(crawler, caps, guard_from(settings), resolver_from(settings))
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    async def decide(self, url: str, request: Request) -> None:
        if request.meta.get("proxy"):
            return  # the proxy looks up the name and connects
        try:
            resolution = await self._resolver.resolve(host_of(url), monotonic())
        except ResolutionFailed:
            self.refuse("dns")
        addresses = self._guard.admitted(host_of(url), resolution.addresses)
        if not addresses:
            self.refuse("blocked_address")
        if not is_page(url, request) or is_counted(request, url, self.name):
            return
        if reason := self._caps.take_ip(addresses[0]):
            self.refuse(reason)

    async def spider_closed(self) -> None:
        await self._resolver.close()
