"""A world of nodes and a bus with faults, in simulated time. All is drawn from one seeded Random.

Each call of the bus takes a while to arrive, and its answer a while to come back; in between others
act. An answer may be lost, whether the call was applied or not. Each node's clock has a rate and an
offset of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from heapq import heappop, heappush
from random import Random
from typing import Any

from webcrawl.cluster.bus import Bus, Entry, Unreachable

LATENCY_S = 0.2
TIMEOUT_S = 2.0


class World:
    """Simulated time, and the KV."""

    def __init__(self, random: Random, *, lost: float = 0.02) -> None:
        self.random = random
        self.lost = lost  # rate of calls without an answer
        self.now = 1000.0
        self.kv: dict[str, Entry] = {}
        self.revision = 0
        self.on_step: Callable[[], None] = lambda: None
        self.handlers: list[tuple[str, WorldBus, Callable[[bytes], None]]] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0

    def at(self, time: float, do: Callable[[], None]) -> None:
        self._number += 1
        heappush(self._events, (time, self._number, do))

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.at(self.now + seconds, lambda: None if woken.done() else woken.set_result(None))
        await woken

    async def run(self, until: float) -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        while self._events and self._events[0][0] <= until:
            self.now, _, do = heappop(self._events)
            do()
            for _ in range(4):
                await asyncio.sleep(0)
            self.on_step()
        self.now = until

    def wipe(self) -> None:
        self.kv.clear()
        self.revision = 0

    def written(self, key: str, value: bytes) -> int:
        self.revision += 1
        self.kv[key] = Entry(value, self.revision)
        return self.revision


class WorldBus(Bus):
    """A node's connection. A cut one reaches nothing; what is under way may arrive."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_cut = False

    async def _call(self, do: Callable[[], Any]) -> Any:
        world, random = self.world, self.world.random
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        lost = random.random() < world.lost
        arrives = not self.is_cut and (not lost or random.random() < 0.5)

        def arrive() -> None:
            result = do()
            if not lost and not self.is_cut:
                later = world.now + random.random() * LATENCY_S
                world.at(later, lambda: None if answer.done() else answer.set_result(result))

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(Unreachable("no answer"))

        if arrives:
            world.at(world.now + random.random() * LATENCY_S, arrive)
        world.at(world.now + TIMEOUT_S, give_up)
        return await answer

    async def get(self, key: str) -> Entry | None:
        return await self._call(lambda: self.world.kv.get(key))

    async def create(self, key: str, value: bytes) -> int | None:
        kv = self.world.kv
        return await self._call(lambda: None if key in kv else self.world.written(key, value))

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        def do() -> int | None:
            entry = self.world.kv.get(key)
            if entry is None or entry.revision != revision:
                return None
            return self.world.written(key, value)

        return await self._call(do)

    async def put(self, key: str, value: bytes) -> int:
        return await self._call(lambda: self.world.written(key, value))

    async def delete(self, key: str, revision: int | None = None) -> bool:
        def do() -> bool:
            entry = self.world.kv.get(key)
            if entry is None or revision not in (None, entry.revision):
                return False
            del self.world.kv[key]
            return True

        return await self._call(do)

    async def keys(self, prefix: str) -> dict[str, Entry]:
        return await self._call(
            lambda: {key: entry for key, entry in self.world.kv.items() if key.startswith(prefix)}
        )

    def publish(self, subject: str, data: bytes) -> None:
        """Messages are lost ten times as often as calls, and some come twice."""
        world, random = self.world, self.world.random
        for name, bus, handle in world.handlers:
            copies = 0 if random.random() < 10 * world.lost else 1 + (random.random() < 0.1)
            for _ in range(copies if name == subject and not self.is_cut else 0):
                at = world.now + random.random() * LATENCY_S
                world.at(at, lambda h=handle, b=bus: None if b.is_cut else h(data))  # type: ignore[misc]

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self.world.handlers.append((subject, self, handle))

    def close_now(self) -> None:
        """Its process was killed."""
        self.is_cut = True
        self.world.handlers = [each for each in self.world.handlers if each[1] is not self]

    # What these tests do not use

    is_connected = True  # type: ignore[assignment]

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    def unsubscribe(self, subject: str) -> None: ...
    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        raise Unreachable("no answer")

    async def answer(self, subject: str, handle: Callable[[bytes], Awaitable[bytes]]) -> None: ...


class Clock:
    """A machine's own: with a rate and an offset."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rate = 1 + world.random.uniform(-0.005, 0.005)
        self._offset = world.random.uniform(-1e5, 1e6)

    def __call__(self) -> float:
        return self._offset + self._world.now * self.rate
