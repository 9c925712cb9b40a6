"""A fetcher waits for the hub of its crawl, and is told how to crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from msgspec import DecodeError

from webcrawl.base.wording import printable
from webcrawl.cluster.bus import Bus, BusError, Refused
from webcrawl.cluster.packets import (
    ASK,
    SAY_TICKS,
    TICK_S,
    Ask,
    Brief,
    BriefPart,
    encode,
    read_brief,
    read_by_fetcher,
    subject_of,
)
from webcrawl.cluster.records import CRAWL, CrawlRecord, read, refuse_other_version

T = TypeVar("T")

RETRY_S = 1.0  # between two tries to reach the bus


class CrawlEndedError(Exception):
    """The crawl on the bus has ended: one line."""


async def open_bus(bus: Bus, say: Callable[[str], None]) -> None:
    """Connect, also to a bus that is not there yet. Refused."""
    await answered(bus.open, say)


async def answered(ask: Callable[[], Awaitable[T]], say: Callable[[str], None]) -> T:
    """What `ask` returns, once the bus answers. Refused."""
    said = ""
    while True:
        try:
            return await ask()
        except Refused:
            raise
        except BusError as error:
            if str(error) != said:
                said = str(error)
                say(f"{said}: it is waited for")
            await asyncio.sleep(RETRY_S)


async def wait_for_brief(bus: Bus, fetcher: str, version: str, say: Callable[[str], None]) -> Brief:
    """Ask the hub until it answers. Refused; CrawlEndedError.

    Memory: a brief. Parts of another one take the place of those so far.
    """
    answer: asyncio.Future[Brief] = asyncio.get_running_loop().create_future()
    parts: dict[int, BriefPart] = {}

    def receive(data: bytes) -> None:
        with suppress(DecodeError):
            part = read_by_fetcher(data)
            if not isinstance(part, BriefPart) or answer.done():
                return
            if any(each.settings_hash != part.settings_hash for each in parts.values()):
                parts.clear()
            parts[part.number] = part
            if len(parts) >= part.count:
                data = b"".join(parts.pop(number).data for number in sorted(parts))
                answer.set_result(read_brief(data))

    await bus.subscribe(subject_of(fetcher), receive)
    tick = 0
    while not answer.done():
        waits_for = "the hub"
        try:
            await _look_at_crawl(bus, version)
        except Refused:
            raise
        except BusError as error:
            waits_for = f"the bus ({error})"
        if tick % SAY_TICKS == 1:
            say(f"waits for {waits_for}")
        tick += 1
        bus.publish(ASK, encode(Ask(fetcher)))
        await asyncio.wait([answer], timeout=TICK_S)
    return answer.result()


async def _look_at_crawl(bus: Bus, version: str) -> None:
    crawl, _ = await read(bus, CRAWL, CrawlRecord)
    if crawl is None:
        return
    if crawl.end:
        line = f"the crawl {crawl.id} has ended ({crawl.end}): nothing to fetch"
        raise CrawlEndedError(printable(line))
    refuse_other_version(crawl, version)
