"""Couriers on a bus that loses, repeats and reorders, between shards that are killed at any step.

Time is a number. A shard here is its rows, watermarks and what it has applied, with commits that a
kill undoes in part. Each run ends with a bus that works, and then: every row that a shard has
written, and not lost itself, is applied once, in the order of the numbers, and no row is left.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from webcrawl.cluster.mail import courier as module
from webcrawl.cluster.mail.courier import Courier
from webcrawl.cluster.mail.offsets import Offsets
from webcrawl.frontier.lease import Link
from webcrawl.frontier.mailbox import FoundLink, Mail, Packed, encode

CRAWL = "a crawl"


class Killed(Exception):  # noqa: N818
    """The process of a shard ends here."""


class Hub:
    """A bus in memory. `under_way` are messages, each with the subscriber that will get it."""

    is_connected = True

    def __init__(self, random: Random, trouble: float) -> None:
        self.random = random
        self.trouble = trouble
        self.handlers: dict[str, Callable[[bytes], None]] = {}
        self.under_way: list[tuple[Callable[[bytes], None], bytes]] = []

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self.handlers[subject] = handle

    def publish(self, subject: str, data: bytes) -> None:
        if subject in self.handlers and self.random.random() >= self.trouble:
            self.under_way.append((self.handlers[subject], data))

    def deliver(self) -> None:
        """Some of the messages, or all if the bus works."""
        while self.under_way and (not self.trouble or self.random.random() < 0.8):
            at = self.random.randrange(len(self.under_way)) if self.trouble else 0
            handle, data = self.under_way.pop(at)
            if self.random.random() < self.trouble:
                self.under_way.append((handle, data))
            handle(data)


@dataclass
class Disk:
    """All that a shard has committed."""

    rows: dict[int, dict[int, Mail]] = field(default_factory=dict)
    ends: dict[int, tuple[int, int]] = field(default_factory=dict)
    inbox: dict[int, int] = field(default_factory=dict)
    applied: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)


class Shard:
    """A frontier of one process, as a courier sees it."""

    def __init__(self, disk: Disk, random: Random, trouble: float) -> None:
        self.history = [deepcopy(disk)]  # commits, the oldest first
        self.now = disk  # with what is not committed yet
        self.random, self.trouble = random, trouble

    @property
    def outbox(self) -> dict[int, tuple[int, int]]:
        return dict(self.now.ends)

    @property
    def inbox(self) -> dict[int, int]:
        return dict(self.now.inbox)

    def commit(self) -> None:
        self._step()
        self.history.append(deepcopy(self.now))
        self._step()

    def _step(self) -> None:
        if self.random.random() < self.trouble / 10:
            raise Killed

    def write(self, to: int, url: str) -> None:
        first, last = self.now.ends.get(to, (1, 0))
        link = Link(url, "a.example", 1, via="https://b.example/")
        self.now.rows.setdefault(to, {})[last + 1] = FoundLink(link)
        self.now.ends[to] = first, last + 1
        self.now.written.append(url)

    async def receive_each(
        self, batches: Sequence[tuple[int, int, Sequence[Mail]]], now: float
    ) -> None:
        for sender, first, mail in batches:
            applied = self.now.inbox.get(sender, 0)
            if first > applied + 1:
                continue
            for each in mail[applied + 1 - first :]:
                assert isinstance(each, FoundLink)
                self.now.applied.append(each.link.url)
                self.now.inbox[sender] = self.now.inbox.get(sender, 0) + 1
        self.commit()

    async def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Packed:
        assert after + 1 >= self.now.ends[shard][0], "these rows are deleted"
        rows = self.history[-1].rows.get(shard, {})
        numbers = range(after + 1, after + 1 + limit)
        found = [rows[number] for number in numbers if number in rows]
        return Packed(len(found), encode(found))

    async def sent(self, shard: int, upto: int) -> None:
        self._step()
        first, last = self.now.ends[shard]
        assert first <= upto <= last
        for number in range(first, upto + 1):
            del self.now.rows[shard][number]
        self.now.ends[shard] = upto + 1, last


@dataclass
class Node:
    """A shard, its courier, its last checkpoint."""

    shard: Shard
    courier: Courier
    offsets: Offsets
    checkpoint: Disk
    epoch: int = 1


class World:
    """`faults`: "kills" end a process; "power" also undoes its last commits, if it is a sender;
    "checkpoints" set shard 0 back to its last one (two shards set back: see `courier`)."""

    def __init__(self, seed: int, shards: int, trouble: float, faults: str, together: int) -> None:
        self.random = Random(seed)
        self.trouble, self.faults = trouble, faults
        self.hub = Hub(self.random, trouble)
        self.count = shards
        self.local: dict[int, Courier] = {}
        self.together = together  # how many shards are of one node
        self.time = 100.0
        self.urls = 0
        self.nodes: list[Node] = []

    async def begin(self) -> None:
        for number in range(self.count):
            offsets = Offsets(None)
            shard, courier = await self.started(number, Disk(), offsets, 1, {})
            self.nodes.append(Node(shard, courier, offsets, Disk()))

    async def started(
        self, number: int, disk: Disk, offsets: Offsets, epoch: int, kept: dict[int, int]
    ) -> tuple[Shard, Courier]:
        shard = Shard(deepcopy(disk), self.random, self.trouble)
        courier = Courier(
            *(number, epoch, CRAWL, shard, self.hub),
            shards=self.count,
            offsets=offsets,
            node=self.local if number < self.together else {},
            kept=kept if self.faults == "checkpoints" else None,
        )
        await courier.open()
        return shard, courier

    async def restart(self, number: int) -> None:
        """After a kill: as of the last commit, or before."""
        node, random = self.nodes[number], self.random
        node.courier.close()
        self.hub.handlers.pop(f"links.{number}", None)
        self.hub.under_way = [
            each for each in self.hub.under_way if each[0] != node.courier._on_message
        ]
        disk = node.shard.history[-1]
        if self.faults == "power" and not disk.inbox:
            disk = random.choice(node.shard.history[-5:])
        elif self.faults == "checkpoints" and number == 0 and random.random() < 0.5:
            disk, node.epoch = node.checkpoint, node.epoch + 1
        kept = node.checkpoint.inbox
        node.shard, node.courier = await self.started(number, disk, node.offsets, node.epoch, kept)

    async def step(self, number: int) -> None:
        node, random = self.nodes[number], self.random
        try:
            if random.random() < 0.3 and self.writes(number):
                for _ in range(random.choice([1, 3, 9])):
                    to = random.choice([n for n in range(self.count) if n != number])
                    self.urls += 1
                    node.shard.write(to, f"https://a.example/{self.urls}")
                node.shard.commit()
            if self.faults == "checkpoints" and random.random() < 0.05:
                node.checkpoint = deepcopy(node.shard.history[-1])
                node.courier.set_kept(node.checkpoint.inbox)
            await node.courier.turn(self.time)
            if random.random() < self.trouble / 20:
                raise Killed
        except Killed:
            await self.restart(number)

    def writes(self, number: int) -> bool:
        """Shards that lose commits only send, as a receiver that does loses what it had called
        kept."""
        return self.faults != "power" or number % 2 == 0

    async def run(self, turns: int) -> None:
        await self.begin()
        for _ in range(turns):
            await self.step(self.random.randrange(self.count))
            self.hub.deliver()
            self.time += self.random.choice([0.0, 0.01, 0.3, 2.0])
        await self.settle()

    async def settle(self) -> None:
        """The bus works and nobody dies. All rows arrive."""
        self.trouble = self.hub.trouble = 0.0
        for node in self.nodes:
            node.shard.trouble = 0.0
            node.shard.commit()
        for _ in range(400):
            due_at = inf
            for node in self.nodes:
                due_at = min(due_at, await node.courier.turn(self.time))
            self.hub.deliver()
            self.time = max(self.time + 0.01, min(due_at, self.time + 5.0))
            if self.faults == "checkpoints" and not any(n.courier.unapplied for n in self.nodes):
                for node in self.nodes:
                    node.courier.set_kept(node.shard.inbox)
            if all(first > last for n in self.nodes for first, last in n.shard.outbox.values()):
                return
        raise AssertionError(f"rows are left: {[n.shard.outbox for n in self.nodes]}")

    def judge(self) -> None:
        for receiver in self.nodes:
            applied = receiver.shard.now.applied
            assert not [url for url, n in Counter(applied).items() if n > 1], "applied twice"
        got = [set(node.shard.now.applied) for node in self.nodes]
        for number, sender in enumerate(self.nodes):
            written = sender.shard.now.written
            assert set(written) <= set().union(*got), "a row is lost"
            places = {url: place for place, url in enumerate(written)}
            for other in self.nodes:
                order = [places[url] for url in other.shard.now.applied if url in places]
                assert order == sorted(order), f"mail of shard {number} is out of order"
            assert not sender.courier.unapplied
            assert not sender.courier.lost


@pytest.mark.parametrize("faults", ["kills", "power", "checkpoints"])
@given(
    seed=st.integers(0, 2**32),
    shards=st.integers(2, 4),
    trouble=st.sampled_from([0.0, 0.1, 0.3]),
    together=st.sampled_from([0, 2]),
)
@settings(max_examples=40)
def test_each_row_is_applied_once_and_in_order(
    faults: str, seed: int, shards: int, trouble: float, together: int
) -> None:
    world = World(seed, shards, trouble, faults, together)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROWS_MAX", 5)
        asyncio.run(world.run(turns=200))
    assert world.urls or not trouble
    world.judge()
