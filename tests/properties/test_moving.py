"""A move of a shard, with a kill of the giver or of the taker before or after each call of the bus.

The shard is a database with one number, which grows by 1 in each step in which a node uses it. At
no time do two nodes use it, and no node ever finds an old number.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.memorybus import MemoryBus, MemoryHub
from webcrawl.cluster.agreement.members import SILENT_S
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.shards import Event, Park
from webcrawl.cluster.bus import BusError, Refused, Unreachable
from webcrawl.cluster.errors import MoveError
from webcrawl.cluster.moving import mover
from webcrawl.cluster.moving.checkpoints import copy_checkpoint
from webcrawl.cluster.moving.folders import Folders
from webcrawl.cluster.moving.mover import Mover
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import FOLDER

FETCH_S = 2.0
STEP_S = 1.0
WORK = b"work"


class KilledError(Exception):
    """In the place of the end of a process."""


class KillingBus:
    """The bus of one process, which is killed before or after its call number `at`."""

    def __init__(self, bus: MemoryBus, kill: Callable[[], None]) -> None:
        self._bus = bus
        self._kill = kill
        self.calls = 0
        self.at: tuple[int, bool] | None = None  # and whether after it
        self.is_dead = False

    def _hit(self, number: int, is_after: bool) -> None:
        if self.is_dead or self.at == (number, is_after):
            self.is_dead = True
            self._kill()
            raise Unreachable("killed")

    async def _call(self, call: Callable[[], Awaitable[Any]]) -> Any:
        self.calls += 1
        number = self.calls
        self._hit(number, False)
        result = await call()
        self._hit(number, True)
        return result

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._bus, name)
        if name in ("get", "create", "update", "put", "delete", "keys", "request"):
            return lambda *arguments: self._call(lambda: call(*arguments))
        return call

    async def answer(self, subject: str, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        await self._bus.answer(subject, lambda data: self._call(lambda: handle(data)))


class Machine:
    """A JOBDIR, with or without its process."""

    def __init__(self, world: World, jobdir: Path) -> None:
        self.world = world
        self.folders = Folders(jobdir / "shards")
        self.jobdir = jobdir
        jobdir.mkdir()
        self.db: Database | None = None
        self.node: Node | None = None
        self.tasks: list[asyncio.Task[Any]] = []

    def start(self) -> None:
        self.memory = self.world.hub.bus()
        self.bus = KillingBus(self.memory, self.kill)
        self.node = Node(
            *(self.bus, NodeStore(self.jobdir), {}, 1),  # type: ignore[arg-type]
            longest_fetch_s=FETCH_S,
            clock=self.world.clock,
            on_event=self.on_event,
        )
        self.mover = Mover(
            *(self.bus, self.node, self.folders, self),  # type: ignore[arg-type]
            clock=self.world.clock,
            sleep=self.world.sleep,
        )
        self.tasks = [asyncio.create_task(self._rounds(self.node))]

    def kill(self) -> None:
        self.memory.disconnect()
        taking = [each.task for each in self.mover._taking.values()]
        for task in [*self.tasks, *filter(None, taking)]:
            task.cancel()
        self.node = None
        if self.db is not None:
            self.db.close()
            self.db = None

    async def _rounds(self, node: Node) -> None:
        await self.memory.open()
        await self.mover.open()
        while self.node is node:
            with suppress(BusError):
                await node.round()
            await self.world.sleep(STEP_S)

    def on_event(self, event: Event) -> None:
        assert self.node is not None
        if isinstance(event, Park):
            assert self.db is None, "it was closed before it was given away"
            record = self.node.shards.map[0]
            if record.restored == record.epoch:
                self.folders.park(0, event.epoch)
            else:
                self.folders.remove(0)
            self.node.shards.stopped(0)
            return
        is_there = self.folders.settle(0, self.node.shards.map[0].copy)
        assert is_there or event.how in ("begun", "empty")
        (self.folders.of(0) / FOLDER).mkdir(parents=True, exist_ok=True)
        self.db = Database(self.folders.of(0) / FOLDER)
        self.node.shards.has_folder(0)
        assert int(self.db.get(WORK) or 0) == self.world.work, "an old copy"

    def step(self) -> None:
        if self.db is not None and self.node is not None and self.node.shards.held:
            self.world.work += 1
            self.db.put(WORK, b"%d" % self.world.work)
            self.db.commit()

    # `mover.Holder`

    async def stop(self, shard: int) -> None:
        await self.world.sleep(STEP_S)
        if self.node is None:
            raise KilledError
        assert self.db is not None
        self.db.close()
        self.db = None

    def utc(self) -> float:
        return self.world.now


class World:
    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.now = 0.0
        self.work = 0
        self.hub = MemoryHub(seed)
        self.machines = [Machine(self, folder / name) for name in ("giver", "taker")]
        self._sleeping: list[tuple[float, asyncio.Future[None]]] = []

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping.append((self.now + seconds, woken))
        await woken

    async def step(self) -> None:
        """One second: all that can be done at this time is done, then the time goes on."""
        for _ in range(40):
            await asyncio.sleep(0)
        for machine in self.machines:
            machine.step()
        assert sum(m.db is not None for m in self.machines) <= 1, "two nodes use the shard"
        self.now += STEP_S
        due = [woken for at, woken in self._sleeping if at <= self.now]
        self._sleeping = [each for each in self._sleeping if each[0] > self.now]
        for woken in due:
            if not woken.done():
                woken.set_result(None)

    async def until(self, condition: Callable[[], bool], seconds: int = 400) -> None:
        for _ in range(seconds):
            if condition():
                return
            await self.step()
        raise AssertionError(f"it does not come to that: {self.machines[0].folders.root}")

    def user(self) -> Machine | None:
        return next((m for m in self.machines if m.db is not None), None)


async def begun(folder: Path, seed: int = 0) -> World:
    """The first node uses the shard, and the second one has joined."""
    world = World(folder, seed)
    giver, taker = world.machines
    giver.start()
    await world.until(lambda: world.user() is giver)
    taker.start()
    await world.until(
        lambda: (
            taker.node is not None
            and taker.node.state == "running"
            and giver.node is not None
            and giver.node.members.is_alive(taker.node.members.node)
        )
    )
    return world


def give(world: World) -> asyncio.Task[None]:
    giver, taker = world.machines
    assert taker.node is not None
    task = asyncio.create_task(giver.mover.give(0, taker.node.members.node))
    giver.tasks.append(task)
    return task


async def move_with_a_kill(folder: Path, victim: int, at: int, *, is_after: bool) -> bool:
    """Whether the victim was killed before the move was over."""
    world = await begun(folder)
    giver, taker = world.machines
    machine = world.machines[victim]
    machine.bus.at = machine.bus.calls + at, is_after
    task = give(world)
    await world.until(lambda: task.done() and (machine.node is None or world.user() is not None))
    with suppress(MoveError, asyncio.CancelledError, KilledError, BusError):
        await task
    killed, machine.bus.at = machine.node is None, None
    if killed:
        for _ in range(3):
            await world.step()
        machine.start()
    await world.until(lambda: world.user() is not None)
    before = world.work
    for _ in range(5):
        await world.step()
    assert world.work == before + 5
    assert world.user() in (giver, taker)
    used = world.user()
    for each in world.machines:
        each.kill()
    return killed or used is giver


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without threads, each run has the same steps."""

    async def here(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", here)
    monkeypatch.setattr(mover, "PIECE", 512)
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # no power fails here


@pytest.mark.parametrize("victim", [0, 1], ids=["giver", "taker"])
def test_a_kill_at_each_call(tmp_path: Path, victim: int) -> None:
    for at in count(1):
        folder = tmp_path / str(at)
        folder.mkdir()
        if not asyncio.run(move_with_a_kill(folder, victim, at, is_after=bool(at % 2))):
            break
    assert at > 20


@pytest.mark.parametrize("seed", range(6))
def test_calls_that_fail(tmp_path: Path, seed: int) -> None:
    """Each fifth call fails, half of them after they were carried out."""

    async def run() -> None:
        world = await begun(tmp_path, seed)
        world.hub.fail = 0.2
        task = give(world)
        await world.until(task.done)
        with suppress(MoveError):
            await task
        await world.until(lambda: world.user() is not None)
        assert sum(each.db is not None for each in world.machines) == 1, "one has the shard"
        for machine in world.machines:
            machine.kill()

    asyncio.run(run())


def test_a_wiped_bus(tmp_path: Path) -> None:
    """The records are lost in the middle of a move."""

    async def run(at: int) -> bool:
        folder = tmp_path / str(at)
        folder.mkdir()
        world = await begun(folder)
        task = give(world)
        for _ in range(at):
            await world.step()
        was_done = task.done()
        world.hub.wipe()
        await world.until(task.done)
        with suppress(MoveError):
            await task
        await world.until(lambda: world.user() is not None)
        for machine in world.machines:
            machine.kill()
        return was_done

    at = next(at for at in count() if asyncio.run(run(at)))
    assert at > 1


def test_a_shard_of_a_lost_machine_is_restored(tmp_path: Path) -> None:
    """It comes back later, and uses the shard no more."""

    async def run() -> None:
        world = await begun(tmp_path)
        giver, taker = world.machines
        checkpoint, saved = tmp_path / "checkpoint", world.work
        checkpoint.mkdir()
        assert giver.db is not None
        assert taker.node is not None
        crawl = taker.node.registry.crawl
        assert crawl is not None
        giver.db.checkpoint(checkpoint / FOLDER)
        await world.step()
        assert world.work > saved
        giver.kill()
        killed_at, world.work = world.now, saved
        while taker.node.members.is_alive(giver.mover._node.members.node):
            with pytest.raises(Refused, match="is alive"):
                await taker.node.shards.refuse_restore(0, crawl)
            await world.step()
        copy_checkpoint(checkpoint, taker.folders, 0, "copy")
        await taker.node.shards.restore(0, crawl, "copy")
        await world.until(lambda: world.user() is taker)
        assert world.now > killed_at + SILENT_S
        giver.start()
        await world.until((giver.folders.root / "0000.parked-1").exists)
        assert world.user() is taker
        for machine in world.machines:
            machine.kill()

    asyncio.run(run())


def test_a_node_refuses_a_shard_that_is_not_the_givers(tmp_path: Path) -> None:
    async def run() -> None:
        world = await begun(tmp_path)
        giver, taker = world.machines
        assert giver.node is not None
        with pytest.raises(MoveError, match="not in use"):
            await taker.mover.give(0, giver.node.members.node)
        with pytest.raises(MoveError, match="already"):
            await giver.mover.give(0, giver.node.members.node)
        with pytest.raises(MoveError, match="not alive"):
            await giver.mover.give(0, "another")
        assert taker.node is not None
        crawl = taker.node.registry.crawl
        assert crawl is not None
        with pytest.raises(Refused, match="is alive"):
            await taker.node.shards.restore(0, crawl, "copy")
        for machine in world.machines:
            machine.kill()

    asyncio.run(run())
