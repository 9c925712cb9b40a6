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
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from webcrawl.cluster.bus import Bus, BusError, Refused
from webcrawl.cluster.courier import Courier, subject_of
from webcrawl.cluster.ending import Activity, Ending
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.holding import PROBLEMS, Holding, Plan
from webcrawl.cluster.members import HEARTBEAT_S
from webcrawl.cluster.node import Node
from webcrawl.cluster.offsets import Offsets, OffsetsError
from webcrawl.cluster.shards import Event, Use
from webcrawl.cluster.tenancy import Tenancies
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import FOLDER, DiskFrontier
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_AGAIN_S = 0.2  # until the next round, after one that did not count
_NO_BUS = "the bus"  # why the gate is shut

OpenShard = Callable[[int, Path, str], DiskFrontier]  # number, folder, ID of the crawl


class NodeError(Exception):
    """The node must end: one line for the user."""


class RunningNode:
    """The node, from its first round to its last.

    frontier -- of this node; it gets the shards
    has_seeds -- whether seeds are still read
    on_problem -- called once, with one line, if the node must end
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
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self.has_seeds: Callable[[], bool] = lambda: False
        self.on_problem: Callable[[str], None] = logger.error
        self._bus = bus
        self._frontier = frontier
        self._tenancies = tenancies
        self._ending = ending
        self._shards = shards
        self._open_shard = open_shard
        self._gate = gate
        self._clock = clock
        self._couriers: dict[int, Courier] = {}
        self._carrying: dict[int, asyncio.Task[None]] = {}
        self._events: list[Event] = []
        self._closing = asyncio.Event()
        self._awake = asyncio.Event()  # for the next round
        self._task: asyncio.Task[None] | None = None
        self.holding = Holding(
            *(bus, node, frontier, tenancies),
            shards=shards,
            jobdir=jobdir,
            gate=gate,
            plan=plan,
            couriers=self._couriers,
            stop_courier=self._stop_courier,
            clock=clock,
        )
        self.holding.has_seeds = lambda: self.has_seeds()  # noqa: PLW0108  # it is set later
        self.holding.has_ended = lambda: bool(ending.reason)
        self.holding.on_problem = lambda line: self.on_problem(line)  # noqa: PLW0108  # as above
        self.holding.mover.on_hurry = self._awake.set
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
        if self._task is not None:
            await self._task
        await self.holding.close()
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
            await self.holding.open()
            while not self._closing.is_set():
                began_at = self._clock()
                counts = await self._round()
                wait_s = HEARTBEAT_S - (self._clock() - began_at) if counts else _AGAIN_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self.holding.wait_s(wait_s), 0.0)):
                        await self._awake.wait()
                if not self._closing.is_set():
                    self._awake.clear()
        except (NodeError, *PROBLEMS) as error:
            self._gate.shut(_NO_BUS)
            self.on_problem(f"CLUSTER: {error}")
        except Exception as error:  # our own fault: without rounds the others wait for this node
            logger.exception("A round of the node failed")
            self._gate.shut(_NO_BUS)
            self.on_problem(f"CLUSTER: failed, the log says where: {error!r}")

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
            self.holding.look()
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
            self.holding.park(event)

    async def _use(self, use: Use) -> None:
        folders, copy = self.holding.folders, self.node.shards.map[use.shard].copy
        folder = folders.of(use.shard)
        try:
            exists = await asyncio.to_thread(folders.settle, use.shard, copy)
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
            kept=self.holding.kept(use.shard, crawl),
        )
        await courier.open()
        self._carrying[use.shard] = asyncio.create_task(self._carry(courier))
        self._ending.answer_again()
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
