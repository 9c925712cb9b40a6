"""Runs the node of this process: rounds with the bus, its shards, their mail, and the end.

Owns the moments: when a shard is opened or closed, when nothing may be sent, when the crawl has
ended. `node` and the classes that it calls decide; `frontier` has the shards.

| fault | so the node |
| --- | --- |
| no bus at the start | waits for it for START_S, with a line each 30 s; then it ends |
| the bus does not answer for STALE_S | sends no request until it does (`Gate`) |
| the bus is slow | goes on: the rest of a round may last longer than its heartbeat (`_tend`) |
| a shard has gone to another node | closes it as soon as its requests have ended |
| a shard is to go to another node, and its requests do not end | goes on with it |
| the folder of a shard that it has begun is missing | ends: it never begins a shard again, empty |
| it was killed before that folder was on the disk | begins the shard: nothing was put into it |
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

from msgspec.structs import replace

from webcrawl.cluster.agreement.ending import FINISHED, Activity, Ending
from webcrawl.cluster.agreement.members import HEARTBEAT_S, STALE_S
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import NodeFileError
from webcrawl.cluster.agreement.shards import Event, Use
from webcrawl.cluster.agreement.tenancy import Tenancies
from webcrawl.cluster.bus import Bus, BusError, Refused, Unreachable
from webcrawl.cluster.errors import NodeError, OffsetsError, one_line
from webcrawl.cluster.explaining import Explanations
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.keeping import Keeping
from webcrawl.cluster.mail.courier import Courier, subject_of
from webcrawl.cluster.mail.offsets import Offsets
from webcrawl.cluster.moving.desk import Desk
from webcrawl.cluster.moving.holding import PROBLEMS, Holding, Plan
from webcrawl.cluster.notices import AGAIN_AT_START_S, Notices, Repeated
from webcrawl.cluster.process import NoProcess, Process
from webcrawl.cluster.putting import Putting
from webcrawl.cluster.steering import NodeSteering
from webcrawl.cluster.views import Owner, Views
from webcrawl.fetch.gate import Gate
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder, LocalFrontier
from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

_AGAIN_S = 0.2  # until the next round, after one that did not count
START_S: Final = 600.0  # how long a node waits for the bus before its crawl begins
_POLL_S = 0.2
_IDLE_S = 1.0  # between two rounds of a node that has nothing to do, for _ENDING_S
_CALLED_S = 0.1  # between two rounds, also if others call
_ENDING_S = 30.0
_GIVEN_S = 1.0  # in which a giver that has heard of a whole copy has given the shard
_TAKE_UP_S = 5.0
_ARRIVED = {"moved": "has moved to", "empty": "is begun on"}
_SLOW_S = 6.0  # a start that takes longer is explained; GATHER_S and a heartbeat are usual

OpenShard = Callable[[int, Path, str], LocalFrontier]  # number, folder, ID of the crawl


class RunningNode:
    """The node, from its first round to its last.

    frontier -- of this node; it gets the shards
    tenancies -- of IP addresses; None: no setting limits them
    folder -- JOBDIR, locked; `leave` gives it back
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
        folder: JobFolder,
        open_shard: OpenShard,
        gate: Gate,
        plan: Plan,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.node = node
        self.explanations = Explanations(bus, node.members.node, lambda: self.crawl_id)
        self.views = Views(node.members.node, frontier.counters, clock)
        self.steering = steering
        self._process: Process = NoProcess()
        self._allowed_until = -inf  # before the first round
        self._sessions = 1  # of `members`, as of the last round
        self._steered = 0  # in which of them the orders were carried out
        self._tending: asyncio.Task[None] | None = None  # the rest of a round
        self._bus = bus
        self._frontier = frontier
        self._ending = ending
        self._shards = shards
        self._open_shard = open_shard
        self._folder = folder
        self._gate = gate
        self._clock = clock
        self._couriers: dict[int, Courier] = {}
        self._carrying: dict[int, asyncio.Task[None]] = {}
        self._events: list[Event] = []
        self._closing = asyncio.Event()
        self._called = asyncio.Event()  # the next round must not wait
        self._is_new = not node.has_crawl  # at the start
        self._putting = Putting(bus, node, shards, self._put)
        self._task: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []
        self._notices = Notices(node.members)
        self._fault = ""  # of the last round, "" if it went well
        self._cut_off_at: float | None = None  # since when the gate is shut; None: it is open
        self._opened_at = inf  # when the spider was opened
        self._back_at = float("-inf")  # when the bus was back
        self._round_at = -inf  # when the last round began
        self._idle_at = inf  # since when the node has nothing to do
        self._has_stopped = False
        self._keeping = None
        if tenancies is not None:
            self._keeping = Keeping(tenancies, node, frontier, on_problem=self._fail)
        self.holding = Holding(
            *(bus, node, frontier, self._keeping, ending),
            shards=shards,
            jobdir=folder.path,
            gate=gate,
            plan=plan,
            couriers=self._couriers,
            stop_courier=self._stop_courier,
            clock=clock,
        )
        self.desk = Desk(bus, self.holding, folder.path.absolute())
        self._wire()
        gate.allow_until(-inf)  # before the first round

    def _wire(self) -> None:
        """Be told by the parts of this node."""
        self.holding.mover.on_order = self.desk.from_bus
        self.holding.without = self.steering.without
        self.holding.mover.on_hurry = self._called.set
        self.steering.on_called = self._called.set
        self._ending.on_call = self._on_wave
        self.node.before_joining = self._before_joining
        self.node.on_event = self._events.append
        self._frontier.owner = self

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

    # For `ClusterFrontier` (its `Owner`), beside `close` and `leave`

    @property
    def may_lease(self) -> bool:
        return not self._gate.is_shut

    def has_written(self, number: int) -> None:
        courier = self._couriers.get(number)
        if courier is not None:
            courier.wrote()

    async def put_elsewhere(self, links: list[Link], force: bool) -> tuple[list[Link], int]:
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

    # The life of the node

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
                waits.say(  # the same text each time, or it would be logged each time
                    "The crawl has not begun: it waits for the bus, for"
                    f" {START_S / 60:g} minutes at most. {error}",
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
                self.node.forget_crawl()
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

    def start(self, process: Process) -> None:
        """The spider is open."""
        self._opened_at = self._clock()
        self._process = self.holding.process = process
        process.allow_until(self._allowed_until)
        self._frontier.on_address(process.wake)
        self._task = asyncio.create_task(self._run())
        self._beside = [
            asyncio.create_task(self._watch()),
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
        if self._tending is not None:
            self._tending.cancel()
            await asyncio.gather(self._tending, return_exceptions=True)
        await self.holding.close()
        if self.holding.mover.is_hurried:
            await self._take_up()
        if self._keeping is not None:
            await self._keeping.close()
        for number in list(self._couriers):
            await self._stop_courier(number)

    async def _take_up(self) -> None:
        """Open the shards that were on their way, here or back, to have their counts.

        Else the pages of a shard that moves while the crawl ends are in no node's report.
        """
        began_at = self._clock()
        for shard in self.node.shards.held.keys() - self._frontier.shards.keys():
            self.node.shards.set_aside(shard)  # its move was ended while it was being closed
            self.node.shards.take_back(shard)
        try:
            async with asyncio.timeout(_TAKE_UP_S):
                while True:
                    counts = await self.node.round()
                    await self._carry_out()
                    is_all = counts and not self.node.shards.waits
                    if is_all and self._clock() > began_at + _GIVEN_S:
                        break
                    await asyncio.sleep(_AGAIN_S)
        except (TimeoutError, NodeError, *PROBLEMS) as error:  # nothing is lost: see `mover`
            logger.debug("Shards that were on their way are not in the report: %r", error)
        await self.holding.end_parking()

    async def leave(self) -> None:
        """All shards are closed: tell the others, as far as the bus is there."""
        try:
            await self._leave()
        finally:
            self._folder.close()

    async def _leave(self) -> None:
        if self._ending.reason:
            with suppress(NodeFileError):  # then the next run ends at once, and the one after not
                self.node.note_end(self._ending.number)
        if self._keeping is not None:
            await self._keeping.leave()
        self.node.view = self.views.last()
        with suppress(BusError):
            await self.steering.give_back()
            await self.node.leave()
            await self.node.members.look()  # the last counts of the others
            self._see()
        await self._bus.close()

    def _fail(self, error: Exception) -> None:
        self._process.fail(one_line(error))

    # Rounds

    async def _run(self) -> None:
        try:
            await self.explanations.open()
            await self._putting.open()
            await self.holding.open()
            await self._ending.open()
            if self._keeping is not None:
                await self._keeping.open()
            while not self._closing.is_set():
                began_at = self._round_at = self._clock()
                self._called.clear()
                counts = await self._round()
                pause_s = _IDLE_S if self._has_just_idled() else HEARTBEAT_S
                wait_s = pause_s - (self._clock() - began_at) if counts else _AGAIN_S
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(self.holding.wait_s(wait_s), 0.0)):
                        await self._called.wait()
                        await asyncio.sleep(began_at + _CALLED_S - self._clock())
        except (NodeError, *PROBLEMS) as error:
            self._allow_until(-inf)
            self._fail(error)
        except Exception as error:  # our own fault: without rounds the others wait for this node
            logger.exception("A round of the node failed")
            self._allow_until(-inf)
            self._process.fail(f"CLUSTER: failed, the log says where: {error!r}")

    async def _round(self) -> bool:
        """One round; whether it counts. A fault of the bus is none of the node."""
        began_at = self._clock()
        self.node.view = self.views.own(replace(self._process.describe(), shards=self._shares()))
        try:
            counts = await self.node.round()
            self._see()
            await self._carry_out()
            for shard, record in self.node.shards.map.items():
                for courier in self._couriers.values():
                    courier.set_epoch(shard, record.epoch)
            self._allow()
            if self._keeping is None:
                await self.node.settle()
            if self.node.state != "joining":
                await self._tend(began_at + HEARTBEAT_S)
            self._fault = ""
        except Refused:
            raise
        except BusError as error:
            logger.debug("A round with the bus failed: %s", error)
            self._fault = str(error)
            counts = False
        if counts:
            self._notice()
        self._allow()
        return counts

    def _allow(self) -> None:
        """Send requests for as long as the last whole round allows."""
        sessions = self.node.members.sessions
        if self._keeping is not None:
            self._keeping.note()
        if sessions > self._sessions:
            self._sessions = sessions
            self._process.give_back(lambda host: True)  # others may ask those addresses meanwhile
        # After a loss of the KV others may have shards that are open here: see `Shards.note_era`.
        is_sure = self._frontier.shards.keys() <= self.node.shards.held.keys()
        # Orders may have come while this node had no bus.
        is_steered = self._steered == sessions
        self._allow_until(self.node.members.may_ask_until if is_sure and is_steered else -inf)

    async def _tend(self, until: float) -> None:
        """Do the rest of a round. BusError.

        If the bus is so slow that it is not done at `until`, it goes on beside the next rounds: the
        heartbeat, and with it the right to send requests, does not wait for it.
        """
        if self._tending is None:
            self._tending = asyncio.create_task(self._do_the_rest())
        await asyncio.wait((self._tending,), timeout=max(until - self._clock(), 0.0))
        if self._tending.done():
            done, self._tending = self._tending, None
            done.result()

    async def _do_the_rest(self) -> None:
        sessions = self.node.members.sessions
        await self.steering.look()
        await self.steering.take_places()
        await self._frontier.share_active_hosts()
        await self._frontier.see_work(elsewhere=self._others_work())
        await self._end_if_quiet()
        self._steered = sessions
        if self._task is not None:
            self.holding.look()

    def _see(self) -> None:
        node = self.node
        owners = {k: Owner(record.node, record.epoch) for k, record in node.shards.map.items()}
        self.views.see(self.crawl_id, node.members.seen(), owners, self._shards)

    def _shares(self) -> dict[int, tuple[int, int, int]]:
        """For this node's view: what each shard has of its counts."""
        held = self.node.shards.held
        return {
            number: (held[number], each.counters.crawled, each.counters.pending)
            for number, each in self._frontier.shards.items()
            if number in held
        }

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
        me = self.node.members.node
        own = [shard for shard, record in shards.map.items() if record.node == me]
        self._notices.has_none(own, is_claimed, now)
        self._notices.held_back(shards.waits, now)
        is_idle = self._is_idle()
        self._idle_at = min(self._idle_at, now) if is_idle else inf
        self._notices.waits(shards.map, now, is_idle=is_idle)
        crawl = self.node.registry.crawl
        self._notices.lost(shards.map, self._shards, now, losses=crawl.losses if crawl else 0)

    def _is_idle(self) -> bool:
        """Whether the shards of this node are done. Links to those of a node that is gone wait."""
        shards_done = all(each.is_finished() for each in self._frontier.shards.values())
        return shards_done and not self._process.has_seeds()

    def _on_wave(self) -> None:
        if self._is_idle():
            self._called.set()

    def _has_just_idled(self) -> bool:
        """Whether the end may be near: it takes five rounds, and all nodes' answers."""
        return 0 <= self._clock() - self._idle_at < _ENDING_S

    # The loss of the bus

    def _allow_until(self, at: float) -> None:
        self._allowed_until = at
        self._gate.allow_until(at)
        self._process.allow_until(at)

    async def _watch(self) -> None:
        """Say that the bus is lost, also while a round waits for it, and that it is back.

        Make a round soon when the node has become idle: the end of the crawl may wait for it.
        """
        while True:
            now = self._clock()
            if self._idle_at == inf and now > self._round_at + _IDLE_S and self._is_idle():
                self._called.set()
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

    async def _carry_out(self) -> None:
        """Use and park what the last round said, and one before that failed at a later step."""
        while self._events:
            event = self._events.pop(0)
            if not isinstance(event, Use):
                self.holding.park(event)
            elif event.shard not in self._couriers:
                await self._use(event)

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
        if use.how not in ("begun", "empty") and not exists:
            raise NodeError(
                f"{folder} is missing, the frontier of shard {use.shard}: put it back, or restore"
                " the shard from a checkpoint"
            )
        assert self.node.registry.crawl is not None
        crawl = self.node.registry.crawl.id
        folder.mkdir(parents=True, exist_ok=True)
        shard = self._open_shard(use.shard, folder, crawl)
        run_s = max(self._clock() - self._opened_at, 0.0)
        try:
            if use.how in ("begun", "empty"):
                await asyncio.to_thread(folders.sync, use.shard)
            self.node.shards.has_folder(use.shard)  # before a link can be put into it
        except (OSError, NodeFileError) as error:
            await shard.close()
            raise NodeError(f"{folder} cannot be written: {error}") from None
        self._frontier.add(use.shard, shard, run_s)
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
            self._fail(error)
        except Exception as error:  # ours: without its mail the crawl would never end
            logger.exception("The mail of shard %d failed", courier.shard)
            self._process.fail(f"CLUSTER: {error!r}")

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

    # The end

    async def _end_if_quiet(self) -> None:
        if self.node.state not in ("running", "leaving"):
            return
        if await self._ending.look():
            await self._ending.answer(self._activities(), has_seeds=self._process.has_seeds())
        if 0 in self.node.shards.held:
            await self._ending.lead(self.node.shards.map, self.node.members.alive())
        if self._ending.reason == FINISHED:
            self._frontier.has_ended = True
        elif self._ending.reason and not self._has_stopped:
            self._has_stopped = True
            self._process.stop()

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
