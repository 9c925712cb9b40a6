"""Runs the other processes of a crawl: starts, watches and ends them (docs/machines.md).

The first process has this extension and owns the frontier. Each of the others runs
`webcrawl.extensions.worker` and talks to the first over a socket pair. A worker that dies is
replaced, RESTARTS_MAX times in an hour; the frontier server takes its leases back.
"""

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
from typing import Any, NamedTuple, Self, cast

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.wording import SettingError
from webcrawl.config.build import domains_of, is_debugging, processes_from
from webcrawl.crawl.crawl import (
    FATAL_ERROR_STAT,
    Assignment,
    crawl_of,
    end_crawl,
    refuse,
    set_fatal_error,
)
from webcrawl.extensions.worker import settings_of
from webcrawl.hub.member import Member
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import frame
from webcrawl.signals import crawl_closing, process_died
from webcrawl.spiders.broad import BroadSpider

logger = logging.getLogger(__name__)

RESTARTS_MAX = 10  # in an hour: a page that kills one worker would kill every worker after it
WATCH_S = 1.0  # between two checks for heartbeats
SILENCE_MAX_S = 120.0  # without a heartbeat; a user's code may block for a while
EXIT_S = 10.0  # time-out for a worker to exit after its last message
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; import webcrawl.extensions.worker; "
    "webcrawl.extensions.worker.main(int(sys.argv[1]))"
)


class _Process(NamedTuple):
    """A worker: its end of the frontier server, and the process of the operating system."""

    member: Member
    process: subprocess.Popen[bytes]


