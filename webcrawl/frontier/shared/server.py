"""One frontier for several processes: of the process that owns it, and of those it serves.

The state stays in one place, so everything that a frontier promises holds for the crawl as a whole.
What is added here: whose a lease is, so that it comes back when its process dies; who is next; and
the crawl's target, since no process knows by itself how many pages the others have under way. A
crawl of one process that has a target is served here as well.

The others go first, since the owner has the frontier to keep as well: when one of them has found
less than it had room for and there is something now, it is told, and the owner waits a moment; a
long one while the other has more time to spare.

The target. An answer counts only if it has one of the target's n places. A process has places of
its own for the pages that it has leased, and its scheduler gives them to the answers that come
first. When all are given out, a process may lease pages without a place beside those that are slow
(`spare`): as many as n at the most, in all processes. No host is admitted while those that are
admitted can give what is missing.

Invariant: pages answered and places held are at most n; a process holds at most one place for each
of its PAGE leases.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any

from webcrawl.frontier.base import TARGET_MET, Frontier
from webcrawl.frontier.lease import Fetched, Lane, Lease, Link, Outcome, Returned, Step
from webcrawl.frontier.shared.wire import (
    Channel,
    News,
    Packed,
    pack_lease,
    unpack_links,
    unpack_outcome,
)
from webcrawl.frontier.store import StoreError
from webcrawl.items import Original

logger = logging.getLogger(__name__)

_MOMENT_S = 0.02
_LONG_MOMENT_S = 0.5
_LOAD_OVER_S = 0.5

Left = Callable[[str, dict[str, Any]], None]
Gone = Callable[[int], None]


class Load:
    """How busy a process is: the part of a processor that it used lately."""

    def __init__(self) -> None:
        self.share = 0.0
        self._cpu_s = self._seen_at = 0.0

    def see(self, cpu_s: float, now: float) -> None:
        """It had used `cpu_s` in all by `now`."""
        past_s = now - self._seen_at
        if past_s < _LOAD_OVER_S:
            return
        if self._seen_at:
            self.share = (cpu_s - self._cpu_s) / past_s
        self._cpu_s, self._seen_at = cpu_s, now


class Share:
    """What a process has of the target: `places` of it, for its `leases` of pages.

    `asked` are places that an `acquire` under way may come to need, `spare` how many of its leases
    may be without one.
    """

    __slots__ = ("asked", "leases", "places", "spare")

    def __init__(self) -> None:
        self.leases = self.places = self.asked = self.spare = 0

    @property
    def placeless(self) -> int:
        return self.leases - self.places

    def leased(self, leases: int, placed: int) -> None:
        """`leases` are given, of which as many as can be have one of `placed` places."""
        self.leases += leases
        self.places += min(leases, placed)

    def released(self, leases: int, answered: int) -> None:
        """`leases` are over. An answer had a place; the others leave theirs to those still out."""
        self.leases -= leases
        self.places = min(max(self.places - answered, 0), self.leases)


class FrontierServer(Frontier):
    """See the module. `target` 0 is none; `grace_s` is what processes are given to end."""

    def __init__(self, frontier: Frontier, *, target: int = 0, grace_s: float = 0.0) -> None:
        self.counters = frontier.counters
        self.failed_seeds = frontier.failed_seeds
        self.resumed = frontier.resumed
        self.warnings = frontier.warnings
        self._frontier = frontier
        self._target = target
        self._grace_s = grace_s
        self._share = Share()  # of the owner of the frontier
        self._members: list[Member] = []
        self._ours_at = [0.0 for _ in Lane]  # for the owner of the frontier
        self.is_ending = False
        self._load = Load()

    def __repr__(self) -> str:
        return f"<FrontierServer of {self._frontier!r} for {len(self._members)} processes>"

    # The frontier's interface

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = await self._frontier.put(links, now, force=force)
        self._offer(now)
        return accepted

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        self._offer(now)
        if now < self._ours_at[lane]:
            return []
        return await self.lease(now, limit, self._share, lane)

    async def acquire_pages(self, now: float, limit: int, spare: int) -> list[Lease]:
        self._share.spare = spare
        self._place(self._share)
        return await self.acquire(now, limit)

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        await self.take(done, now, self._share)

    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        return await self._frontier.content_seen(content, original)

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return max(self.ready_at(lane), self._ours_at[lane])

    @property
    def places(self) -> int | None:  # type: ignore[override]  # of the interface, an attribute
        return self._share.places if self._target else None

    @property
    def is_short(self) -> bool:  # type: ignore[override]
        return bool(self._target) and self._room() <= 0

    @property
    def is_met(self) -> bool:  # type: ignore[override]
        return bool(self._target) and self.counters.crawled >= self._target

    @property
    def supply(self) -> int:
        return self._frontier.supply

    def is_finished(self) -> bool:
        return self._frontier.is_finished()

    async def close(self) -> None:
        """End the crawl for all, wait for the others a bounded time, and close the frontier."""
        self.end("shutdown")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                for member in self._members:
                    await member.left.wait()
        for member in self._members:
            await member.settle()
        await self._frontier.close()

    # The other processes

    async def lease(self, now: float, limit: int, share: Share, lane: Lane) -> list[Lease]:
        """`acquire` for whomever."""
        if self._target:
            allowed = self._allowed(share) if lane is Lane.PAGES else limit * (self._wanted() > 0)
            limit = min(limit, allowed)
        if limit <= 0:
            return []
        if lane is Lane.ADMISSIONS or not self._target:
            return await self._frontier.acquire(now, limit, lane)
        placed = min(limit, self._room())
        share.asked += placed
        leases = await self._frontier.acquire(now, limit)
        share.asked -= placed
        share.leased(len(leases), placed)
        return leases

    async def take(self, done: Sequence[tuple[Lease, Outcome]], now: float, share: Share) -> None:
        """`release` for whomever."""
        if self._target:
            await self._count(done, now, share)
        else:
            await self._frontier.release(done, now)
        self._offer(now)

    def ready_at(self, lane: Lane) -> float:
        """`next_at` for whomever."""
        if self._target and (self._wanted() if lane is Lane.ADMISSIONS else self._room()) <= 0:
            return float("inf")
        return self._frontier.next_at(lane)

    # The target

    @property
    def _shares(self) -> list[Share]:
        return [self._share, *(member.share for member in self._members)]

    async def _count(self, done: Sequence[tuple[Lease, Outcome]], now: float, share: Share) -> None:
        """Release, and give up the places of what was answered."""
        pages = [outcome for lease, outcome in done if lease.step is Step.PAGE]
        heads = 0
        room = self._room()
        counted: list[tuple[Lease, Outcome]] = []
        for lease, outcome in done:
            if isinstance(outcome, Fetched) and not outcome.wanted:  # the last of a URL is its HEAD
                heads += 1
                if heads > room:
                    outcome = Returned(outcome.asked_at, outcome.ended_at)
            counted.append((lease, outcome))
        self._share.asked += min(heads, room)
        await self._frontier.release(counted, now)
        self._share.asked -= min(heads, room)
        share.released(len(pages), sum(isinstance(outcome, Fetched) for outcome in pages))
        self._place(share)

    def _room(self) -> int:
        """Places that nobody has."""
        held = sum(share.places + share.asked for share in self._shares)
        return max(self._target - self.counters.crawled - held, 0)

    def _place(self, share: Share) -> None:
        """Give places to the leases that have none."""
        if self._target and share.placeless:
            share.places += min(self._room(), share.placeless)

    def _allowed(self, share: Share) -> int:
        """How many pages more a process may lease."""
        self._place(share)
        placeless = sum(each.placeless for each in self._shares)
        spare = min(share.spare - share.placeless, self._target - placeless)
        return self._room() + max(spare, 0)

    def _wanted(self) -> int:
        """How many pages hosts that are not admitted yet have to give."""
        spare = sum(max(share.spare - share.placeless, 0) for share in self._shares)
        return self._room() + spare - self._frontier.supply

    def _offer(self, now: float) -> None:
        """Tell those who have found too little before, if there is something now."""
        ready = [lane for lane in Lane if self.ready_at(lane) <= now]
        for member in self._members:
            wanted = [lane for lane in ready if member.wants[lane]]
            if wanted and not member.told:
                member.tell()
                self._load.see(time.process_time(), now)
                busier = self._load.share > member.load.share
                moment_s = _LONG_MOMENT_S if busier else _MOMENT_S
                for lane in wanted:
                    self._ours_at[lane] = max(self._ours_at[lane], now + moment_s)

    def serve(
        self, sock: socket.socket, *, left: Left, gone: Gone, greeting: bytes = b""
    ) -> Member:
        """Serve the process at the other end of `sock`, from now on until it ends.

        `greeting` is a frame that it reads first. `left` hears its goodbye, with its reason and
        numbers; `gone` that it is no more, with the number of leases it had not given back.
        """
        self.shared = True
        member = Member(self, sock, left, gone)
        member.channel.write(greeting)
        self._members.append(member)
        return member

    def end(self, reason: str) -> None:
        """Tell all to end, and lease nothing more to them. Only the first call counts."""
        if not self.is_ending:
            self.is_ending = True
            for member in self._members:
                member.end(TARGET_MET if self.is_met else reason)


class Member:
    """A process that is served. Its leases are its own, what it counts is everybody's.

    `left` is set when it has said goodbye or is gone; then `gone`, when it is no more.
    """

    def __init__(self, server: FrontierServer, sock: socket.socket, left: Left, gone: Gone) -> None:
        self.left = asyncio.Event()
        self.gone = asyncio.Event()
        self._server = server
        self._tell_left = left
        self._tell_gone = gone
        self.wants = [False for _ in Lane]  # it had room for more than it got
        self.told = False  # to look again, since it did last
        self.share = Share()
        self._leases: dict[int, Lease] = {}
        self._leased = 0  # ever
        self._under_way = 0  # its part of `counters.under_way`
        self.has_left = False  # with a goodbye
        self.has_begun = False
        self.looks = 0  # at it by who watches, since it was heard last
        self.load = Load()
        self.channel = Channel(self._heard, self._lost)
        self._calls: dict[str, Callable[..., Coroutine[Any, Any, Any]]] = {
            "put": self._put,
            "acquire": self._acquire,
            "release": self._release,
            "content_seen": self._content_seen,
        }
        self._tasks: set[asyncio.Task[None]] = set()
        self._do(self.channel.open(sock))

    @property
    def has_worked(self) -> bool:
        """Whether it was ever given a lease."""
        return self._leased > 0

    def tell(self) -> None:
        """Have it look again."""
        self.told = True
        self.channel.send(("look", self._news()))

    def end(self, reason: str) -> None:
        """Have it end. Nobody waits for one that has not begun: who started it may kill it."""
        if self.has_begun:
            self.channel.send(("end", reason))
        else:
            self.left.set()

    async def settle(self) -> None:
        """Wait for no more of it: return once all it had is given back."""
        if not self.left.is_set():
            self._take_back(asked=True)
            self.channel.close()
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _heard(self, message: tuple[Any, ...]) -> None:
        self.has_begun = True
        self.looks = 0
        match message:
            case "alive", counted:
                self._count(counted)
            case "calls", number, calls, counted, cpu_s:
                self.load.see(cpu_s, time.monotonic())
                self._count(counted)
                self._do(self._answer(number, [self._calls[each[0]](*each[1:]) for each in calls]))
            case "leave", reason, stats, counted:
                self._count(counted)
                self.has_left = True
                self._take_back(asked=False)
                self._tell_left(reason, stats)

    def _lost(self) -> None:
        leases = len(self._leases)
        self._take_back(asked=True)
        self.gone.set()
        self._tell_gone(leases)

    def _take_back(self, *, asked: bool) -> None:
        """Give back the leases that it will not; it may have `asked` the hosts until now."""
        self.left.set()
        self.told = True  # it does not look any more
        self.share.spare = 0
        self._server.counters.under_way -= self._under_way
        self._under_way = 0
        leases, self._leases = list(self._leases.values()), {}
        if leases:
            self._do(self._return(leases, asked=asked))

    async def _return(self, leases: list[Lease], *, asked: bool) -> None:
        now = time.monotonic()
        outcome = Returned(now, now) if asked else Returned()
        done = [(each, Returned() if each.step is Step.RESOLVE else outcome) for each in leases]
        with suppress(StoreError):  # the next call of this process's own scheduler tells of it
            await self._server.take(done, now, self.share)

    def _count(self, counted: dict[str, Any]) -> None:
        self._under_way += counted.get("under_way", 0)
        self._server.counters.add(counted)

    async def _answer(self, number: int, calls: list[Coroutine[Any, Any, Any]]) -> None:
        """Carry out calls, begun in their order, and answer all of them at once."""
        if len(calls) == 1:  # saves a task
            answers = [await self._result(calls[0])]
        else:
            answers = await asyncio.gather(*map(self._result, calls))
        self.channel.send(("answers", number, answers, self._news()))

    def _news(self) -> News:
        """What its frontier tells without a call."""
        server = self._server
        return (
            server.ready_at(Lane.PAGES),
            server.ready_at(Lane.ADMISSIONS),
            server.is_finished(),
            None if server.places is None else self.share.places,
            server.is_short,
        )

    async def _result(self, call: Coroutine[Any, Any, Any]) -> tuple[Any, str]:
        """The result, or why there is none."""
        try:
            return await call, ""
        except StoreError as error:
            return None, str(error)
        except Exception as error:  # ours, and the end of the crawl for who called
            logger.exception("Error in a call of another process")
            return None, repr(error)

    async def _put(self, links: list[Packed], now: float, force: bool) -> int:
        return await self._server.put(unpack_links(links), now, force=force)

    async def _acquire(self, now: float, limit: int, lane_number: int, spare: int) -> list[Packed]:
        if self._server.is_ending:
            return []
        self.told = False
        lane = Lane(lane_number)
        if lane is Lane.PAGES:
            self.share.spare = spare
        leases = await self._server.lease(now, limit, self.share, lane)
        self.wants[lane] = len(leases) < limit
        if self.left.is_set():  # meanwhile
            await self._return(leases, asked=False)
            return []
        packed = []
        for lease in leases:
            self._leased += 1
            self._leases[self._leased] = lease
            packed.append(pack_lease(self._leased, lease))
        return packed

    def _release(self, done: list[tuple[int, Packed]], now: float) -> Coroutine[Any, Any, None]:
        """From this moment on the leases are given back, even if the process ends in the next."""
        outcomes = [(self._leases.pop(key), unpack_outcome(packed)) for key, packed in done]
        return self._server.take(outcomes, now, self.share)

    async def _content_seen(self, content: bytes, original: Packed) -> Packed | None:
        first = await self._server.content_seen(content, Original._make(original))
        return first and tuple(first)

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
