"""The other processes of a crawl: started with it, watched, ended with it (docs/processes.md)."""

from __future__ import annotations

import asyncio
import logging
import pickle
import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured

from webcrawl.config.build import SettingError, is_debugging, processes_from
from webcrawl.extensions.worker import settings_of
from webcrawl.frontier.shared.member import Member
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.frontier.shared.wire import frame
from webcrawl.report.console import PROBLEM, set_fatal_error
from webcrawl.signals import crawl_closing
from webcrawl.spiders.broad import BroadSpider

logger = logging.getLogger(__name__)

RESTARTS_MAX = 10  # in an hour: what kills one process again and again would kill all
WATCH_S = 1.0
LAST_S = 10.0  # for one that has said goodbye to be gone
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; import webcrawl.extensions.worker; "
    "webcrawl.extensions.worker.main(int(sys.argv[1]))"
)


class _Process(NamedTuple):
    member: Member
    process: subprocess.Popen[bytes]


class Processes:
    """Runs all processes of the crawl but this one, the first."""

    def __init__(self, crawler: Crawler, count: int, silence_max_s: float) -> None:
        self._crawler = crawler
        self._count = count
        self._silence_max_s = silence_max_s
        self._running: dict[int, _Process] = {}  # by number, or ended
        self._restarts: deque[float] = deque(maxlen=RESTARTS_MAX)  # monotonic times of the last
        self._stats: list[dict[str, Any]] = []  # of those that have left
        self._end_task: asyncio.Task[None] | None = None
        self._watch_task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        count = processes_from(crawler.settings)
        if count == 1 or is_debugging(crawler):
            raise NotConfigured
        silence_max_s = crawler.settings.getfloat("CRAWL_PROCESS_TIMEOUT")
        extension = cls(crawler, count, silence_max_s)
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
            set_fatal_error(self._crawler, error)
            logger.error("%s", error)
            raise CloseSpider("processes_error") from None
        pids = ", ".join(str(each.process.pid) for each in self._running.values())
        logger.info("Crawls in %d processes: this one and %s", self._count, pids)
        self._watch_task = asyncio.create_task(self._watch())

    def crawl_closing(self) -> None:
        """A signal handler: the others hear why only as far as it is known now."""
        self._server.end("finished" if self._server.is_finished() else "shutdown")
        for member, process in self._running.values():
            if not member.has_connected:  # it has nothing yet, and would only find that all is over
                process.kill()

    async def spider_closed(self) -> None:
        """Wait for those that finish their files. Who has not said goodbye by now is too late."""
        for member, process in self._running.values():
            if member.has_exited:
                with suppress(TimeoutError):
                    async with asyncio.timeout(LAST_S):
                        await member.disconnected.wait()
            process.kill()
            process.wait()
            await member.disconnected.wait()
        if self._watch_task:
            self._watch_task.cancel()
        for stats in self._stats:
            self._add(stats)

    async def _watch(self) -> None:
        """Kill those of which nothing is heard: `_gone` does the rest.

        Looks are counted, not seconds, so that a pause of this process is one look.
        """
        while True:
            await asyncio.sleep(WATCH_S)
            for number, (member, process) in self._running.items():
                member.missed_heartbeats += 1
                if (
                    member.missed_heartbeats * WATCH_S > self._silence_max_s
                    and process.poll() is None
                ):
                    logger.warning("Process %d says nothing any more", number)
                    process.kill()

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
        member = self._server.serve(ours, on_exit=self._left, on_disconnect=gone, greeting=greeting)
        self._running[number] = _Process(member, process)

    def _brief(self, number: int, descriptor: int) -> tuple[Any, ...]:
        """What `worker.main` is told. SettingError if it cannot be sent."""
        spider = self._crawler.spider
        if not isinstance(spider, BroadSpider) or type(spider).__module__ == "__main__":
            kind = "of a BroadSpider that is in a module of its own, not in the script that runs"
            raise SettingError("CRAWL_PROCESSES", self._count, f"1, or more {kind}")
        args, kwargs = spider.crawl_arguments
        again = number in self._running
        settings = settings_of(self._crawler.settings, number, descriptor, again=again)
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
        if PROBLEM in stats:
            set_fatal_error(self._crawler, stats[PROBLEM])
        if not self._server.is_ending:
            coro = self._crawler.engine.close_spider_async(reason=reason)
            self._end_task = asyncio.create_task(coro)

    def _gone(self, number: int, leases: int) -> None:
        """A process is no more. Without a goodbye it has died, and another takes its place."""
        member, process = self._running[number]
        if member.has_exited or self._server.is_ending:
            return
        process.kill()  # what is left of it, without its socket
        code = process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        logger.warning("Process %d ended %s: its %d leases go back", number, how, leases)
        now = time.monotonic()
        too_often = len(self._restarts) == RESTARTS_MAX and now - self._restarts[0] < 3600
        if not member.had_leases or too_often:
            logger.error("Process %d is not started again", number)
            return
        self._restarts.append(now)
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
