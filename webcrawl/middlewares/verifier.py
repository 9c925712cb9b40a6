"""What the middlewares share: a request that the frontier decided on passes, any other is decided.

A middleware never waits in the normal path: a leased request costs a look at its lease.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Coroutine
from typing import Never

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http.request import NO_CALLBACK

from webcrawl.crawl.page_fetch import lease_of, note, state_of
from webcrawl.parse.urls import canonicalize


class Verifier(ABC):
    """Base of the middlewares. `name` stands in the stat `webcrawl/middleware/<name>/dropped`."""

    name: str

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    def process_request(self, request: Request) -> Coroutine[None, None, None] | None:
        lease = lease_of(request)
        if lease is not None and lease.url == request.url:
            return None
        url = canonicalize(request.url)
        if url is None:
            if request.url.startswith(("http:", "https:")):
                self.refuse("url")
            return None  # data:, file: and the like are none of the crawl's hosts
        if lease is not None and lease.url == url:  # a user's own spelling of it
            return None
        return self.decide(url, request)

    @abstractmethod
    def decide(self, url: str, request: Request) -> Coroutine[None, None, None] | None:
        """Refuse `request`, whose canonical URL is `url`, or return."""

    def refuse(self, reason: str) -> Never:
        """Count and drop the request at hand."""
        self._crawler.stats.inc_value(f"webcrawl/middleware/{self.name}/dropped")
        raise IgnoreRequest(f"{type(self).__name__}: {reason}")


def robots_task(url: str) -> Request:
    """The Request for the robots.txt at `url`, which may be called something else."""
    meta = {"dont_obey_robotstxt": True, "dont_redirect": True}
    request = Request(url, callback=NO_CALLBACK, priority=1000, meta=meta)
    note(request, robots_url=request.url)
    return request


def is_robots_task(request: Request) -> bool:
    """Whether `request` is for a robots.txt: a meta that was copied names another URL."""
    return state_of(request).robots_url == request.url


def is_page(url: str, request: Request) -> bool:
    """Whether the caps count `request`: a robots.txt is no page."""
    return not is_robots_task(request) and not url.endswith("/robots.txt")


def is_counted(request: Request, url: str, mark: str) -> bool:
    """Whether `request` was counted before, under `mark`: then it is a retry. Marks it if not."""
    counted = state_of(request).counted
    if (mark, url) in counted:
        return True
    note(request, counted=counted | {(mark, url)})
    return False
