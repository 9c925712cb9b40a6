"""The end is found although shards change their node within a wave."""

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
