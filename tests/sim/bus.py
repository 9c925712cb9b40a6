"""The bus of a simulated crawl on several machines: messages that are lost, records that are wiped.

Messages from one process to another arrive in order, late by a random time, or not at all. A cut
process is not reached, and its connection is lost after a while; a stopped one gets its messages
when it goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.unit.virtualtime import now
from webcrawl.cluster.bus import Bus, BusError, Entry

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
        self._net = net
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

    def kill(self) -> None:
        self.is_gone = True
        self._net.buses.remove(self)

    async def open(self) -> None:
        """It is open."""

    async def close(self) -> None:
        self.kill()

    def publish(self, subject: str, data: bytes) -> None:
        if self.is_cut or self.is_gone or self._net.is_down or subject in self.unheard:
            return
        for bus in self._net.buses:
            if subject in bus._handlers and self._net.random.random() >= self._net.lost:
                bus._arrives(subject, data)

    def _arrives(self, subject: str, data: bytes) -> None:
        late = now() + self._net.random.expovariate(1 / LATE_S)
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
        return self._net.records.get(key)

    async def put(self, key: str, value: bytes, revision: int) -> int | None:
        await self._way()
        found = self._net.records.get(key)
        if (found.revision if found else 0) != revision:
            return None
        self._net.revision += 1
        self._net.records[key] = Entry(value, self._net.revision)
        return self._net.revision

    async def _way(self) -> None:
        await asyncio.sleep(self._net.random.expovariate(1 / LATE_S))
        await self.goes_on()
        if self.is_cut or self.is_gone or self._net.is_down:
            raise BusError("not connected")
