"""The IP addresses of a crawl with several hubs: what the frontier asks, and what the hubs say.

Owns the letters about turns, and when they are sent. `turns` decides. The frontier calls from the
threads of its batches, letters arrive in the event loop: each step is one under a lock (1 µs).

What a hub wants of others, and gives them, goes out in batches: after BATCH_S, or with the answer
to a letter. A session that ends takes with it what is on its way; at the next begin each hub tells
which turns it uses, and what it wants.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from ipaddress import ip_address, ip_network
from threading import Lock
from typing import Annotated, Final

from msgspec import Meta
from xxhash import xxh3_64_intdigest

from webcrawl.cluster.packets import Letter
from webcrawl.cluster.peers import Letters, Listener, Peers
from webcrawl.cluster.streams import Clock
from webcrawl.cluster.turns import Asker, Owner, Turn
from webcrawl.fetch.proxy import real_address
from webcrawl.frontier.store import StoreError

BATCH_S: Final = 0.05
PAGES_MAX: Final = 64  # that a turn brings

_Address = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f.:]{2,45}\Z")]
_Seconds = Annotated[float, Meta(ge=0.0, le=1e6)]
Count = Callable[[Mapping[str, int], Sequence[str], int, int], Awaitable[Mapping[str, int]]]

_Pages = Annotated[int, Meta(ge=0, le=PAGES_MAX)]


class Using(Letter, frozen=True):
    """Addresses of the receiver's at which the sender has requests under way, and no others."""

    addresses: list[_Address]


class Wants(Letter, frozen=True):
    """To the owner: turns that have ended, each with the seconds to the next request and the pages
    that are left, and wishes for turns."""

    ended: list[tuple[_Address, _Seconds, _Pages]]
    wishes: list[_Address]


class Gives(Letter, frozen=True):
    """From the owner: turns, each with the seconds to its first request, its pages, and whether it
    is the last, and addresses for which others wait."""

    turns: list[tuple[_Address, _Seconds, _Pages, bool]]
    stops: list[_Address]


@dataclass
class _Out:
    """What goes to one hub with the next batch. Times are of this hub's clock."""

    ended: list[tuple[str, float, int]] = field(default_factory=list)
    wishes: list[str] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    stops: list[str] = field(default_factory=list)


