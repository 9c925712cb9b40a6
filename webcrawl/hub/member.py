"""One process that a `FrontierServer` serves: its calls and its leases.

Owns which leases a process has, so that they go back when the process exits or dies. Knows nothing
of hosts and orderings. Runs in the process that owns the frontier, on its event loop.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any

from webcrawl.frontier.counters import MOMENTARY, Counters
from webcrawl.frontier.lease import Lane, Lease, Returned, Step
from webcrawl.frontier.store import StoreError
from webcrawl.hub.wire import (
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
    GiveBack,
    Heartbeat,
    Leased,
    Lost,
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

if TYPE_CHECKING:
    from webcrawl.hub.server import FrontierServer

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


class Member:
    """A process that is served. Its leases are its own; its counts are added to the crawl's.

    The event `ended` is set at a clean exit or at the disconnect, whichever comes first, and for a
    process that never connected when the crawl ends. `disconnected` is set at the disconnect.
    """

    def __init__(
        self,
        server: FrontierServer,
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
        self.load = Load()
        self._is_local = isinstance(sock, socket.socket)  # its files are on this machine
        self._server = server
        self._on_exit = on_exit
        self._on_disconnect = on_disconnect
        self._leases: dict[int, Lease] = {}  # by the key that messages name it with
        self._last_key = 0
        # Leases that came back with its next `acquire`, in one message. Without delays their hosts
        # are ready at once: others that wait would never get one. So they get half of them.
        self._released = 0
        self._under_way = Counters()  # its part of the counts of requests under way
        self._steering: dict[int, asyncio.Future[int]] = {}  # by number of the message
        self._steered = 0  # messages of that kind
        self._calls: dict[type, Callable[..., Coroutine[Any, Any, Answer]]] = {
            Put: self._put,
            Acquire: self._acquire,
            Release: self._release,
            ContentSeen: self._content_seen,
            Lost: self._lost,
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._in_order = asyncio.Lock()  # for one message with calls
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

    def recall(self) -> None:
        """Tell the process to give back what it has not begun, with all leases so far."""
        self._start(self._recall())

    async def _recall(self) -> None:
        async with self._in_order:  # behind the answers to all calls so far
            self.channel.send(GiveBack())

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
        await self.returned()

    async def returned(self) -> None:
        """Wait until all calls of a process that has ended are carried out, and its leases back."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    # Messages

    def _on_message(self, message: Message) -> None:
        self.has_connected = True
        self.missed_heartbeats = 0
        match message:
            case Heartbeat(changes):
                self._count(changes)
                if self._server.has_spare:  # a process whose pages are all slow calls nothing
                    self.notify()
            case Calls(number, calls, changes, cpu_s):
                self.load.update(cpu_s, time.monotonic())
                self._count(changes)
                work = [self._calls[type(call)](call) for call in calls]
                # No call waits for a `Lost`, which is alone in its message.
                in_order = nullcontext() if Lost in map(type, calls) else self._in_order
                self._start(self._answer(number, work, in_order))
            case Steered(number, unanswered):
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

    async def _answer(
        self,
        number: int,
        calls: list[Coroutine[Any, Any, Answer]],
        in_order: AbstractAsyncContextManager[None],
    ) -> None:
        """Carry out the calls of one message, in their order; answer them in one message.

        `in_order`: behind those of earlier messages, as the release of a page behind its links.
        """
        async with in_order:
            answers = [await self._result(call) for call in calls]
            self.channel.send(Answers(number, answers, self._status()))

    def _status(self) -> Status:
        """Values that the process reads without a call."""
        server = self._server
        return Status(
            server.ready_at(Lane.PAGES),
            server.ready_at(Lane.ADMISSIONS),
            server.is_finished(),
            server.has_spare,
            server.ready_at(Lane.REQUISITES),
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
        limit = call.limit
        if call.lane is Lane.PAGES:
            if self._released and self._server.has_short(besides=self):
                limit = min(limit, (self._released + 1) // 2)
            self._released = 0
        leases = await self._server.lease(call.now, limit, call.lane)
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
        self._released = len(done)
        return self._server.release(done, call.now)

    async def _content_seen(self, call: ContentSeen) -> FirstSeen:
        if self.ended.is_set():  # the page is queued again, and was perhaps not archived
            return FirstSeen(None)
        seen = await self._server.content_seen(call.content, call.original, call.text)
        return FirstSeen(*seen)

    def _lost(self, call: Lost) -> Coroutine[Any, Any, None]:
        return self._server.log_if_lost(call.warc, call.lines)

    # The end

    def _return_all(self, *, asked: bool) -> None:
        """Give back all its leases. `asked`: their hosts may have been asked until now."""
        self.ended.set()
        for steered in self._steering.values():
            if not steered.done():
                steered.set_result(0)
        self.notified = True  # it acquires nothing any more
        self._server.counters.take_back(self._under_way)
        self._under_way = Counters()
        leases, self._leases = list(self._leases.values()), {}
        if leases:
            self._start(self._return(leases, asked=asked))

    async def _return(self, leases: list[Lease], *, asked: bool) -> None:
        now = time.monotonic()
        at = now if asked else 0.0
        outcome = Returned(at, at, is_unknown=self._is_local)
        done = [(each, Returned() if each.step is Step.RESOLVE else outcome) for each in leases]
        with suppress(StoreError):  # the owner's own next call raises it again, and reports it
            await self._server.release(done, now)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
