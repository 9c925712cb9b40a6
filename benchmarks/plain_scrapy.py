"""Plain Scrapy as its page on broad crawls advises: the comparison for `vs-scrapy`.

    python -m benchmarks.plain_scrapy HOSTS SEEDS [--seeds-only]

It contains no part of webcrawl. If there is a choice, it takes the cheap way: names are looked up
in a table (HOSTS, JSON of name to address) instead of DNS, no file is written, and no item is made
from a page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.http import HtmlResponse, Response
from scrapy.linkextractors import LinkExtractor
from twisted.internet.base import ReactorBase
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import DNSLookupError
from twisted.internet.interfaces import IResolverSimple
from zope.interface import implementer  # type: ignore[import-untyped]

# https://docs.scrapy.org/en/latest/topics/broad-crawls.html
SETTINGS = {
    "SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue",
    "CONCURRENT_REQUESTS": 100,
    "REACTOR_THREADPOOL_MAXSIZE": 20,
    "LOG_LEVEL": "INFO",
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "DOWNLOAD_TIMEOUT": 15,
    "REDIRECT_ENABLED": False,
    # The same politeness.
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_USER_AGENT": "webcrawl",
    "USER_AGENT": "webcrawl/plain",
    # No listening ports: another process may have them.
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "DNS_RESOLVER": "benchmarks.plain_scrapy.TableResolver",
}


class Plain(Spider):
    """Follows every link of every page."""

    name = "plain"

    def __init__(self, seeds: str, follow: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.seeds = seeds
        self.links = LinkExtractor()
        self.follow = follow

    async def start(self) -> AsyncIterator[Request]:
        for url in Path(self.seeds).read_text().split():  # noqa: ASYNC240  (nothing runs yet)
            yield Request(url)

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Request]:
        if isinstance(response, HtmlResponse) and self.follow:
            for link in self.links.extract_links(response):
                yield Request(link.url)


@implementer(IResolverSimple)
class TableResolver:
    """Looks up addresses in the table in HOSTS_TABLE."""

    def __init__(self, reactor: ReactorBase, table: dict[str, str]) -> None:
        self._reactor = reactor
        self._table = table

    @classmethod
    def from_crawler(cls, crawler: Crawler, reactor: ReactorBase) -> Self:
        return cls(reactor, json.loads(Path(crawler.settings["HOSTS_TABLE"]).read_text()))

    def install_on_reactor(self) -> None:
        self._reactor.installResolver(self)  # type: ignore[arg-type]  # by `implementer`

    def getHostByName(self, name: str, timeout: object = ()) -> Deferred[str]:  # noqa: N802
        address = self._table.get(name)
        return succeed(address) if address else fail(DNSLookupError(name))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("hosts")
    parser.add_argument("seeds")
    parser.add_argument("--seeds-only", action="store_true")
    arguments = parser.parse_args()
    process = AsyncCrawlerProcess(SETTINGS | {"HOSTS_TABLE": arguments.hosts})
    process.crawl(Plain, seeds=arguments.seeds, follow=not arguments.seeds_only)
    process.start()


if __name__ == "__main__":
    main()
