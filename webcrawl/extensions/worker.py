"""Runs in a worker: a process that crawls with the frontier of the first process.

A worker is an ordinary Scrapy crawl of the same spider, with the settings of `settings_of`. Only
the first process reads seeds, writes stats lines and the report, and decides when to end. So a
worker does not run its spider's `start`. It ends when the first process tells it to end, or when
the connection is lost.
"""

from __future__ import annotations

import logging
import os
import pickle
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

from webcrawl.base.wording import SettingError
from webcrawl.config.build import share_of
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.scrapy_private import refuse_to_start
from webcrawl.hub.client import RemoteFrontier
from webcrawl.hub.wire import receive
from webcrawl.report.logformatter import is_verbose

EXIT_S = 5.0  # to finish files after the connection to the first process is lost
PRIORITY = 100  # above every setting of a user
_SUFFIX = re.compile(r"(\.\w+)?(\.(gz|bz2|xz))?$")


def settings_of(settings: Settings, number: int, *, again: bool = False) -> Settings:
    """The settings of worker `number`. SettingError.

    `again`: it replaces a worker that died, and appends to that worker's feeds.
    """
    own = Settings()
    own.update(settings)  # with the priorities of `settings`
    mark = f"[process {number}] %(message)s"
    middlewares = settings.getdict("SPIDER_MIDDLEWARES_BASE")
    feeds = settings.getdict("FEEDS").items()
    values = {
        "JOBDIR": None,
        "CRAWL_PROCESSES": 1,
        "CONCURRENT_REQUESTS": share_of(settings, number),
        "CLOSESPIDER_PAGECOUNT": 0,
        "CLOSESPIDER_TIMEOUT": 0,
        "SPIDER_MIDDLEWARES_BASE": middlewares | {f"{__name__}.WorkerMiddleware": -1},
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
    """The feed of worker `number` if that of the first process is `uri`. SettingError."""
    path = str(uri.absolute() if isinstance(uri, Path) else uri)
    if path.startswith("stdout:"):
        raise SettingError("FEEDS", path, "a file if CRAWL_PROCESSES is more than 1")
    return _SUFFIX.sub(lambda suffix: f"-{number}{suffix[0]}", path, count=1)


def main(descriptor: int) -> None:
    """Run the crawl that the first message on the socket describes.

    Ignores SIGINT, SIGTERM and SIGHUP: the first process tells its workers to end.
    """
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda *_: None)  # child processes would inherit SIG_IGN
    refuse_to_start()  # Scrapy may have been replaced since the crawl began
    sock = socket.socket(fileno=descriptor)
    sock.set_inheritable(False)
    try:
        settings, assignment, spider, args, kwargs = pickle.loads(receive(sock))
    except EOFError:
        return  # the first process has ended already
    sock.detach()
    process = AsyncCrawlerProcess(settings)
    if not is_verbose(settings):  # the first process logs Scrapy's start and end
        logging.getLogger("scrapy").setLevel(logging.WARNING)
    crawler = process.create_crawler(spider)
    crawl_of(crawler).assignment = assignment
    process.crawl(crawler, *args, **kwargs)
    process.start(install_signal_handlers=False)


class WorkerMiddleware:
    """Spider middleware of a worker. In place of the spider's `start` it waits for the end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        middleware = cls(crawler)
        crawler.signals.connect(middleware.spider_closed, signals.spider_closed)
        return middleware

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Wait until the crawl ends. `start` is not used: the first process runs it."""
        frontier, scheduler = self._frontier, crawl_of(self._crawler).scheduler
        assert scheduler is not None
        frontier.on_ready = scheduler.wake
        frontier.on_disconnect = exit_soon
        raise CloseSpider(await frontier.wait_for_end())
        yield

    def spider_closed(self, reason: str) -> None:
        """A signal handler: send the last message, with this worker's stats."""
        self._frontier.exit(reason, self._crawler.stats.get_stats())

    @property
    def _frontier(self) -> RemoteFrontier:
        return cast("RemoteFrontier", crawl_of(self._crawler).frontier)


def exit_soon() -> None:
    """Exit this process in EXIT_S seconds, even if it is still busy then."""
    timer = threading.Timer(EXIT_S, os._exit, (1,))
    timer.daemon = True
    timer.start()
