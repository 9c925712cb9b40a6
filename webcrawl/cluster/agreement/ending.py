"""The end of a crawl: found by two waves, or ordered; then told to all nodes.

A shard is quiet if its frontier is finished (no fresh link, no lease) and all rows of its outbox
are applied. Its activity is a number that grows with each link put, each lease, each row applied.
The node with shard 0 leads: it asks all nodes (a wave). Each answers, with its shards' activity, if
all of them are quiet and it has no more seeds. If all shards have answered, the leader asks once
more. If all answer with the same numbers, nothing has happened in a shard between its two answers.
All first answers came before all second ones, so there was a moment at which all shards were quiet:
no link was on its way, and none can come.

An answer counts only with the epoch that the shard's record has, and only to the last wave. The
number of a wave is random, so no answer counts for another one, also after a loss of the KV. If
another node becomes the leader, it begins a wave, and that of the old one is void.
A dead node does not answer for its shards: the crawl waits for it.

A wave, an answer and the end are called out to the nodes that they concern, so that none of the
steps waits for the next heartbeat. A call that is lost costs that time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from typing import NamedTuple

from webcrawl.cluster.agreement.records import (
    END,
    QUIET,
    WAVE,
    EndRecord,
    QuietRecord,
    ShardRecord,
    WaveRecord,
    decode,
    encode,
    read,
    write,
)
from webcrawl.cluster.bus import Bus

FINISHED = "finished"
_CALL = "wave"  # subject; and a dot and the ID of a node: the answers to its wave


class Activity(NamedTuple):
    """Of one shard, measured in one turn of its executor."""

    epoch: int
    is_quiet: bool
    number: int


class Ending:
    """One node's part in the waves, and in the end. Memory: a number for each shard.

    on_call -- another node has taken a step: a round at once is right, if this node is quiet
    reason -- why the crawl ends, "" while it goes on
    number -- of that end
    """

    def __init__(self, bus: Bus, node: str, shards: int, random: Random | None = None) -> None:
        self.on_call: Callable[[], None] = lambda: None
        self.reason = ""
        self.number = 0
        self._leader = ""  # of the wave that was seen last
        self._random = random or Random()
        self._bus = bus
        self._node = node
        self._shards = shards
        self._wave = 0  # to which this node answers
        # The last wave that it has answered, and for which shards, in which epochs
        self._answered: tuple[int, dict[int, int]] = (0, {})
        # As a leader: the number of its own last wave, and the answers to the one before
        self._led = 0
        self._first: dict[int, tuple[int, int]] | None = None

    def __repr__(self) -> str:
        return f"<Ending at wave {self._wave}{self.reason and f': {self.reason}'}>"

    async def open(self) -> None:
        """Hear the calls of other nodes. BusError."""
        for subject in (_CALL, f"{_CALL}.{self._node}"):
            await self._bus.subscribe(subject, lambda data: self.on_call())

    async def look(self) -> bool:
        """Read the end and the wave; whether there is one to answer (`answer`). BusError.

        Measure the activities after this call.
        """
        end = await read(self._bus, END, EndRecord)
        self.reason = end.record.reason if end is not None else ""
        self.number = end.record.number if end is not None else 0
        wave = await read(self._bus, WAVE, WaveRecord)
        self._wave, self._leader = (wave.record.number, wave.record.leader) if wave else (0, "")
        return bool(self._wave)

    async def answer(self, shards: Mapping[int, Activity], *, has_seeds: bool) -> None:
        """Answer the wave that `look` has seen, with what was measured since. BusError.

        A node that has seeds, or a shard that is not quiet, does not answer. One that has got or
        given a shard since its answer answers again: else the wave would wait for ever.
        """
        answered = self._wave, {shard: each.epoch for shard, each in shards.items()}
        if answered == self._answered:
            return
        if has_seeds or not all(each.is_quiet for each in shards.values()):
            return
        quiet = {shard: (each.epoch, each.number) for shard, each in shards.items()}
        await self._bus.put(QUIET + self._node, encode(QuietRecord(self._wave, quiet)))
        self._answered = answered
        self._bus.publish(f"{_CALL}.{self._leader}", b"")

    async def lead(self, owners: Mapping[int, ShardRecord], alive: Collection[str]) -> None:
        """Begin a wave, or the end, if it is time. Only the node that uses shard 0. BusError.

        `owners`: the shards' records; `alive`: all nodes that may have seeds or shards.
        """
        first, self._first = self._first, None  # a fault in between voids it
        wave = await read(self._bus, WAVE, WaveRecord)
        if wave is None or wave.record.leader != self._node or wave.record.number != self._led:
            await self._begin(wave.revision if wave is not None else 0)
            return
        answers = await self._answers(owners, alive)
        if answers is None:
            self._first = first
        elif answers == first:
            await self.end(FINISHED)
        elif await self._begin(wave.revision):
            self._first = answers

    async def _begin(self, revision: int) -> bool:
        number = self._random.getrandbits(52) + 1
        begun = await write(self._bus, WAVE, WaveRecord(number, self._node), revision)
        self._led = number if begun else 0
        if begun:
            self._bus.publish(_CALL, b"")
        return bool(begun)

    async def _answers(
        self, owners: Mapping[int, ShardRecord], alive: Collection[str]
    ) -> dict[int, tuple[int, int]] | None:
        """The answers of all shards to this leader's wave, None if some are missing."""
        entries = await self._bus.keys(QUIET)
        answers: dict[int, tuple[int, int]] = {}
        missing = set(alive)
        for key, entry in entries.items():
            node, record = key[len(QUIET) :], decode(key, entry.value, QuietRecord)
            if record.number != self._led:
                continue
            missing.discard(node)
            for shard, (epoch, number) in record.shards.items():
                owner = owners.get(shard)
                if owner is not None and (owner.node, owner.epoch) == (node, epoch):
                    answers[shard] = (epoch, number)
        return answers if not missing and len(answers) == self._shards else None

    async def end(self, reason: str) -> str:
        """End the crawl in all nodes, or learn that another node has. Returns the reason."""
        while not self.reason:
            number = self._random.getrandbits(52) + 1
            if await write(self._bus, END, EndRecord(reason, number), 0):
                self.reason, self.number = reason, number
                self._bus.publish(_CALL, b"")
            else:
                await self.look()
        return self.reason

    async def reopen(self) -> None:
        """A node joins, and no other is alive: an earlier end is over. BusError."""
        end = await read(self._bus, END, EndRecord)
        if end is not None:
            await self._bus.delete(END, end.revision)
        self.reason = ""
