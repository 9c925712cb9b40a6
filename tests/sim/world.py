"""A web, its judge, and the processes of one crawl: the real frontier, server and clients.

One seed decides the web, each latency, each fault of a server and each kill. The judge sees every
request as the servers do. `BrokenPromiseError` names a request that must not be made, or pages that
are missing at the end, or came twice without a kill that excuses it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from tests.contracts.frontier import link
from tests.sim.network import Loop, Socket
from tests.unit.virtualtime import now
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import DiskFrontier
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lane,
    Lease,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.shared.client import RemoteFrontier
from webcrawl.frontier.shared.member import Member
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.frontier.store import StoreError
from webcrawl.parse.robots import RobotsRules

DELAY_S, IP_DELAY_S, CRAWL_DELAY_S = 10.0, 1.0, 17.0
FOREVER_S, UTC_S = 1e9, 1e9
LEASES_MAX = 6  # of a process
_RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 17", "x")
_ROUNDING_S = 2e-6  # of a clock on disk


class BrokenPromiseError(AssertionError):
    """The crawl has broken a promise."""


class Web:
    """Hosts with pages that link to one another; some host's robots.txt has rules."""

    def __init__(self, seed: int, hosts: int, pages: int) -> None:
        random = self._random = Random(f"web {seed}")
        self.hosts = [f"h{number}.example" for number in range(hosts)]
        self.ruled = self.hosts[0]
        self._addresses = max(1, hosts // 3)
        self.links: dict[str, list[str]] = {}
        for host in self.hosts:
            paths = [*map(str, range(pages)), "private"]
            for number, path in enumerate(paths):
                near = [f"http://{host}/{each}" for each in paths[number + 1 : number + 2]]
                far = [f"http://{random.choice(self.hosts)}/{random.randrange(pages)}"] * 2
                self.links[f"http://{host}/{path}"] = near + far
        self.seeds = [f"http://{host}/0" for host in self.hosts]
        self.wanted = {url for url in self.links if not self.is_disallowed(url)}
        self._faults: Counter[str] = Counter()

    def is_disallowed(self, url: str) -> bool:
        return url == f"http://{self.ruled}/private"

    def address(self, host: str) -> str:
        return f"10.0.0.{self.hosts.index(host) % self._addresses}"

    def answer(self, lease: Lease, asked_at: float, random: Random) -> Outcome:
        """A server fails now and then, and never more than twice in a row."""
        name = f"{lease.step} {lease.url or lease.host}"
        if random.random() < 0.08 and self._faults[name] < 2:
            self._faults[name] += 1
            match lease.step:
                case Step.RESOLVE:
                    return Unresolved("dns", again=True)
                case Step.ROBOTS:
                    return RobotsUnreachable("5xx", asked_at, now(), status=503)
                case _ if random.random() < 0.5:
                    return Fetched(503, asked_at, now())
            return Failed("timeout", asked_at, now())
        self._faults[name] = 0
        if lease.step is Step.RESOLVE:
            return Resolved((self.address(lease.host),), FOREVER_S)
        if lease.step is Step.ROBOTS:
            rules = _RULES if lease.host == self.ruled else RobotsRules.parse(b"", "x")
            return RobotsFetched(rules, FOREVER_S, asked_at, now())
        links = tuple(link(url, via=lease.url) for url in self.links[lease.url])
        return Fetched(200, asked_at, now(), links)


class Judge:
    """Sees each request when it is sent, and each answer."""

    def __init__(self, web: Web) -> None:
        self.answers: Counter[str] = Counter()  # 200s of pages
        self.excused: Counter[str] = Counter()  # answers that a killed process had not released
        self.fault: BrokenPromiseError | None = None  # the first
        self._web = web
        self._asked: dict[str, float] = {}  # hosts and addresses
        self._ruled: set[str] = set()  # hosts whose robots.txt was answered
        self._known: set[str] = set()  # of these, the crawl has kept the answer
        self._trace = hashlib.sha256()

    def note(self, *what: object) -> None:
        self._trace.update(repr((round(now(), 6), *what)).encode())

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def asks(self, lease: Lease) -> None:
        host = lease.host
        delay_s = CRAWL_DELAY_S if host == self._web.ruled and host in self._known else DELAY_S
        self._early(host, delay_s, lease.url)
        self._early(self._web.address(host), IP_DELAY_S, lease.url)
        if lease.step is Step.PAGE:
            if host not in self._ruled:
                self._blame(f"{lease.url} before its robots.txt")
            if self._web.is_disallowed(lease.url):
                self._blame(f"{lease.url} is disallowed")

    def answered(self, lease: Lease, outcome: Outcome) -> None:
        self.note(lease.step, lease.url or lease.host, type(outcome).__name__)
        if isinstance(outcome, RobotsFetched):
            self._ruled.add(lease.host)
        if isinstance(outcome, Fetched) and outcome.status == 200:
            self.answers[lease.url] += 1

    def released(self, lease: Lease, outcome: Outcome) -> None:
        if isinstance(outcome, RobotsFetched):
            self._known.add(lease.host)

    def ends(self, frontier: DiskFrontier) -> None:
        """The crawl is over."""
        missing = self._web.wanted - self.answers.keys()
        twice = {u: n for u, n in self.answers.items() if n > 1 + self.excused[u]}
        if self.fault is not None:
            raise self.fault
        if missing:
            raise BrokenPromiseError(f"{len(missing)} pages are missing: {sorted(missing)[:3]}")
        if twice:
            raise BrokenPromiseError(f"twice without a kill: {twice}")
        frontier.audit()
        codes = frontier.counters.codes["2xx"]
        if codes != len(self._web.wanted):
            raise BrokenPromiseError(f"{codes} pages counted, of {len(self._web.wanted)}")

    def _early(self, place: str, delay_s: float, url: str) -> None:
        before, self._asked[place] = self._asked.get(place, -FOREVER_S), now()
        if now() - before < delay_s - _ROUNDING_S:
            self._blame(f"{url}: {place} asked after {now() - before:.3f} s")

    def _blame(self, what: str) -> None:
        self.fault = self.fault or BrokenPromiseError(what)


class Fetcher:
    """What a process of the crawl does with leases, without Scrapy.

    It may exit at any time, as after Ctrl-C, or be killed.
    """

    def __init__(self, web: Web, judge: Judge, frontier: Frontier, random: Random) -> None:
        self._web, self._judge, self._random = web, judge, random
        self.frontier = frontier
        self.held: dict[Lease, str] = {}  # with the URL, once it was answered
        self._is_exiting = False
        self._wake = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._main = asyncio.create_task(self._run())

    def kill(self) -> None:
        self._judge.note("kill", len(self.held))
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
                if not await self._take():
                    self._wake.clear()
                    with suppress(TimeoutError):
                        async with asyncio.timeout(1.0):
                            await self._wake.wait()

    async def _take(self) -> int:
        """Acquire leases of both lanes; how many."""
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

    async def _fetch(self, lease: Lease) -> None:
        if lease.step is not Step.RESOLVE:
            self._judge.asks(lease)
        asked_at = now()
        await asyncio.sleep(self._random.expovariate(2.0))
        outcome = self._web.answer(lease, asked_at, self._random)
        self._judge.answered(lease, outcome)
        if isinstance(outcome, Fetched) and outcome.status == 200:
            self.held[lease] = lease.url
        await asyncio.sleep(self._random.random() * 0.2)  # it is read and archived
        with suppress(StoreError):
            await self.frontier.release([(lease, outcome)], now())
            self.held.pop(lease, None)
            self._judge.released(lease, outcome)


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


class Hub:
    """The process with the frontier, which fetches too, and its workers."""

    def __init__(self, web: Web, judge: Judge, folder: Path, workers: int, random: Random) -> None:
        self._parts = web, judge, random
        polite = Politeness(delay_s=DELAY_S, ip_delay_s=IP_DELAY_S)
        self.own = DiskFrontier(
            folder, Policy(politeness=polite, retry_times=4), now=now(), utc_s=UTC_S
        )
        self.server = FrontierServer(self.own)
        self._fetcher = Fetcher(web, judge, self.server, random)
        self.workers = [self.start_worker() for _ in range(workers)]

    def start_worker(self) -> Worker:
        web, judge, random = self._parts
        return Worker(web, judge, self.server, random)

    @property
    def database(self) -> Database:
        return self.own._store._db

    def kill(self) -> None:
        """Of the frontier only what is committed is left; the workers end without their hub."""
        for each in (self._fetcher, *self.workers):
            each.kill()
        self.database._changes.clear()
        self.database.close()
        assert self.own._folder is not None
        self.own._folder.close()


async def crawl(seed: int, folder: Path, *, hub_dies: bool = True) -> Judge:
    """A crawl in which processes are killed every few seconds, until it is over.

    Raises BrokenPromiseError. Without `hub_dies` only workers are killed.
    """
    loop: Any = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    random = loop.random
    web = Web(seed, hosts=12, pages=12)
    judge = Judge(web)
    hub = Hub(web, judge, folder, workers=3, random=random)
    await hub.server.put([link(url) for url in web.seeds], now())
    until = now() + 6_000
    while not hub.own.is_finished():
        await asyncio.sleep(random.expovariate(1 / 3.0))
        if judge.fault is not None:
            break
        if now() > until:
            raise BrokenPromiseError("it does not end")
        number = random.randrange(len(hub.workers))
        chances = [60, 12, 3 * hub_dies, 3 * hub_dies, 22]
        match random.choices(["kill", "exit", "hub", "torn", ""], chances)[0]:
            case "kill":
                hub.workers[number].kill()
                hub.workers[number] = hub.start_worker()
            case "exit":
                await hub.workers[number].exit()
                hub.workers[number] = hub.start_worker()
            case "hub":
                hub = await _again(hub, web, judge, folder)
            case "torn":
                await _die_in_commit(hub.database, random)
                hub = await _again(hub, web, judge, folder)
    for worker in hub.workers:
        worker.kill()
    await asyncio.sleep(1.0)
    held = [worker.member for worker in hub.workers if worker.member._leases]
    judge.ends(hub.own)
    if held:
        raise BrokenPromiseError("leases of dead processes are still out")
    hub.kill()
    return judge


async def _again(hub: Hub, web: Web, judge: Judge, folder: Path) -> Hub:
    """Kill `hub`; a while later the next one begins."""
    random: Random = asyncio.get_running_loop().random  # type: ignore[attr-defined]
    hub.kill()
    await asyncio.sleep(random.random() * 30)
    return Hub(web, judge, folder, workers=3, random=random)


async def _die_in_commit(database: Database, random: Random) -> None:
    """Wait until the next commit: it is written or not, and nobody gets to know."""
    is_written, commit = random.random() < 0.5, database.commit
    died = asyncio.get_running_loop().create_future()

    def last() -> None:
        if not died.done():
            if is_written:
                commit()
            died.set_result(None)
        raise StoreError("the process has died")

    database.commit = last  # type: ignore[method-assign]
    with suppress(TimeoutError):
        async with asyncio.timeout(20):
            await died
