"""Steers the running crawl: carries out the commands of `scrapy ctl` and of the live page.

Runs in the first process (docs/watching.md). A command is answered when it holds in all processes
of the crawl. Commands run one after the other; `stop`, `seeds` and `status` do not wait for others.

With several hubs, `extensions.hubprocess` decides which hub carries a command out.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self, cast

from msgspec.structs import replace
from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl.base.wording import SettingError, counted, utc_now
from webcrawl.config.build import CLOSE_GRACE_S, leads_crawl
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.keptcommands import Command, shown
from webcrawl.crawl.scrapy_private import is_closing
from webcrawl.crawl.steering import check, kept_reasons
from webcrawl.extensions.steeredseeds import put_seeds
from webcrawl.frontier.store import StoreError
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import TEXT_MAX, Orders, SteeringError
from webcrawl.scheduler.scheduler import Scheduler
from webcrawl.scope import Scope
from webcrawl.scope.rules import entries_of, named_host
from webcrawl.spiders.broad import in_daemon

if TYPE_CHECKING:  # only a crawl with several hubs loads it
    from webcrawl.extensions.hubprocess import HubProcess

logger = logging.getLogger(__name__)

_RATE_S: Final = 1.0  # over which `status` measures the rate
_SEEDS_ANSWER_S: Final = 20.0  # a longer list of seeds is read on after the answer
_CAPS: Final = ("MAX_PAGES_PER_HOST", "MAX_PAGES_PER_DOMAIN")


class SteeringExtension:
    """Scrapy extension: the `Steering` of a crawl. In a worker there is none."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._lock = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._readings: set[asyncio.Task[Any]] = set()  # of seeds
        self._is_whole = True  # the last orders are carried out, as far as is known
        self._commands: dict[str, Callable[[Sequence[str], str], Coroutine[Any, Any, str]]] = {
            "pause": self._pause,
            "resume": self._resume,
            "stop": self._stop,
            "seeds": self._seeds,
            "allow": partial(self._extend, "allow"),
            "deny": partial(self._extend, "deny"),
            "target": self._set_target,
            "retry": self._retry,
            "status": self._status,
        }

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        """A signal handler: from now on the crawl can be steered, if its scheduler is ours."""
        crawl = crawl_of(self._crawler)
        if isinstance(crawl.frontier, FrontierServer) and isinstance(crawl.scheduler, Scheduler):
            crawl.steering = self

    def spider_closed(self) -> None:
        """A signal handler. A list of seeds that is a pipe may never end."""
        for reading in self._readings:
            reading.cancel()

    @property
    def is_paused(self) -> bool:
        """Whether no request is sent until `resume`."""
        return self._scheduler.controls.is_paused

    async def do(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out one of COMMANDS. Returns one line for the user; SteeringError if refused."""
        said = shown(command, arguments)
        try:
            check(command, arguments)
            if command != "status" and self._is_ending:
                raise SteeringError("too late: the crawl is ending")
            answer = await self._do(command, arguments, by)
        except SteeringError as error:
            logger.info("steering: %s by %s is refused: %s", said, by, error)
            raise
        except Exception as error:  # our own fault: without an answer, the user would wait
            logger.exception("steering: %s by %s failed", said, by)
            raise SteeringError(f"failed, the log says where: {error!r}") from error
        logger.info("steering: %s by %s: %s", said, by, answer)
        return answer

    async def _do(self, command: str, arguments: Sequence[str], by: str) -> str:
        if command in ("allow", "deny"):
            try:
                arguments = await in_daemon(partial(_entries, command, arguments))
            except SettingError as error:
                raise SteeringError(str(error)) from None
        if self._hub is not None:
            return await self._hub.do(command, arguments, by)
        return await self.carry_out(command, arguments, by)

    async def carry_out(self, command: str, arguments: Sequence[str], by: str) -> str:
        """Carry out a command in this hub. `arguments` of allow and deny are entries."""
        return await self._commands[command](arguments, by)

    async def follow(self, added: Orders) -> int:
        """Carry out orders of hub 0, and keep the entries, which are new here. SteeringError.

        How many requests have no answer yet.
        """
        async with self._lock:
            known = self._server.orders
            for command in ("allow", "deny"):
                if entries := getattr(added, command):
                    await self._keep(command, entries, "hub 0")
                    logger.info("steering: %s by hub 0", shown(command, entries))
            if added.is_paused != known.is_paused:
                logger.info("steering: %s by hub 0", "paused" if added.is_paused else "resumed")
            allow, deny = known.allow + added.allow, known.deny + added.deny
            orders = replace(added, allow=allow, deny=deny)
            return 0 if orders == known and self._is_whole else await self._order(orders)

    # The commands

    async def _pause(self, arguments: Sequence[str], by: str) -> str:
        async with self._lock:
            if self._server.orders.is_paused and self._is_whole:
                return "paused already"
            unanswered = await self._order(_next(self._server.orders, is_paused=True))
        answer = f"paused: no request is sent until resume{_sent_before(unanswered)}"
        for name in ("CLOSESPIDER_TIMEOUT", "CLOSESPIDER_TIMEOUT_NO_ITEM"):
            if self._crawler.settings.getfloat(name):
                answer += f"; {name} runs on"
        return answer

    async def _resume(self, arguments: Sequence[str], by: str) -> str:
        async with self._lock:
            if not self._server.orders.is_paused and self._is_whole:
                return "not paused"
            await self._order(_next(self._server.orders, is_paused=False))
        return "resumed"

    async def _stop(self, arguments: Sequence[str], by: str) -> str:
        if self._hub is not None:
            await self._hub.whole.stop()
        self._start(self._crawler.stop_async())
        answer = f"stopping: pages under way have {CLOSE_GRACE_S:g} s to end"
        return answer + (", and the same command line resumes" if self._resumes else "")

    async def _extend(self, command: str, entries: Sequence[str], by: str) -> str:
        scope = crawl_of(self._crawler).scope
        assert scope is not None
        if command == "allow" and not scope.has_limits:
            raise SteeringError(
                "nothing to extend: neither SCOPE_SUFFIXES nor SCOPE_ALLOW limits this crawl"
            )
        async with self._lock:
            await self._keep(command, entries, by)
            orders = self._server.orders
            extended = {command: getattr(orders, command) + tuple(entries)}
            unanswered = await self._order(_next(orders, **extended))
        added = counted(len(entries), "entry", "entries")
        if command == "allow":
            return (
                f"{added} added: for seeds, and for links found from now on. Links refused before"
                " come in when they are found again"
            )
        return (
            f"{added} added: no such URL is requested from now on, and those in line are dropped as"
            f" their turn comes{_sent_before(unanswered)}"
        )

    async def _set_target(self, arguments: Sequence[str], by: str) -> str:
        target, server = int(arguments[0]), self._server
        async with self._lock:
            before = server.target
            try:
                lowest = server.lowest_target
                if self._hub is not None:
                    lowest = await self._hub.whole.recall(target) if target else 0
                if target and target < lowest:
                    raise SteeringError(
                        f"too low: {self._crawled} pages are crawled, and"
                        f" {lowest - self._crawled} are under way; the lowest target is"
                        f" {lowest} now"
                    )
                server.target = target  # before it is kept: no more is leased meanwhile
                await self._keep("target", arguments, by)
            except SteeringError:
                server.target = before
                raise
            finally:
                if self._hub is not None:
                    self._hub.whole.set_goal(server.target)
            await self._order(_next(server.orders))
        was = f"it was {before}" if before else "there was none"
        is_now = f"the target is {target} pages" if target else "there is no target any more"
        return f"{is_now}; {was}; {self._crawled} are crawled"

    @property
    def _crawled(self) -> int:
        """Answered pages of the crawl, as last known."""
        totals = crawl_of(self._crawler).totals
        return (self._server if totals is None else totals).counters.crawled

    async def _retry(self, arguments: Sequence[str], by: str) -> str:
        count = await self._server.retry(kept_reasons(arguments), time.monotonic())
        self._scheduler.wake()
        return f"{count:,} URLs are queued again"

    async def _status(self, arguments: Sequence[str], by: str) -> str:
        counters, target = self._server.counters, self._server.goal
        if self._hub is not None:
            target = 0  # it is of all hubs
        before, since = counters.crawled, time.monotonic()
        await asyncio.sleep(_RATE_S)
        rate = (counters.crawled - before) / (time.monotonic() - since)
        of_target = f" of {target:,}" if target else ""
        allowed, denied = len(self._server.orders.allow), len(self._server.orders.deny)
        checkpoints = crawl_of(self._crawler).checkpoints
        return (
            f"{self._state}: {counters.crawled:,}{of_target} pages,"
            f" {max(counters.pending, 0):,} URLs queued, {rate:.1f} pages/s in the last second"
            + (f"; added: {allowed} of allow, {denied} of deny" if allowed or denied else "")
            + (f"; {checkpoints.age}" if checkpoints is not None else "")
        )

    async def _seeds(self, arguments: Sequence[str], by: str) -> str:
        has_caps = any(read(self._crawler.settings, cap, int) for cap in _CAPS)
        reading = self._start(
            put_seeds(self._scheduler, arguments, lambda: self._is_ending, has_caps=has_caps)
        )
        self._readings.add(reading)
        reading.add_done_callback(self._readings.discard)
        done, _ = await asyncio.wait({reading}, timeout=_SEEDS_ANSWER_S)
        if reading.cancelled():
            raise SteeringError("the crawl has ended before all seeds were read")
        if done:
            return str(reading.result())
        reading.add_done_callback(partial(_log_seeds, shown("seeds", arguments)))
        return "the list is long: it is read on, and the log has the counts at its end"

    # Parts

    async def _order(self, orders: Orders) -> int:
        """Carry out `orders` in all processes; the number of requests without an answer.

        SteeringError if that fails in this process. The server has the orders even then, so the
        next command, and each worker that is started, carries them out too.
        """
        controls, self._is_whole = self._scheduler.controls, False
        others = self._start(self._server.steer(orders))
        here = self._start(controls.carry_out(orders))
        await asyncio.wait({others, here})  # a command must not begin while another one runs
        try:
            unanswered = int(here.result() + others.result())
        except Exception as error:
            logger.exception("steering: orders failed in this process")
            raise SteeringError(self._failure(orders, error)) from error
        self._is_whole = True
        return unanswered

    def _failure(self, orders: Orders, error: Exception) -> str:
        """How much of `orders` holds after `error`."""
        said = f"failed, the log says where: {error!r}. It may hold in part"
        if orders.allow or orders.deny:
            in_line = self._scheduler.controls.has_in_scope(orders)
            said += "; allow and deny hold for " if in_line else "; allow and deny do not hold for "
            said += "URLs in line" + (", and are kept for later runs" if self._resumes else "")
        return f"{said}. The next pause, resume, allow, deny or target carries it out whole"

    async def _keep(self, command: str, arguments: Sequence[str], by: str) -> None:
        """Keep the command for later runs. SteeringError if that fails."""
        setting = read(self._crawler.settings, "CLOSESPIDER_PAGECOUNT", int)
        row = Command(utc_now(), by, command, tuple(arguments), setting).row
        try:
            await self._server.local.keep_command(row)
        except StoreError as error:
            raise SteeringError(
                f"nothing is changed: the command cannot be kept: {error}"
            ) from None

    def _start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    @property
    def _hub(self) -> HubProcess | None:
        """None: there is one hub."""
        whole = crawl_of(self._crawler).whole
        return cast("HubProcess", whole.process) if whole is not None else None

    @property
    def _scheduler(self) -> Scheduler:
        return cast("Scheduler", crawl_of(self._crawler).scheduler)

    @property
    def _server(self) -> FrontierServer:
        return cast("FrontierServer", crawl_of(self._crawler).frontier)

    @property
    def _resumes(self) -> bool:
        """Whether a later run goes on where this one ends."""
        settings = self._crawler.settings
        return bool(settings.get("JOBDIR")) and settings["FRONTIER_STORE"] == "disk"

    @property
    def _is_ending(self) -> bool:
        engine = self._crawler.engine
        closing = engine is None or is_closing(engine)
        return closing or self._scheduler.controls.is_closing or self._server.is_met

    @property
    def _state(self) -> str:
        return "closing" if self._is_ending else crawl_of(self._crawler).state


def _next(orders: Orders, **changes: Any) -> Orders:
    """The orders that follow `orders`."""
    return replace(orders, number=orders.number + 1, **changes)


def _sent_before(unanswered: int) -> str:
    """The end of an answer to `pause` and `deny`."""
    if not unanswered:
        return ""
    return f"; {counted(unanswered, 'request')} sent before still without an answer"


def _entries(command: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """The entries of an `allow` or a `deny`, those of `@files` too. SettingError."""
    entries = tuple(
        f"re:{entry}" if entry.startswith("@") else entry  # a line of a file names no file
        for argument in arguments
        for entry in entries_of(command, _hosts_with_commas(argument))
    )
    if not entries:
        raise SettingError(command, " ".join(arguments), "at least one host or expression")
    Scope().extend(**{command: entries})
    for entry in entries:
        if len(entry) > TEXT_MAX:  # a process that gets it would end
            raise SettingError(command, f"{entry[:50]}...", f"at most {TEXT_MAX:,} characters")
        # JSON and file names may have surrogates, which a message to another process cannot hold.
        if any("\ud800" <= each <= "\udfff" for each in entry):
            raise SettingError(command, entry, "valid Unicode")
    return entries


def _hosts_with_commas(argument: str) -> list[str]:
    """The entries of one argument: several if it is hosts with commas, as in SCOPE_DENY.

    As one regular expression, such a list would match no URL.
    """
    parts = [part for part in map(str.strip, argument.split(",")) if part]
    return parts if parts and all(map(named_host, parts)) else [argument]


def _log_seeds(said: str, reading: asyncio.Task[str]) -> None:
    if not reading.cancelled():
        logger.info("steering: %s: %s", said, reading.exception() or reading.result())
