"""The machines of a simulated crawl: a hub and its fetchers on a bus, without Scrapy."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random

from msgspec.structs import replace

from tests.sim.bus import Net, SimBus
from tests.sim.processes import Fetcher, kill_frontier, own_frontier
from tests.sim.web import IP_DELAY_S, LONGEST_FETCH_S, Judge, Web
from tests.unit.virtualtime import now
from webcrawl.cluster.addresses import HubAddresses
from webcrawl.cluster.allhubs import AllHubs
from webcrawl.cluster.bus import repeat
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.fetching import HubFrontier
from webcrawl.cluster.packets import SILENCE_S, Brief
from webcrawl.cluster.records import CrawlRecord, Ownership
from webcrawl.cluster.service import HubService
from webcrawl.cluster.sessions import Sessions
from webcrawl.cluster.several import SeveralHubs
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.buckets import hub_of
from webcrawl.frontier.disk.database import is_begun
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.lease import Lease, Outcome
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders
from webcrawl.parse.urls import host_of

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
        self._unsent: set[Lease] = set()
        super().__init__(web, judge, frontier, random)

    async def may_send(self, lease: Lease) -> bool:
        self._unsent.add(lease)
        await self.sleep(self._random.random() * _BEFORE_S)
        where = lease.url or lease.host
        while self.gate.holds(where) or self.bus.is_stopped:
            try:
                await self.gate.wait(where)
            except FetchFailed:
                self._unsent.discard(lease)
                break
            await self.sleep(0.0)
        may_send = lease in self._unsent
        self._unsent.discard(lease)
        return may_send

    def fetch_s(self) -> float:
        return LONGEST_FETCH_S if self._random.random() < 0.3 else super().fetch_s()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self.bus.goes_on()

    def give_back(self, has_changed: Callable[[str], bool]) -> None:
        """As `scheduler.controls` does: leases whose request is not sent go back."""
        self._unsent = {lease for lease in self._unsent if not has_changed(lease.host)}
        self.gate.cut(lambda url: has_changed(host_of(url) if "//" in url else url))

    def allow(self, until: float, hub: int = 0) -> None:
        if self.gate.is_cut_off:
            self.give_back(lambda host: True)
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
        self.machine.lose_leases(self)


class RemoteMachine(Machine):
    """A fetcher, with a session to each hub."""

    def __init__(self, web: Web, judge: Judge, net: Net, name: str, hubs: int = 1) -> None:
        bus = SimBus(net)
        brief = replace(BRIEF, hubs=hubs)
        names = _names(net.random)
        self.remotes = [
            SimFrontier(
                bus, brief, f"{name}{number}", f"machine-{name}", clock=now, new_name=names,
                number=number,
            )
            for number in range(hubs)
        ]  # fmt: skip
        for each in self.remotes:
            each.machine = self
        self._hub_of_host = partial(hub_of, hubs=hubs)
        remote = AllHubs(self.remotes, self._hub_of_host) if hubs > 1 else self.remotes[0]
        self._unsure: dict[Lease, str] = {}  # released, and the hub has not answered
        super().__init__(web, judge, remote, net.random, bus)
        self.remote = remote
        self.gate.hub_of = remote.hub_of
        remote.on_ready = self.wake
        remote.on_allowed = self.allow
        remote.give_back = self.give_back
        self._life = asyncio.create_task(remote.wait_for_end())

    @property
    def is_served(self) -> bool:
        return all(each.is_connected for each in self.remotes)

    def kill(self) -> None:
        self.held.update(self._unsure)
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
        number = self._hub_of_host(lease.host)
        remote = self.remotes[number]
        if lease not in remote._keys:
            self.lose(lease)
            return
        stream = remote._stream
        self._unsure[lease] = self.held.pop(lease)
        await self.frontier.release([(lease, outcome)], now())
        if answers := set(remote._releasing):
            await asyncio.wait(answers)
        is_sure = stream is remote._stream and not remote._gives_up
        if is_sure and lease in self._unsure:
            del self._unsure[lease]
            self._judge.released(lease, outcome)
        else:
            self.lose(lease)

    def lose_leases(self, remote: SimFrontier | None = None) -> None:
        """The hub of `remote`, or all, has given all leases so far to others, or will."""
        for lease, url in [*self.held.items(), *self._unsure.items()]:
            if url and remote in (None, self.remotes[self._hub_of_host(lease.host)]):
                self.lose(lease)

    def lose(self, lease: Lease) -> None:
        if url := self.held.pop(lease, "") or self._unsure.pop(lease, ""):
            self._judge.excused[url] += 1


class HubMachine(Machine):
    """A hub, which fetches too. One of several is a `cluster.steering.Process`."""

    is_closing = False
    elapsed_s = 0.0
    rules = ""  # no file of rules

    def __init__(
        self, web: Web, judge: Judge, folder: Path, net: Net, number: int = 0, hubs: int = 1
    ) -> None:
        bus, new_name = SimBus(net), _names(net.random)
        self.several = several_hubs(bus, folder, number, hubs, new_name) if hubs > 1 else None
        partition = self.several.partition if self.several else None
        addresses = self.several.addresses if self.several else None
        self.own = own_frontier(folder, DELAY_S, SILENCE_S, partition, addresses)
        self.server = FrontierServer(self.own, target=judge.target)
        super().__init__(web, judge, self.server, net.random, bus)
        self.refusal = ""
        self.sessions = Sessions(
            self.bus,
            self.server,
            replace(BRIEF, hubs=hubs),
            None,
            longest_fetch_s=LONGEST_FETCH_S,
            clock=now,
            new_name=new_name,
            on_exit=lambda reason, stats: None,
            number=number,
        )
        self.ownership = Ownership(
            self.bus,
            CrawlRecord("1", "crawl", "hash", hubs),
            new_name(),
            pause_s=SILENCE_S + LONGEST_FETCH_S,
            is_new=not self.own.resumed,
            clock=now,
            number=number,
        )
        self.service = _Service(
            *(self.bus, self.ownership, self.sessions),
            self.several,
            allow=self.allow,
            refuse=self._refuse,
            clock=now,
        )
        if self.several:
            self.several.join(
                *(self.server, self.own, self),
                utc=str,
                ownership=self.ownership,
                refuse=self._refuse,
            )
        self.service.start()

    def _refuse(self, why: str) -> None:
        self.refusal = why

    def kill(self) -> None:
        super().kill()
        for task in self.service._tasks:
            task.cancel()
        self.bus.kill()
        kill_frontier(self.own)

    # As one of several

    def has_seeds(self) -> bool:
        return False

    def stop(self) -> None:
        raise AssertionError("nobody stops the crawl")

    def give_back_all(self) -> None:
        self.give_back(lambda host: True)

    async def order(self, command: str, arguments: Sequence[str], by: str) -> str:
        raise AssertionError("nobody steers the crawl")

    async def obey(self, added: Orders) -> int:
        return 0


def several_hubs(
    bus: SimBus, folder: Path, number: int, hubs: int, new_name: Callable[[], str]
) -> SeveralHubs:
    addresses = HubAddresses(
        number,
        hubs,
        ip_delay_s=IP_DELAY_S,
        is_new=not is_begun(folder / FOLDER),
        clock=now,
    )
    return SeveralHubs(
        bus,
        Claim("crawl", number, hubs),
        addresses,
        longest_fetch_s=LONGEST_FETCH_S,
        clock=now,
        new_name=new_name,
    )


class _Service(HubService):
    """That of a process that may be stopped."""

    _bus: SimBus

    async def _repeat(self, seconds: float, work: Callable[[], Awaitable[None] | None]) -> None:
        async def goes_on() -> None:
            await self._bus.goes_on()
            if (waiting := work()) is not None:
                await waiting

        await repeat(seconds, goes_on)


def _names(random: Random) -> Callable[[], str]:
    return lambda: f"{random.getrandbits(48):012x}"
