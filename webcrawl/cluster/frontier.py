"""`ClusterFrontier`: the shards that a node holds, as one frontier.

Owns which shard a link, a lease or a page belongs to, and the counts of the node. Knows nothing of
the bus: `node` adds and removes shards, and says when the crawl has ended.

Links of a host whose shard is elsewhere are put into any shard of the node, which keeps them in its
outbox (`frontier.outbox`) and commits them there.

Counts. Each shard keeps the counts of its own URLs, committed with them. The parts of the crawl
that know no shard (scheduler, pipelines) add to `counters`, the sum; what they add goes to the
shard that releases leases next, so the next run has it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any, Protocol, TypeVar

from webcrawl.cluster.addresses import NodeAddresses, ShardAddresses
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.mail.courier import Shard
from webcrawl.cluster.nodelog import NodeLog
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.counters import MOMENTARY, Counters, Tracked
from webcrawl.frontier.disk.frontier import ACTIVE_HOSTS_MAX, LocalFrontier
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Resolved
from webcrawl.frontier.mailbox import Mail, Packed
from webcrawl.frontier.overview import Overview
from webcrawl.items import Original
from webcrawl.parse.urls import host_of
from webcrawl.scope.hostrules import HostRule, HostRules

T = TypeVar("T")


class Owner(Protocol):
    """The node, as its frontier sees it (`running`)."""

    @property
    def may_lease(self) -> bool: ...

    def has_written(self, number: int) -> None:
        """A batch of the shard has left rows in its outbox."""

    async def put_elsewhere(self, links: list[Link], force: bool) -> tuple[list[Link], int]:
        """Put links while this node has no shard: those that are left, how many were new."""

    async def close(self) -> None:
        """The frontier is about to close its shards."""

    async def leave(self) -> None:
        """All shards are closed."""


class _Held:
    """A shard of this node.

    counts -- its own, as of the last batch
    activity -- its batches
    addresses -- its view of the node's IP addresses
    others_work -- whether it tries its kept links, beside the work of other shards
    active_max -- its share of the node's active hosts; 0: that with which it was opened
    """

    def __init__(self, frontier: LocalFrontier, addresses: ShardAddresses | None) -> None:
        self.frontier = frontier
        self.addresses = addresses
        self.counts = Tracked(frontier.counters)
        self.activity = 0
        self.others_work = False
        self.active_max = 0

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

    async def receive_each(
        self, batches: Sequence[tuple[int, int, Sequence[Mail]]], now: float
    ) -> None:
        await self._node.run(
            self._number, lambda f: f.call(lambda state: state.receive_each(batches, now))
        )

    async def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Packed:
        return await self._frontier.call(
            lambda state: state.packed(shard, after, limit, limit_bytes), moves=False
        )

    async def sent(self, shard: int, upto: int) -> None:
        await self._frontier.call(lambda state: state.sent(shard, upto))


class ClusterFrontier(Frontier):
    """The frontier of a node. Memory: that of its shards, and 100 bytes for each lease.

    addresses -- the clocks of IP addresses that the shards share; None: no setting limits them
    active_max -- active hosts of all shards of this node
    """

    def __init__(
        self,
        buckets: Buckets,
        addresses: NodeAddresses | None = None,
        *,
        active_max: int = ACTIVE_HOSTS_MAX,
    ) -> None:
        self.counters = Counters()
        self.warnings = []
        self._has_ended = False
        self.brought = Counters()  # what of `counters` shards have brought along
        self._buckets = buckets
        self._shards: dict[int, _Held] = {}
        self._leases: dict[Lease, int] = {}
        self._turn = 0  # the shard that `acquire` asks first
        self.lines = NodeLog(lambda: self.shards)
        self._sum = Tracked(self.counters)  # its changes are in no shard yet
        self._frozen: set[int] = set()  # shards of which nothing is leased
        self._acquiring: Counter[int] = Counter()  # by shard: an `acquire` is under way
        self._has_shard = asyncio.Event()
        self.owner: Owner | None = None  # None: nothing of a bus, in tests
        self._batches = 0  # under way
        self.rules: HostRules | None = None  # RULES of this process; shards are opened with them
        self._addresses = addresses
        self._active_max = active_max

    def __repr__(self) -> str:
        return f"<ClusterFrontier of the shards {sorted(self._shards)}>"

    def shard_of(self, host: str) -> int:
        """The shard of a canonical host, here or elsewhere."""
        return self._buckets.shard_of(host)

    # Shards come and go

    def on_address(self, notify: Callable[[], None]) -> None:
        """Call `notify` when the node has got an address: `next_at` may be earlier than before."""
        if self._addresses is not None:
            self._addresses.on_hold = notify

    @property
    def shards(self) -> dict[int, LocalFrontier]:
        """The shards of this node by number."""
        return {number: held.frontier for number, held in self._shards.items()}

    def add(self, number: int, frontier: LocalFrontier, run_s: float = 0.0) -> None:
        """Take over an open shard. `run_s`: so long this run of the node has lasted."""
        addresses = self._addresses.of(number) if self._addresses is not None else None
        held = _Held(frontier, addresses)
        self._shards[number] = held
        self._frozen.discard(number)
        counts = frontier.counters.to_dict()
        counts["earlier_s"] -= run_s  # one that was moved was used elsewhere at the same time
        self._count(counts)
        self.brought.add(frontier.counters.to_dict())
        self.resumed = self.resumed or frontier.resumed
        self.warnings = [*self.warnings, *frontier.warnings]
        self._has_shard.set()

    def freeze(self, number: int) -> None:
        """Lease nothing of a shard until `thaw`: it is about to be removed."""
        if number in self._shards:
            self._frozen.add(number)

    def thaw(self, number: int) -> None:
        self._frozen.discard(number)

    def leased(self, number: int) -> int:
        """How many leases of a shard are out, or are about to be. O(leases)."""
        return sum(n == number for n in self._leases.values()) + self._acquiring[number]

    def remove(self, number: int) -> LocalFrontier:
        """Give a shard up, with its counts; it is still open. Leases that are out are forgotten."""
        held = self._shards.pop(number)
        self._give(held)
        self._frozen.discard(number)
        self._leases = {lease: n for lease, n in self._leases.items() if n != number}
        gone = _negative(held.frontier.counters.to_dict())
        self._count(gone)
        self.brought.add(gone)  # so what this node has done stays done, and no speed is negative
        if not self._shards:
            self._has_shard.clear()
        return held.frontier

    # The frontier's interface

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        links = list(links)
        accepted = 0
        if not self._shards and self.owner is not None:
            links, accepted = await self.owner.put_elsewhere(links, force)
            if not links:
                return accepted
        await self._has_shard.wait()
        if not self._shards:
            return 0
        elsewhere = next(iter(self._shards))
        by_shard: defaultdict[int, list[Link]] = defaultdict(list)
        for link in links:
            number = self._buckets.shard_of(link.host)
            by_shard[number if number in self._shards else elsewhere].append(link)
        for number, some in by_shard.items():
            while number not in self._shards:  # given up meanwhile
                await self._has_shard.wait()
                number = next(iter(self._shards))
            accepted += await self.run(number, lambda f, some=some: f.put(some, now, force=force))  # type: ignore[misc]
        return accepted

    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        """The shards take turns to be the first, and each gives at most its share at first."""
        if self.owner is not None and not self.owner.may_lease:
            return []
        numbers = [n for n in self._in_turn() if self._next_at(n, lane) <= now]
        leases: list[Lease] = []
        for at, number in enumerate(numbers):
            if len(leases) >= limit:
                break
            if number not in self._shards or number in self._frozen:  # meanwhile
                continue
            share = -(-(limit - len(leases)) // (len(numbers) - at))
            self._acquiring[number] += 1
            try:
                some = await self.run(number, lambda f, share=share: f.acquire(now, share, lane))  # type: ignore[misc]
                self._leases.update(dict.fromkeys(some, number))
            finally:
                self._acquiring[number] -= 1
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
            by_shard[number].append((lease, outcome))
        for number, some in by_shard.items():
            for lease, _ in some:  # until now its shard is not given up
                self._leases.pop(lease, None)
            if number in self._shards:
                self._give(self._shards[number])
                await self.run(number, lambda f, some=some: f.release(some, now))  # type: ignore[misc]

    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        """Each shard knows the contents of its own pages only."""
        held = self._shards.get(self._buckets.shard_of(host_of(original.url)))
        return await held.frontier.content_seen(content, original) if held else None

    async def retry(self, reasons: Container[str], now: float) -> int:
        """Of the shards of this node."""
        return sum([await self.run(n, lambda f: f.retry(reasons, now)) for n in list(self._shards)])

    async def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        """Each shard has rules of its own; one that is opened meanwhile has the new ones."""
        if self.rules is not None:
            self.rules.replace(rules)
        for number in list(self._shards):
            if number in self._shards:
                await self.run(number, lambda f: f.set_rules(rules, now))

    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        return min((self._next_at(number, lane) for number in self._shards), default=inf)

    def _next_at(self, number: int, lane: Lane) -> float:
        if number in self._frozen:
            return inf
        return self._shards[number].next_at(lane)

    @property
    def supply(self) -> int:
        return sum(held.frontier.supply for held in self._shards.values())

    async def overview(self, now: float, limit: int) -> Overview:
        parts = [
            await self._shards[number].frontier.overview(now, limit)
            for number in list(self._shards)
            if number in self._shards
        ]
        hosts: defaultdict[str, int] = defaultdict(int)
        for part in parts:
            for state, count in part.hosts.items():
                hosts[state] += count
        largest = sorted((h for part in parts for h in part.largest), key=lambda h: -h.urls)
        slowest = sorted((h for part in parts for h in part.slowest), key=lambda h: -h.mean_ms)
        return Overview(dict(hosts), largest[:limit], slowest[:limit])

    @property
    def fresh(self) -> int:
        """URLs that wait, in all shards, without those that are kept for a later try."""
        return sum(held.frontier.fresh for held in self._shards.values())

    async def share_active_hosts(self) -> None:
        """Give each shard the same part of `active_max`, if shards have come or gone. O(shards).

        A shard that gets a smaller part has too many for a while: a host waits after its lease.
        """
        share = max(self._active_max // max(len(self._shards), 1), 1)
        for number, held in list(self._shards.items()):
            if held.active_max != share and self._shards.get(number) is held:
                held.active_max = share
                await held.frontier.call(lambda state: state.set_active_max(share))

    async def see_work(self, *, elsewhere: bool) -> None:
        """Let each shard try its kept links while another has work: on this node, or `elsewhere`.

        A batch of each shard for which that has changed, which is no activity of it. O(shards).
        """
        for number, held in list(self._shards.items()):
            others_work = elsewhere or self.fresh > held.frontier.fresh
            if others_work != held.others_work and self._shards.get(number) is held:
                held.others_work = others_work
                await held.frontier.call(
                    partial(CrawlState.set_others_work, others_work=others_work)
                )

    def is_finished(self) -> bool:
        return self.has_ended

    @property
    def has_ended(self) -> bool:
        """Whether the whole crawl has ended: set by the node."""
        return self._has_ended

    @has_ended.setter
    def has_ended(self, has_ended: bool) -> None:
        self._has_ended = has_ended
        if has_ended:  # links that wait for a shard have come too late
            self._has_shard.set()

    @property
    def is_idle(self) -> bool:
        """Whether no batch is under way."""
        return not self._batches

    def activity(self, number: int) -> int:
        """A number that grows with each batch of a shard; 0 if it is closed."""
        held = self._shards.get(number)
        return held.activity if held is not None else 0

    def mailbox(self, number: int) -> Shard:
        return _Mailbox(self, number)

    async def close(self) -> None:
        if self.owner is not None:
            await self.owner.close()
        for held in self._shards.values():
            self._give(held)
            await held.frontier.close()
        if self.owner is not None:
            await self.owner.leave()

    # Batches and counts

    async def run(self, number: int, batch: Callable[[LocalFrontier], Awaitable[T]]) -> T:
        """Run a batch of one shard, and count what it has counted."""
        held = self._shards[number]
        held.activity += 1
        self._batches += 1
        try:
            result = await batch(held.frontier)
        finally:
            self._batches -= 1
        if self._shards.get(number) is not held:  # given up meanwhile, with its counts
            return result
        self._count(held.counts.changes())
        if self.owner is not None and held.frontier.outbox:
            self.owner.has_written(number)
        return result

    def _give(self, held: _Held) -> None:
        """Give what others have added to `counters` to a shard."""
        added = self._sum.changes()
        for name in MOMENTARY & added.keys():
            del added[name]
        if added:
            held.counts.add(added)

    def _count(self, changes: dict[str, Any]) -> None:
        """Add what a shard has counted to the sum."""
        if changes:
            longer_s = changes.pop("earlier_s", 0.0) - self.counters.earlier_s
            self._sum.add(changes | {"earlier_s": max(longer_s, 0.0)})

    def _in_turn(self) -> list[int]:
        numbers = sorted(self._shards)
        if numbers:
            self._turn = (self._turn + 1) % len(numbers)
        return numbers[self._turn :] + numbers[: self._turn]


def _negative(counted: dict[str, Any]) -> dict[str, Any]:
    """What to add for the counts of a shard that is given up."""
    return {
        name: {key: -n for key, n in value.items()} if isinstance(value, dict) else -value
        for name, value in counted.items()
        if name != "earlier_s"
    }