class HubAddresses:
    """The addresses as the frontier of this hub sees them (`frontier.addresses.Addresses`).

    garbage -- entries of letters about addresses of other hubs
    """

    def __init__(
        self,
        number: int,
        hubs: int,
        *,
        ip_delay_s: float,
        pages_max: int = 0,
        shared: Sequence[str] = (),
        is_new: bool,
        clock: Clock,
    ) -> None:
        """Of hub `number` of `hubs`.

        pages_max -- MAX_PAGES_PER_IP, 0: no cap
        shared -- CLUSTER_SHARED_ADDRESSES: prefixes that each hub asks by its own clocks
        is_new -- no process has been this hub before: none has asked at its addresses
        """
        self.garbage = 0
        self._number, self._hubs = number, hubs
        self._pages_max = pages_max
        self._networks = [ip_network(prefix, strict=False) for prefix in shared]
        self._clock = clock
        self._lock = Lock()
        self._out: defaultdict[int, _Out] = defaultdict(_Out)
        self._connected: set[int] = set()
        self._is_open = is_new  # requests of this hub's last run have ended
        self._counting: asyncio.Task[None] | None = None
        self._is_shared = lru_cache(100_000)(self._find_shared)
        self._asker = Asker(
            ip_delay_s=ip_delay_s,
            has_cap=pages_max > 0,
            owner_of=self._owner_of,
            wish=self._wish,
            end=self._end,
        )
        self._owner = Owner(
            ip_delay_s=ip_delay_s,
            has_cap=pages_max > 0,
            unknown=() if is_new else range(hubs),
            give=self._give,
            stop=self._stop,
        )

    def __repr__(self) -> str:
        return f"<HubAddresses: {self._owner!r}, {self._asker!r}>"

    def join(
        self,
        peers: Peers,
        count: Count,
        *,
        on_freed: Callable[[], None],
        on_recall: Callable[[], None],
    ) -> None:
        """Talk to the other hubs by `peers`, from `tick` on. All calls are in the event loop.

        count -- counts pages for all hubs (`CrawlState.give_pages`)
        on_freed -- `next_at` may be earlier than before
        on_recall -- requests that are leased and not sent must come back
        """
        self._peers, self._count_pages = peers, count
        self._on_freed, self._on_recall = on_freed, on_recall
        letters: Letters = {
            Using: self._take_uses,
            Wants: self._take_wants,
            Gives: self._take_gives,
        }
        peers.add(Listener(letters, self._begins, self._ends, self._lost))

    # For the frontier

    def take(self, address: str, now: float) -> float:
        if self._is_shared(address):
            return 0.0
        with self._lock:
            return self._asker.take(address, now)

    def give_back(self, address: str, now: float) -> None:
        with self._lock:
            self._asker.give_back(address, now)

    def release(self, address: str, next_at: float) -> None:
        with self._lock:
            self._asker.release(address, next_at)

    def leave(self, address: str, now: float) -> None:
        with self._lock:
            self._asker.leave(address, now)

    def freed(self, now: float) -> Sequence[str]:
        with self._lock:
            return self._asker.freed(now)

    def next_at(self) -> float:
        with self._lock:
            return self._asker.next_at

    def take_page(self, address: str) -> bool:
        if self._is_shared(address):
            return True
        with self._lock:
            return self._asker.take_page(address)

    def is_full(self, address: str) -> bool:
        with self._lock:
            return self._asker.is_full(address)

    # In the event loop

    async def run(self) -> None:
        """Send and look after idle turns, until this task is cancelled."""
        while True:
            self.tick()
            await asyncio.sleep(BATCH_S)

    def tick(self) -> None:
        """Once each BATCH_S."""
        now = self._clock()
        with self._lock:
            self._asker.look(now)
            self._owner.forget(now)
            if not self._is_open and self._peers.serves:
                self._is_open = True
                self._owner.uses(self._number, (), now)
            counts = bool(self._owner.uncounted or self._owner.returned)
        if counts and self._counting is None:
            self._counting = asyncio.create_task(self._count())
        self._flush(now)

    async def close(self) -> None:
        """No request of this hub is under way any more: give its turns back."""
        now = self._clock()
        with self._lock:
            self._asker.end_all(now)
        self._flush(now)
        if self._counting is not None:
            self._counting.cancel()
            await asyncio.wait([self._counting])

    async def _count(self) -> None:
        """Count the pages of the next turns."""
        with self._lock:
            wanted = list(self._owner.uncounted)
            returned, self._owner.returned = self._owner.returned, {}
        try:
            given = await self._count_pages(returned, wanted, self._pages_max, PAGES_MAX)
        except StoreError:  # the frontier's next batch raises it too, and the crawl ends
            return
        finally:
            self._counting = None
        now = self._clock()
        with self._lock:
            for address in wanted:
                self._owner.count(address, given[address], now)
        self._sent(now)

    def _sent(self, now: float) -> None:
        """After a step that may have given turns."""
        self._flush(now)
        self._on_freed()

    def _flush(self, now: float) -> None:
        with self._lock:
            batch, self._out = self._out, defaultdict(_Out)
        for hub, out in batch.items():
            if out.ended or out.wishes:
                ended = [(a, max(at - now, 0.0), pages) for a, at, pages in out.ended]
                self._peers.send(hub, Wants(ended, out.wishes))
            if out.turns or out.stops:
                turns = [(a, max(at - now, 0.0), n, last) for a, at, n, last in out.turns]
                self._peers.send(hub, Gives(turns, out.stops))

    # Sessions

    def _begins(self, hub: int, was_lost: bool) -> None:
        with self._lock:
            self._connected.add(hub)
            used, wished = self._asker.begin(hub, was_lost=was_lost)
            self._out[hub].wishes.extend(wished)
        self._peers.send(hub, Using(used))
        if was_lost:
            self._on_recall()

    def _ends(self, hub: int) -> None:
        """What is leased and not sent must come back: the owner may call this hub lost, in time."""
        with self._lock:
            self._connected.discard(hub)
            self._out.pop(hub, None)
            self._owner.leaves(hub)
            is_used = self._asker.leaves(hub)
        if is_used:
            self._on_recall()

    def _lost(self, hub: int) -> None:
        now = self._clock()
        with self._lock:
            self._owner.uses(hub, (), now)
        self._sent(now)

    # Letters

    def _take_uses(self, hub: int, letter: Using) -> None:
        now = self._clock()
        with self._lock:
            self._owner.uses(hub, self._ours(letter.addresses), now)
        self._sent(now)

    def _take_wants(self, hub: int, letter: Wants) -> None:
        now = self._clock()
        with self._lock:
            for address, wait_s, pages in letter.ended:
                self._owner.end(hub, address, now + wait_s, pages, now)
            for address in self._ours(letter.wishes):
                self._owner.wish(hub, address, now)
        self._sent(now)

    def _take_gives(self, hub: int, letter: Gives) -> None:
        now = self._clock()
        with self._lock:
            for address, wait_s, pages, is_last in letter.turns:
                if self._owner_of(address) == hub:
                    self._asker.turn(hub, Turn(address, now + wait_s, pages, is_last))
                else:
                    self.garbage += 1
            for address in letter.stops:
                self._asker.stop(address, now)
        self._sent(now)

    def _ours(self, addresses: list[str]) -> list[str]:
        ours = [each for each in addresses if self._owner_of(each) == self._number]
        self.garbage += len(addresses) - len(ours)
        return ours

    # Under the lock: from the asker and the owner

    def _wish(self, owner: int, address: str, now: float) -> None:
        if owner == self._number:
            self._owner.wish(owner, address, now)
        elif owner in self._connected:
            self._out[owner].wishes.append(address)

    def _end(self, owner: int, address: str, next_at: float, pages: int, now: float) -> None:
        if owner == self._number:
            self._owner.end(owner, address, next_at, pages, now)
        else:
            self._out[owner].ended.append((address, next_at, pages))

    def _give(self, hub: int, turn: Turn) -> None:
        if hub == self._number:
            self._asker.turn(hub, turn)
        else:
            self._out[hub].turns.append(turn)

    def _stop(self, hub: int, address: str) -> None:
        if hub == self._number:
            self._asker.stop(address, self._clock())
        else:
            self._out[hub].stops.append(address)

    def _owner_of(self, address: str) -> int:
        return xxh3_64_intdigest(address.encode()) % self._hubs

    def _find_shared(self, address: str) -> bool:
        """Whether this hub asks by its own clocks: a shared prefix, or a proxy's host."""
        if not real_address(address):
            return True
        return bool(self._networks) and any(ip_address(address) in each for each in self._networks)
