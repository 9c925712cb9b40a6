"""One process that a `FrontierServer` serves: its calls, its leases, its part of the target.

Owns which leases a process has, so that they go back when the process exits or dies. Knows nothing
of hosts and orderings. Runs in the process that owns the frontier, on its event loop.

Invariant: a process holds at most one place of the target for each of its PAGE leases.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from webcrawl.frontier.base import Frontier
from webcrawl.frontier.counters import MOMENTARY, Counters
from webcrawl.frontier.lease import Lane, Lease, Outcome, Returned, Step
from webcrawl.frontier.shared.wire import (
    UNSENDABLE,
    Accepted,
    Acquire,
    Answer,
    Answers,
    CallFailed,
    Calls,
    Carrier,
    Changes,
    Channel,
    ContentSeen,
    End,
    Exit,
    FirstSeen,
    Heartbeat,
    Leased,
    Message,
    Orders,
    Put,
    Release,
    Status,
    Steer,
    Steered,
    WakeUp,
    valid_text,
)
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_LOAD_WINDOW_S = 0.5

OnExit = Callable[[str, dict[str, int | str]], None]  # the reason and Scrapy's stats
OnDisconnect = Callable[[int], None]  # the number of leases that were still out


class Load:
    """The share of one processor that a process used lately: 0.0 to about 1.0."""

    def __init__(self) -> None:
        self.share = 0.0
        self._cpu_s = self._updated_at = 0.0

    def update(self, cpu_s: float, now: float) -> None:
        """The process had used `cpu_s` seconds of processor time since its start by `now`."""
        elapsed_s = now - self._updated_at
        if elapsed_s < _LOAD_WINDOW_S:
            return
        if self._updated_at:
            self.share = (cpu_s - self._cpu_s) / elapsed_s
        self._cpu_s, self._updated_at = cpu_s, now


class Share:
    """The part of the target that one process has.

    leases -- its PAGE leases that are not released
    places -- its places of the target: so many of its answers may count
    reserved -- places held back while an `acquire` or a `release` of it runs
    spare -- how many of its leases may be without a place, as its scheduler asked
    """

    __slots__ = ("leases", "places", "reserved", "spare")

    def __init__(self) -> None:
        self.leases = self.places = self.reserved = self.spare = 0

    @property
    def placeless(self) -> int:
        """Leases without a place."""
        return self.leases - self.places

    def leased(self, leases: int, reserved: int) -> None:
        """Add `leases`; as many of them as possible take one of the `reserved` places."""
        self.leases += leases
        self.places += min(leases, reserved)

    def released(self, leases: int, answered: int) -> None:
        """Remove `leases`. Each answer used up a place; the other places go to leases still out."""
        self.leases -= leases
        self.places = min(max(self.places - answered, 0), self.leases)


class ServedFrontier(Frontier):
    """A frontier that leases to several processes, as a `Member` calls it."""

    is_ending: bool  # no process gets a lease any more
    orders: Orders  # for all processes

    @abstractmethod
    async def acquire_for(self, share: Share, now: float, limit: int, lane: Lane) -> list[Lease]:
        """`acquire` for the process that has `share`."""

    @abstractmethod
    async def release_for(
        self, share: Share, done: Sequence[tuple[Lease, Outcome]], now: float
    ) -> None:
        """`release` for the process that has `share`."""

    @abstractmethod
    def ready_at(self, lane: Lane) -> float:
        """When an `acquire` of any process may give leases of `lane`."""


class Member:
    """A process that is served. Its leases are its own; its counts are added to the crawl's.

    The event `ended` is set at a clean exit or at the disconnect, whichever comes first, and for a
    process that never connected when the crawl ends. `disconnected` is set at the disconnect.
    """

    def __init__(
        self,
        server: ServedFrontier,
        sock: socket.socket | Carrier,
        on_exit: OnExit,
        on_disconnect: OnDisconnect,
    ) -> None:
        self.ended = asyncio.Event()
        self.disconnected = asyncio.Event()
        self.has_connected = False  # its first message has arrived
        self.has_exited = False  # cleanly, with an "exit" message
        self.missed_heartbeats = 0  # the watchdog's ticks since its last message
        self.short_of = [False for _ in Lane]  # its last `acquire` of the lane got less than asked
        self.notified = False  # a wake-up was sent after its last `acquire`
        self.share = Share()
        self.load = Load()
        self._server = server
        self._on_exit = on_exit
        self._on_disconnect = on_disconnect
        self._leases: dict[int, Lease] = {}  # by the key that messages name it with
        self._last_key = 0
        self._under_way = Counters()  # its part of the counts of requests under way
        self._steering: dict[int, asyncio.Future[int]] = {}  # by number of the message
        self._steered = 0  # messages of that kind
        self._calls: dict[type, Callable[..., Coroutine[Any, Any, Answer]]] = {
            Put: self._put,
            Acquire: self._acquire,
            Release: self._release,
            ContentSeen: self._content_seen,
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self.channel = Channel(self._on_message, self._on_lost)
        self._start(self.channel.open(sock))

    @property
    def had_leases(self) -> bool:
        """Whether the process ever got a lease."""
        return self._last_key > 0

    def notify(self) -> None:
        """Send the process a wake-up: an `acquire` may give it leases now."""
        self.notified = True
        self.channel.send(WakeUp(self._status()))

    async def steer(self, orders: Orders) -> int:
        """Send `orders`, and wait until the process has carried them out, or has ended.

        A process that is starting is not waited for: it gets no lease before it has the orders.
        Returns how many of its requests no server has answered yet.
        """
        done = self.send_orders(orders)
        return await done if self.has_connected and not self.ended.is_set() else 0

    def send_orders(self, orders: Orders) -> asyncio.Future[int]:
        self._steered += 1
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._steering[self._steered] = done
        self.channel.send(Steer(self._steered, orders, self._status()))
        return done

    def end(self, reason: str) -> None:
        """Tell the process that the crawl ends. One that never connected is not waited for."""
        if self.has_connected:
            self.channel.send(End(reason))
        else:
            self.ended.set()

    async def close(self) -> None:
        """Disconnect a process that has not exited, and wait until all its leases are back."""
        if not self.ended.is_set():
            self._return_all(asked=True)
            self.channel.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Messages

    def _on_message(self, message: Message) -> None:
        self.has_connected = True
        self.missed_heartbeats = 0
        match message:
            case Heartbeat(changes):
                self._count(changes)
            case Calls(number, calls, changes, cpu_s):
                self.load.update(cpu_s, time.monotonic())
                self._count(changes)
                work = [self._calls[type(call)](call) for call in calls]
                self._start(self._answer(number, work))
            case Steered(number, placed, unanswered):
                if self._server.orders.holds_places:
                    self.share.places = min(self.share.places, placed)
                steered = self._steering.pop(number)
                if not steered.done():
                    steered.set_result(unanswered)
            case Exit(reason, stats, changes):
                self._count(changes)
                self.has_exited = True
                self._return_all(asked=False)
                self._on_exit(reason, stats)

    def _on_lost(self) -> None:
        leases = len(self._leases)
        self._return_all(asked=True)
        self.disconnected.set()
        self._on_disconnect(leases)

    def _count(self, changes: Changes) -> None:
        self._under_way.add({name: changes[name] for name in MOMENTARY & changes.keys()})
        self._server.counters.add(changes)

    async def _answer(self, number: int, calls: list[Coroutine[Any, Any, Answer]]) -> None:
        """Carry out the calls of one message, begun in their order; answer them in one message."""
        if len(calls) == 1:  # saves a task
            answers = [await self._result(calls[0])]
        else:
            answers = await asyncio.gather(*map(self._result, calls))
        try:
            self.channel.send(Answers(number, answers, self._status()))
        except UNSENDABLE as error:  # a user's value: without an answer, the process would hang
            failed = CallFailed(valid_text(f"an answer cannot be sent: {error}"))
            self.channel.send(Answers(number, [failed] * len(answers), self._status()))

    def _status(self) -> Status:
        """Values that the process reads without a call."""
        server = self._server
        return Status(
            server.ready_at(Lane.PAGES),
            server.ready_at(Lane.ADMISSIONS),
            server.is_finished(),
            None if server.places is None else self.share.places,
            server.is_short,
        )

    async def _result(self, call: Coroutine[Any, Any, Answer]) -> Answer:
        try:
            return await call
        except StoreError as error:
            return CallFailed(valid_text(str(error)))
        except Exception as error:  # our own fault: it ends the calling process's crawl
            logger.exception("Error in a call of another process")
            return CallFailed(valid_text(repr(error)))

    # Calls of the frontier's interface

    async def _put(self, call: Put) -> Accepted:
        return Accepted(await self._server.put(call.links, call.now, force=call.force))

    async def _acquire(self, call: Acquire) -> Leased:
        if self._server.is_ending:
            return Leased([])
        self.notified = False
        if call.lane is Lane.PAGES:
            self.share.spare = call.spare
        leases = await self._server.acquire_for(self.share, call.now, call.limit, call.lane)
        self.short_of[call.lane] = len(leases) < call.limit
        if self.ended.is_set():  # while the frontier worked
            await self._return(leases, asked=False)
            return Leased([])
        keys = range(self._last_key + 1, self._last_key + len(leases) + 1)
        self._last_key += len(leases)
        keyed = list(zip(keys, leases, strict=True))
        self._leases.update(keyed)
        return Leased(keyed)

    def _release(self, call: Release) -> Coroutine[Any, Any, None]:
        """Remove the leases from the process at once, even if it disconnects before the release."""
        done = [(self._leases.pop(key), outcome) for key, outcome in call.done]
        return self._server.release_for(self.share, done, call.now)

    async def _content_seen(self, call: ContentSeen) -> FirstSeen:
        return FirstSeen(await self._server.content_seen(call.content, call.original))

    # The end

    def _return_all(self, *, asked: bool) -> None:
        """Give back all its leases. `asked`: their hosts may have been asked until now."""
        self.ended.set()
        for steered in self._steering.values():
            if not steered.done():
                steered.set_result(0)
        self.notified = True  # it acquires nothing any more
        self.share.spare = 0
        self._server.counters.take_back(self._under_way)
        self._under_way = Counters()
        leases, self._leases = list(self._leases.values()), {}
        if leases:
            self._start(self._return(leases, asked=asked))

    async def _return(self, leases: list[Lease], *, asked: bool) -> None:
        now = time.monotonic()
        outcome = Returned(now, now) if asked else Returned()
        done = [(each, Returned() if each.step is Step.RESOLVE else outcome) for each in leases]
        with suppress(StoreError):  # the owner's own next call raises it again, and reports it
            await self._server.release_for(self.share, done, now)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
