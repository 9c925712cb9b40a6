"""The base of the middlewares: a leased request passes, any other request is checked.

A middleware never waits for a leased request: it only compares the URL with that of the lease.
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

# In `request.meta`: the URL that each cap has counted. Plain text, since the queues of another
# Scrapy project may write `meta` to the disk by marshal or as JSON.
_COUNTED = "webcrawl_counted"


class Verifier(ABC):
    """Base of the middlewares. `name` is part of the stat `webcrawl/middleware/<name>/dropped`."""

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
            return None  # data:, file: and the like have no host
        if lease is not None and lease.url == url:  # another spelling of the same URL
            return None
        return self.decide(url, request)

    @abstractmethod
    def decide(self, url: str, request: Request) -> Coroutine[None, None, None] | None:
        """Call `refuse`, or return to let `request` pass. `url` is its canonical URL."""

    def refuse(self, reason: str) -> Never:
        """Drop the present request, and count it."""
        self._crawler.stats.inc_value(f"webcrawl/middleware/{self.name}/dropped")
        raise IgnoreRequest(f"{type(self).__name__}: {reason}")


def robots_task(url: str) -> Request:
    """A Request for the robots.txt at `url`. After a redirect its path may be any path."""
    meta = {"dont_obey_robotstxt": True, "dont_redirect": True}
    request = Request(url, callback=NO_CALLBACK, priority=1000, meta=meta)
    note(request, robots_url=request.url)
    return request


def is_robots_task(request: Request) -> bool:
    """Whether `robots_task` made `request`. A copied state has the URL of another Request."""
    return state_of(request).robots_url == request.url


def is_page(url: str, request: Request) -> bool:
    """Whether the caps count `request`: a robots.txt is no page."""
    return not is_robots_task(request) and not url.endswith("/robots.txt")


def is_counted(request: Request, url: str, mark: str) -> bool:
    """Whether `request` was counted before, and so is a retry. If not, it is counted now."""
    counted = request.meta.get(_COUNTED, {})
    if counted.get(mark) == url:
        return True
    request.meta[_COUNTED] = {**counted, mark: url}
    return False
