"""The frontiers of all hubs of a crawl, as a fetcher has them: one frontier.

Owns which hub a link, a lease or a page belongs to (`frontier.buckets`), which hubs are asked for
leases, and which one is told what this process counts. `fetching` has the sessions.

No call waits for a hub that is away. A hub that has not answered for LATE_S is late: until it has
answered all calls, nobody waits for its answers, and it is asked for no lease. What it leases late
is given to the next `acquire`, unless it is withdrawn. So a release or a put for a late hub is
under way when its call returns: in the memory of this process, in order. If the process dies, the
leases are still out.

- A lease goes back to the hub of its host.
- Links of a page go to the hub of the page, which mails them to the others. They are in one stream
  with the release of the page, before it: so none is lost, whichever process is killed. Only what
  has no page (a user's own Request) goes straight to the hub of its host.
- Each hub is asked for the same share of the leases that this process needs. What it has not is
  asked of the others in the next turn of the pump.
- Counts. What the parts of this process add to `counters` goes with the next message to any hub,
  once: so the sum of all hubs is right. Of the requests under way each hub has an equal part, and
  takes it back when this process ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import partial
from math import inf
from typing import Any, Final, TypeVar

from webcrawl.cluster.fetching import HubFrontier
from webcrawl.crawllog.line import LostLine
from webcrawl.frontier.counters import Tracked
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Returned, Seen, Text
from webcrawl.hub.client import ClientFrontier, FailedElsewhereError
from webcrawl.hub.wire import Orders
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.warc.records import Original

logger = logging.getLogger(__name__)

LATE_S: Final = 0.2  # many times the way to a hub and back, with a batch of its frontier
# Between two calls to a hub without pages: it wakes no process that last got all it had asked for.
POLL_S: Final = 0.25

T = TypeVar("T")


class _Hub:
    """What this process has under way with one hub.

    calls -- that are not answered
    asked -- leases that it was asked for, by lane
    polled_at -- when it was last asked for pages
    was_connected -- at the last change of its session
    """

    def __init__(self, frontier: HubFrontier) -> None:
        self.frontier = frontier
        self.calls: set[asyncio.Task[Any]] = set()
        self.is_late = False
        self.asked = [0 for _ in Lane]
        self.polled_at = -inf
        self.was_connected = False

    @property
    def is_prompt(self) -> bool:
        """Whether an answer may be waited for."""
        return self.frontier.serves and not self.is_late

    def may_be_asked(self, lane: Lane) -> bool:
        return self.is_prompt and not self.asked[lane]


class AllHubs(ClientFrontier):
    """The frontier of a fetcher with several hubs, `hubs[k]` that of hub k, all on one bus."""

    def __init__(self, hubs: Sequence[HubFrontier], hub_of_host: Callable[[str], int]) -> None:
        """`hub_of_host`: the number of the hub that has a canonical host."""
        super().__init__()
        self.bus = hubs[0].bus
        self.bus.on_lost = self.end_session
        self.is_closing: Callable[[], bool] = lambda: False
        self._hubs = [_Hub(frontier) for frontier in hubs]
        self._hub_of_host = hub_of_host
        self._turn = 0  # the hub that is asked first
        self._ready: list[list[Lease]] = [[] for _ in Lane]  # for the next `acquire`, by lane
        self._epoch = 0  # leases that were asked for in an earlier one are given back
        self._orders = 0  # the number of those in force
        self._fault: BaseException | None = None  # of this process: each call raises it
        counts = Tracked(self.counters)
        for hub in self._hubs:
            frontier = hub.frontier
            frontier.count_also(self.counters, counts, len(self._hubs))
            frontier.is_closing = self._closes
            frontier.on_ready = self._wake
            frontier.on_orders = self._carry_out
            frontier.on_allowed = partial(self._allow, hub)
            frontier.on_hub_end = partial(self._end_hub, hub)
            frontier.on_recall = partial(self._give_back_of, hub)
            frontier.on_renewed = self._renewed
            frontier.give_back = self._give_back  # for new rules, which are those of all hubs

    def __repr__(self) -> str:
        return f"<AllHubs {[hub.frontier for hub in self._hubs]}>"

    def hub_of(self, url: str) -> int | None:
        canonical = canonicalize(url)
        return self._hub_of_host(host_of(canonical)) if canonical else None

    # The frontier's interface

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        by_hub: defaultdict[int, list[Link]] = defaultdict(list)
        page, number = "", 0
        for link in links:
            if not link.via or link.payload:
                by_hub[self._hub_of_host(link.host)].append(link)
                continue
            if link.via != page:  # most links of a batch are of one page
                page = link.via
                number = self._hub_of_host(host_of(page))
            by_hub[number].append(link)
        return sum(
            await self._answers(
                (self._hubs[number], self._hubs[number].frontier.put(some, now, force=force))
                for number, some in by_hub.items()
            )
        )

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        room = limit - len(self._ready[lane])
        room -= sum(hub.asked[lane] for hub in self._hubs if hub.frontier.serves)
        hubs = [hub for hub in self._in_turn() if hub.may_be_asked(lane)]
        with_leases = [hub for hub in hubs if hub.frontier.next_at(lane) <= now]
        asks = []
        for at, hub in enumerate(with_leases):
            share = -(-room // (len(with_leases) - at))
            if share <= 0:
                break
            room -= share
            asks.append((hub, self._ask(hub, now, share, lane)))
        if lane is Lane.PAGES:
            polled = [h for h in hubs if h not in with_leases and now >= h.polled_at + POLL_S]
            share = -(-limit // len(self._hubs))  # they have hardly any
            asks += [(hub, self._ask(hub, now, share, lane)) for hub in polled]
        await self._answers(asks)
        ready, self._ready[lane] = self._ready[lane][:limit], self._ready[lane][limit:]
        return ready

    def withdraw(self) -> list[Lease]:
        """Those that come late go back by themselves."""
        self._epoch += 1
        ready, self._ready = self._ready, [[] for _ in Lane]
        return [lease for leases in ready for lease in leases]

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        by_hub: defaultdict[int, list[tuple[Lease, Outcome]]] = defaultdict(list)
        for lease, outcome in done:
            by_hub[self._hub_of_host(lease.host)].append((lease, outcome))
        for number, some in by_hub.items():
            await self._hubs[number].frontier.release(some, now)

    async def log_if_lost(self, warc: str, lines: Sequence[LostLine]) -> None:
        """Each hub has the lines of its own hosts. Waits for all hubs."""
        by_hub: defaultdict[int, list[LostLine]] = defaultdict(list)
        for line in lines:
            by_hub[self._hub_of_host(line[1])].append(line)
        for number, some in by_hub.items():
            await self._hubs[number].frontier.log_if_lost(warc, some)

    async def logged_until(self, now: float) -> float:
        return min([await hub.frontier.logged_until(now) for hub in self._hubs])

    async def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        """Each hub knows the contents of its own pages only. Only the page waits for it."""
        hub = self._hubs[self._hub_of_host(host_of(original.url))]
        return await hub.frontier.content_seen(content, original, text)

    @property
    def has_requisites(self) -> bool:  # type: ignore[override]
        is_ready = bool(self._ready[Lane.REQUISITES])
        return is_ready or any(hub.frontier.has_requisites for hub in self._hubs)

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        if self._ready[lane]:
            return 0.0
        times = [hub.frontier.next_at(lane) for hub in self._hubs if hub.may_be_asked(lane)]
        return min(times, default=inf)

    def is_finished(self) -> bool:
        return all(hub.frontier.is_finished() for hub in self._hubs)

    @property
    def has_spare(self) -> bool:  # type: ignore[override]  # of the interface, an attribute
        return any(hub.frontier.has_spare for hub in self._hubs)

    @property
    def is_met(self) -> bool:  # type: ignore[override]
        return any(hub.frontier.is_met for hub in self._hubs)

    async def close(self) -> None:
        """Wait until the hubs have answered all releases, LATE_S at most."""
        await self._answers([(hub, hub.frontier.close()) for hub in self._hubs])

    # The life of this process

    async def wait_for_end(self) -> str:
        """Hold sessions with the hubs until one of them ends the crawl. Returns the reason."""
        lives = [asyncio.create_task(hub.frontier.wait_for_end()) for hub in self._hubs]
        try:
            ended, _ = await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for life in lives:
                life.cancel()
        return ended.pop().result()

    def tick(self) -> None:
        for hub in self._hubs:
            hub.frontier.tick()

    def end_session(self) -> None:
        """The bus is lost."""
        for hub in self._hubs:
            hub.frontier.end_session()

    def exit(self, reason: object, stats: dict[str, Any]) -> None:
        """Send the last message to each hub, `stats` to the first that hears them."""
        for hub in self._hubs:
            hears = hub.frontier.is_connected and not hub.frontier.has_exited
            hub.frontier.exit(reason, stats)
            if hears:
                stats = {}

    async def leave(self) -> None:
        await asyncio.gather(*(hub.frontier.leave() for hub in self._hubs))

    @property
    def unheard(self) -> set[str]:
        return set[str]().union(*(hub.frontier.unheard for hub in self._hubs))

    # Calls

    async def _answers(self, calls: Iterable[tuple[_Hub, Coroutine[Any, Any, T]]]) -> list[T]:
        """Begin `calls`: the answers of those hubs that are not late."""
        tasks = {asyncio.create_task(call): hub for hub, call in calls}
        for task, hub in tasks.items():
            hub.calls.add(task)
            task.add_done_callback(partial(self._answered, hub))
        waited_for = [task for task, hub in tasks.items() if hub.is_prompt]
        if waited_for:
            await asyncio.wait(waited_for, timeout=LATE_S)
        for task, hub in tasks.items():
            hub.is_late = hub.is_late or not task.done()
        if self._fault is not None:
            raise self._fault
        return [task.result() for task in tasks if task.done() and task.exception() is None]

    def _answered(self, hub: _Hub, call: asyncio.Task[Any]) -> None:
        hub.calls.discard(call)
        if hub.is_late and not hub.calls:
            hub.is_late = False
            self._wake()
        error = None if call.cancelled() else call.exception()
        if isinstance(error, FailedElsewhereError):  # its hub ends, and comes back mended
            logger.error("Hub %d has failed: %s", hub.frontier.number, error)
            hub.frontier.end_session()
        else:
            self._fault = self._fault or error

    async def _ask(self, hub: _Hub, now: float, limit: int, lane: Lane) -> None:
        epoch = self._epoch
        hub.asked[lane] = limit
        if lane is Lane.PAGES:
            hub.polled_at = now
        try:
            leases = await hub.frontier.acquire(now, limit, lane)
        finally:
            hub.asked[lane] = 0
        if epoch == self._epoch:
            self._ready[lane] += leases
        else:
            await self.release([(lease, Returned()) for lease in leases], now)

    def _in_turn(self) -> list[_Hub]:
        self._turn = (self._turn + 1) % len(self._hubs)
        return self._hubs[self._turn :] + self._hubs[: self._turn]

    # What the hubs ask of this process

    def _closes(self) -> bool:
        return self.is_closing()

    def _renewed(self) -> None:
        self.on_renewed()

    def _wake(self) -> None:
        self.on_ready()

    async def _carry_out(self, orders: Orders) -> int:
        """The orders of all hubs are the same ones, but come later from some."""
        if orders.number < self._orders:
            return 0
        self._orders = orders.number
        return await self.on_orders(orders)

    def _give_back(self, has_changed: Callable[[str], bool]) -> None:
        self.give_back(has_changed)

    def _give_back_of(self, hub: _Hub) -> None:
        number = hub.frontier.number
        self._give_back(lambda host: self._hub_of_host(host) == number)

    def _allow(self, hub: _Hub, until: float, number: int) -> None:
        """Without a session with `hub`, its leases that have not begun make room for others."""
        if hub.was_connected != hub.frontier.is_connected:
            hub.was_connected = hub.frontier.is_connected
            self._give_back_of(hub)
        self.on_allowed(until, number)

    def _end_hub(self, hub: _Hub) -> None:
        """A hub ends, and the crawl does not, unless no hub is left."""
        self._give_back_of(hub)
        if not any(each.frontier.serves for each in self._hubs):
            hub.frontier.end_crawl()
