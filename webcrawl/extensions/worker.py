"""A worker: a process that crawls for another one, on that one's frontier.

It is a Scrapy crawl like any, of the same spider with the settings of `settings_of`. Seeds, stats
lines, report and the decision to end are the main process's: the worker's spider has nothing to
start with, and closes when it is told, or when the main process is no more.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Self, cast

from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler
from scrapy.exceptions import CloseSpider
from scrapy.settings import Settings

from webcrawl.config.build import SOCKET_STORE, SettingError, share_of
from webcrawl.frontier.shared.client import RemoteFrontier
from webcrawl.frontier.shared.wire import receive
from webcrawl.report.logformatter import is_verbose
from webcrawl.scheduler.scheduler import Scheduler

LAST_S = 5.0  # for files to be finished, when the main process is no more
PRIORITY = 100  # above all that users set
_SUFFIX = re.compile(r"(\.\w+)?(\.(gz|bz2|xz))?$")


def settings_of(
    settings: Settings, number: int, descriptor: int, *, again: bool = False
) -> Settings:
    """The settings of worker `number`, whose socket is `descriptor`. SettingError.

    One that is started `again` goes on with the feeds of the one before.
    """
    own = settings.copy()
    own.frozen = False
    mark = f"[process {number}] %(message)s"
    middlewares = settings.getdict("SPIDER_MIDDLEWARES")
    feeds = settings.getdict("FEEDS").items()
    values = {
        "FRONTIER_STORE": f"{SOCKET_STORE}{descriptor}",
        "JOBDIR": None,
        "CRAWL_PROCESSES": 1,
        "CONCURRENT_REQUESTS": share_of(settings, "CONCURRENT_REQUESTS", number),
        "CONCURRENT_ADMISSIONS": share_of(settings, "CONCURRENT_ADMISSIONS", number),
        "CLOSESPIDER_PAGECOUNT": 0,
        "CLOSESPIDER_TIMEOUT": 0,
        "SPIDER_MIDDLEWARES": middlewares | {"webcrawl.extensions.worker.Membership": -1},
        "FEEDS": {
            numbered(uri, number): options | ({"overwrite": False} if again else {})
            for uri, options in feeds
        },
        "LOG_FORMAT": settings["LOG_FORMAT"].replace("%(message)s", mark),
        "LOG_FILE_APPEND": True,
        "LOG_VERSIONS": [],
        "STATS_DUMP": False,
    }
    for name, value in values.items():
        own.set(name, value, PRIORITY)
    return own


def numbered(uri: str | Path, number: int) -> str:
    """Where process `number` puts its items, when the first puts them to `uri`."""
    path = str(uri.absolute() if isinstance(uri, Path) else uri)
    if path.startswith("stdout:"):
        raise SettingError("FEEDS", path, "a file, where CRAWL_PROCESSES is more than 1")
    return _SUFFIX.sub(lambda suffix: f"-{number}{suffix[0]}", path, count=1)


def main(descriptor: int) -> None:
    """Run the crawl that the first message on the socket describes."""
    for each in (signal.SIGINT, signal.SIGTERM):  # the main process hears them, and says what to do
        signal.signal(each, lambda *_: None)  # unlike SIG_IGN, not for processes it may start
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    try:
        settings, spider, args, kwargs = receive(sock)
    except EOFError:
        return  # that was quick
    sock.detach()
    process = AsyncCrawlerProcess(settings)
    if not is_verbose(settings):  # Scrapy's notes of its start and end are the main process's
        logging.getLogger("scrapy").setLevel(logging.WARNING)
    process.crawl(spider, *args, **kwargs)
    process.start(install_signal_handlers=False)


class Membership:
    """Spider middleware of a worker: instead of seeds, the wait for the end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        membership = cls(crawler)
        crawler.signals.connect(membership.spider_closed, signals.spider_closed)
        return membership

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """The spider's own start is the main process's."""
        frontier = self._frontier
        frontier.on_ready = self._scheduler.look
        frontier.on_disconnect = end_soon
        raise CloseSpider(await frontier.wait_for_end())
        yield

    def spider_closed(self, reason: str) -> None:
        self._frontier.exit(reason, self._crawler.stats.get_stats())

    @property
    def _scheduler(self) -> Scheduler:
        return cast("Scheduler", self._crawler.engine.scheduler)

    @property
    def _frontier(self) -> RemoteFrontier:
        return cast("RemoteFrontier", self._scheduler.frontier)


def end_soon() -> None:
    """End this process in LAST_S seconds, whatever it does."""
    timer = threading.Timer(LAST_S, os._exit, (1,))
    timer.daemon = True
    timer.start()
