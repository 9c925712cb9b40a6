"""A frontier that lives in another process: the end of it that crawls.

Calls of one turn of the event loop go in one message and are answered in one. What is counted here
goes along as differences, and what `next_at` and `is_finished` tell comes with each answer: it is
news of the moment of the last one, and whoever waits asks again now and then.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from webcrawl.frontier.base import TARGET_MET, Frontier
from webcrawl.frontier.counters import Counters, differences
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome
from webcrawl.frontier.shared.wire import Channel, News, pack_links, pack_outcome, unpack_lease
from webcrawl.frontier.store import StoreError
from webcrawl.items import Original

GONE = "main_process_gone"
ALIVE_S = 1.0


class RemoteFrontier(Frontier):
    """See the module. `counters` are what this process counts, not what the crawl does.

    `when_ready` is called when `acquire` may have something of which an answer did not tell;
    `when_gone` when the other process is no more: then every call is a StoreError.
    """

    shared = True

    def __init__(self, sock: socket.socket) -> None:
        self.when_gone: Callable[[], None] = lambda: None
        self.when_ready: Callable[[], None] = lambda: None
        self.counters = Counters()
        self._sock = sock
        self._channel = Channel(self._heard, self._lost)
        self._opening: asyncio.Task[None] | None = None
        self._is_lost = False
        self._counted: dict[str, Any] = self.counters.to_dict()  # of these, the server knows
        self._keys: dict[Lease, int] = {}
        self._calls: list[tuple[Any, ...]] = []  # not sent yet, with their futures
        self._futures: list[asyncio.Future[Any]] = []
        self._unanswered: dict[int, list[asyncio.Future[Any]]] = {}  # by number of message
        self._sent = 0
        self._next_at = (0.0, 0.0)
        self._finished = False
        self._reason = ""
        self._end = asyncio.Event()

    def __repr__(self) -> str:
        return f"<RemoteFrontier {len(self._keys)} leased>"

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted: int = await self._call("put", pack_links(list(links)), now, force)
        return accepted

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        return await self._acquire(now, limit, lane, 0)

    async def acquire_pages(self, now: float, limit: int, spare: int) -> list[Lease]:
        return await self._acquire(now, limit, Lane.PAGES, spare)

    async def _acquire(self, now: float, limit: int, lane: Lane, spare: int) -> list[Lease]:
        leases = []
        for packed in await self._call("acquire", now, limit, lane.value, spare):
            key, lease = unpack_lease(packed)
            self._keys[lease] = key
            leases.append(lease)
        return leases

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        packed = [(self._keys.pop(lease), pack_outcome(outcome)) for lease, outcome in done]
        await self._call("release", packed, now)

    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        try:
            first = await self._call("content_seen", content, tuple(original))
        except StoreError:  # who releases the page hears of it
            return None
        return first and Original._make(first)

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return self._next_at[lane]

    def is_finished(self) -> bool:
        return self._finished and not self._unanswered and not self._calls

    async def close(self) -> None:
        """The frontier goes on without us; `leave` says goodbye."""

    async def ended(self) -> str:
        """Wait until the crawl ends, for whatever reason; the reason. Shows that we live."""
        self._open()
        while not self._end.is_set():
            try:
                async with asyncio.timeout(ALIVE_S):
                    await self._end.wait()
            except TimeoutError:
                self._channel.send(("alive", self._differences()))
        return self._reason

    def leave(self, reason: str, stats: dict[str, Any]) -> None:
        """The last message: why this process stops crawling, and its numbers."""
        self._channel.send(("leave", reason, stats, self._differences()))

    async def _call(self, *call: Any) -> Any:
        if self._is_lost:
            raise StoreError("the main process has ended")
        self._open()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._calls:
            loop.call_soon(self._flush)
        self._calls.append(call)
        self._futures.append(future)
        return await future

    def _open(self) -> None:
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._channel.open(self._sock))

    def _flush(self) -> None:
        self._sent += 1
        self._unanswered[self._sent] = self._futures
        cpu_s = time.process_time()
        self._channel.send(("calls", self._sent, self._calls, self._differences(), cpu_s))
        self._calls, self._futures = [], []

    def _differences(self) -> dict[str, Any]:
        before, self._counted = self._counted, self.counters.to_dict()
        return differences(before, self._counted)

    def _heard(self, message: tuple[Any, ...]) -> None:
        match message:
            case "end", reason:
                self._conclude(reason)
            case "look", news:
                self._take(news)
                self.when_ready()
            case "answers", number, answers, news:
                self._take(news)
                self._answered(number, answers)

    def _take(self, news: News) -> None:
        pages_at, admissions_at, self._finished, self.places, self.is_short = news
        self._next_at = pages_at, admissions_at

    def _answered(self, number: int, answers: list[tuple[Any, str]]) -> None:
        for future, (result, error) in zip(self._unanswered.pop(number), answers, strict=True):
            if future.done():  # its caller was cancelled
                continue
            if error:
                future.set_exception(StoreError(error))
            else:
                future.set_result(result)

    def _lost(self) -> None:
        self._is_lost = True
        for future in sum(self._unanswered.values(), self._futures):
            if not future.done():
                future.set_exception(StoreError("the main process has ended"))
        self._conclude(GONE)
        self.when_gone()

    def _conclude(self, reason: str) -> None:
        self._reason = self._reason or reason
        self.is_met = self._reason == TARGET_MET
        self._end.set()
