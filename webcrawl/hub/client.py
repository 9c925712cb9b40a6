"""The frontier as a worker has it: each call goes to the first process over a socket.

A call goes at once if no message with calls is under way; others go together when that is answered
(as TCP sends small pieces, RFC 896). So a busy process sends few messages, which cost more than
their calls, and an idle one never waits. The results of a message come back in one. No call waits
for a `Lost`, which goes alone: the first process may read its whole log for it.

Each message carries the changes of this process's counters. Each answer carries the values that are
read without a call (`next_at`, `is_finished`, `has_spare`). They do not change until the next
answer, so a caller that waits for a change must poll.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from math import inf
from typing import Any

from webcrawl.crawllog.line import LostLine
from webcrawl.frontier.base import TARGET_MET, Frontier
from webcrawl.frontier.counters import Counters, Tracked
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Seen, Text
from webcrawl.frontier.store import StoreError
from webcrawl.hub.wire import (
    NUMBER_MAX,
    UNSENDABLE,
    Acquire,
    Allowed,
    Answer,
    Answers,
    Call,
    CallFailed,
    Calls,
    Carrier,
    Channel,
    ContentSeen,
    End,
    Exit,
    GiveBack,
    Heartbeat,
    Lost,
    Message,
    NewRules,
    Orders,
    Put,
    Release,
    Status,
    Steer,
    Steered,
    WakeUp,
    valid_text,
)
from webcrawl.scope.hostrules import HostRules
from webcrawl.warc.records import Original

logger = logging.getLogger(__name__)

MAIN_PROCESS_GONE = "main_process_gone"  # why this process's crawl ends
HEARTBEAT_S = 1.0


class FailedElsewhereError(StoreError):
    """The frontier has failed in its own process."""


class ClientFrontier(Frontier):
    """A frontier that is elsewhere, and what it asks of this process.

    `counters` are the counts of this process, not those of the crawl.

    on_ready -- `acquire` may return leases although the last answer had no leases
    on_orders -- carries orders out, and returns the number of requests without an answer
    on_allowed -- is told until when this process may send requests to hosts of a hub (`fetch.gate`)
    give_back -- gives leases back whose requests are not sent: those of the hosts for which its
        argument is true
    on_renewed -- the frontier may not have all the links any more that it has got
    """

    shared = True

    def __init__(self) -> None:
        self.on_ready: Callable[[], None] = lambda: None
        self.on_orders: Callable[[Orders], Coroutine[Any, Any, int]] = _ignore
        self.on_allowed: Callable[[float, int], None] = lambda until, hub: None
        self.give_back: Callable[[Callable[[str], bool]], None] = lambda has_changed: None
        self.on_renewed: Callable[[], None] = lambda: None
        self.counters = Counters()

    def hub_of(self, url: str) -> int | None:
        """The hub that has the host of any `url`; None for a URL without one."""
        return 0


class RemoteFrontier(ClientFrontier):
    """A frontier in another process, the first process of the crawl.

    If `on_orders` raises, this process disconnects. `on_disconnect` is called when the first
    process has ended or is disconnected; from then on each call raises StoreError.
    """

    def __init__(self, sock: socket.socket | Carrier, rules: HostRules | None = None) -> None:
        """`rules` are those of this process: they follow the first process's."""
        super().__init__()
        self.on_disconnect: Callable[[], None] = lambda: None
        self._steering: set[asyncio.Task[None]] = set()
        self._sock = sock
        self._rules = rules
        self._channel = Channel(self._on_message, self._on_lost)
        self._opening: asyncio.Task[None] | None = None
        self._is_lost = False
        self._tracked = Tracked(self.counters)
        self._changes = self._tracked.changes  # since the last message
        self._keys: dict[Lease, int] = {}
        self._calls: list[Call] = []  # not sent yet
        self._futures: list[asyncio.Future[Any]] = []  # one for each of them
        self._unanswered: dict[int, list[asyncio.Future[Any]]] = {}  # by number of message
        self._sent = 0  # messages with calls
        self._last = 0  # the last of them whose answer other calls wait for
        self._releasing: set[asyncio.Task[None]] = set()  # releases that are not answered
        self._failure: BaseException | None = None  # of one of them
        self._next_at = (0.0, 0.0, inf)  # by lane
        self._is_finished = False
        self._end_reason = ""
        self._end = asyncio.Event()

    def __repr__(self) -> str:
        return f"<RemoteFrontier {len(self._keys)} leased>"

    # The frontier's interface

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted: int = (await self._call(Put(list(links), now, force))).links
        return accepted

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        """Raises the error of an earlier `release`, too."""
        self._raise_failure()
        leases = []
        for key, lease in (await self._call(Acquire(now, limit, lane))).leases:
            self._keys[lease] = key
            leases.append(lease)
        return leases

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        """Does not wait for the answer: so an `acquire` after it goes in the same message."""
        keyed = [(self._keys.pop(lease), outcome) for lease, outcome in done]
        self._start(self._released(self._post(Release(keyed, now)), done))

    async def _released(
        self, answer: asyncio.Future[None], done: Sequence[tuple[Lease, Outcome]]
    ) -> None:
        await answer

    def _start(self, releasing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(releasing)
        self._releasing.add(task)
        task.add_done_callback(self._on_released)

    def _on_released(self, task: asyncio.Task[None]) -> None:
        self._releasing.discard(task)
        if not task.cancelled():
            error = task.exception()  # taken of each: asyncio prints those that nobody took
            self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            error, self._failure = self._failure, None
            raise error

    async def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        try:
            seen = await self._call(ContentSeen(content, original, text))
        except StoreError:  # the release of the page raises it again
            return None, ""
        return seen.original, seen.near

    async def log_if_lost(self, warc: str, lines: Sequence[LostLine]) -> None:
        await self._call(Lost(warc, list(lines)))

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return self._next_at[lane]

    def is_finished(self) -> bool:
        return self._is_finished and not self._unanswered and not self._calls

    async def close(self) -> None:
        """Wait until all releases are answered: the frontier continues without this process.

        `exit` is the last message.
        """
        while self._releasing:
            await asyncio.wait(self._releasing)
        self._raise_failure()

    # The life of this process

    async def wait_for_end(self) -> str:
        """Send heartbeats until the crawl ends. Returns the reason of its end."""
        self._open()
        while not self._end.is_set():
            try:
                async with asyncio.timeout(HEARTBEAT_S):
                    await self._end.wait()
            except TimeoutError:
                self._channel.send(Heartbeat(self._changes()))
        return self._end_reason

    def exit(self, reason: object, stats: dict[str, Any]) -> None:
        """Send the last message: the reason of the exit, and the stats to add to the crawl's."""
        self._flush()
        sent: dict[str, int | str] = {}
        for name, value in stats.items():
            if type(value) is str:
                sent[valid_text(str(name))] = valid_text(value)
            elif type(value) is int and abs(value) <= NUMBER_MAX:
                sent[valid_text(str(name))] = value
        # A spider may give any object as the reason of CloseSpider.
        self._channel.send(Exit(valid_text(str(reason)), sent, self._changes()))

    # Messages

    async def _call(self, call: Call) -> Any:
        return await self._post(call)

    def _post(self, call: Call) -> asyncio.Future[Any]:
        """The answer to `call`."""
        if self._is_lost:
            raise StoreError("the first process has ended")
        self._open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if isinstance(call, Lost):
            self._flush()
            self._send_calls([call], [future])
            return future
        if not self._calls and self._last not in self._unanswered:
            loop.call_soon(self._flush)
        self._calls.append(call)
        self._futures.append(future)
        return future

    def _open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._channel.open(self._sock))

    def _flush(self) -> None:
        calls, futures = self._calls, self._futures
        if not calls:  # they were given up
            return
        self._calls, self._futures = [], []
        self._last = self._sent + 1
        self._send_calls(calls, futures)

    def _send_calls(self, calls: list[Call], futures: list[asyncio.Future[Any]]) -> None:
        self._sent += 1
        self._unanswered[self._sent] = futures
        try:
            self._channel.send(Calls(self._sent, calls, self._changes(), time.process_time()))
        except UNSENDABLE as error:  # a user's value: without an answer, the callers would hang
            del self._unanswered[self._sent]
            for future in futures:
                if not future.done():
                    future.set_exception(StoreError(f"a message cannot be sent: {error}"))

    def _on_message(self, message: Message) -> None:
        match message:
            case NewRules(rules) if self._rules is not None:
                has_changed = self._rules.change_since(self._rules.of)
                self._rules.replace(rules)
                self.give_back(has_changed)
            case GiveBack():
                self.give_back(lambda host: True)
            case End(reason):
                self._end_crawl(reason)
            case Allowed(until):
                self.on_allowed(until, 0)
            case WakeUp(status):
                self._update(status)
                self.on_ready()
            case Steer(number, orders, status):
                self._update(status)
                steering = asyncio.get_running_loop().create_task(self._steer(number, orders))
                self._steering.add(steering)
                steering.add_done_callback(self._steering.discard)
            case Answers(number, answers, status):
                self._update(status)
                self._resolve(number, answers)
                asyncio.get_running_loop().call_soon(self._flush)

    async def _steer(self, number: int, orders: Orders) -> None:
        try:
            self._channel.send(Steered(number, await self.on_orders(orders)))
        except Exception:
            # Orders must hold before the command is answered, and this process cannot promise it.
            # The first process kills it, and starts another one, which gets all orders first.
            logger.exception("The orders of the first process failed: this process ends")
            self._channel.close()

    def _update(self, status: Status) -> None:
        self._next_at = (
            status.next_page_at,
            status.next_admission_at,
            status.next_requisite_at,
        )
        self.has_requisites = status.next_requisite_at < inf
        self._is_finished = status.is_finished
        self.has_spare = status.has_spare

    def _resolve(self, number: int, answers: list[Answer]) -> None:
        """Give the calls of message `number` their results."""
        for future, answer in zip(self._unanswered.pop(number), answers, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if isinstance(answer, CallFailed):
                future.set_exception(FailedElsewhereError(answer.error))
            else:
                future.set_result(answer)

    def _on_lost(self) -> None:
        self._is_lost = True
        for future in sum(self._unanswered.values(), self._futures):
            if not future.done():
                future.set_exception(StoreError("the first process has ended"))
        self._end_crawl(MAIN_PROCESS_GONE)
        self.on_disconnect()

    def _end_crawl(self, reason: str) -> None:
        self._end_reason = self._end_reason or reason
        self.is_met = self._end_reason == TARGET_MET
        self._end.set()


async def _ignore(orders: Orders) -> int:
    return 0
