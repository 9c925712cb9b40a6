"""Heartbeats of the nodes, and which nodes are alive.

A node is judged by own observation only: how long its heartbeat has not changed, in seconds of this
node's clock. No times of two machines are compared.

Invariant: if this node has seen another one's heartbeat unchanged for `SILENT_S` and the longest
fetch, no request of that node is under way, and it sends none before its next heartbeat: it stops
STALE_S after the beginning of its last whole round (`may_ask`).

A heartbeat is replaced by compare-and-set. So two processes of one node (a copied JOBDIR) find each
other: the second is refused, or the first ends with its next heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple
from uuid import uuid4

from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import DRIFT, NODES, NodeRecord, decode, read, write
from webcrawl.cluster.bus import Bus, Refused
from webcrawl.cluster.views import Condition, NodeView, Seen

HEARTBEAT_S: Final = 3.0
STALE_S: Final = 10.0  # without the bus for this long, a node sends no request
SILENT_S: Final = 30.0  # after this time, and the longest fetch, a node is taken for dead

State = Literal["joining", "running", "leaving", "left"]


class _Seen(NamedTuple):
    """A node's heartbeat, None if it has none, and when it was first seen so."""

    record: NodeRecord | None
    at: float


class Members:
    """The nodes of the crawl. Memory: 1 KB for each node that was ever seen."""

    def __init__(self, bus: Bus, store: NodeStore, clock: Callable[[], float]) -> None:
        self.run = uuid4().hex[:16]
        self._bus = bus
        self._store = store
        self._clock = clock
        self._revision = 0  # of this node's heartbeat
        self._beats = 0
        self._other: tuple[NodeRecord, float] | None = None  # of another process of this node
        self._nodes: dict[str, _Seen] = {}
        self._beating: set[str] = set()  # nodes whose heartbeat was seen to change
        self.looked_at = 0.0  # when the last look at the heartbeats began
        self.sessions = 0  # times at which this node might ask again, after it might not
        self._contact_at = float("-inf")

    def __repr__(self) -> str:
        return f"<Members: {len(self._nodes)} nodes>"

    @property
    def node(self) -> str:
        return self._store.content.node

    # This node

    @property
    def may_ask_until(self) -> float:
        """This node may send requests until then: it had the bus within STALE_S."""
        return self._contact_at + STALE_S

    def may_ask(self, now: float) -> bool:
        return now < self.may_ask_until

    def met(self, began_at: float) -> None:
        """A whole round with the bus, that began at `began_at`, has ended well."""
        if not self.may_ask(self._clock()):
            self.sessions += 1
        self._contact_at = max(self._contact_at, began_at)

    async def beat(
        self,
        state: State,
        epochs: list[int],
        era: str,
        view: NodeView | None = None,
    ) -> bool:
        """Write this node's heartbeat. False: an earlier process of this node may still run.

        Refused: another process runs as this node.
        """
        self._beats += 1
        record = NodeRecord(self.run, self._beats, state, epochs, era, view or NodeView())
        key = NODES + self.node
        for _ in range(2):
            if self._revision:
                revision = await write(self._bus, key, record, self._revision)
                if revision:
                    self._revision = revision
                    return True
            self._revision = 0
            found = await read(self._bus, key, NodeRecord)
            if found is not None and not self._is_over(found.record):
                return False
            revision = await write(self._bus, key, record, found.revision if found else 0)
            if revision:
                self._revision = revision
                if self._store.content.run != self.run:
                    self._store.keep(run=self.run)
                return True
        return False

    def _is_over(self, record: NodeRecord) -> bool:
        """Whether the process that wrote `record`, as this node, has ended (or is this one)."""
        if record.run == self.run or record.state == "left":
            return True
        if record.run == self._store.content.run:  # JOBDIR was its, and is locked by this process
            return True
        if self._beats > 1 and self._store.content.run == self.run:
            raise Refused(self._twice())
        now = self._clock()
        if self._other is None or self._other[0].run != record.run:
            self._other = (record, now)
        first, at = self._other
        if first.beats != record.beats:
            raise Refused(self._twice())
        return now - at > SILENT_S * DRIFT

    def _twice(self) -> str:
        return (
            f"another process runs as node {self.node}: this JOBDIR is a copy of its JOBDIR."
            " Remove node.json from the copy, or stop the other"
        )

    # The other nodes

    async def look(self) -> None:
        """Read all heartbeats. O(nodes)."""
        began_at = self._clock()
        entries = await self._bus.keys(NODES)
        now = self._clock()
        found = {key[len(NODES) :]: decode(key, e.value, NodeRecord) for key, e in entries.items()}
        for node in found.keys() | self._nodes.keys():
            self._see(node, found.get(node), now)
        self.looked_at = began_at

    def _see(self, node: str, record: NodeRecord | None, now: float) -> None:
        seen = self._nodes.get(node)
        if seen is None or _beat(seen.record) != _beat(record):
            if seen is not None and seen.record is not None and record is not None:
                self._beating.add(node)
            self._nodes[node] = _Seen(record, now)

    def silent_s(self, node: str) -> float:
        """How long the heartbeat of `node` was seen unchanged, as of the last `look`."""
        if node not in self._nodes:
            self._nodes[node] = _Seen(None, self._clock())
        return self.looked_at - self._nodes[node].at

    def is_dead(self, node: str, longest_fetch_s: float) -> bool:
        """Whether `node` asks nobody before its next heartbeat, and none of its requests runs."""
        return self.silent_s(node) > (SILENT_S + longest_fetch_s) * DRIFT

    def has_seen(self, node: str, shard: int, epoch: int, era: str) -> bool:
        """Whether a heartbeat of `node` in `era` says that it has seen `epoch` of `shard`."""
        record = self.record(node)
        if record is None or record.era != era or shard >= len(record.epochs):
            return False
        return record.epochs[shard] >= epoch

    def has_left(self, node: str) -> bool:
        """Whether `node` has said that it ends. It asks nobody before another heartbeat."""
        record = self.record(node)
        return record is not None and record.state == "left"

    def is_leaving(self, node: str) -> bool:
        """Whether `node` gives its shards away, to end then."""
        record = self.record(node)
        return record is not None and record.state == "leaving"

    def record(self, node: str) -> NodeRecord | None:
        seen = self._nodes.get(node)
        return seen.record if seen is not None else None

    def alive(self) -> list[str]:
        """The nodes whose heartbeat has changed within STALE_S and that do not leave, sorted.

        With this node. A node that is seen for the first time counts until STALE_S have passed.
        """
        return sorted({self.node, *(name for name in self._nodes if self.is_alive(name))})

    def running(self) -> list[str]:
        """The other nodes that are alive and have joined, sorted."""
        others = (name for name in self.alive() if name != self.node)
        return [name for name in others if self._nodes[name].record.state == "running"]  # type: ignore[union-attr]  # alive: it has one

    def has_joined(self, node: str) -> bool:
        """Whether `node` has joined, and its heartbeat was seen to change: it is no dead one's."""
        record = self.record(node)
        return node in self._beating and record is not None and record.state == "running"

    def is_alive(self, node: str) -> bool:
        record = self.record(node)
        if record is None or record.state in ("leaving", "left"):
            return False
        return self.silent_s(node) < STALE_S

    def all(self) -> dict[str, NodeRecord]:
        """All nodes with a heartbeat, also the dead."""
        return {name: seen.record for name, seen in self._nodes.items() if seen.record is not None}

    def seen(self) -> dict[str, Seen]:
        """All nodes as last heard. O(nodes)."""
        return {
            name: Seen(seen.record.view, self._condition(name, seen.record), seen.at)
            for name, seen in self._nodes.items()
            if seen.record is not None
        }

    def _condition(self, node: str, record: NodeRecord) -> Condition:
        if record.state == "left":  # one that is leaving still asks for its last shards
            return "left"
        if self.silent_s(node) >= STALE_S:
            return "silent"
        return "joining" if record.state == "joining" else "alive"


def _beat(record: NodeRecord | None) -> tuple[str, int, str] | None:
    return (record.run, record.beats, record.era) if record is not None else None
