"""The crawl as a whole: each node's counts in its heartbeat, and their sum.

Owns what a node tells the others of itself (`NodeView`), and how all views become one (`Whole`).
Knows no bus: `members` brings the views, `running` says when.

Each count is of the shards that a node holds, so the sum counts each shard once: a shard that moves
takes its counts with it. A node that is silent is counted as it was last heard, less its shards
that another node has with a later epoch: those bring their counts. Of these pages and queue are
known by shard, and all else is taken as in proportion to the pages.

What arrives is data: only names that this version knows are added.
"""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import fields
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from webcrawl.frontier.counters import MOMENTARY, Counters

REASONS_MAX: Final = 15  # of one group in a view; the rest is added up as OTHERS
OTHERS: Final = "other"
_UNHEARD_S: Final = 15.0  # five heartbeats: this node has lost the bus, or the other one has
_NAME_MAX: Final = 40  # characters of a reason, of a machine
_GROUPS: Final = (
    "codes",
    "dropped",
    "failed",
    "kept",
    "levels",
    "refused_access",
    "visits",
    "walls",
)
_NUMBERS: Final = tuple(
    each.name
    for each in fields(Counters)
    if each.type in ("int", "float") and each.name not in MOMENTARY
)

Condition = Literal["alive", "joining", "silent", "left"]


class NodeView(Struct, frozen=True):
    """What a node tells of itself with each heartbeat. 4,000 bytes at most, 1,000 usually, and
    15 for each shard.

    name -- of its machine
    state -- of its crawl (`live.snapshot`)
    pages_per_s, mbps -- since the heartbeat before
    unapplied -- links to other shards that are not known to be applied there
    fresh -- URLs that wait, without those that are kept for a later try
    free_bytes -- on the disk of WARC_DIR; -1: not known
    numbers, groups -- of `Counters`, by name; of `levels` 20 entries, else REASONS_MAX of a group
    hosts -- by state
    shards -- by number: epoch, pages, queued URLs
    """

    name: str = ""
    state: str = ""
    elapsed_s: float = 0.0
    processes: int = 1
    pages_per_s: float = 0.0
    mbps: float = 0.0
    unapplied: int = 0
    fresh: int = 0
    free_bytes: int = -1
    rss_bytes: int = 0
    numbers: dict[str, int | float] = {}
    groups: dict[str, dict[str, int]] = {}
    hosts: dict[str, int] = {}
    shards: dict[int, tuple[int, int, int]] = {}


class Owner(NamedTuple):
    """Who has a shard."""

    node: str
    epoch: int


class NodeLine(NamedTuple):
    """One node in a table. `heard_s`: how long ago its heartbeat was last seen to change.

    `is_own`: it is the node that shows the table.
    """

    node: str  # ID
    name: str
    condition: Condition
    state: str
    is_own: bool
    shards: int
    pages: int
    pages_per_s: float
    mbps: float
    queued: int
    unapplied: int
    free_bytes: int
    heard_s: float


class Whole(NamedTuple):
    """The crawl, as one node knows it.

    alive -- nodes
    shards, without_node -- of the crawl; of these, shards that no living node has
    counters -- the sum; requests under way are left out
    elapsed_s -- of the node with the most
    ever -- nodes that were ever heard of, those too that have left without a shard; without those
            that were refused before they began
    """

    node: str
    crawl: str
    alive: int
    shards: int
    without_node: tuple[int, ...]
    unapplied: int
    pages_per_s: float
    mbps: float
    elapsed_s: float
    counters: Counters
    hosts: dict[str, int]
    nodes: tuple[NodeLine, ...]
    ever: int


def machine_name() -> str:
    return socket.gethostname()[:_NAME_MAX]


def view_of(counters: Counters, view: NodeView) -> NodeView:
    """`view` with the counts of `counters`. 0.3 ms. Any thread."""
    values = counters.to_dict()
    groups = {
        name: _largest(values[name], 99 if name == "levels" else REASONS_MAX) for name in _GROUPS
    }
    numbers = {name: values[name] for name in _NUMBERS if values[name]}
    return replace(view, numbers=numbers, groups={k: v for k, v in groups.items() if v})


def _without(view: NodeView, gone: Collection[int]) -> NodeView:
    """`view` of a node without its shards `gone`, which other nodes count."""
    if not gone:
        return view
    pages = sum(view.shards[shard][1] for shard in gone)
    queued = sum(view.shards[shard][2] for shard in gone)
    of_pages = view.numbers.get("crawled", 0)
    part = max(1 - pages / of_pages, 0.0) if of_pages else 1 - len(gone) / len(view.shards)

    def less(counts: Mapping[str, int]) -> dict[str, int]:
        return {name: round(n * part) for name, n in counts.items()}

    numbers = {
        name: n * part if isinstance(n, float) else round(n * part)
        for name, n in view.numbers.items()
    }
    exact = {"crawled": of_pages - pages, "pending": view.numbers.get("pending", 0) - queued}
    numbers |= {name: max(n, 0) for name, n in exact.items() if name in view.numbers}
    if "earlier_s" in view.numbers:
        numbers["earlier_s"] = view.numbers["earlier_s"]
    groups = {name: less(counts) for name, counts in view.groups.items()}
    unapplied = round(view.unapplied * part)
    return replace(
        view, numbers=numbers, groups=groups, hosts=less(view.hosts), unapplied=unapplied
    )


