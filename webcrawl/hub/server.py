"""One frontier for several processes: for the process that owns it, and for those it serves.

All state stays in one process, so each promise of the frontier holds for the crawl as a whole. This
module decides which process gets leases next, keeps the crawl's target, since no process knows by
itself how many pages the others have under way, and passes the orders on by which a running crawl
is steered. A crawl in one process uses this server as well. `member` knows which process has a
lease.

Order. The served processes acquire before the owner, since the owner also runs the frontier. A
process is short of a lane if its last `acquire` got fewer leases than it asked for. When the lane
has leases again, the process is notified and the owner waits before it acquires itself: longer
while the owner is the busier of the two.

The target is n answered pages. A page is leased only if it may count: answered pages and leased
pages together are at most n, so the target is exact whatever happens to the leases. No host is
admitted while the admitted hosts can give all the pages that are missing. When all pages that are
missing are leased, and others are ready, each process ends its slow pages (`has_spare`). Requisites
do not count; the crawl goes on for those of its last pages (`frontier.requisites.TargetWait`).
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Sequence
from contextlib import suppress
from math import inf
from typing import Final

from webcrawl.crawllog.line import LostLine
from webcrawl.frontier.base import TARGET_MET, Frontier
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Fetched, Lane, Lease, Link, Outcome, Returned, Seen, Step, Text
from webcrawl.frontier.requisites import TargetWait
from webcrawl.hub.member import Load, Member, OnDisconnect, OnExit
from webcrawl.hub.wire import Allowed, Carrier, NewRules, Orders
from webcrawl.scope.hostrules import HostRule
from webcrawl.warc.records import Original

FINISHED: Final = "finished"  # why a crawl ends by itself

_HEAD_START_S = 0.02
_LONG_HEAD_START_S = 0.5
_NO_TARGET = 1 << 62
_LAST_S = 1.0  # nothing leased for so long: the target waits for its last pages


class Part:
    """A part of a crawl with several hubs, as hub 0 has said: that of this frontier.

    goal -- pages of the whole crawl; 0: no target
    crawled, left -- answered pages of the whole crawl, and places that no hub has
    places -- how many answered pages this hub may have
    is_held -- no lease is given before hub 0 has said how the crawl is steered
    end -- why the crawl has ended in all hubs: until then, none is finished
    close -- called when no page is counted here any more
    """

    close: Callable[[], Awaitable[None]]

    def __init__(self, answered: int) -> None:
        self.goal = self.crawled = self.left = 0
        self.places = answered
        self.is_held = True
        self.end = ""


class FrontierServer(Frontier):
    """The frontier of this process (`local`), which others use too, each over a socket.

    target -- pages to be answered (CLOSESPIDER_PAGECOUNT); 0: no target
    whole -- the crawl of all hubs, with its target in place of `target`; None: there is one hub
    out -- pages that are leased, in all processes
    orders -- how the crawl is steered, for all processes
    grace_s -- how long `close` waits for the other processes
    """

    local: LocalFrontier

    def __init__(self, frontier: LocalFrontier, *, target: int = 0, grace_s: float = 0.0) -> None:
        self.local = frontier
        self.counters = frontier.counters
        self.crawl_id = frontier.crawl_id
        self.is_ending = False
        self.target = target
        self.whole: Part | None = None
        self.orders = Orders()
        self._grace_s = grace_s
        self.out = 0
        self._leased_at = inf  # when the last of them was leased
        self._wait = TargetWait()
        self._load = Load()  # the owner's
        self._own_next_at = [0.0 for _ in Lane]  # by lane: of the owner's next `acquire`
        self._members: list[Member] = []
        self._recalls = 0
        self._holds = False
        self._allowed_until = inf

    def __repr__(self) -> str:
        return f"<FrontierServer of {self.local!r} for {len(self._members)} processes>"

    # The frontier's interface, for the owner

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = await self.local.put(links, now, force=force)
        self._notify_members(now)
        return accepted

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        self._notify_members(now)
        if now < self._own_next_at[lane]:
            return []
        recalls = self._recalls
        leases = await self.lease(now, limit, lane)
        if leases and recalls != self._recalls:  # meanwhile
            await self.release([(lease, Returned()) for lease in leases], now)
            return []
        return leases

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        left = max(self._room, 0)
        heads = pages = 0
        counted: list[tuple[Lease, Outcome]] = []
        for lease, outcome in done:
            pages += lease.step is Step.PAGE
            # An unwanted HEAD is the final answer of its URL, and counts as a page.
            if isinstance(outcome, Fetched) and not outcome.wanted:
                heads += 1
                if heads > left:
                    outcome = Returned(outcome.asked_at, outcome.ended_at)
            counted.append((lease, outcome))
        heads = min(heads, left)
        self.out += heads
        await self.local.release(counted, now)
        self.out -= heads + pages
        self._notify_members(now)

    async def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        return await self.local.content_seen(content, original, text)

    async def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        """Follow `rules` from now on, in all processes."""
        await self.local.set_rules(rules, now)
        for member in self._members:
            member.channel.send(NewRules(list(rules)))
        self._notify_members(now)

    async def retry(self, reasons: Container[str], now: float) -> int:
        count = await self.local.retry(reasons, now)
        self._notify_members(now)
        return count

    async def logged_until(self, now: float) -> float:
        return await self.local.logged_until(now)

    async def log_if_lost(self, warc: str, lines: Sequence[LostLine]) -> None:
        await self.local.log_if_lost(warc, lines)

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return max(self.ready_at(lane), self._own_next_at[lane])

    @property
    def is_short(self) -> bool:  # type: ignore[override]  # of the interface, an attribute
        if self.whole is not None and self.whole.left:  # this hub gets more
            return False
        return self._room <= 0

    @property
    def has_spare(self) -> bool:  # type: ignore[override]
        return self.is_short and self.local.next_at(Lane.PAGES) <= time.monotonic()

    @property
    def is_met(self) -> bool:  # type: ignore[override]
        if self.whole is not None:
            return self.whole.end == TARGET_MET
        if not self.target or self.counters.crawled < self.target:
            self._wait.met_at = inf  # it may have been raised
            return False
        is_over = self._wait.is_over(time.monotonic(), has_requisites=self.local.has_requisites)
        return is_over and self._may_end

    @property
    def has_requisites(self) -> bool:  # type: ignore[override]
        return self.local.has_requisites

    @property
    def goal(self) -> int:  # type: ignore[override]
        return self.target if self.whole is None else self.whole.goal

    @property
    def crawled(self) -> int:
        return self.counters.crawled if self.whole is None else self.whole.crawled

    def is_finished(self) -> bool:
        if self.whole is not None:
            return self.whole.end == FINISHED
        return self.local.is_finished() and self._may_end

    @property
    def _may_end(self) -> bool:
        """Whether fetchers hear of the end: without the bus they would wait for it for ever."""
        return time.monotonic() < self._allowed_until

    async def close(self) -> None:
        """End the crawl in all processes, wait for them at most `grace_s`, close the frontier."""
        self.end("shutdown")
        with suppress(TimeoutError):
            async with asyncio.timeout(self._grace_s):
                for member in tuple(self._members):  # `forget` may remove some
                    await member.ended.wait()
        for member in tuple(self._members):
            await member.close()
        if self.whole is not None:
            await self.whole.close()
        await self.local.close()

    # For the served processes

    async def lease(self, now: float, limit: int, lane: Lane) -> list[Lease]:
        """`acquire` for any process; that of the owner may have to wait for others."""
        held = self._holds or (self.whole is not None and self.whole.is_held)
        if self.orders.is_paused or held:
            return []
        if lane is Lane.ADMISSIONS:
            if limit <= 0 or (self.goal and self._missing_pages(now) <= 0):
                return []
            return await self.local.acquire(now, limit, lane)
        if lane is Lane.REQUISITES:
            return await self.local.acquire(now, limit, lane)
        limit = min(limit, self._room)
        if limit <= 0:
            return []
        self.out += limit  # others may call meanwhile
        leases = await self.local.acquire(now, limit)
        self.out -= limit - len(leases)
        if leases:
            self._leased_at = now
        return leases

    def ready_at(self, lane: Lane) -> float:
        """When an `acquire` of any process may give leases of `lane`."""
        if self._holds or (self.whole is not None and self.whole.is_held):
            return inf
        is_counted = lane is not Lane.REQUISITES
        if is_counted and (self.target or self.whole is not None) and self.goal:  # mostly no target
            is_page = lane is Lane.PAGES
            missing = self._room if is_page else self._missing_pages(time.monotonic())
            if missing <= 0:
                return inf
        return self.local.next_at(lane)

    # The target

    @property
    def lowest_target(self) -> int:
        """The lowest target that can still be met exactly: each leased page may be answered."""
        return self.counters.crawled + self.out

    @property
    def _room(self) -> int:
        """How many pages may be leased now."""
        whole = self.whole
        if whole is None:
            return self.target - self.lowest_target if self.target else _NO_TARGET
        return whole.places - self.lowest_target if whole.goal else _NO_TARGET

    def places_changed(self) -> None:
        """`whole` has other places for this machine."""
        self._notify_members(time.monotonic())

    def _missing_pages(self, now: float) -> int:
        """The number of pages that hosts not admitted yet must give."""
        if self.whole is not None:  # places come in portions, and hosts need time to be admitted
            return self.whole.goal - self.whole.crawled - self.local.supply
        return self._room + self._waits(now) - self.local.supply

    def _waits(self, now: float) -> bool:
        """Whether nothing was leased for a while: all pages under way may be slow."""
        return now >= self._leased_at + _LAST_S

    # Steering

    async def steer(self, orders: Orders) -> int:
        """Send `orders` to all other processes, and wait until they are carried out.

        A process that hangs is waited for until it is killed. Returns how many requests of theirs,
        sent before, no server has answered yet.
        """
        self.orders = orders
        return sum(await asyncio.gather(*(member.steer(orders) for member in self._members)))

    def hold(self, *, is_held: bool) -> None:
        """Give no leases for now, and take back those whose requests are not sent: for as long as
        this machine's disk is full.
        """
        self._holds = is_held
        if is_held:
            self.recall()
        self._notify_members(time.monotonic())

    def recall(self) -> None:
        """Let the other processes give back all leases so far whose requests are not sent.

        The owner gives back its own; what it acquires now goes back here.
        """
        self._recalls += 1
        for member in self._members:
            member.recall()

    def allow_until(self, at: float) -> None:
        """The other processes may send requests until then: see `fetch.gate`."""
        self._allowed_until = at
        for member in self._members:
            member.channel.send(Allowed(at))

    # The other processes

    def serve(
        self,
        sock: socket.socket | Carrier,
        *,
        on_exit: OnExit,
        on_disconnect: OnDisconnect,
        greeting: bytes = b"",
    ) -> Member:
        """Serve the process at the other end of `sock` until it disconnects.

        `greeting` is a frame that the process reads first. `on_exit` is called at a clean exit,
        with its reason and stats; `on_disconnect` with the number of leases that were still out.
        """
        self.shared = True
        member = Member(self, sock, on_exit, on_disconnect)
        member.channel.write(greeting)
        self._members.append(member)
        if self._allowed_until < inf:  # before the first lease
            member.channel.send(Allowed(self._allowed_until))
        if self.orders != Orders():
            member.send_orders(self.orders)
        return member

    async def forget(self, member: Member) -> None:
        """`member` has ended for good: wait until its leases are back."""
        await member.close()
        self._members.remove(member)

    def end(self, reason: str) -> None:
        """Tell all processes to end, and lease nothing to them. Only the first call counts."""
        if not self.is_ending:
            self.is_ending = True
            for member in self._members:
                member.end(TARGET_MET if self.is_met else reason)

    def has_short(self, *, besides: Member) -> bool:
        """Whether another served process waits for pages."""
        return any(each.short_of[Lane.PAGES] for each in self._members if each is not besides)

    def _notify_members(self, now: float) -> None:
        """Notify the processes that are short of a lane which has leases now."""
        if not self._members:
            return
        ready = [lane for lane in Lane if self.ready_at(lane) <= now]
        for member in self._members:
            lanes = [lane for lane in ready if member.short_of[lane]]
            if lanes and not member.notified:
                member.notify()
                self._load.update(time.process_time(), now)
                is_busier = self._load.share > member.load.share
                head_start_s = _LONG_HEAD_START_S if is_busier else _HEAD_START_S
                for lane in lanes:
                    self._own_next_at[lane] = max(self._own_next_at[lane], now + head_start_s)
