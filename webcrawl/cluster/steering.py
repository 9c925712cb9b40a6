"""Orders, target and end of the whole crawl, as one node carries them out (docs/watching.md).

Owns when they are looked at: in each round, and at once when another node calls. What orders do in
the processes of this node is a matter of `on_orders`.

| a command | is kept in | and holds |
| --- | --- | --- |
| pause, resume | the record | until a resume, or until no node runs any more |
| allow, deny | the record, and each node's `node.json` before it answers | for ever |
| target | the record, and each node's `node.json` | until another target or CLOSESPIDER_PAGECOUNT |
| stop | `end` | for the nodes that run |

A node that does not answer carries the orders out with its next round; without the bus it sends no
request anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, NamedTuple

import msgspec

from webcrawl.cluster.agreement.ending import Ending
from webcrawl.cluster.agreement.members import HEARTBEAT_S
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.orders import SharedOrders
from webcrawl.cluster.agreement.records import UNREADABLE
from webcrawl.cluster.agreement.target import PORTION_MAX, SharedTarget
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.frontier.shared.wire import Orders

logger = logging.getLogger(__name__)

STOPPED: Final = "shutdown"  # the reason of the end by `stop`
CALL_S: Final = 8.0  # how long a call waits for a node
_SUBJECT: Final = "steer."  # and the ID of the node that is called
_TARGET_S: Final = 0.25  # between two looks at the places of this node


class Answer(msgspec.Struct, frozen=True):
    """A node has carried out all orders. `unanswered`: requests sent before, without an answer."""

    unanswered: int


class Called(NamedTuple):
    """The nodes that have carried out all orders, their unanswered requests, and who is missing."""

    nodes: int
    unanswered: int
    silent: tuple[str, ...]


class NodeTarget:
    """The target as the processes of this node see it (`shared.server.Whole`)."""

    def __init__(self, target: SharedTarget, frontier: ClusterFrontier) -> None:
        self._target = target
        self._frontier = frontier
        self._came: dict[int, int] = {}  # shards of which no places are known: pages when they came

    @property
    def goal(self) -> int:
        return self._target.record.goal

    @property
    def crawled(self) -> int:
        return sum(self._target.record.used.values())

    @property
    def answered(self) -> int:
        return sum(each.counters.crawled for each in self._frontier.shards.values())

    @property
    def places(self) -> int:
        shards, known = self._frontier.shards, self._target.shards
        new = shards.keys() - known
        self._came = {n: self._came.get(n, shards[n].counters.crawled) for n in new}
        return (self._target.places(shards.keys() & known) or 0) + sum(self._came.values())

    @property
    def left(self) -> int:
        return max(self.goal - sum(self._target.record.places.values()), 0)

    @property
    def is_met(self) -> bool:
        return self._target.is_met


class NodeSteering:
    """The steering of one node. Memory: the records.

    on_orders -- carries orders out in all processes of this node; the number of requests without
        an answer
    on_called -- another node has called: the crawl may have ended
    server -- gets this node's places of the target
    """

    def __init__(
        self,
        bus: Bus,
        store: NodeStore,
        node: Node,
        ending: Ending,
        frontier: ClusterFrontier,
        goal: int,
    ) -> None:
        """`goal`: CLOSESPIDER_PAGECOUNT."""
        self.on_orders: Callable[[Orders], Awaitable[int]] | None = None
        self.on_called: Callable[[], None] = lambda: None
        self.server: FrontierServer | None = None
        self.kept = Orders()  # allow and deny of JOBDIR's `node.json`
        self.orders = SharedOrders(bus)
        self.target = SharedTarget(bus, store, goal)
        self.whole = NodeTarget(self.target, frontier)
        self._bus = bus
        self._store = store
        self._node = node
        self._ending = ending
        self._frontier = frontier
        self._goal = goal
        self._carried_out = Orders()
        self._looking = asyncio.Lock()
        self._taking = asyncio.Lock()
        self._portion = 0  # places that were free after the last look
        self._again_at = 0.0  # a look before would find nothing new

    def __repr__(self) -> str:
        return f"<NodeSteering {self.orders!r} {self.target!r}>"

    async def join(self, *, is_first: bool) -> None:
        """Bring the records and what JOBDIR has together. `is_first`: no other node runs. BusError.

        If this node is the first, and has kept all entries of the record, the record gets those of
        its file: the user may have taken some back.
        """
        await self.orders.look()
        if is_first:
            if self._store.content.orders == self._seen:
                await self.orders.replace(self.kept.allow, self.kept.deny)
            await self.orders.pause(is_paused=False)
        await self.orders.add(self.kept.allow, self.kept.deny)
        self._carried_out = self.kept
        await self._take(0, 0)
        if is_first and self._store.content.goal_setting not in (-1, self._goal):
            await self.target.set_goal(self._goal)  # a newer wish of the user than any command
        self._store.keep(goal_setting=self._goal)
        await self._bus.answer(_SUBJECT + self._node.members.node, self._on_call)

    @property
    def _seen(self) -> str:
        """The orders as last seen: no two KVs have the same era."""
        return f"{self._node.registry.era} {self.orders.record.version}"

    @property
    def commands(self) -> list[bytes]:
        """The rows that `keep` has got in all runs."""
        return self._store.content.command_rows

    def keep(self, row: bytes) -> None:
        """Keep an allow or a deny for later runs; on the disk when this returns. NodeFileError."""
        self._store.keep(commands=[*self._store.content.commands, row.decode()])

    # What other nodes have ordered

    async def look(self) -> int:
        """Carry out what is new; the number of requests without an answer. BusError."""
        async with self._looking:
            await self.orders.look()
            wanted = self.orders.orders
            if self.on_orders is None:
                return 0
            unanswered = 0
            if wanted != self._carried_out:
                unanswered = await self.on_orders(wanted)
                self._carried_out = wanted
            self._store.keep(orders=self._seen)
            return unanswered

    async def _on_call(self, data: bytes) -> bytes:
        unanswered = await self.look()
        await self.take_places(is_steered=True)
        self.on_called()
        return msgspec.msgpack.encode(Answer(unanswered))

    # What this node orders

    async def call(self) -> Called:
        """Let all other nodes that are alive carry out all orders now."""
        others = self._node.members.running()
        answers = await asyncio.gather(*map(self._ask, others))
        silent = [name for name, answer in zip(others, answers, strict=True) if answer is None]
        done = [answer.unanswered for answer in answers if answer is not None]
        return Called(len(done), sum(done), tuple(silent))

    async def _ask(self, node: str) -> Answer | None:
        try:
            data = await self._bus.request(_SUBJECT + node, b"", CALL_S)
            return msgspec.msgpack.decode(data, type=Answer)
        except (BusError, *UNREADABLE) as error:
            logger.debug("Node %s does not answer a call: %s", node, error)
            return None

    async def stop(self) -> None:
        """End the crawl in all nodes that run. BusError."""
        await self._ending.end(STOPPED)

    async def set_target(self, goal: int) -> int:
        """Another goal for all nodes, 0: none. Returns the lowest goal that there can be: if it is
        higher, nothing is changed. BusError, ValueError: shards whose pages are not known.
        """
        async with self._taking:
            await self.target.count(self._answered())
        await self.call()
        async with self._taking:
            await self._take(self._held, self._held)
            missing = self._node.registry.crawl.shards - len(self.target.record.used)  # type: ignore[union-attr]  # it has joined
            if goal and missing > 0:
                raise ValueError(f"{missing} shards have not said how many pages they have")
            lowest = sum(self.target.record.used.values()) + self._held
            if not goal or goal >= lowest:
                await self.target.set_goal(goal)
        return lowest

    # The target

    async def follow_target(self) -> None:
        """Take and give back places, until it is cancelled."""
        while True:
            await asyncio.sleep(_TARGET_S)
            with suppress(BusError):  # the next look tries again
                if self._is_due():
                    await self.take_places()

    async def take_places(self, *, is_steered: bool = False) -> None:
        """Write this node's answered pages, and take or give back places. BusError.

        `is_steered`: the goal may be lower now, so this node keeps only the places of its leases.
        """
        async with self._taking:
            await self._take_places(is_steered=is_steered)

    @asynccontextmanager
    async def without(self, shard: int) -> AsyncIterator[None]:
        """Close `shard` within, to give it away: this node keeps its unused places. BusError."""
        async with self._taking:
            await self._take_places(leaving=shard)
            yield

    async def _take_places(self, *, is_steered: bool = False, leaving: int | None = None) -> None:
        if self.server is None or self._node.registry.crawl is None:
            return
        held, had = self._held, self.whole.places
        fresh = 0 if is_steered else min(self._frontier.fresh, PORTION_MAX)
        await self._take(held + fresh, held, leaving)
        self._portion = self._free
        if self.whole.places <= had:
            self._again_at = asyncio.get_running_loop().time() + HEARTBEAT_S
        self.server.places_changed()

    async def give_back(self) -> None:
        """The node ends, and no answer comes any more: others may use its places. BusError."""
        if self.server is not None and self._node.registry.crawl is not None:
            await self._take(0, 0)

    async def _take(self, wants: int, keeps: int, leaving: int | None = None) -> None:
        crawl, nodes = self._node.registry.crawl, len(self._node.members.alive())
        assert crawl is not None
        await self.target.refresh(
            crawl, self._answered(), nodes=nodes, wants=wants, keeps=keeps, leaving=leaving
        )

    def _answered(self) -> dict[int, int]:
        return {number: f.counters.crawled for number, f in self._frontier.shards.items()}

    @property
    def _held(self) -> int:
        """Places of the leases of all processes."""
        return self.server.out if self.server is not None else 0

    @property
    def _free(self) -> int:
        return self.whole.places - self.whole.answered - self._held

    def _is_due(self) -> bool:
        """Whether places are few or of no use, or the last ones of this node are answered."""
        if self.server is None or not self.whole.goal or self.whole.is_met:
            return False
        free, fresh = self._free, self._frontier.fresh
        used = self.target.record.used
        if not self._held and free <= 0 and self._answered().items() - used.items():
            return True
        if asyncio.get_running_loop().time() < self._again_at:
            return False
        return free <= self._portion // 2 if fresh else free > 0
