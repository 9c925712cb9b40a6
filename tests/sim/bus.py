"""The bus of a simulated crawl on several machines: messages that are lost, records that are wiped.

Messages from one process to another arrive in order, late by a random time, or not at all. A cut
process is not reached, and its connection is lost after a while; a stopped one gets its messages
when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random

from tests.sim.web import LONGEST_FETCH_S
from tests.unit.virtualtime import now
from webcrawl.cluster.bus import Bus, BusError, Entry
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import TICK_S
from webcrawl.cluster.peers import Peers

LATE_S = 0.003  # of a message, on average
_LEAST_S = 1e-7  # between two arrivals: the order of equal times is not stable
LOST = 0.005  # of all messages


class Net:
    """What all processes of the crawl share."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.buses: list[SimBus] = []
        self.records: dict[str, Entry] = {}
        self.revision = 0
        self.is_down = False
        self.lost = LOST
        self.new_name = map(str, count(1)).__next__

    def wipe(self) -> None:
        self.records.clear()

    def spoil(self, key: str) -> None:
        """Write what is no record."""
        self.revision += 1
        self.records[key] = Entry(b"\x00garbage", self.revision)

    def go_down(self) -> None:
        self.is_down = True
        for bus in self.buses:
            bus.on_lost()


class SimBus(Bus):
    """The connection of one process."""

    def __init__(self, net: Net) -> None:
        self.is_cut = self.is_gone = False
        self.unheard: set[str] = set()  # subjects on which it is not heard
        self.stopped_until = 0.0
        self.net = net
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        self._latest = 0.0  # when the last message under way arrives here
        net.buses.append(self)

    @property
    def is_stopped(self) -> bool:
        return now() < self.stopped_until

    async def goes_on(self) -> None:
        """Wait while the process is stopped."""
        while (left_s := self.stopped_until - now()) > 0:  # noqa: ASYNC110  (it may grow)
            await asyncio.sleep(left_s)

    def stop(self, seconds: float) -> None:
        """Stop the process for so long."""
        self.stopped_until = max(self.stopped_until, now() + seconds)

    def cut(self, seconds: float) -> None:
        """Cut the process off for so long."""
        self.is_cut = True
        asyncio.get_running_loop().call_later(seconds, setattr, self, "is_cut", False)

    def part(self, subject: str, seconds: float) -> None:
        """Let nobody hear the process on `subject` for so long."""
        self.unheard.add(subject)
        asyncio.get_running_loop().call_later(seconds, self.unheard.discard, subject)

    def kill(self) -> None:
        self.is_gone = True
        self.net.buses.remove(self)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        self.kill()

    def publish(self, subject: str, data: bytes) -> None:
        if self.is_cut or self.is_gone or self.net.is_down or subject in self.unheard:
            return
        for bus in self.net.buses:
            if subject in bus._handlers and self.net.random.random() >= self.net.lost:
                bus._arrives(subject, data)

    def _arrives(self, subject: str, data: bytes) -> None:
        late = now() + self.net.random.expovariate(1 / LATE_S)
        self._latest = max(self._latest + _LEAST_S, late, self.stopped_until)
        asyncio.get_running_loop().call_at(self._latest, self._deliver, subject, data)

    def _deliver(self, subject: str, data: bytes) -> None:
        if self.is_stopped:  # since it was sent
            self._arrives(subject, data)
        elif not (self.is_cut or self.is_gone):
            self._handlers[subject](data)

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self._handlers[subject] = handle

    async def get(self, key: str) -> Entry | None:
        await self._way()
        return self.net.records.get(key)

    async def put(self, key: str, value: bytes, revision: int) -> int | None:
        await self._way()
        found = self.net.records.get(key)
        if (found.revision if found else 0) != revision:
            return None
        self.net.revision += 1
        self.net.records[key] = Entry(value, self.net.revision)
        return self.net.revision

    async def _way(self) -> None:
        await asyncio.sleep(self.net.random.expovariate(1 / LATE_S))
        await self.goes_on()
        if self.is_cut or self.is_gone or self.net.is_down:
            raise BusError("not connected")


def peers_of(bus: SimBus, claim: Claim) -> Peers:
    """The sessions of a hub, which serves from the beginning, with the other hubs."""
    name = bus.net.new_name
    peers = Peers(bus, claim, longest_fetch_s=LONGEST_FETCH_S, clock=now, new_name=name)
    peers.serves_until = float("inf")
    bus.on_lost = peers.end_all
    return peers


async def keep_sessions(bus: SimBus, peers: Peers) -> None:
    """What a hub does for its sessions, except while it is stopped."""
    await peers.open()
    while True:
        await bus.goes_on()
        peers.tick()
        await asyncio.sleep(TICK_S)
