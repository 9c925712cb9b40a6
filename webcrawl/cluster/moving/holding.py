"""What a node does with the shards that come and go: moves, parking, leaving, checkpoints.

Owns when a shard is moved or written to a checkpoint, and how it is closed while the crawl runs:
nothing more is leased, the leases that are out are waited for, then its folder is closed. `mover`
carries it to the other node; `running` opens shards.

One shard is given at a time, and one checkpoint written at a time.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from webcrawl.cluster.agreement.ending import Ending
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import SHARDS, NodeFileError
from webcrawl.cluster.agreement.shards import Park, moves
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.errors import CopyError, MoveError, OffsetsError
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.keeping import Keeping
from webcrawl.cluster.mail.courier import Courier
from webcrawl.cluster.moving.checkpoints import (
    Checkpoint,
    folder_of,
    make_checkpoint,
    read_checkpoint,
)
from webcrawl.cluster.moving.folders import Folders
from webcrawl.cluster.moving.mover import Mover
from webcrawl.cluster.process import NoProcess, Process
from webcrawl.crawllog.files import LogError
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_HURRIED_S = 0.5  # between two rounds while a shard changes its node
_LATER_S = 30.0  # until the next move, after one that has failed
_POLL_S = 0.05  # while the leases of a shard are out
_GIVE_BACK_S = 1.0
# The node ends, with one line.
PROBLEMS = (BusError, NodeFileError, StoreError, OffsetsError, CopyError, LogError)


class Plan(NamedTuple):
    """Settings of a node.

    longest_fetch_s -- from a lease to the end of its request, at most
    rebalances -- whether it gives shards to nodes that have fewer
    checkpoints -- folder, None: there are none; each `checkpoint_s`
    """

    longest_fetch_s: float = 60.0
    rebalances: bool = True
    checkpoints: Path | None = None
    checkpoint_s: float = 3600.0


class Holding:
    """The shards of a node.

    shards -- those that are open, by number
    without -- a shard that is to be given away is closed within; BusError: it must not be
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        frontier: ClusterFrontier,
        keeping: Keeping | None,
        ending: Ending,
        *,
        shards: int,
        jobdir: Path,
        gate: Gate,
        plan: Plan,
        couriers: Mapping[int, Courier],
        stop_courier: Callable[[int], Awaitable[None]],
        clock: Callable[[], float],
    ) -> None:
        self.node = node
        self.plan = plan
        self.folders = Folders(jobdir / SHARDS)
        self.mover = Mover(bus, node, self.folders, self, clock=clock)
        self.process: Process = NoProcess()
        self.without: Callable[[int], AbstractAsyncContextManager[None]] = lambda shard: (
            nullcontext()
        )
        self._ending = ending
        self._frontier = frontier
        self._keeping = keeping
        self._shards = shards
        self._gate = gate
        self._couriers = couriers
        self._stop_courier = stop_courier
        self._clock = clock
        self._checkpointed_at: dict[int, float] = {}  # or used, if there was none since
        self._checkpointing = asyncio.Lock()
        self._checkpoint: asyncio.Task[None] | None = None
        self._move: asyncio.Task[str] | None = None
        self._stopping: asyncio.Future[None] | None = None  # the last shard that was closed to move
        self._next_move_at = float("-inf")
        self._is_leaving = self._has_left = self._is_closing = False
        self._parking: set[asyncio.Task[None]] = set()

    def __repr__(self) -> str:
        return f"<Holding {sorted(self.shards)}, {self.mover!r}>"

    @property
    def shards(self) -> Mapping[int, LocalFrontier]:
        return self._frontier.shards

    async def open(self) -> None:
        """The bus is open. BusError."""
        await self.mover.open()

    async def close(self) -> None:
        """End what is under way. A shard that is on its way is this node's, or the taker's."""
        self._is_closing = True
        if self._move is not None:
            self._move.cancel()
            await asyncio.gather(self._move, return_exceptions=True)
        if self._stopping is not None:
            await asyncio.gather(self._stopping, return_exceptions=True)
        await self.mover.close()
        if self._checkpoint is not None:  # RocksDB must not be closed meanwhile
            await self._checkpoint
        await self.end_parking()

    async def end_parking(self) -> None:
        """Wait until all shards that are other nodes' are closed."""
        await asyncio.gather(*self._parking)

    def look(self) -> None:
        """After each round: begin what is due."""
        self._move_if_due()
        self._checkpoint_if_due()

    def wait_s(self, wait_s: float) -> float:
        """Until the next round: less than `wait_s` while a shard changes its node."""
        return min(wait_s, _HURRIED_S) if self.mover.is_hurried else wait_s

    # Closing a shard

    def park(self, park: Park) -> None:
        """Close a shard that is another node's, in a task."""
        task = asyncio.create_task(self._park(park))
        self._parking.add(task)
        task.add_done_callback(self._parking.discard)

    async def _park(self, park: Park) -> None:
        """Close a shard that is another node's, once its requests have ended."""
        shard, record = park.shard, self.node.shards.map[park.shard]
        try:
            if shard in self._frontier.shards:  # a shard that was given away is closed
                await self._stop_courier(shard)
                await self._drain(shard)
                async with self._checkpointing:
                    await self._frontier.remove(shard).close()
                self._drop_addresses(shard)
            was_given = record.before == self.node.members.node and record.restored != record.epoch
            if was_given:  # with all that it had
                await asyncio.to_thread(self.folders.remove, shard)
            else:
                parked = await asyncio.to_thread(self.folders.park, shard, park.epoch)
                logger.warning(
                    "Shard %d is on node %s now. What this node had of it is parked in %s",
                    *(shard, park.node, parked),
                )
        except (*PROBLEMS, OSError) as error:
            self.process.fail(f"CLUSTER: {error}")
        self.node.shards.stopped(shard)

    async def _drain(self, shard: int) -> bool:
        """Lease nothing more of a shard, and wait for the leases that are out.

        False: some are out after the time of the longest fetch, or the node ends.
        """
        self._frontier.freeze(shard)
        until, give_back_at = self._clock() + self.plan.longest_fetch_s, float("-inf")
        while self._frontier.leased(shard):
            now = self._clock()
            if now > until or self._is_closing:
                return False
            if now > give_back_at:  # again: an `acquire` may have been under way
                give_back_at = now + _GIVE_BACK_S
                self.process.give_back(lambda host: self._frontier.shard_of(host) == shard)
            await asyncio.sleep(_POLL_S)
        return True

    async def stop(self, shard: int) -> None:
        """For a move (`mover.Holder`)."""
        if not await self._drain(shard) or self._is_closing:
            self._frontier.thaw(shard)
            raise MoveError("its requests do not end")
        try:
            async with self._checkpointing, self.without(shard):
                await self._stop_courier(shard)
                self._stopping = asyncio.ensure_future(self._frontier.remove(shard).close())
                await asyncio.shield(self._stopping)
                self._drop_addresses(shard)
        except BusError as error:  # before it was closed
            self._frontier.thaw(shard)
            raise MoveError(f"the places of the target are not known: {error}") from None

    def _drop_addresses(self, shard: int) -> None:
        if self._keeping is not None:
            self._keeping.drop(shard)

    def utc(self) -> float:
        return time.time()

    # Moves

    def _move_if_due(self) -> None:
        """Begin to give a shard to a node that has fewer, or to any if this node leaves."""
        if self._move is not None and not self._move.done():
            return
        if self._is_leaving and not self.node.shards.held:
            if not self._parking and not self._has_left:
                self._has_left = True
                self.process.leave()
            return
        if self._clock() < self._next_move_at or not self.node.may_ask(self._clock()):
            return
        found = self._move_due()
        if found is not None:
            self.begin_move(*found)

    def _move_due(self) -> tuple[int, str] | None:
        """The shard to give, and its taker."""
        owners = {shard: record.node for shard, record in self.node.shards.map.items()}
        members, crawl, me = self.node.members, self.node.registry.crawl, self.node.members.node
        running = [node for node, record in members.all().items() if record.state == "running"]
        alive = [node for node in running if members.is_alive(node)]
        if crawl is None or crawl.is_rebuilt or self._ending.reason or len(owners) < self._shards:
            return None
        if self._is_leaving:
            has = Counter(owners.values())
            taker = min((n for n in alive if n != me), key=lambda n: has[n], default="")
            return (min(self.node.shards.held), taker) if taker else None
        if not self.plan.rebalances or self._gate.is_shut:
            return None
        taker = next((each.taker for each in moves(owners, alive) if each.giver == me), "")
        shard = self._lightest() if taker else None
        return (shard, taker) if shard is not None else None

    def _lightest(self) -> int | None:
        """Of the shards with URLs to fetch, the one with the fewest rows to move."""
        busy = [
            (frontier.counters.levels.total(), number)
            for number, frontier in self._frontier.shards.items()
            if number in self.node.shards.held and not frontier.is_finished()
        ]
        return min(busy)[1] if busy else None

    def begin_move(self, shard: int, to: str) -> asyncio.Task[str]:
        """Give `shard` to node `to`, in a task: "", or why it stays. MoveError: another moves."""
        if self._move is not None and not self._move.done():
            raise MoveError("another shard is being moved: one at a time")
        self._move = asyncio.create_task(self._give(shard, to))
        return self._move

    async def _give(self, shard: int, to: str) -> str:
        try:
            await self.mover.give(shard, to)
        except MoveError as error:
            logger.warning("Shard %d is not moved: %s", shard, error)
            self._next_move_at = self._clock() + _LATER_S
            return str(error)
        except PROBLEMS as error:  # it cannot be closed: a full disk
            self.process.fail(f"CLUSTER: {error}")
            return str(error)
        return ""

    def leave_crawl(self) -> None:
        """Give all shards to other nodes, then end. MoveError if that is impossible."""
        if self.process.has_seeds():
            raise MoveError("seeds are still read: leave when they are queued")
        others = [node for node in self.node.members.alive() if node != self.node.members.node]
        if not others:
            raise MoveError(
                "no other node is alive that could take the shards: Ctrl-C ends this one with them"
            )
        self._is_leaving = True
        self.node.state = "leaving"

    # Checkpoints

    async def checkpoint(self, shard: int, root: Path) -> Checkpoint:
        """Make a checkpoint of a shard in the folder `root`, while it is used.

        CopyError, StoreError: there is none, or the one before.
        """
        async with self._checkpointing:
            held, crawl = self.node.shards.held, self.node.registry.crawl
            if crawl is None or shard not in held or shard not in self._frontier.shards:
                raise CopyError(f"shard {shard} is not in use on this node")
            node = self.node.members.node
            header = Checkpoint(crawl.id, self._shards, shard, node, held[shard], "")
            write = self._frontier.shards[shard].checkpoint
            made = await make_checkpoint(root, self.folders.of(shard), header, write)
            if root == self.plan.checkpoints and shard in self._couriers:
                self._couriers[shard].set_kept(made.inbox)
            return made

    def _checkpoint_if_due(self) -> None:
        """Begin the next checkpoint of CLUSTER_CHECKPOINTS: one shard at a time."""
        running = self._checkpoint is not None and not self._checkpoint.done()
        if self.plan.checkpoints is None or running or self.mover.moving:
            return
        now = self._clock()
        for shard in self.node.shards.held:
            if now > self._checkpointed_at.setdefault(shard, now) + self.plan.checkpoint_s:
                self._checkpointed_at[shard] = now
                self._checkpoint = asyncio.create_task(self._make(shard, self.plan.checkpoints))
                return

    async def _make(self, shard: int, root: Path) -> None:
        try:
            await self.checkpoint(shard, root)
        except (CopyError, StoreError) as error:
            logger.warning("No checkpoint of shard %d: %s", shard, error)

    def kept(self, shard: int, crawl: str) -> dict[int, int] | None:
        """The inbox of the last checkpoint of CLUSTER_CHECKPOINTS; None: there are to be none.

        Without one yet, nothing is kept: other shards keep what they send until there is one.
        """
        if self.plan.checkpoints is None:
            return None
        last = read_checkpoint(folder_of(self.plan.checkpoints, shard))
        if last is None or (last.crawl, last.shard) != (crawl, shard):
            return {}
        inbox = self._frontier.shards[shard].inbox
        return {sender: min(row, inbox.get(sender, 0)) for sender, row in last.inbox.items()}
