"""The bus in memory: the twin of `natsbus.py` for tests, with faults drawn from a seed.

Without sockets and without time. A message waits in the hub until it is delivered: by `step` and
`run`, or in a turn of the event loop if the hub is not `stepped`. The same seed and the same calls
give the same faults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, NamedTuple

from webcrawl.cluster.bus.base import (
    ANSWERS,
    Bus,
    BusError,
    Entry,
    Unreachable,
    checked_crawl,
    checked_size,
    encoded,
    is_under,
)

logger = logging.getLogger(__name__)

_GENERATION: Final = 1 << 39  # as natsbucket's


class _Delivery(NamedTuple):
    to: MemoryBus
    handle: Callable[[bytes], None]
    data: bytes


class _Crawl:
    """What the buses of one crawl share."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self.sequence = 0


class MemoryHub:
    """A network and a server for some buses.

    `lose`, `repeat`, `reorder`: rates of published messages (a lost one is not repeated; a
    reordered one is delivered after any of the waiting ones). `fail`: rate of calls on entries and
    of requests that raise Unreachable, half of them after they were carried out.
    """

    def __init__(self, seed: int = 0, *, stepped: bool = False) -> None:
        self.lose = self.repeat = self.reorder = self.fail = 0.0
        self._random = Random(seed)
        self._stepped = stepped
        self._crawls: dict[str, _Crawl] = {}
        self._generation = 1
        self._buses: list[MemoryBus] = []
        self._waiting: list[_Delivery] = []

    def __repr__(self) -> str:
        return f"<MemoryHub {len(self._buses)} buses, {len(self._waiting)} waiting>"

    def bus(self, crawl: str = "webcrawl") -> MemoryBus:
        shared = self._crawls.setdefault(checked_crawl(crawl), _Crawl())
        bus = MemoryBus(self, crawl, shared)
        self._buses.append(bus)
        return bus

    # Faults

    def cut(self, bus: MemoryBus) -> None:
        """Disconnect: what waits for this bus is lost."""
        bus.disconnect()
        self._waiting = [each for each in self._waiting if each.to is not bus]

    def mend(self, bus: MemoryBus) -> None:
        bus.reconnect()

    def wipe(self) -> None:
        """All entries are gone, as with a new server. Revisions of before match nothing."""
        self._generation += 1
        for crawl in self._crawls.values():
            crawl.entries.clear()
            crawl.sequence = 0

    def happens(self, rate: float) -> bool:
        return rate > 0 and self._random.random() < rate

    # Deliveries

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def step(self) -> bool:
        """Deliver one message. False if none waits."""
        if not self._waiting:
            return False
        at = self._random.randrange(len(self._waiting)) if self.happens(self.reorder) else 0
        delivery = self._waiting.pop(at)
        delivery.to.deliver(delivery.handle, delivery.data)
        return True

    def run(self) -> None:
        """Deliver what waits, and what is published meanwhile."""
        while self.step():
            pass

    def send(self, sender: MemoryBus, subject: str, data: bytes) -> None:
        for bus in self._buses:
            if bus.crawl != sender.crawl or not bus.is_connected:
                continue
            for handle in bus.subscriptions.get(subject, ()):
                if self.happens(self.lose):
                    continue
                for _ in range(2 if self.happens(self.repeat) else 1):
                    self._waiting.append(_Delivery(bus, handle, data))
                    if not self._stepped:
                        asyncio.get_running_loop().call_soon(self.step)

    def answering(self, crawl: str, subject: str) -> Callable[[bytes], Awaitable[bytes]] | None:
        """The handler of any connected bus."""
        handlers = [
            handle
            for bus in self._buses
            if bus.crawl == crawl and bus.is_connected
            for handle in bus.answers.get(subject, ())
        ]
        return self._random.choice(handlers) if handlers else None

    def revision(self, crawl: _Crawl) -> int:
        crawl.sequence += 1
        return self._generation * _GENERATION + crawl.sequence


