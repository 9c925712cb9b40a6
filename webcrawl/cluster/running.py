"""Runs the node of this process: rounds with the bus, its shards, their mail, and the end.

Owns the moments: when a shard is opened or closed, when nothing may be sent, when the crawl has
ended. `node` and the classes that it calls decide; `frontier` has the shards.

| fault | so the node |
| --- | --- |
| the bus does not answer for STALE_S | sends no request until it does (`Gate`) |
| a shard has gone to another node | closes it as soon as its requests have ended |
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
from typing import Final

from webcrawl.cluster.bus import Bus, BusError, Refused
from webcrawl.cluster.courier import Courier
from webcrawl.cluster.ending import Activity, Ending
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.members import HEARTBEAT_S
from webcrawl.cluster.node import Node
from webcrawl.cluster.nodefile import NodeFileError
from webcrawl.cluster.offsets import Offsets, OffsetsError
from webcrawl.cluster.shards import Event, Use
from webcrawl.cluster.tenancy import Tenancies
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import FOLDER, DiskFrontier
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

SHARDS: Final = "shards"  # in JOBDIR
_AGAIN_S = 0.2  # until the next round, after one that did not count
_NO_BUS = "the bus"  # why the gate is shut

OpenShard = Callable[[int, Path, str], DiskFrontier]  # number, folder, ID of the crawl


class NodeError(Exception):
    """The node must end: one line for the user."""


class RunningNode:
    """The node, from its first round to its last.

    frontier -- of this node; it gets the shards
    tenancies -- of IP addresses; None: no setting limits them
    has_seeds -- whether seeds are still read
    on_problem -- called once, with one line, if the node must end
    on_lapse -- called before the node may ask again after it might not: all leases whose requests
        are not sent must be given back, since others may ask those addresses meanwhile
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        frontier: ClusterFrontier,
        tenancies: Tenancies | None,
        ending: Ending,
        *,
        shards: int,
        jobdir: Path,
        open_shard: OpenShard,
        gate: Gate,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self.has_seeds: Callable[[], bool] = lambda: False
        self.on_problem: Callable[[str], None] = logger.error
        self.on_lapse: Callable[[], None] = lambda: None
        self._sessions = 1  # of `members`, as of the last round
        self._bus = bus
        self._frontier = frontier
        self._tenancies = tenancies
        self._ending = ending
        self._shards = shards
        self._folder = jobdir / SHARDS
        self._open_shard = open_shard
        self._gate = gate
        self._clock = clock
        self._couriers: dict[int, Courier] = {}
        self._carrying: dict[int, asyncio.Task[None]] = {}
        self._events: list[Event] = []
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._addresses_task: asyncio.Task[None] | None = None
        self._recount_task: asyncio.Task[None] | None = None
        self._recounted: tuple[str, frozenset[int]] = ("", frozenset())  # era, shards
        node.on_event = self._events.append
        frontier.on_written = self._written
        frontier.on_close = self.close

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End the node: its shards stay its own, and other nodes are told."""
        self._closing.set()
        if self._task is not None:
            await self._task
        if self._recount_task is not None:
            self._recount_task.cancel()
        if self._addresses_task is not None:
            await self._addresses_task
        for number in list(self._couriers):
            await self._stop_courier(number)

    async def leave(self) -> None:
        """All shards are closed."""
        if self._tenancies is not None:
            await self._tenancies.close()
        with suppress(BusError):
            await self.node.leave()
        await self._bus.close()

    # Rounds

    async def _run(self) -> None:
        try:
            await self._bus.open()
            if self._tenancies is not None:
                await self._tenancies.open()
                self._addresses_task = asyncio.create_task(self._keep_addresses(self._tenancies))
            while not self._closing.is_set():
                began_at = self._clock()
                counts = await self._round()
                wait_s = HEARTBEAT_S - (self._clock() - began_at) if counts else _AGAIN_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(wait_s, 0.0)):
                        await self._closing.wait()
        except (BusError, NodeError, NodeFileError, StoreError, OffsetsError) as error:
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
            await self._end_if_quiet()
        except Refused:
            raise
        except BusError as error:
            logger.debug("A round with the bus failed: %s", error)
            counts = False
        if self._tenancies is not None:
            self._tenancies.note()
        if self.node.members.sessions > self._sessions:
            self._sessions = self.node.members.sessions
            self.on_lapse()
        if self.node.may_ask(self._clock()):
            self._gate.open(_NO_BUS)
        else:
            self._gate.shut(_NO_BUS)
        return counts

    # IP addresses

    async def _keep_addresses(self, tenancies: Tenancies) -> None:
        try:
            while not self._closing.is_set():
                await tenancies.work()
                self._recount_if_lost(tenancies)
                with suppress(TimeoutError):
                    async with asyncio.timeout(tenancies.wait_s):
                        await tenancies.wake.wait()
                tenancies.wake.clear()
        except (BusError, StoreError) as error:
            self.on_problem(f"CLUSTER: {error}")

    def _recount_if_lost(self, tenancies: Tenancies) -> None:
        """With MAX_PAGES_PER_IP, after a loss of the KV: write the counts of our shards again."""
        crawl, task = self.node.registry.crawl, self._recount_task
        if crawl is None or not crawl.losses or not tenancies.has_cap:
            return
        shards = frozenset(self._frontier.shards)
        if self._recounted != (crawl.era, shards) and (task is None or task.done()):
            self._recount_task = asyncio.create_task(self._recount(tenancies, crawl.era, shards))

    async def _recount(self, tenancies: Tenancies, era: str, shards: frozenset[int]) -> None:
        try:
            for number in shards & self.node.shards.held.keys():
                frontier = self._frontier.shards.get(number)
                if frontier is not None:
                    await tenancies.recount(number, await frontier.pages_by_address())
        except (BusError, KeyError) as error:  # again with the next round
            logger.debug("The counts of addresses were not written: %s", error)
        else:
            self._recounted = (era, shards)

    # Shards

    async def _carry_out(self, event: Event) -> None:
        if isinstance(event, Use):
            if event.shard not in self._couriers:
                await self._use(event)
        else:
            logger.warning("Shard %d is on node %s now, and is parked", event.shard, event.node)
            await self._stop_courier(event.shard)
            if event.shard in self._frontier.shards:
                await self._frontier.remove(event.shard).close()
            if self._tenancies is not None:
                self._tenancies.drop(event.shard)
            self.node.shards.stopped(event.shard)

    async def _use(self, use: Use) -> None:
        folder = self._folder / f"{use.shard:04d}"
        exists = (folder / FOLDER).exists()
        if use.how == "begun" and exists:
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
        if task is not None:
            await task

    def _written(self, number: int) -> None:
        courier = self._couriers.get(number)
        if courier is not None:
            courier.wrote()

    # The end

    async def _end_if_quiet(self) -> None:
        if self.node.state != "running":
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
