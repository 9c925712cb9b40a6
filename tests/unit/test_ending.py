"""The end of a crawl on several machines, as its nodes see it."""

from __future__ import annotations

import asyncio

from webcrawl.cluster.ending import FINISHED, Ending
from webcrawl.cluster.memorybus import MemoryHub


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
