"""robots.txt by RFC 9309, for requests that did not come through the frontier.

Replaces Scrapy's own middleware, which allows everything when a robots.txt is unreachable, keeps it
forever, and follows its redirects as those of pages. Does not wait for the crawl delay: a
middleware that waits would occupy a place of the downloader.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from itertools import count
from time import monotonic
from typing import Self

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from webcrawl.admission.robotspolicy import (
    ROBOTS_EXPIRY_S,
    AllowsAll,
    HasRules,
    Redirects,
    Unreachable,
    robots_answer,
)
from webcrawl.admission.runner import read_robots
from webcrawl.config.build import robots_reader
from webcrawl.config.table import read
from webcrawl.frontier.base import STALE_S
from webcrawl.middlewares.verifier import Verifier, robots_task
from webcrawl.parse.robots import ALLOW_ALL, DISALLOW_ALL, RobotsRules
from webcrawl.parse.urls import origin_of, target_of

logger = logging.getLogger(__name__)

ORIGINS_MAX = 10_000  # size of the cache of rules (LRU); up to 500 KiB each, 1 KB on average


class RobotsTxt(Verifier):
    """Drops requests that robots.txt disallows. Fetches it once per origin and day."""

    name = "robots_txt"

    def __init__(self, crawler: Crawler, read_rules: Callable[[bytes], RobotsRules]) -> None:
        super().__init__(crawler)
        self._read_rules = read_rules
        self._known: OrderedDict[str, tuple[RobotsRules, float]] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[RobotsRules]] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not read(crawler.settings, "ROBOTSTXT_OBEY", bool):
            raise NotConfigured
        middleware = cls(crawler, robots_reader(crawler.settings))
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    async def decide(self, url: str, request: Request) -> None:
        if request.meta.get("dont_obey_robotstxt"):
            return
        rules = await self._rules(origin_of(url))
        if not rules.allows(target_of(url)):
            self.refuse("robots")

    async def _rules(self, origin: str) -> RobotsRules:
        """The rules of `origin`. Requests that need them at the same time share one fetch."""
        rules, expires_at = self._known.get(origin, (ALLOW_ALL, 0.0))
        if expires_at > monotonic():
            self._known.move_to_end(origin)
            return rules
        task = self._under_way.get(origin)
        if task is None:
            task = self._under_way[origin] = asyncio.create_task(self._ask(origin))
            task.add_done_callback(lambda _: self._under_way.pop(origin))
        return await asyncio.shield(task)

    async def _ask(self, origin: str) -> RobotsRules:
        """Fetch the rules of `origin` and put them into the cache."""
        rules = await self._fetch(origin + "/robots.txt")
        kept_s = ROBOTS_EXPIRY_S
        if rules is None:
            rules, kept_s = DISALLOW_ALL, STALE_S
            self._crawler.stats.inc_value(f"webcrawl/middleware/{self.name}/unreachable")
        self._known[origin] = rules, monotonic() + kept_s
        while len(self._known) > ORIGINS_MAX:
            self._known.popitem(last=False)
        return rules

    async def _fetch(self, url: str) -> RobotsRules | None:
        """The rules at `url`; None if they are unreachable."""
        for redirects in count():
            response = await self._get(url)
            if response is None:
                return None
            location = response.headers.get("Location") or b""
            match robots_answer(response.status, location, url, redirects):
                case HasRules():
                    return await read_robots(response.body, self._read_rules)
                case AllowsAll():
                    return ALLOW_ALL
                case Redirects(target):
                    url = target
                case Unreachable():
                    break
        return None

    async def _get(self, url: str) -> Response | None:
        try:
            return await self._crawler.engine.download_async(robots_task(url))
        except Exception as error:  # handlers and middlewares of this project may raise anything
            logger.debug("No robots.txt at %s: %r", url, error)
            return None

    def spider_closed(self) -> None:
        for task in self._under_way.values():
            task.cancel()
