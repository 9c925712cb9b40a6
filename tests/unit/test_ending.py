"""The end of a crawl on several machines, as its nodes see it."""

from __future__ import annotations

import asyncio

from tests.contracts.memorybus import MemoryHub
from webcrawl.cluster.agreement.ending import FINISHED, Activity, Ending
from webcrawl.cluster.agreement.records import ShardRecord


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


def test_a_node_that_gets_its_shards_after_its_answer_answers_again() -> None:
    """As after a loss of the bus's records, when a node uses its shards only once it is sure."""

    async def check() -> None:
        bus = MemoryHub().bus()
        await bus.open()
        ending = Ending(bus, "a", 1)
        owners, quiet = {0: ShardRecord("a", 1)}, {0: Activity(1, True, 7)}
        await ending.lead(owners, ["a"])
        for held in ({}, {}, quiet, quiet, quiet, quiet):
            if await ending.look():
                await ending.answer(held, has_seeds=False)
            await ending.lead(owners, ["a"])
        assert ending.reason == FINISHED

    asyncio.run(check())