def _largest(counts: Mapping[str, int], limit: int) -> dict[str, int]:
    some = sorted(((-n, name) for name, n in counts.items() if n))
    kept: Counter[str] = Counter()
    for place, (n, name) in enumerate(some):
        kept[name[:_NAME_MAX] if place < limit else OTHERS] -= n
    return dict(kept)


def counters_of(views: Iterable[NodeView]) -> Counters:
    """The sum of views. Seconds of earlier runs do not add up: the longest counts."""
    total, earlier_s = Counters(), 0.0
    for view in views:
        numbers = {name: n for name, n in view.numbers.items() if name in _NUMBERS}
        earlier_s = max(earlier_s, numbers.pop("earlier_s", 0.0))
        total.add(numbers)
        total.add({name: counts for name, counts in view.groups.items() if name in _GROUPS})
    total.earlier_s = earlier_s
    return total


class Seen(NamedTuple):
    """A node as it was last heard."""

    view: NodeView
    condition: Condition
    heard_at: float  # monotonic


def whole_of(
    crawl: str,
    own: str,
    nodes: Mapping[str, Seen],
    owners: Mapping[int, Owner],
    shards: int,
    now: float,
) -> Whole:
    """One crawl of all nodes.

    O(nodes + shards), 0.1 ms a node. Memory: 2 KB for each node.
    """
    has = Counter(owner.node for owner in owners.values())
    alive = {node for node, seen in nodes.items() if seen.condition == "alive"}
    counted = {
        node: seen.view
        if node in alive or node == own
        else _without(seen.view, _gone(node, seen.view, owners))
        for node, seen in nodes.items()
        if node in alive or node == own or has[node] or not owners
    }
    living = [view for node, view in counted.items() if node in alive]
    hosts: Counter[str] = Counter()
    for view in counted.values():
        hosts.update(view.hosts)
    return Whole(
        node=own,
        crawl=crawl,
        alive=len(alive),
        shards=shards,
        without_node=tuple(
            k for k in range(shards) if k not in owners or owners[k].node not in alive
        ),
        unapplied=sum(view.unapplied for view in counted.values()),
        pages_per_s=sum(view.pages_per_s for view in living),
        mbps=sum(view.mbps for view in living),
        elapsed_s=max((view.elapsed_s for view in counted.values()), default=0.0),
        counters=counters_of(counted.values()),
        hosts=dict(hosts),
        nodes=tuple(
            _line(
                *(node, seen._replace(view=counted.get(node, seen.view)), has[node]),
                is_own=node == own,
                now=now,
            )
            for node, seen in sorted(nodes.items(), key=lambda each: (each[1].view.name, each[0]))
            if node in counted or seen.condition != "left"
        ),
        ever=sum(
            bool(node in counted or seen.condition != "left" or seen.view.elapsed_s)
            for node, seen in nodes.items()
        ),
    )


def _gone(node: str, view: NodeView, owners: Mapping[int, Owner]) -> list[int]:
    """The shards in the view of a silent `node` that are another's since."""
    return [
        shard
        for shard, (epoch, _, _) in view.shards.items()
        if shard in owners and owners[shard].node != node and owners[shard].epoch > epoch
    ]


def _line(node: str, seen: Seen, shards: int, *, is_own: bool, now: float) -> NodeLine:
    view = seen.view
    is_alive = seen.condition == "alive"
    return NodeLine(
        node=node,
        name=view.name,
        condition=seen.condition,
        state=view.state,
        is_own=is_own,
        shards=shards,
        pages=int(view.numbers.get("crawled", 0)),
        pages_per_s=view.pages_per_s if is_alive else 0.0,
        mbps=view.mbps if is_alive else 0.0,
        queued=max(int(view.numbers.get("pending", 0)), 0),
        unapplied=view.unapplied,
        free_bytes=view.free_bytes,
        heard_s=max(now - seen.heard_at, 0.0),
    )


class Views:
    """This node's view, and those of the others as last heard."""

    def __init__(
        self, node: str, counters: Counters, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._node = node
        self._counters = counters
        self._clock = clock
        self._own = NodeView()
        # Replaced as a whole, never changed: the thread of the stats lines reads it.
        self._seen: tuple[str, Mapping[str, Seen], Mapping[int, Owner], int] = ("", {}, {}, 0)

    def own(self, described: NodeView) -> NodeView:
        """This node now, for its heartbeat. `described`: its view without its counts."""
        self._own = view_of(self._counters, described)
        return self._own

    def last(self) -> NodeView:
        """This node at its end: as it was last described, with its final counts."""
        ended = replace(self._own, pages_per_s=0.0, mbps=0.0)
        return view_of(self._counters, ended)

    def see(
        self, crawl: str, nodes: Mapping[str, Seen], owners: Mapping[int, Owner], shards: int
    ) -> None:
        """What the last look at the bus has found."""
        self._seen = (crawl, nodes, owners, shards)

    def whole(self) -> Whole:
        """The crawl now: this node as it is, the others as last heard. Any thread."""
        crawl, nodes, owners, shards = self._seen
        now = self._clock()
        before = nodes.get(self._node, Seen(NodeView(), "joining", now))
        mine = before._replace(view=view_of(self._counters, self._own))
        heard = {
            node: seen._replace(condition="silent")
            if seen.condition == "alive" and now > seen.heard_at + _UNHEARD_S
            else seen
            for node, seen in nodes.items()
        }
        return whole_of(crawl, self._node, heard | {self._node: mine}, owners, shards, now)
