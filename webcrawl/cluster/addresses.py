"""The IP addresses of a crawl with several hubs: what the frontier asks, and what the hubs say.

Owns when hubs tell each other of turns. `turns` decides. This hub tells itself by the same `Turns`
as the others, at once. The frontier calls from the
threads of its batches, letters arrive in the event loop: each step is one under a lock (1 µs).

What a hub wants of others, and gives them, goes out in batches: after BATCH_S, or with the answer
to a letter. A session that ends takes with it what is on its way; at the next begin each hub tells
which turns it uses or has ended, and what it wants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import lru_cache
from ipaddress import ip_address, ip_network
from threading import Lock
from typing import Final

from msgspec.structs import replace
from xxhash import xxh3_64_intdigest

from webcrawl.cluster.peers import Listener, Peers
from webcrawl.cluster.streams import Clock
from webcrawl.cluster.turns import PAGES_MAX, Asker, Out, Owner, Turns
from webcrawl.frontier.host import real_address
from webcrawl.frontier.store import StoreError

BATCH_S: Final = 0.05
Count = Callable[[Mapping[str, int], Sequence[str], int, int], Awaitable[Mapping[str, int]]]


class HubAddresses:
    """The addresses as the frontier of this hub sees them (`frontier.addresses.Addresses`)."""

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
        self._number, self._hubs = number, hubs
        self._pages_max = pages_max
        self._networks = [ip_network(prefix, strict=False) for prefix in shared]
        self._clock = clock
        self._lock = Lock()
        self._out = Out(Turns)
        self._is_open = is_new  # requests of this hub's last run have ended
        self._counting: asyncio.Task[None] | None = None
        self._is_shared = lru_cache(100_000)(self._find_shared)
        self._asker = Asker(
            ip_delay_s=ip_delay_s,
            has_cap=pages_max > 0,
            owner_of=self._owner_of,
            out=self._out,
        )
        self._owner = Owner(
            ip_delay_s=ip_delay_s,
            has_cap=pages_max > 0,
            unknown=() if is_new else range(hubs),
            out=self._out,
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
        peers.add(Listener({Turns: self._take_turns}, self._begins, self._ends, self._lost))

    # For the frontier

    def acquire(self, address: str, now: float) -> float:
        if self._is_shared(address):
            return 0.0
        with self._lock:
            at = self._asker.acquire(address, now)
            if at and self._number in self._out:  # it is our own address, perhaps
                self._hear_own(now)
                at = self._asker.acquire(address, now)
            return at

    def cancel(self, address: str, now: float) -> None:
        with self._lock:
            self._asker.cancel(address, now)
            self._hear_own(now)

    def release(self, address: str, next_at: float) -> None:
        with self._lock:
            self._asker.release(address, next_at)
            self._hear_own(self._clock())

    def stop_waiting(self, address: str, now: float) -> None:
        with self._lock:
            self._asker.stop_waiting(address, now)
            self._hear_own(now)

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

    def tick(self) -> None:
        """Once each BATCH_S."""
        now = self._clock()
        with self._lock:
            self._asker.check(now)
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
            self._asker.end_all()
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
            self._hear_own(now)
            there = [hub for hub in self._out if self._peers.is_connected(hub)]
            batch = {hub: self._out.pop(hub) for hub in there}
            for told in self._out.values():
                told.wishes.clear()  # they are said again when a session begins
        for hub, told in batch.items():
            self._peers.send(hub, _moved(told, -now))

    def _hear_own(self, now: float) -> None:
        """What this hub tells itself. Under the lock."""
        while own := self._out.pop(self._number, None):
            self._hear(self._number, own, now)

    def _hear(self, hub: int, told: Turns, now: float) -> None:
        if told.using is not None:
            self._owner.uses(hub, told.using, now)
        for ended in told.ended:
            self._owner.end_turn(hub, ended, now)
        for address in told.wishes:
            self._owner.wish(hub, address, now)
        for turn in told.turns:
            self._asker.turn(hub, turn)

    # Sessions

    def _begins(self, hub: int) -> None:
        with self._lock:
            ended = self._out.pop(hub, Turns()).ended
            used, wished = self._asker.begin(hub)
        used += [each.address for each in ended]  # the owner still knows their pages
        told = Turns(using=used, ended=ended, wishes=wished)
        self._peers.send(hub, _moved(told, -self._clock()))

    def _ends(self, hub: int) -> None:
        """What is leased and not sent must come back: the owner may call this hub lost, in time."""
        with self._lock:
            self._owner.leaves(hub)
            is_used = self._asker.leaves(hub)
        if is_used:
            self._on_recall()

    def _lost(self, hub: int) -> None:
        now = self._clock()
        with self._lock:
            self._owner.uses(hub, (), now)
        self._sent(now)

    def _take_turns(self, hub: int, letter: Turns) -> None:
        now = self._clock()
        told = _moved(letter, now)
        with self._lock:
            turns = [each for each in told.turns if self._owner_of(each.address) == hub]
            using = None if told.using is None else self._ours(told.using)
            told = replace(told, using=using, wishes=self._ours(told.wishes), turns=turns)
            self._hear(hub, told, now)
        self._sent(now)

    def _ours(self, addresses: list[str]) -> list[str]:
        return [each for each in addresses if self._owner_of(each) == self._number]

    def _owner_of(self, address: str) -> int:
        return xxh3_64_intdigest(address.encode()) % self._hubs

    def _find_shared(self, address: str) -> bool:
        """Whether this hub asks by its own clocks: a shared prefix, or a proxy's host."""
        if not real_address(address):
            return True
        return bool(self._networks) and any(ip_address(address) in each for each in self._networks)


def _moved(told: Turns, by_s: float) -> Turns:
    """`told` with its times moved, none of them before 0."""
    return replace(
        told,
        ended=[each._replace(next_at=max(each.next_at + by_s, 0.0)) for each in told.ended],
        turns=[each._replace(from_at=max(each.from_at + by_s, 0.0)) for each in told.turns],
    )
