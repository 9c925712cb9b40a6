"""The other processes of a crawl: started with it, watched, ended with it (docs/processes.md)."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from webcrawl.components import SettingError, only_looks, processes_from
from webcrawl.frontier.server import FrontierServer, Member
from webcrawl.frontier.wire import frame
from webcrawl.signals import crawl_closing
from webcrawl.spiders.broad import BroadSpider
from webcrawl.worker import settings_of

logger = logging.getLogger(__name__)

RESTARTS_MAX = 10  # in a crawl: what kills one process again and again would kill all
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; import webcrawl.worker; "
    "webcrawl.worker.main(int(sys.argv[1]))"
)


class _Process(NamedTuple):
    member: Member
    process: subprocess.Popen[bytes]


class Processes:
    """Runs all processes of the crawl but this one, the first."""

    def __init__(self, crawler: Crawler, count: int) -> None:
        self._crawler = crawler
        self._count = count
        self._running: dict[int, _Process] = {}  # by number, or ended
        self._restarts = 0
        self._stats: list[dict[str, Any]] = []  # of those that have left
        self._end_task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        count = processes_from(crawler.settings)
        if count == 1 or only_looks(crawler):
            raise NotConfigured
        extension = cls(crawler, count)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        server = getattr(self._crawler.engine.scheduler, "frontier", None)
        if not isinstance(server, FrontierServer):
            return  # it could not be opened, or is not ours
        self._server = server
        self._crawler.signals.connect(self.crawl_closing, crawl_closing)
        try:
            for number in range(2, self._count + 1):
                self._start(number)
        except (SettingError, OSError) as error:
            logger.error("%s", error)
            raise CloseSpider("processes_error") from None
        pids = ", ".join(str(each.process.pid) for each in self._running.values())
        logger.info("Crawls in %d processes: this one and %s", self._count, pids)

    def crawl_closing(self) -> None:
        """A signal handler: the others hear why only as far as it is known now."""
        self._server.end("finished" if self._server.is_finished() else "shutdown")
        for member, process in self._running.values():
            if not member.has_begun:  # it has nothing yet, and would only find that all is over
                process.kill()

    async def spider_closed(self) -> None:
        """Wait for those that finish their files. Who has not said goodbye by now is too late."""
        for member, process in self._running.values():
            if not member.has_left:
                process.kill()
            await member.gone.wait()
            process.wait()
        for stats in self._stats:
            self._add(stats)

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            try:
                greeting = frame(self._brief(number, descriptor))
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, str(descriptor), *self._search_path()],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[descriptor],
                    process_group=0,  # Ctrl-C is this process's affair
                )
            except BaseException:
                ours.close()
                raise
        gone = partial(self._gone, number)
        member = self._server.serve(ours, left=self._left, gone=gone, greeting=greeting)
        self._running[number] = _Process(member, process)

    def _brief(self, number: int, descriptor: int) -> tuple[Any, ...]:
        """What `worker.main` is told. SettingError if it cannot be sent."""
        spider = self._crawler.spider
        if not isinstance(spider, BroadSpider) or type(spider).__module__ == "__main__":
            kind = "of a BroadSpider that is in a module of its own, not in the script that runs"
            raise SettingError("CRAWL_PROCESSES", self._count, f"1, or more {kind}")
        args, kwargs = spider.crawl_arguments
        settings = settings_of(self._crawler.settings, number, descriptor)
        brief = settings, type(spider), args, kwargs | {"seeds": ""}
        try:
            pickle.dumps(brief)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            allowed = f"1, for settings or arguments of the spider do not pickle: {error}"
            raise SettingError("CRAWL_PROCESSES", self._count, allowed) from None
        return brief

    def _search_path(self) -> list[str]:
        """Where modules are found: here, and where `scrapy runspider` has found the spider."""
        name = type(self._crawler.spider).__module__
        file = Path(sys.modules[name].__file__ or ".").absolute()
        root = str(file.parents[name.count(".")])
        return sys.path if root in sys.path else [*sys.path, root]

    def _left(self, reason: str, stats: dict[str, Any]) -> None:
        """A process says goodbye. When it was not told to, the crawl ends for its reason."""
        self._stats.append(stats)
        if not self._server.is_ending:
            coro = self._crawler.engine.close_spider_async(reason=reason)
            self._end_task = asyncio.create_task(coro)

    def _gone(self, number: int, leases: int) -> None:
        """A process is no more. Without a goodbye it has died, and another takes its place."""
        member, process = self._running[number]
        if member.has_left or self._server.is_ending:
            return
        process.kill()  # what is left of it, without its socket
        code = process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        logger.warning("Process %d ended %s: its %d leases go back", number, how, leases)
        if not member.has_worked or self._restarts == RESTARTS_MAX:
            logger.error("Process %d is not started again", number)
            return
        self._restarts += 1
        try:
            self._start(number)
        except OSError as error:
            logger.error("Process %d is not started again: %s", number, error)
        else:
            pid = self._running[number].process.pid
            logger.info("Process %d is started again, as %d", number, pid)

    def _add(self, stats: dict[str, Any]) -> None:
        """Add the numbers of another process to Scrapy's stats here."""
        for name, value in stats.items():
            if type(value) is int and not name.startswith("memusage/"):
                self._crawler.stats.inc_value(name, value)