class MemoryBus(Bus):
    """Made by `MemoryHub.bus`."""

    def __init__(self, hub: MemoryHub, crawl: str, shared: _Crawl) -> None:
        self.crawl = crawl
        self.subscriptions: dict[str, list[Callable[[bytes], None]]] = {}
        self.answers: dict[str, list[Callable[[bytes], Awaitable[bytes]]]] = {}
        self._hub, self._shared = hub, shared
        self._is_open = self._is_cut = False
        self._answering = 0

    def __repr__(self) -> str:
        return f"<MemoryBus {self.crawl} {'' if self.is_connected else 'not '}connected>"

    @property
    def is_connected(self) -> bool:
        return self._is_open and not self._is_cut

    async def open(self) -> None:
        if self._is_cut:
            raise Unreachable("the twin is cut off")
        self._is_open = True

    async def close(self) -> None:
        self.disconnect()
        self._is_open = False

    # For the hub

    def disconnect(self) -> None:
        self._is_cut = True

    def reconnect(self) -> None:
        self._is_cut = False

    def deliver(self, handle: Callable[..., None], *arguments: Any) -> None:
        if self.is_connected:
            try:
                handle(*arguments)
            except Exception:
                logger.exception("A handler failed")

    # Messages

    def publish(self, subject: str, data: bytes) -> None:
        if self.is_connected:
            self._hub.send(self, encoded(subject), checked_size(data))

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self.subscriptions.setdefault(encoded(subject), []).append(handle)

    def unsubscribe(self, subject: str) -> None:
        self.subscriptions.pop(encoded(subject), None)

    async def answer(self, subject: str, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        self.answers.setdefault(encoded(subject), []).append(handle)

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        is_lost_after = await self._call()
        handle = self._hub.answering(self.crawl, encoded(subject))
        if handle is None:
            raise BusError("it does not run, or has lost the bus")
        if self._answering >= ANSWERS:
            raise Unreachable(f"no answer within {timeout_s:g} s")
        self._answering += 1
        try:
            answer = checked_size(await handle(checked_size(data)))
        except Exception:
            logger.exception("A request on %s failed", subject)
            raise BusError(f"the node that answers {subject} failed: its log says why") from None
        finally:
            self._answering -= 1
        self._check(is_lost_after)
        return answer

    # Entries

    async def _call(self) -> bool:
        """Let other tasks come in between. Whether the answer of this call is to be lost."""
        self._check(False)
        await asyncio.sleep(0)
        self._check(False)
        if not self._hub.happens(self._hub.fail):
            return False
        if self._hub.happens(0.5):
            raise Unreachable("the twin has failed, before")
        return True

    def _check(self, is_lost: bool) -> None:
        if not self.is_connected:
            raise Unreachable("the twin is not connected")
        if is_lost:
            raise Unreachable("the twin has failed, after")

    def _under(self, prefix: str) -> dict[str, Entry]:
        entries = self._shared.entries.items()
        return {key: entry for key, entry in entries if is_under(prefix, key)}

    def _write(self, key: str, value: bytes) -> int:
        entry = Entry(checked_size(value), self._hub.revision(self._shared))
        self._shared.entries[key] = entry
        return entry.revision

    async def get(self, key: str) -> Entry | None:
        encoded(key)
        self._check(await self._call())
        return self._shared.entries.get(key)

    async def create(self, key: str, value: bytes) -> int | None:
        encoded(key)
        is_lost = await self._call()
        revision = None if key in self._shared.entries else self._write(key, value)
        self._check(is_lost)
        return revision

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        encoded(key)
        is_lost = await self._call()
        entry = self._shared.entries.get(key)
        is_same = entry is not None and entry.revision == revision
        new = self._write(key, value) if is_same else None
        self._check(is_lost)
        return new

    async def put(self, key: str, value: bytes) -> int:
        encoded(key)
        is_lost = await self._call()
        revision = self._write(key, value)
        self._check(is_lost)
        return revision

    async def delete(self, key: str, revision: int | None = None) -> bool:
        encoded(key)
        is_lost = await self._call()
        entry = self._shared.entries.get(key)
        is_done = entry is not None and revision in (None, entry.revision)
        if is_done:
            del self._shared.entries[key]
            self._check(is_lost)
        return is_done

    async def keys(self, prefix: str) -> dict[str, Entry]:
        self._check(await self._call())
        return self._under(prefix)
