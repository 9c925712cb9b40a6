"""`ClusterFrontier`: the shards that a node holds, as one frontier.

Owns which shard a link, a lease or a page belongs to, and the counts of the node. Knows nothing of
the bus: `node` adds and removes shards, and says when the crawl has ended.

Links of a host whose shard is elsewhere are put into any shard of the node, which keeps them in its
outbox (`frontier.outbox`) and commits them there.

Counts. Each shard keeps the counts of its own URLs, committed with them. The parts of the crawl
that know no shard (scheduler, pipelines) add to `counters`, the sum; what they add goes to a shard
with its next batch, so the next run has it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from math import inf
from typing import Any, TypeVar

from webcrawl.cluster.addresses import NodeAddresses, ShardAddresses
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.courier import Shard
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.counters import MOMENTARY, Counters, differences
from webcrawl.frontier.disk.frontier import DiskFrontier
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Resolved
from webcrawl.frontier.mailbox import Mail
from webcrawl.frontier.overview import Overview
from webcrawl.items import Original
from webcrawl.parse.urls import host_of
from webcrawl.scope.hostrules import HostRule

T = TypeVar("T")


class _Held:
    """A shard of this node.

    counted -- its counts after the last batch
    activity -- its batches
    addresses -- its view of the node's IP addresses
    """

    def __init__(self, frontier: DiskFrontier, addresses: ShardAddresses | None) -> None:
        self.frontier = frontier
        self.addresses = addresses
        self.counted = frontier.counters.to_dict()
        self.activity = 0

    def next_at(self, lane: Lane) -> float:
        """When the shard may have a lease, or is to look at an address that others have freed."""
        at = self.frontier.next_at(lane)
        return at if self.addresses is None or at == inf else min(at, self.addresses.next_at())


class _Mailbox:
    """A shard as its courier sees it (`courier.Shard`)."""

    def __init__(self, node: ClusterFrontier, number: int) -> None:
        self._node = node
        self._number = number
        self._frontier = node.shards[number]

    @property
    def outbox(self) -> Mapping[int, tuple[int, int]]:
        return self._frontier.outbox

    @property
    def inbox(self) -> Mapping[int, int]:
        return self._frontier.inbox

    async def receive(self, sender: int, first: int, mail: Sequence[Mail], now: float) -> int:
        return await self._node.run(self._number, lambda f: f.receive(sender, first, mail, now))

    async def unsent(self, shard: int, after: int, limit: int) -> list[Mail]:
        return await self._frontier.unsent(shard, after, limit)

    async def sent(self, shard: int, upto: int) -> None:
        await self._frontier.sent(shard, upto)


class ClusterFrontier(Frontier):
    """The frontier of a node. Memory: that of its shards, and 100 bytes for each lease.

    addresses -- the clocks of IP addresses that the shards share; None: no setting limits them
    """

    def __init__(self, buckets: Buckets, addresses: NodeAddresses | None = None) -> None:
        self.counters = Counters()
        self.warnings = []
        self.has_ended = False  # the whole crawl: set by the node
        self._buckets = buckets
        self._shards: dict[int, _Held] = {}
        self._leases: dict[Lease, int] = {}
        self._turn = 0  # the shard that `acquire` asks first
        self._given = Counters()  # what of `counters` is in a shard
        self._has_shard = asyncio.Event()
        self._batches = 0  # under way
        self.on_written: Callable[[int], None] = lambda number: None
        self.on_close: Callable[[], Awaitable[None]] | None = None
        self.on_closed: Callable[[], Awaitable[None]] | None = None
        self._addresses = addresses

    def __repr__(self) -> str:
        return f"<ClusterFrontier of the shards {sorted(self._shards)}>"

    # Shards come and go

    @property
    def shards(self) -> dict[int, DiskFrontier]:
        """The shards of this node by number."""
        return {number: held.frontier for number, held in self._shards.items()}

    def add(self, number: int, frontier: DiskFrontier) -> None:
        """Take over an open shard."""
        addresses = self._addresses.of(number) if self._addresses is not None else None
        held = _Held(frontier, addresses)
        self._shards[number] = held
        self._count(held.counted)
        self.resumed = self.resumed or frontier.resumed
        self.warnings = [*self.warnings, *frontier.warnings]
        self._has_shard.set()

    def remove(self, number: int) -> DiskFrontier:
        """Give a shard up; it is still open. Its leases are out no more: KeyError at a release."""
        held = self._shards.pop(number)
        self._leases = {lease: n for lease, n in self._leases.items() if n != number}
        if not self._shards:
            self._has_shard.clear()
        return held.frontier

    # The frontier's interface

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        await self._has_shard.wait()
        elsewhere = next(iter(self._shards))
        by_shard: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            number = self._buckets.shard_of(link.host)
            by_shard[number if number in self._shards else elsewhere].append(link)
        accepted = [
            await self.run(number, lambda f, some=some: f.put(some, now, force=force))  # type: ignore[misc]
            for number, some in by_shard.items()
        ]
        return sum(accepted)

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        """The shards take turns to be the first, and each gives at most its share at first."""
        numbers = [n for n in self._in_turn() if self._shards[n].next_at(lane) <= now]
        leases: list[Lease] = []
        for at, number in enumerate(numbers):
            if len(leases) >= limit:
                break
            if number not in self._shards:  # given up meanwhile
                continue
            share = -(-(limit - len(leases)) // (len(numbers) - at))
            some = await self.run(number, lambda f, share=share: f.acquire(now, share, lane))  # type: ignore[misc]
            self._leases.update(dict.fromkeys(some, number))
            leases += some
        return leases

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        by_shard: defaultdict[int, list[tuple[Lease, Outcome]]] = defaultdict(list)
        for lease, outcome in done:
            number = self._leases.get(lease)
            if number is None:  # its shard was given up: its next node asks again
                continue
            if isinstance(outcome, Resolved) and self._addresses is not None:
                self._addresses.expect(outcome.addresses[0], now)
            self._leases.pop(lease, None)
            by_shard[number].append((lease, outcome))
        for number, some in by_shard.items():
            await self.run(number, lambda f, some=some: f.release(some, now))  # type: ignore[misc]

    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        """Each shard knows the contents of its own pages only."""
        held = self._shards.get(self._buckets.shard_of(host_of(original.url)))
        return await held.frontier.content_seen(content, original) if held else None

    async def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        for number in list(self._shards):
            await self.run(number, lambda f: f.set_rules(rules, now))

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return min((held.next_at(lane) for held in self._shards.values()), default=inf)

    @property
    def supply(self) -> int:
        return sum(held.frontier.supply for held in self._shards.values())

    async def overview(self, now: float, limit: int) -> Overview:
        parts = [await held.frontier.overview(now, limit) for held in self._shards.values()]
        hosts: defaultdict[str, int] = defaultdict(int)
        for part in parts:
            for state, count in part.hosts.items():
                hosts[state] += count
        largest = sorted((h for part in parts for h in part.largest), key=lambda h: -h.urls)
        slowest = sorted((h for part in parts for h in part.slowest), key=lambda h: -h.mean_ms)
        return Overview(dict(hosts), largest[:limit], slowest[:limit])

    def is_finished(self) -> bool:
        return self.has_ended

    @property
    def is_idle(self) -> bool:
        """Whether no batch is under way."""
        return not self._batches

    def activity(self, number: int) -> int:
        """A number that grows with each batch of a shard."""
        return self._shards[number].activity

    def mailbox(self, number: int) -> Shard:
        return _Mailbox(self, number)

    async def close(self) -> None:
        if self.on_close is not None:
            await self.on_close()
        for held in self._shards.values():
            self._give(held)
            await held.frontier.close()
        if self.on_closed is not None:
            await self.on_closed()

    # Batches and counts

    async def run(self, number: int, batch: Callable[[DiskFrontier], Awaitable[T]]) -> T:
        """Run a batch of one shard, and count what it has counted."""
        held = self._shards[number]
        self._give(held)
        held.activity += 1
        self._batches += 1
        try:
            result = await batch(held.frontier)
        finally:
            self._batches -= 1
        now = held.frontier.counters.to_dict()
        self._count(differences(held.counted, now))
        held.counted = now
        if held.frontier.outbox:
            self.on_written(number)
        return result

    def _give(self, held: _Held) -> None:
        """Give what others have added to `counters` to a shard."""
        added = differences(self._given.to_dict(), self.counters.to_dict())
        for name in MOMENTARY & added.keys():
            del added[name]
        if added:
            self._given.add(added)
            held.frontier.counters.add(added)
            _add(held.counted, added)  # a batch of the shard may be under way

    def _count(self, changes: dict[str, Any]) -> None:
        """Add what a shard has counted to the sum."""
        earlier_s = max(self.counters.earlier_s, changes.get("earlier_s", 0.0))
        for counters in (self.counters, self._given):
            counters.add(changes)
            counters.earlier_s = earlier_s

    def _in_turn(self) -> list[int]:
        numbers = sorted(self._shards)
        if numbers:
            self._turn = (self._turn + 1) % len(numbers)
        return numbers[self._turn :] + numbers[: self._turn]


def _add(counted: dict[str, Any], added: dict[str, Any]) -> None:
    """Add `counters.differences` to a `Counters.to_dict`."""
    for name, value in added.items():
        if isinstance(value, dict):
            own = counted[name]
            for key, count in value.items():
                own[key] = own.get(key, 0) + count
        else:
            counted[name] += value
