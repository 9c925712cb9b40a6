"""Runs the node of this process: rounds with the bus, its shards, their mail, and the end.

Owns the moments: when a shard is opened or closed, when nothing may be sent, when the crawl has
ended. `node` and the classes that it calls decide; `frontier` has the shards.

| fault | so the node |
| --- | --- |
| the bus does not answer for STALE_S | sends no request until it does (`Gate`) |
| a shard has gone to another node | closes it as soon as its requests have ended |
| a shard is to go to another node, and its requests do not end | goes on with it |
| the folder of a shard that it has begun is missing | ends: it never begins a shard again, empty |
| the node must not join (`Refused`), or its disk fails | ends, with one line; nothing is lost |
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path

from webcrawl.cluster.bus import Bus, BusError, Refused
from webcrawl.cluster.checkpoints import (
    Checkpoint,
    folder_of,
    make_checkpoint,
    read_checkpoint,
)
from webcrawl.cluster.courier import Courier, subject_of
from webcrawl.cluster.ending import Activity, Ending
from webcrawl.cluster.folders import SHARDS, CopyError, Folders
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.members import HEARTBEAT_S
from webcrawl.cluster.moving import MoveError, Mover, no_orders
from webcrawl.cluster.node import Node
from webcrawl.cluster.nodefile import NodeFileError
from webcrawl.cluster.offsets import Offsets, OffsetsError
from webcrawl.cluster.shards import Event, Park, Use, moves
from webcrawl.cluster.tenancy import Tenancies
from webcrawl.crawllog.files import LogError
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import FOLDER, DiskFrontier
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_HURRIED_S = 0.5  # between two rounds while a shard changes its node
_LATER_S = 30.0  # until the next move, after one that has failed
_POLL_S = 0.05  # while the leases of a shard are out
_GIVE_BACK_S = 1.0
_AGAIN_S = 0.2  # until the next round, after one that did not count
_NO_BUS = "the bus"  # why the gate is shut

OpenShard = Callable[[int, Path, str], DiskFrontier]  # number, folder, ID of the crawl


class NodeError(Exception):
    """The node must end: one line for the user."""


_PROBLEMS = (BusError, NodeError, NodeFileError, StoreError, OffsetsError, CopyError, LogError)


class RunningNode:
    """The node, from its first round to its last.

    frontier -- of this node; it gets the shards
    has_seeds -- whether seeds are still read
    on_problem -- called once, with one line, if the node must end
    give_back -- gives leases of some hosts back whose requests are not sent
    on_left -- called once, when a node that leaves has given all its shards away
    on_command -- carries out a command about shards, of a user of this machine (`desk`)
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        frontier: ClusterFrontier,
        tenancies: Tenancies,
        ending: Ending,
        *,
        shards: int,
        jobdir: Path,
        open_shard: OpenShard,
        gate: Gate,
        rebalances: bool = True,
        checkpoints: Path | None = None,
        checkpoint_s: float = 3600.0,
        longest_fetch_s: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`longest_fetch_s`: from a lease to the end of its request, at most."""
        self.node = node
        self.has_seeds: Callable[[], bool] = lambda: False
        self.give_back: Callable[[Callable[[str], bool]], None] = lambda matches: None
        self.on_left: Callable[[], None] = lambda: None
        self.on_command: Callable[[list[str]], Awaitable[str]] = no_orders
        self.on_problem: Callable[[str], None] = logger.error
        self._bus = bus
        self._frontier = frontier
        self._tenancies = tenancies
        self._ending = ending
        self._shards = shards
        self.folders = Folders(jobdir / SHARDS)
        self.mover = Mover(bus, node, self.folders, self, clock=clock)
        self._rebalances = rebalances
        self.longest_fetch_s = longest_fetch_s
        self.checkpoints, self._checkpoint_s = checkpoints, checkpoint_s
        self._checkpointed_at: dict[int, float] = {}  # or used, if there was none since
        self._checkpointing = asyncio.Lock()
        self._checkpoint: asyncio.Task[None] | None = None
        self._move: asyncio.Task[str] | None = None
        self._next_move_at = float("-inf")
        self._is_leaving = False
        self._parking: set[asyncio.Task[None]] = set()  # shards that are being closed
        self._open_shard = open_shard
        self._gate = gate
        self._clock = clock
        self._couriers: dict[int, Courier] = {}
        self._carrying: dict[int, asyncio.Task[None]] = {}
        self._events: list[Event] = []
        self._closing = asyncio.Event()
        self._awake = asyncio.Event()  # for the next round
        self._task: asyncio.Task[None] | None = None
        self.mover.on_hurry = self._awake.set
        node.on_event = self._events.append
        frontier.on_written = self._written
        frontier.on_close = self.close
        if tenancies.are_needed:
            frontier.take_address = tenancies.take

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the node: its shards stay its own, and other nodes are told."""
        self._closing.set()
        self._awake.set()
        if self._move is not None:
            self._move.cancel()
            await asyncio.gather(self._move, return_exceptions=True)
        await self.mover.close()
        if self._checkpoint is not None:  # RocksDB must not be closed meanwhile
            await self._checkpoint
        if self._task is not None:
            await self._task
        await asyncio.gather(*self._parking)
        for number in list(self._couriers):
            await self._stop_courier(number)

    async def leave(self) -> None:
        """All shards are closed."""
        with suppress(BusError):
            await self.node.leave()
        await self._bus.close()

    # Rounds

    async def _run(self) -> None:
        try:
            await self._bus.open()
            await self.mover.open()
            while not self._closing.is_set():
                began_at = self._clock()
                counts = await self._round()
                wait_s = HEARTBEAT_S - (self._clock() - began_at) if counts else _AGAIN_S
                if self.mover.is_hurried:
                    wait_s = min(wait_s, _HURRIED_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(wait_s, 0.0)):
                        await self._awake.wait()
                if not self._closing.is_set():
                    self._awake.clear()
        except _PROBLEMS as error:
            self._gate.shut(_NO_BUS)
            self.on_problem(f"CLUSTER: {error}")

    async def _round(self) -> bool:
        """One round; whether it counts. A fault of the bus is none of the node."""
        self._events.clear()
        try:
            counts = await self.node.round()
            for event in self._events:
                await self._carry_out(event)
            for shard, record in self.node.shards.map.items():
                for courier in self._couriers.values():
                    courier.set_epoch(shard, record.epoch)
            await self._tenancies.tick()
            await self._end_if_quiet()
            self._move_if_due()
            self._checkpoint_if_due()
        except Refused:
            raise
        except BusError as error:
            logger.debug("A round with the bus failed: %s", error)
            counts = False
        if self.node.may_ask(self._clock()):
            self._gate.open(_NO_BUS)
        else:
            self._gate.shut(_NO_BUS)
        return counts

    # Shards

    async def _carry_out(self, event: Event) -> None:
        if isinstance(event, Use):
            if event.shard not in self._couriers:
                await self._use(event)
        else:
            task = asyncio.create_task(self._park(event))
            self._parking.add(task)
            task.add_done_callback(self._parking.discard)

    async def _park(self, park: Park) -> None:
        """Close a shard that is another node's, once its requests have ended."""
        shard, record = park.shard, self.node.shards.map[park.shard]
        try:
            await self._stop_courier(shard)
            await self._drain(shard)
            self._tenancies.drop(shard)
            async with self._checkpointing:
                if shard in self._frontier.shards:
                    await self._frontier.remove(shard).close()
            was_given = record.before == self.node.members.node and record.restored != record.epoch
            if was_given:  # with all that it had
                await asyncio.to_thread(self.folders.remove, shard)
            else:
                parked = await asyncio.to_thread(self.folders.park, shard, park.epoch)
                logger.warning(
                    "Shard %d is on node %s now. What this node had of it is parked in %s",
                    *(shard, park.node, parked),
                )
        except (*_PROBLEMS, OSError) as error:
            self.on_problem(f"CLUSTER: {error}")
        self.node.shards.stopped(shard)

    async def _drain(self, shard: int) -> bool:
        """Lease nothing more of a shard, and wait for the leases that are out.

        False: some are out after the time of the longest fetch, or the node ends.
        """
        self._frontier.freeze(shard)
        until, give_back_at = self._clock() + self.longest_fetch_s, float("-inf")
        while self._frontier.leased(shard):
            now = self._clock()
            if now > until or self._closing.is_set():
                return False
            if now > give_back_at:  # again: an `acquire` may have been under way
                give_back_at = now + _GIVE_BACK_S
                self.give_back(lambda host: self._frontier.shard_of(host) == shard)
            await asyncio.sleep(_POLL_S)
        return True

    async def stop(self, shard: int) -> None:
        """For a move (`moving.Holder`)."""
        if not await self._drain(shard) or self._closing.is_set():
            self._frontier.thaw(shard)
            raise MoveError("its requests do not end")
        async with self._checkpointing:
            await self._stop_courier(shard)
            self._tenancies.drop(shard)
            await asyncio.shield(self._frontier.remove(shard).close())

    def utc(self) -> float:
        return time.time()

    @property
    def shards(self) -> Mapping[int, DiskFrontier]:
        """The open shards of this node."""
        return self._frontier.shards

    # Moves

    def _move_if_due(self) -> None:
        """Begin to give a shard to a node that has fewer, or to any if this node leaves."""
        if self._move is not None and not self._move.done():
            return
        if self._is_leaving and not self.node.shards.held and not self._parking:
            self.on_left()
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
        if not self._rebalances or self._gate.is_shut:
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
        except _PROBLEMS as error:  # it cannot be closed: a full disk
            self.on_problem(f"CLUSTER: {error}")
            return str(error)
        return ""

    def leave_crawl(self) -> None:
        """Give all shards to other nodes, then call `on_left`. MoveError if that is impossible."""
        if self.has_seeds():
            raise MoveError("seeds are still read: leave when they are queued")
        others = [node for node in self.node.members.alive() if node != self.node.members.node]
        if not others:
            raise MoveError("no other node is alive: `stop` parks the shards here")
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
            if root == self.checkpoints and shard in self._couriers:
                self._couriers[shard].set_kept(made.inbox)
            return made

    def _checkpoint_if_due(self) -> None:
        """Begin the next checkpoint of CLUSTER_CHECKPOINTS: one shard at a time."""
        running = self._checkpoint is not None and not self._checkpoint.done()
        if self.checkpoints is None or running or self.mover.moving:
            return
        now = self._clock()
        for shard in self.node.shards.held:
            if now > self._checkpointed_at.setdefault(shard, now) + self._checkpoint_s:
                self._checkpointed_at[shard] = now
                self._checkpoint = asyncio.create_task(self._make(shard, self.checkpoints))
                return

    async def _make(self, shard: int, root: Path) -> None:
        try:
            await self.checkpoint(shard, root)
        except (CopyError, StoreError) as error:
            logger.warning("No checkpoint of shard %d: %s", shard, error)

    def _kept(self, shard: int, crawl: str) -> dict[int, int] | None:
        """The inbox of the last checkpoint of CLUSTER_CHECKPOINTS; None: there are to be none.

        Without one yet, nothing is kept: other shards keep what they send until there is one.
        """
        if self.checkpoints is None:
            return None
        last = read_checkpoint(folder_of(self.checkpoints, shard))
        if last is None or (last.crawl, last.shard) != (crawl, shard):
            return {}
        inbox = self._frontier.shards[shard].inbox
        return {sender: min(row, inbox.get(sender, 0)) for sender, row in last.inbox.items()}

    async def _use(self, use: Use) -> None:
        folder = self.folders.of(use.shard)
        copy = self.node.shards.map[use.shard].copy
        try:
            exists = await asyncio.to_thread(self.folders.settle, use.shard, copy)
        except OSError as error:
            raise NodeError(f"{folder} cannot be used: {error.strerror or error}") from None
        if use.how == "begun" and (folder / FOLDER).exists():
            raise NodeError(
                f"{folder} has a frontier, but this node has never begun shard {use.shard}"
            )
        if use.how != "begun" and not exists:
            raise NodeError(
                f"{folder} is missing, the frontier of shard {use.shard}: put it back, or restore"
                " the shard from a checkpoint"
            )
        assert self.node.registry.crawl is not None
        crawl = self.node.registry.crawl.id
        folder.mkdir(parents=True, exist_ok=True)
        shard = self._open_shard(use.shard, folder, crawl)
        self._frontier.add(use.shard, shard)
        courier = Courier(
            *(use.shard, use.epoch, crawl, self._frontier.mailbox(use.shard), self._bus),
            shards=self._shards,
            offsets=Offsets(folder),
            node=self._couriers,
            kept=self._kept(use.shard, crawl),
        )
        await courier.open()
        self._carrying[use.shard] = asyncio.create_task(self._carry(courier))
        logger.info("Shard %d is %s on this node", use.shard, use.how)

    async def _carry(self, courier: Courier) -> None:
        try:
            await courier.run()
        except (StoreError, OffsetsError) as error:
            self.on_problem(f"CLUSTER: {error}")

    async def _stop_courier(self, number: int) -> None:
        courier, task = self._couriers.get(number), self._carrying.pop(number, None)
        if courier is not None:
            courier.close()
            self._bus.unsubscribe(subject_of(number))
        if task is not None:
            await task

    def _written(self, number: int) -> None:
        courier = self._couriers.get(number)
        if courier is not None:
            courier.wrote()

    # The end

    async def _end_if_quiet(self) -> None:
        if self.node.state not in ("running", "leaving"):
            return
        if await self._ending.look():
            await self._ending.answer(self._activities(), has_seeds=self.has_seeds())
        if 0 in self.node.shards.held:
            await self._ending.lead(self.node.shards.map, self.node.members.alive())
        if self._ending.reason:
            self._frontier.has_ended = True

    def _activities(self) -> dict[int, Activity]:
        quiet = self._frontier.is_idle
        return {
            number: Activity(
                epoch,
                quiet
                and number in self._frontier.shards
                and self._frontier.shards[number].is_finished()
                and number in self._couriers
                and self._couriers[number].unapplied == 0,
                self._frontier.activity(number),
            )
            for number, epoch in self.node.shards.held.items()
        }
