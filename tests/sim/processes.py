"""The processes of a simulated crawl: the real frontier, server and clients, without Scrapy."""

from __future__ import annotations

import asyncio
import shutil
from contextlib import suppress
from pathlib import Path
from random import Random

from tests.sim.network import Socket
from tests.sim.web import DELAY_S, IP_DELAY_S, LONGEST_FETCH_S, UTC_S, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.frontier.addresses import Addresses
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lane,
    Lease,
    Outcome,
    Returned,
    Step,
)
from webcrawl.frontier.mailbox import Partition
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError
from webcrawl.hub.client import RemoteFrontier
from webcrawl.hub.member import Member
from webcrawl.hub.server import FrontierServer

LEASES_MAX = 6  # of a process
_TIMEOUT_S, _SLOW_S = 60.0, 5.0  # of a page; and at the end of a target


class Fetcher:
    """What a process of the crawl does with leases, without Scrapy.

    It may exit at any time, as after Ctrl-C, or be killed.
    """

    def __init__(self, web: Web, judge: Judge, frontier: Frontier, random: Random) -> None:
        self._web, self._judge, self._random = web, judge, random
        self.frontier = frontier
        self.held: dict[Lease, str] = {}  # with the URL, once it was answered
        self._cuts: dict[Lease, asyncio.Event] = {}  # by page that hangs
        self._is_exiting = False
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._main = asyncio.create_task(self._run())

    def kill(self) -> None:
        self._judge.note("kill", len(self.held))
        self._judge.disconnected(self.held)
        self._judge.excused.update(filter(None, self.held.values()))
        self.held.clear()
        for task in (self._main, *self._tasks):
            task.cancel()

    async def exit(self) -> None:
        """End cleanly: fetches under way end, leases that are not begun go back."""
        self._is_exiting = True
        self._wake.set()
        await self._main
        while self._tasks:
            await asyncio.wait(self._tasks)

    def wake(self) -> None:
        self._wake.set()

    async def _run(self) -> None:
        with suppress(StoreError):
            while not self._is_exiting:
                if self.frontier.has_spare:
                    self._cut_slow()
                if not await self._take():
                    self._wake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await self._wake.wait()

    async def _take(self) -> int:
        """Acquire leases of all lanes; how many."""
        count = 0
        for lane in Lane:
            if (room := LEASES_MAX - len(self.held)) <= 0:
                continue
            leases = await self.frontier.acquire(now(), room, lane)
            count += len(leases)
            if self._is_exiting:
                await self.frontier.release([(each, Returned()) for each in leases], now())
                continue
            for lease in leases:
                self.held[lease] = ""
                task = asyncio.create_task(self._fetch(lease))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
        return count

    def _cut_slow(self) -> None:
        for lease, event in self._cuts.items():
            assert lease.link is not None
            if now() - self._judge.asked_at(lease.host) > _SLOW_S * 4**lease.link.retries:
                event.set()

    async def _fetch(self, lease: Lease) -> None:
        outcome: Outcome = Returned()
        if await self.may_send(lease):
            if lease.step is not Step.RESOLVE:
                self._judge.asks(lease)
            asked_at = now()
            if self._web.hangs(lease, self._random):
                outcome = await self._hang(lease, asked_at)
            else:
                await self.sleep(self.fetch_s())
                outcome = self._web.answer(lease, asked_at, self._random)
            self._judge.answered(lease, outcome)
            if isinstance(outcome, Fetched) and outcome.status == 200:
                self.held[lease] = lease.url
            await self.sleep(self._random.random() * 0.2)  # it is read and archived
        with suppress(StoreError):
            await self.release(lease, outcome)

    def fetch_s(self) -> float:
        return min(self._random.expovariate(2.0), LONGEST_FETCH_S)

    async def may_send(self, lease: Lease) -> bool:
        """Wait until the request may be sent; whether it may be."""
        return True

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def release(self, lease: Lease, outcome: Outcome) -> None:
        await self.frontier.release([(lease, outcome)], now())
        if isinstance(self.frontier, RemoteFrontier) and (answers := set(self.frontier._releasing)):
            await asyncio.wait(answers)
        self.held.pop(lease, None)
        self._judge.released(lease, outcome)

    async def _hang(self, lease: Lease, asked_at: float) -> Failed:
        """Wait until the time-out, or until the target waits for this page."""
        cut = self._cuts[lease] = asyncio.Event()
        with suppress(TimeoutError):
            async with asyncio.timeout(_TIMEOUT_S):
                await cut.wait()
        del self._cuts[lease]
        return Failed("timeout", asked_at, now())


class Worker(Fetcher):
    """A process that the hub serves."""

    def __init__(self, web: Web, judge: Judge, server: FrontierServer, random: Random) -> None:
        self._socket, theirs = Socket.pair()
        self.member: Member = server.serve(
            self._socket,  # type: ignore[arg-type]  # the loop knows it
            on_exit=lambda reason, stats: None,
            on_disconnect=lambda leases: None,
        )
        remote = RemoteFrontier(theirs)  # type: ignore[arg-type]
        super().__init__(web, judge, remote, random)
        remote.on_ready = self.wake
        self._beat = asyncio.create_task(remote.wait_for_end())

    def kill(self) -> None:
        super().kill()
        self._beat.cancel()
        self._socket.cut()

    async def exit(self) -> None:
        await super().exit()
        assert isinstance(self.frontier, RemoteFrontier)
        self.frontier.exit("shutdown", {})
        await asyncio.sleep(1.0)
        self._beat.cancel()
        self._socket.cut()


def own_frontier(
    folder: Path,
    delay_s: float = DELAY_S,
    others_ask_s: float = 0.0,
    partition: Partition | None = None,
    addresses: Addresses | None = None,
) -> LocalFrontier:
    polite = Politeness(delay_s=delay_s, ip_delay_s=IP_DELAY_S)
    return LocalFrontier(
        folder,
        Policy(politeness=polite, retry_times=4),
        now=now(),
        utc_s=UTC_S,
        others_ask_s=others_ask_s,
        partition=partition,
        addresses=addresses,
    )


def kill_frontier(own: LocalFrontier) -> None:
    """Only what is committed is left."""
    own._store._db._changes.clear()
    own._store._db.close()
    assert own._folder is not None
    own._folder.close()


def copy_frontier(source: Path, folder: Path) -> None:
    """Copy the files of a frontier, as of its last commit.

    A checkpoint of RocksDB would wait for the disk. Meanwhile it may compact files.
    """
    before: set[tuple[str, int]] = set()
    while before != _files_of(source):
        before = _files_of(source)
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(shutil.Error):
            shutil.copytree(source, folder)


def _files_of(folder: Path) -> set[tuple[str, int]]:
    files = set()
    for path in folder.iterdir():
        with suppress(FileNotFoundError):
            files.add((path.name, path.stat().st_size))
    return files


class Hub:
    """The process with the frontier, which fetches too, and its workers."""

    def __init__(self, web: Web, judge: Judge, folder: Path, workers: int, random: Random) -> None:
        self._parts = web, judge, random
        self.own = own_frontier(folder)
        self.server = FrontierServer(self.own, target=judge.target)
        self._fetcher = Fetcher(web, judge, self.server, random)
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_worker(self) -> Worker:
        web, judge, random = self._parts
        return Worker(web, judge, self.server, random)

    @property
    def database(self) -> Database:
        return self.own._store._db

    def kill(self) -> None:
        """The workers end without their hub."""
        for each in (self._fetcher, *self.workers):
            each.kill()
        kill_frontier(self.own)
