"""The end of a crawl on several machines, as its nodes see it."""

from __future__ import annotations

import asyncio

from webcrawl.cluster.ending import FINISHED, Activity, Ending
from webcrawl.cluster.memorybus import MemoryHub
from webcrawl.cluster.records import ShardRecord

QUIET = Activity(1, is_quiet=True, number=7)


def test_a_node_that_gets_a_shard_answers_the_wave_again() -> None:
    async def run() -> None:
        bus = MemoryHub().bus()
        await bus.open()
        node = Ending(bus, "a", 2)
        owners = {0: ShardRecord("a", 1), 1: ShardRecord("b", 1)}
        await node.lead(owners, ["a"])
        assert await node.look()
        await node.answer({0: QUIET}, has_seeds=False)
        assert not await node.look(), "it has answered"
        owners[1] = ShardRecord("a", 2, "b")
        node.answer_again()
        for _ in range(2):
            assert await node.look()
            assert not node.reason
            shards = {0: QUIET, 1: QUIET._replace(epoch=2)}
            await node.answer(shards, has_seeds=False)
            await node.lead(owners, ["a"])
        assert node.reason == FINISHED

    asyncio.run(run())


def test_each_end_has_a_number_of_its_own() -> None:
    """So a node that was killed before it saw the end knows that it has not carried it out."""

    async def check() -> None:
        hub = MemoryHub()
        buses = hub.bus(), hub.bus()
        for bus in buses:
            await bus.open()
        first, second = (Ending(bus, name, 1) for bus, name in zip(buses, "ab", strict=True))
        numbers = set()
        for _ in range(2):
            await first.end(FINISHED)
            await second.look()
            assert (second.reason, second.number) == (FINISHED, first.number)
            assert second.number
            numbers.add(second.number)
            await first.reopen()
        assert len(numbers) == 2

    asyncio.run(check())
