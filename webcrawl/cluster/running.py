"""Runs the node of this process: rounds with the bus, its shards, their mail, and the end.

Owns the moments: when a shard is opened or closed, when nothing may be sent, when the crawl has
ended. `node` and the classes that it calls decide; `frontier` has the shards.

| fault | so the node |
| --- | --- |
| no bus at the start | waits for it for START_S, with a line each 30 s; then it ends |
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
from math import inf
from pathlib import Path
from typing import Final

from webcrawl.cluster.bus import Bus, BusError, Refused, Unreachable
from webcrawl.cluster.courier import Courier, subject_of
from webcrawl.cluster.ending import FINISHED, Activity, Ending
from webcrawl.cluster.explaining import Explanations
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.holding import PROBLEMS, Holding, Plan
from webcrawl.cluster.keeping import Keeping
from webcrawl.cluster.members import HEARTBEAT_S, STALE_S
from webcrawl.cluster.node import Node
from webcrawl.cluster.nodefile import NodeFileError
from webcrawl.cluster.notices import AGAIN_AT_START_S, Notices, Repeated
from webcrawl.cluster.offsets import Offsets, OffsetsError
from webcrawl.cluster.putting import Putting
from webcrawl.cluster.shards import Event, Use
from webcrawl.cluster.steering import NodeSteering
from webcrawl.cluster.tenancy import Tenancies
from webcrawl.cluster.views import Views
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import FOLDER, DiskFrontier
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_LOST_S = 15.0  # until a warning: nodes that have lost the bus too write what they know
_AGAIN_S = 0.2  # until the next round, after one that did not count
START_S: Final = 600.0  # how long a node waits for the bus before its crawl begins
_POLL_S = 0.2
_IDLE_S = 1.0  # between two rounds of a node that has nothing to do, for _ENDING_S
_ENDING_S = 30.0
_ARRIVED = {"moved": "has moved to"}
_SLOW_S = 6.0  # a start that takes longer is explained; GATHER_S and a heartbeat are usual

OpenShard = Callable[[int, Path, str], DiskFrontier]  # number, folder, ID of the crawl


class NodeError(Exception):
    """The node must end: one line for the user."""


def one_line(error: Exception) -> str:
    """`error` as a line that names the setting."""
    line = str(error)
    return line if line.startswith("CLUSTER") else f"CLUSTER: {line}"


class RunningNode:
    """The node, from its first round to its last.

    frontier -- of this node; it gets the shards
    tenancies -- of IP addresses; None: no setting limits them
    has_seeds -- whether seeds are still read, or anything else is not in a shard yet
    on_problem -- called once, with one line, if the node must end
    on_stop -- called once the crawl is to end in all nodes before it is finished
    on_allowed -- called after each round: until when the other processes may send requests
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
        steering: NodeSteering,
        *,
        shards: int,
        jobdir: Path,
        open_shard: OpenShard,
        gate: Gate,
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self.has_seeds: Callable[[], bool] = lambda: True  # until the spider is open
        self.on_problem: Callable[[str], None] = logger.error
        self.explanations = Explanations(bus, node.members.node, lambda: self.crawl_id)
        self.views = Views(node.members.node, frontier.counters, clock)
        self.on_stop: Callable[[], None] = lambda: None
        self.on_allowed: Callable[[float], None] = lambda until: None
        self.steering = steering
        self.allowed_until = -inf  # before the first round
        self.on_lapse: Callable[[], None] = lambda: None
        self._sessions = 1  # of `members`, as of the last round
        self._bus = bus
        self._frontier = frontier
        self._ending = ending
        self._shards = shards
        self._open_shard = open_shard
        self._gate = gate
        self._clock = clock
        self._couriers: dict[int, Courier] = {}
        self._carrying: dict[int, asyncio.Task[None]] = {}
        self._events: list[Event] = []
        self._closing = asyncio.Event()
        self._called = asyncio.Event()  # the next round must not wait
        self._lost_at = inf  # since when shards are missing
        self._is_warned = False
        self._is_new = not node.store.content.crawl  # JOBDIR has never joined a crawl
        self._putting = Putting(bus, node, shards, self._put)
        self._task: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._notices = Notices(node.members)
        self._fault = ""  # of the last round, "" if it went well
        self._cut_off_at: float | None = None  # since when the gate is shut; None: it is open
        self._back_at = float("-inf")  # when the bus was back
        self._idle_at = inf  # since when the node has nothing to do
        self._has_stopped = False
        self._keeping = Keeping(tenancies, node, frontier) if tenancies is not None else None
        if self._keeping is not None:
            self._keeping.on_problem = lambda error: self.on_problem(one_line(error))
        self.holding = Holding(
            *(bus, node, frontier, self._keeping),
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
        self.holding.mover.on_hurry = self._called.set
        steering.on_called = self._called.set
        node.before_joining = self._before_joining
        node.on_event = self._events.append
        frontier.on_written = self._written
        frontier.on_close = self.close
        frontier.put_elsewhere = self._put_elsewhere
        frontier.may_lease = lambda: not gate.is_shut
        gate.allow_until(-inf)  # before the first round

    @property
    def crawl_id(self) -> str:
        """The same on all nodes; "" before this one has joined the crawl."""
        crawl = self.node.registry.crawl
        return crawl.id if crawl is not None else ""

    @property
    def frontier(self) -> ClusterFrontier:
        return self._frontier

    @property
    def unapplied(self) -> int:
        """Links to other shards that are not known to be applied there. O(shards of the crawl)."""
        return sum(courier.unapplied for courier in self._couriers.values())

    @property
    def has_others_pages(self) -> bool:
        """Whether another node has answered pages."""
        members = self.node.members
        others = (each for name, each in members.all().items() if name != members.node)
        return any(each.view.numbers.get("crawled") for each in others)

    async def join(self, goes_on: Callable[[], bool]) -> bool:
        """Join the crawl, and open the shards that this node has already. Call it before `start`.

        False: `goes_on` has become false meanwhile. Refused, NodeError and the errors of its files
        and shards: the node must not begin.
        """
        joining = asyncio.create_task(self._join())
        while not joining.done():
            if not goes_on():
                joining.cancel()
            await asyncio.wait((joining,), timeout=_POLL_S)
        return not joining.cancelled() and joining.result()

    async def _join(self) -> bool:
        await self._open_bus()
        until, waits = self._clock() + START_S, Repeated(AGAIN_AT_START_S)
        began_at = self._clock()
        while not await self._round():
            now = self._clock()
            if self._fault and now > until:
                raise NodeError(f"{self._fault}; the node ends after {START_S:g} s")
            if not self._fault:
                until = now + START_S
            what = self._fault or self.node.waits_for
            if now > began_at + _SLOW_S:  # it is no usual start
                waits.say(
                    f"CLUSTER: the crawl has not begun, it waits for {what}" if what else "", now
                )
            await asyncio.sleep(_AGAIN_S)
        self._frontier.crawl_id = self.crawl_id
        if self.node.registry.warning:
            self._frontier.warnings = [*self._frontier.warnings, self.node.registry.warning]
        logger.info(
            "CLUSTER: node %s of the crawl %s", self.node.members.node, self._frontier.crawl_id
        )
        return True

    async def _open_bus(self) -> None:
        until, waits = self._clock() + START_S, Repeated(AGAIN_AT_START_S)
        while True:
            try:
                await self._bus.open()
            except Unreachable as error:
                now = self._clock()
                if now > until:
                    raise NodeError(f"{error}; the node ends after {START_S:g} s") from None
                waits.say(
                    "The crawl has not begun: it waits for the bus, for"
                    f" {max(until - now, 0):.0f} s at most. {error}",
                    now,
                )
                await asyncio.sleep(_AGAIN_S)
            else:
                return

    async def _before_joining(self) -> str:
        """What the node must wait for before it joins: the end of the nodes of an earlier run."""
        await self._ending.look()
        others = self.node.members.running()
        if self._ending.reason == FINISHED and not self.node.has_shards:
            if self._is_new:
                self.node.store.keep(crawl="", shards=0)  # JOBDIR can be used for another crawl
                raise Refused(
                    "CLUSTER_NAME: the crawl of this name on the bus is finished, and this JOBDIR"
                    " had no part in it: a new crawl needs another CLUSTER_NAME"
                )
            self._frontier.has_ended = True
        elif self._ending.reason == FINISHED and not self.node.has_carried_out(self._ending.number):
            # It was killed before it saw the end. The others may be gone, and need not come back.
            self._frontier.has_ended = True
        elif self._ending.reason and others:
            return f"the end of {', '.join(others)}: the crawl is ending there"
        elif self._ending.reason:
            await self._ending.reopen()
        await self.steering.join(is_first=not others)
        return ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())
        self._beside = [
            asyncio.create_task(self._watch_bus()),
            asyncio.create_task(self.steering.follow_target()),
        ]

    async def close(self) -> None:
        """End the node: its shards stay its own, and other nodes are told."""
        self._closing.set()
        self._called.set()
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if self._task is not None:
            await self._task
        await self.holding.close()
        if self._keeping is not None:
            await self._keeping.close()
        for number in list(self._couriers):
            await self._stop_courier(number)

    async def leave(self) -> None:
        """All shards are closed."""
        if self._ending.reason:
            with suppress(NodeFileError):  # then the next run ends at once, and the one after not
                self.node.note_end(self._ending.number)
        if self._keeping is not None:
            await self._keeping.leave()
        self.node.view = self.views.last()
        with suppress(BusError):
            await self.node.leave()
            await self.node.members.look()  # the last counts of the others
            self._see()
        await self._bus.close()

    # Rounds

    async def _run(self) -> None:
        try:
            await self.explanations.open()
            await self._putting.open()
            await self.holding.open()
            if self._keeping is not None:
                await self._keeping.open()
            while not self._closing.is_set():
                began_at = self._clock()
                self._called.clear()
                counts = await self._round()
                pause_s = _IDLE_S if self._has_just_idled() else HEARTBEAT_S
                wait_s = pause_s - (self._clock() - began_at) if counts else _AGAIN_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self.holding.wait_s(wait_s), 0.0)):
                        await self._called.wait()
        except (NodeError, *PROBLEMS) as error:
            self._allow_until(-inf)
            self.on_problem(one_line(error))
        except Exception as error:  # our own fault: without rounds the others wait for this node
            logger.exception("A round of the node failed")
            self._allow_until(-inf)
            self.on_problem(f"CLUSTER: failed, the log says where: {error!r}")

    async def _round(self) -> bool:
        """One round; whether it counts. A fault of the bus is none of the node."""
        self._events.clear()
        self.node.view = self.views.own()
        try:
            counts = await self.node.round()
            self._see()
            for event in self._events:
                await self._carry_out(event)
            for shard, record in self.node.shards.map.items():
                for courier in self._couriers.values():
                    courier.set_epoch(shard, record.epoch)
            if self.node.state != "joining":
                await self.steering.look()
                await self.steering.take_places()
                await self._frontier.see_work(elsewhere=self._others_work())
                await self._end_if_quiet()
                if self._task is not None:
                    self.holding.look()
            self._fault = ""
        except Refused:
            raise
        except BusError as error:
            logger.debug("A round with the bus failed: %s", error)
            self._fault = str(error)
            counts = False
        if counts:
            self._notice()
        if self._keeping is not None:
            self._keeping.note()
        if self.node.members.sessions > self._sessions:
            self._sessions = self.node.members.sessions
            self.on_lapse()
        # After a loss of the KV others may have shards that are open here: see `Shards.note_era`.
        is_sure = self._frontier.shards.keys() <= self.node.shards.held.keys()
        self._allow_until(self.node.members.may_ask_until if is_sure else -inf)
        return counts

    def _see(self) -> None:
        node = self.node
        owners = {shard: record.node for shard, record in node.shards.map.items()}
        self.views.see(self.crawl_id, node.members.seen(), owners, self._shards)

    def _others_work(self) -> bool:
        """Whether a node that is alive has URLs that wait, as of its last heartbeat."""
        members = self.node.members
        return any(
            record.view.fresh > 0 and members.is_alive(name)
            for name, record in members.all().items()
            if name != members.node
        )

    def _notice(self) -> None:
        if self._ending.reason or self.steering.whole.is_met:
            return  # nodes leave, and nothing is waited for
        now, shards = self._clock(), self.node.shards
        if now > self._back_at + STALE_S:  # before, all nodes seem silent
            self._notices.nodes()
        is_claimed = len(shards.map) == self._shards
        self._notices.has_none(shards.held, is_claimed, now)
        # Links to the shards of a node that is gone wait in an outbox.
        shards_done = all(each.is_finished() for each in self._frontier.shards.values())
        is_idle = not self.has_seeds() and shards_done
        self._idle_at = min(self._idle_at, now) if is_idle else inf
        self._notices.waits(shards.map, now, is_idle=is_idle)
        self._warn_of_lost_shards()

    def _has_just_idled(self) -> bool:
        """Whether the end may be near: it takes five rounds, and all nodes' answers."""
        return 0 <= self._clock() - self._idle_at < _ENDING_S

    def _warn_of_lost_shards(self) -> None:
        """Once: the bus was wiped before all shards were claimed, or while their nodes were dead.

        Only their nodes know them. If there are none, nobody can tell, and none is begun empty.
        """
        crawl, shards = self.node.registry.crawl, self.node.shards.map
        missing = [number for number in range(self._shards) if number not in shards]
        if not (crawl is not None and crawl.losses and missing):
            self._lost_at = inf
            return
        now = self._clock()
        self._lost_at = min(self._lost_at, now)
        if now > self._lost_at + _LOST_S and not self._is_warned:
            self._is_warned = True
            logger.warning(
                "The bus has lost its records, and no node that runs knows the shards %s: the crawl"
                " waits for their nodes. Start these; if there never were any, stop all nodes, and"
                " start them with other JOBDIRs and another CLUSTER_NAME",
                ", ".join(map(str, missing)),
            )

    # The loss of the bus

    def _allow_until(self, at: float) -> None:
        self.allowed_until = at
        self._gate.allow_until(at)
        self.on_allowed(at)

    async def _watch_bus(self) -> None:
        """Say that the bus is lost, also while a round waits for it, and that it is back."""
        while True:
            now = self._clock()
            if self._cut_off_at is None and not self.node.may_ask(now):
                self._cut_off_at = now
                logger.warning(
                    "The bus does not answer: no request is sent until it does. %s", self._fault
                )
            elif self._cut_off_at is not None and self.node.may_ask(now):
                lost_s, self._cut_off_at, self._back_at = now - self._cut_off_at, None, now
                logger.info("The bus is back after %.0f s: requests are sent again", lost_s)
            await asyncio.sleep(_POLL_S)

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
        logger.info("Shard %d %s this node", use.shard, _ARRIVED.get(use.how, f"is {use.how} on"))

    async def _carry(self, courier: Courier) -> None:
        try:
            await courier.run()
        except (StoreError, OffsetsError) as error:
            self.on_problem(one_line(error))
        except Exception as error:  # ours: without its mail the crawl would never end
            logger.exception("The mail of shard %d failed", courier.shard)
            self.on_problem(f"CLUSTER: {error!r}")

    async def _stop_courier(self, number: int) -> None:
        courier, task = self._couriers.get(number), self._carrying.pop(number, None)
        if courier is not None:
            courier.close()
            self._bus.unsubscribe(subject_of(number))
        if task is not None:
            await task

    async def _put(self, links: list[Link], force: bool) -> int:
        """Put links of a node without a shard."""
        return await self._frontier.put(links, self._clock(), force=force)

    async def _put_elsewhere(self, links: list[Link], force: bool) -> tuple[list[Link], int]:
        """Put links into other nodes' shards, until this node has one."""
        accepted = 0
        while links and not self._frontier.shards and not self._frontier.has_ended:
            if not self._putting.owner:
                await asyncio.sleep(_AGAIN_S)
                continue
            try:
                count, new = await self._putting.send(links, force=force)
            except BusError as error:
                logger.debug("Links could not be put elsewhere: %s", error)
                await asyncio.sleep(1.0)
            else:
                links, accepted = links[count:], accepted + new
        return links, accepted

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
        if self._ending.reason == FINISHED:
            self._frontier.has_ended = True
        elif self._ending.reason and not self._has_stopped:
            self._has_stopped = True
            self.on_stop()

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
