"""The machines of a simulated crawl: a hub and its fetchers on a bus, without Scrapy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.sim.bus import Net, SimBus
from tests.sim.processes import Fetcher, kill_frontier, own_frontier
from tests.sim.web import LONGEST_FETCH_S, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.lease import Lease, Outcome
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.hub.fetching import HubFrontier
from webcrawl.hub.packets import SILENCE_S, Brief
from webcrawl.hub.records import CrawlRecord, Ownership
from webcrawl.hub.service import HubService
from webcrawl.hub.sessions import Sessions

DELAY_S = 2.0  # much less than SILENCE_S: a lease that goes back too early is asked for too early
_BEFORE_S = 8.0  # from a lease to its request, at most
BRIEF = Brief("crawl", "broad", {}, "hash", {}, [], has_rules=False)


class Machine(Fetcher):
    """A process behind its gate, that may be stopped and cut off."""

    def __init__(
        self, web: Web, judge: Judge, frontier: Frontier, random: Random, bus: SimBus
    ) -> None:
        self.bus = bus
        self.gate = Gate()
        self._epoch = 0
        super().__init__(web, judge, frontier, random)

    async def may_send(self, lease: Lease) -> bool:
        epoch = self._epoch
        await self.sleep(self._random.random() * _BEFORE_S)
        while self.gate.is_shut or self.bus.is_stopped:
            try:
                await self.gate.wait(lease.url or lease.host)
            except FetchFailed:
                return False
            await self.sleep(0.0)
        return epoch == self._epoch

    def fetch_s(self) -> float:
        return LONGEST_FETCH_S if self._random.random() < 0.3 else super().fetch_s()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.bus.goes_on()

    def allow(self, until: float, hub: int = 0) -> None:
        """As `scheduler.controls` does: leases whose request is not sent go back after a cut."""
        if self.gate.is_cut_off:
            self._epoch += 1
            self.gate.cut(lambda url: True)
        self.gate.allow_until(until, hub)
        self.wake()

    async def _take(self) -> int:
        await self.sleep(0.0)
        return 0 if self.gate.is_shut else await super()._take()


class SimFrontier(HubFrontier):
    """A hub's frontier whose process may be stopped."""

    machine: RemoteMachine

    def tick(self) -> None:
        if not self.machine.bus.is_stopped:
            super().tick()

    def _renew(self) -> None:
        super()._renew()
        self.machine.lose_leases()


class RemoteMachine(Machine):
    """A fetcher."""

    def __init__(self, web: Web, judge: Judge, net: Net, name: str) -> None:
        bus = SimBus(net)
        self.remote = SimFrontier(
            bus, BRIEF, name, f"machine-{name}", clock=now, new_name=_names(net.random)
        )
        self.remote.machine = self
        super().__init__(web, judge, self.remote, net.random, bus)
        self.remote.on_ready = self.wake
        self.remote.on_allowed = self.allow
        self._life = asyncio.create_task(self.remote.wait_for_end())

    def kill(self) -> None:
        super().kill()
        self._life.cancel()
        self.bus.kill()

    async def exit(self) -> None:
        self._is_exiting = True
        self.remote.is_closing = lambda: True
        self.gate.end()
        await super().exit()
        self.remote.exit("shutdown", {})
        self._life.cancel()
        await self.remote.leave()
        self.lose_leases()
        self.bus.kill()

    async def release(self, lease: Lease, outcome: Outcome) -> None:
        if lease not in self.remote._keys:
            self.lose(lease)
            return
        stream = self.remote._stream
        await self.frontier.release([(lease, outcome)], now())
        if stream is self.remote._stream and not self.remote._gives_up:
            self.held.pop(lease, None)
            self._judge.released(lease, outcome)
        else:
            self.lose(lease)

    def lose_leases(self) -> None:
        """The hub has given all leases so far to others, or will."""
        for lease in tuple(self.held):
            if self.held[lease]:
                self.lose(lease)

    def lose(self, lease: Lease) -> None:
        if url := self.held.pop(lease, ""):
            self._judge.excused[url] += 1


class HubMachine(Machine):
    """The hub, which fetches too."""

    def __init__(self, web: Web, judge: Judge, folder: Path, net: Net) -> None:
        self.own = own_frontier(folder, DELAY_S, SILENCE_S)
        self.server = FrontierServer(self.own)
        super().__init__(web, judge, self.server, net.random, SimBus(net))
        self.refusal = ""
        new_name = _names(net.random)
        self.sessions = Sessions(
            self.bus,
            self.server,
            BRIEF,
            None,
            longest_fetch_s=LONGEST_FETCH_S,
            clock=now,
            new_name=new_name,
            on_exit=lambda reason, stats: None,
        )
        self.ownership = Ownership(
            self.bus,
            CrawlRecord("1", "crawl", "hash"),
            new_name(),
            pause_s=SILENCE_S + LONGEST_FETCH_S,
            is_new=not self.own.resumed,
            clock=now,
        )
        self.service = _Service(
            self.bus, self.ownership, self.sessions, allow=self.allow, refuse=self._refuse,
            clock=now,
        )  # fmt: skip
        self.service.start()

    def _refuse(self, why: str) -> None:
        self.refusal = why

    def kill(self) -> None:
        super().kill()
        for task in self.service._tasks:
            task.cancel()
        self.bus.kill()
        kill_frontier(self.own)


class _Service(HubService):
    _bus: SimBus

    async def check(self) -> None:
        if not self._bus.is_stopped:
            await super().check()

    async def tick(self) -> None:
        if not self._bus.is_stopped:
            await super().tick()


def _names(random: Random) -> Callable[[], str]:
    return lambda: f"{random.getrandbits(48):012x}"
