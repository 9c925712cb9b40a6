"""CLOSESPIDER_PAGECOUNT of a crawl on several nodes: each node has places of it, in portions.

The record has the places of each shard, so the places of answered pages move with a shard. A node
uses the sum of its own shards' places as its target, and has its unused ones at one of its shards:
not at one that it gives away (`leaving`) while it has another, since pages of its other shards have
some of them. The last shard takes them along. Places get fewer in a portion as the goal comes
nearer; a node that runs out of URLs, or ends, gives back what it does not use.

Invariant: the places of all shards together are at most the goal (or, after it was lowered, what
was used or could not be given back). So no fault exceeds it. The slack: a dead node keeps its
unused places, PORTION_MAX at most, and the crawl waits for it; without faults the goal is met
exactly.

After a loss of the KV each node writes the places of its shards again. Until all have, nobody gets
more. The same if a goal is set later: pages of a shard that the record does not have would exceed
it. A page that is answered, and whose commit is lost in a kill, is fetched and counted again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import TARGET, Crawl, TargetRecord, change
from webcrawl.cluster.bus import Bus

PORTION_MAX: Final = 1000


class SharedTarget:
    """This node's part of the target. Memory: the record, two numbers for each shard.

    record -- as last seen
    shards -- whose places in `record` are up to date: those of the last `refresh`. A shard that has
        come since may have used more of them on its node before
    """

    def __init__(self, bus: Bus, store: NodeStore, goal: int) -> None:
        """`goal`: CLOSESPIDER_PAGECOUNT, in force unless the bus or `node.json` has another."""
        self._bus = bus
        self._store = store
        known = store.content
        version = known.goal_version
        self.record = TargetRecord(known.goal if version else goal, version)
        self.shards: frozenset[int] = frozenset()
        self._lost_era = ""  # in which the record was found without shards of this node
        self._limit: int | None = None  # of `places`, if the answer to a change is unknown

    def __repr__(self) -> str:
        return f"<SharedTarget {sum(self.record.used.values())} of {self.record.goal}>"

    @property
    def is_met(self) -> bool:
        """Whether all pages of the goal are answered, as last written by all nodes."""
        return bool(self.record.goal) and sum(self.record.used.values()) >= self.record.goal

    def places(self, shards: Iterable[int]) -> int | None:
        """The target of this node, which has `shards` (as for `refresh`); None: there is none."""
        if not self.record.goal:
            return None
        places = sum(self.record.places.get(shard, 0) for shard in shards)
        return places if self._limit is None else min(places, self._limit)

    async def refresh(
        self,
        crawl: Crawl,
        shards: Mapping[int, int],
        *,
        nodes: int,
        wants: int,
        keeps: int = 0,
        leaving: int | None = None,
    ) -> int | None:
        """Write the node's answered pages, and take or give back places. BusError.

        shards -- answered pages (`counters.crawled`) of each shard that this node uses. No page of
            theirs is answered on another node
        nodes -- how many are alive
        wants -- unused places that the node has work for; 0: it has no URL left
        keeps -- unused places that cannot be given back: pages under way have them
        leaving -- a shard that is about to go to another node, of which no page is under way: the
            other shards get its unused places, since this node's pages have some of them

        Returns `places`. Call it when unused places are few, when the node runs out of URLs, and
        after a change of the goal. Without shards it only reads.
        """
        self._limit = limit = sum(shards.values()) + max(
            wants, keeps
        )  # the others may be given back
        before = self.record

        def edit(record: TargetRecord | None) -> TargetRecord:
            edited = edited_from(record)
            own = sum(edited.places.get(shard, 0) for shard in shards)
            self._limit = min(limit, own)  # the answer may be lost
            return edited

        def edited_from(record: TargetRecord | None) -> TargetRecord:
            record = record or replace(before, places={}, used={})
            if before.version > record.version:  # a goal that the lost KV had
                record = replace(record, goal=before.goal, version=before.version)
            home = min(shards.keys() - {leaving}, default=leaving)
            most = max(wants, keeps)
            return self._edited(record, before, crawl, shards, home, nodes, most, keeps)

        record = await change(self._bus, TARGET, TargetRecord, edit)
        assert record is not None
        self.record, self._limit, self.shards = record, None, frozenset(shards)
        self._store.keep(goal=record.goal, goal_version=record.version)
        return self.places(shards)

    def _edited(
        self,
        record: TargetRecord,
        before: TargetRecord,
        crawl: Crawl,
        shards: Mapping[int, int],
        home: int | None,
        nodes: int,
        wants: int,
        keeps: int,
    ) -> TargetRecord:
        """`home`: the shard that has all unused places; None: there are no shards."""
        if home is None:
            return record
        if shards.keys() & self.shards - record.places.keys():
            self._lost_era = crawl.era
        places, used = dict(record.places), dict(record.used)
        # After a loss: what this node had. After a move: what the record has.
        known = dict(shards) | {n: before.places.get(n, 0) for n in shards if n in self.shards}
        had = sum(places.get(shard, known[shard]) for shard in shards)
        places.update(shards)
        used.update(shards)
        places[home] += max(had - sum(shards.values()), 0)
        if not record.goal:
            return replace(record, places=dict(used), used=used) if record.used else record
        unused = sum(places[shard] - shards[shard] for shard in shards)
        if unused > wants or sum(places.values()) > record.goal:
            over = max(sum(places.values()) - record.goal, 0)
            self._give_back(places, shards, max(unused - max(wants - over, keeps), 0))
        elif unused < wants and (len(places) >= crawl.shards or self._is_begun(record, crawl)):
            left = record.goal - sum(places.values())
            portion = min(wants - unused, PORTION_MAX, max(left // (2 * max(nodes, 1)), 1), left)
            places[home] += max(portion, 0)
        return replace(record, places=places, used=used)

    def _is_begun(self, record: TargetRecord, crawl: Crawl) -> bool:
        """Whether the record has all pages of the crawl: it is as old, and was never lost.

        `crawl` may be older than the last loss of the KV. Then shards that this node has written
        are missing.
        """
        return not crawl.losses and not record.version and crawl.era != self._lost_era

    async def count(self, shards: Mapping[int, int]) -> None:
        """Write the node's answered pages also if there is no goal: all nodes do from then on.

        Before a goal is set, since pages that the record does not have would exceed it. BusError.
        """

        def edit(record: TargetRecord | None) -> TargetRecord:
            record = record or self.record
            if record.goal:
                return record
            used = record.used | dict(shards)
            return replace(record, places=record.places | dict(shards), used=used)

        self.record = await change(self._bus, TARGET, TargetRecord, edit) or self.record

    @staticmethod
    def _give_back(places: dict[int, int], shards: Mapping[int, int], count: int) -> None:
        for shard, used in shards.items():
            given = min(places[shard] - used, count)
            places[shard] -= given
            count -= given

    async def set_goal(self, goal: int) -> TargetRecord:
        """Another goal for all nodes, by command; 0: none. BusError: it may have been set."""
        seen = self.record.version

        def edit(record: TargetRecord | None) -> TargetRecord:
            record = record or self.record
            if record.goal == goal:
                return record
            return replace(record, goal=goal, version=max(record.version, seen) + 1)

        record = await change(self._bus, TARGET, TargetRecord, edit)
        assert record is not None
        self.record = record
        self._store.keep(goal=record.goal, goal_version=record.version)
        return record
