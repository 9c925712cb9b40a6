"""Socket pairs between the processes of one machine, in virtual time.

A message arrives in order, late by a random time, and sometimes in two pieces. The end of one
process is seen by the other as a disconnect. The loop's random numbers decide: one seed, one run.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, ParamSpec, TypeVar

from tests.unit import virtualtime

T = TypeVar("T")
P = ParamSpec("P")

LATE_S = 0.003  # of a message, on average
_IN_PIECES = 0.2  # of all messages
_LEAST_S = 1e-7  # between two arrivals at one end: the order of equal times is not stable


class _NoFiles(virtualtime.Selector):
    """Passes the time. Looks at no file: there is none, nor another thread."""

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "all tasks wait for something that will not happen"
        self.passed_s += timeout
        return []


class Loop(virtualtime.Loop):
    """The loop of all processes, with the random numbers of the network."""

    def __init__(self, seed: int) -> None:
        super().__init__(_NoFiles())
        self.random = Random(seed)

    async def create_unix_connection(  # type: ignore[override]
        self, factory: Callable[[], asyncio.Protocol], *, sock: Socket
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = factory()
        sock.transport = _Transport(self, protocol, sock)
        self.call_soon(sock.connect)
        return sock.transport, protocol


def seeds(few: int) -> range:
    """The seeds of a test: `few` in the gate, SIM_SEEDS if it is set."""
    return range(int(os.environ.get("SIM_SEEDS", few)))


def run(coroutine: Coroutine[Any, Any, T], seed: int = 0) -> T:
    with asyncio.Runner(loop_factory=lambda: Loop(seed)) as runner:
        return runner.run(coroutine)


def simulated(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that runs in virtual time. Its argument `seed`, if it has one, is that of the loop."""

    @functools.wraps(test)
    def run_test(*args: P.args, **arguments: P.kwargs) -> None:
        run(test(*args, **arguments), int(str(arguments.get("seed", 0))))

    return run_test


def loop_random() -> Random:
    """The random numbers of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Loop)
    return loop.random


class Socket:
    """One end of a pair."""

    def __init__(self) -> None:
        self.transport: _Transport | None = None  # once the process has opened it
        self.is_dead = False
        self.latest = 0.0  # when the last piece under way arrives here
        self._other: Socket | None = None
        self._early: list[bytes] = []  # arrived before this end was opened

    @classmethod
    def pair(cls) -> tuple[Socket, Socket]:
        here, there = cls(), cls()
        here._other, there._other = there, here
        return here, there

    @property
    def other(self) -> Socket:
        assert self._other is not None
        return self._other

    def connect(self) -> None:
        assert self.transport is not None
        if self.is_dead:
            self.transport.lose()
            return
        self.transport.protocol.connection_made(self.transport)
        early, self._early = self._early, []
        for data in early:
            self.arrive(data)

    def arrive(self, data: bytes) -> None:
        if self.is_dead:
            return
        if self.transport is None:
            self._early.append(data)
        else:
            self.transport.protocol.data_received(data)

    def cut(self) -> None:
        """Disconnect both ends; what is under way is lost."""
        for end in (self, self.other):
            if not end.is_dead:
                end.is_dead = True
                if end.transport is not None:
                    asyncio.get_running_loop().call_soon(end.transport.lose)


class _Transport(asyncio.Transport):
    protocol: Any

    def __init__(self, loop: Loop, protocol: asyncio.Protocol, sock: Socket) -> None:
        super().__init__()
        self.protocol = protocol
        self._loop, self._sock, self._is_lost = loop, sock, False

    def is_closing(self) -> bool:
        return self._sock.is_dead

    def write(self, data: Any) -> None:
        if self._sock.is_dead or not data:
            return
        data, random, other = bytes(data), self._loop.random, self._sock.other
        cut = len(data)
        if cut > 1 and random.random() < _IN_PIECES:
            cut = random.randrange(1, cut)
        for piece in filter(None, (data[:cut], data[cut:])):
            late = self._loop.time() + random.expovariate(1 / LATE_S)
            other.latest = max(other.latest + _LEAST_S, late)
            self._loop.call_at(other.latest, other.arrive, piece)

    def abort(self) -> None:
        self._sock.cut()

    close = abort

    def lose(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            self.protocol.connection_lost(None)
