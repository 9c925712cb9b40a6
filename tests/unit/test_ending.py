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


def test_each_step_is_called_out_to_the_nodes_that_it_concerns() -> None:
    """So the end does not wait for heartbeats."""

    async def check() -> None:
        hub = MemoryHub()
        owners = {0: ShardRecord("a", 1), 1: ShardRecord("b", 1), 2: ShardRecord("c", 1)}
        rounds: dict[str, int] = dict.fromkeys("abc", 0)
        endings: dict[str, Ending] = {}
        called = asyncio.Queue[str]()
        for name in rounds:
            await (bus := hub.bus()).open()
            endings[name] = ending = Ending(bus, name, 3)
            ending.on_call = lambda name=name: called.put_nowait(name)  # type: ignore[misc]
            await ending.open()
        called.put_nowait("a")
        while not all(each.reason for each in endings.values()):
            name = await asyncio.wait_for(called.get(), 5)
            rounds[name] += 1
            if await endings[name].look():
                shard = "abc".index(name)
                await endings[name].answer({shard: Activity(1, True, 7)}, has_seeds=False)
            if name == "a":
                await endings[name].lead(owners, list(rounds))
        assert max(rounds["b"], rounds["c"]) <= 4

    asyncio.run(check())