class Processes:
    """Scrapy extension of the first process. Runs the workers, all other processes of the crawl."""

    def __init__(self, crawler: Crawler, count: int) -> None:
        self._crawler = crawler
        self._count = count
        self._running: dict[int, _Process] = {}  # by number, also after their end
        self._restarts: deque[float] = deque(maxlen=RESTARTS_MAX)  # monotonic, the latest
        self._stats: list[dict[str, Any]] = []  # of workers that have exited
        self._notices: set[asyncio.Task[None]] = set()  # of workers that have died
        self._watch_task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        count = processes_from(crawler.settings)
        if count == 1 or is_debugging(crawler):
            raise NotConfigured
        extension = cls(crawler, count)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        server = crawl_of(self._crawler).frontier
        if not isinstance(server, FrontierServer):
            return  # the frontier could not be opened, or SCHEDULER is not ours
        self._server = server
        self._crawler.signals.connect(self.crawl_closing, crawl_closing)
        try:
            for number in range(2, self._count + 1):
                self._start(number)
        except (SettingError, OSError) as error:
            refuse(self._crawler, "processes_error", error)
        pids = ", ".join(str(each.process.pid) for each in self._running.values())
        logger.info("Crawls in %d processes: this one and %s", self._count, pids)
        self._watch_task = asyncio.create_task(self._watch())

    def crawl_closing(self) -> None:
        """A signal handler. Tells the workers to end, with the reason if it is known already."""
        self._server.end("finished" if self._server.is_finished() else "shutdown")
        for member, process in self._running.values():
            if not member.has_connected:  # it has no lease
                process.kill()

    async def spider_closed(self) -> None:
        """Wait for workers that are finishing their files. Kill those that have not exited cleanly.

        A clean exit: the worker has sent its last message.
        """
        for member, process in self._running.values():
            if member.has_exited:
                with suppress(TimeoutError):
                    async with asyncio.timeout(EXIT_S):
                        await member.disconnected.wait()
            process.kill()
            process.wait()
            await member.disconnected.wait()
        if self._watch_task:
            self._watch_task.cancel()
        for stats in self._stats:
            add_counts(self._crawler, stats)

    async def _watch(self) -> None:
        """Kill workers that miss their heartbeats. `_on_disconnect` then replaces them.

        Counts checks without a heartbeat, not seconds: if this process is suspended, the pause
        counts as one check.
        """
        while True:
            await asyncio.sleep(WATCH_S)
            for number, (member, process) in self._running.items():
                member.missed_heartbeats += 1
                silence_s = member.missed_heartbeats * WATCH_S
                if silence_s > SILENCE_MAX_S and process.poll() is None:
                    logger.warning(
                        "Process %d sent no heartbeat for %g s: killed", number, SILENCE_MAX_S
                    )
                    process.kill()

    async def _notify_of_death(self, member: Member, pid: int) -> None:
        await self._server.forget(member)
        await self._crawler.signals.send_catch_log_async(process_died, pid=pid)

    def _start(self, number: int) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            try:
                greeting = frame(self._brief(number, descriptor))
                search_path = cast("BroadSpider", self._crawler.spider).search_path()
                process = subprocess.Popen(
                    [sys.executable, "-c", _START, str(descriptor), *search_path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[descriptor],
                    process_group=0,  # Ctrl-C reaches the first process only
                )
            except BaseException:
                ours.close()
                raise
        on_disconnect = partial(self._on_disconnect, number)
        member = self._server.serve(
            ours, on_exit=self._on_exit, on_disconnect=on_disconnect, greeting=greeting
        )
        self._running[number] = _Process(member, process)
        crawl_of(self._crawler).workers[number] = process.pid

    def _brief(self, number: int, descriptor: int) -> bytes:
        """The first message to `worker.main`. SettingError if it cannot be pickled."""
        spider = self._crawler.spider
        if not isinstance(spider, BroadSpider) or type(spider).__module__ == "__main__":
            kind = "if the spider is a BroadSpider in a module, not in the script that runs"
            raise SettingError("CRAWL_PROCESSES", self._count, f"1, or more {kind}")
        args, kwargs = spider.crawl_arguments
        again = number in self._running
        settings = settings_of(self._crawler.settings, number, again=again)
        crawl = crawl_of(self._crawler)
        assignment = Assignment(
            descriptor,
            rules=crawl.rules.rules if crawl.rules is not None else None,
            earlier_folder=crawl.earlier_folder,
            domains=domains_of(self._crawler),
            crawl=crawl.crawl_id,
            seeds=crawl.seeds,
        )
        brief = settings, assignment, type(spider), args, kwargs | {"seeds": ""}
        try:
            return pickle.dumps(brief)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            allowed = f"1, as the settings or the spider's arguments cannot be pickled: {error}"
            raise SettingError("CRAWL_PROCESSES", self._count, allowed) from None

    def _on_exit(self, reason: str, stats: dict[str, Any]) -> None:
        """Callback: a worker exits cleanly. If nothing asked it to, the whole crawl ends."""
        self._stats.append(stats)
        if FATAL_ERROR_STAT in stats:
            set_fatal_error(self._crawler, stats[FATAL_ERROR_STAT])
        if not self._server.is_ending:
            end_crawl(self._crawler, reason)

    def _on_disconnect(self, number: int, leases: int) -> None:
        """Callback: a worker's socket is closed. Without a clean exit it is replaced."""
        member, process = self._running[number]
        if member.has_exited or self._server.is_ending:
            return
        process.kill()  # it may still run with its socket closed
        code = process.wait()
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        logger.warning("Process %d ended %s: its %d leases are returned", number, how, leases)
        task = asyncio.create_task(self._notify_of_death(member, process.pid))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)
        now = time.monotonic()
        too_often = len(self._restarts) == RESTARTS_MAX and now - self._restarts[0] < 3600
        # A worker without a lease may be unable to start; in a pause no worker gets one.
        has_worked = member.had_leases or self._server.orders.is_paused
        if not has_worked or too_often:
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


def add_counts(crawler: Crawler, stats: dict[str, Any]) -> None:
    """Add the whole numbers of another process's stats to Scrapy's stats of this one."""
    own = crawler.stats
    for name, value in stats.items():
        if type(value) is not int or name.startswith("memusage/"):
            continue
        if type(own.get_value(name, 0)) is int:  # CloseSpider(404): a reason is no count
            own.inc_value(name, value)
