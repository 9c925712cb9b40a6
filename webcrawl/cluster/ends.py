"""The end of a crawl with several hubs: a letter to all, and a record for a hub that is away.

Each end has a number of its own, so a hub that was cut off knows that one came while it ran. The
next run of the crawl takes no end back, and needs not: it has seen the number when it began.
"""

from __future__ import annotations

from typing import Final, Literal

from msgspec import Struct, json

from webcrawl.cluster.bus import Bus
from webcrawl.cluster.packets import Letter
from webcrawl.cluster.records import read

KEY: Final = "end"
FINISHED: Final = "finished"
STOPPED: Final = "shutdown"  # by `scrapy ctl stop`

Reason = Literal["finished", "shutdown", "closespider_pagecount"]  # the last is TARGET_MET


class End(Letter, frozen=True):
    """The crawl has ended in all hubs."""

    reason: Reason


class EndRecord(Struct, frozen=True):
    number: int
    reason: Reason


class Ends:
    """The ends that one process has seen."""

    def __init__(self, bus: Bus) -> None:
        self._bus = bus
        self._known: int | None = None  # the number of the last one

    def __repr__(self) -> str:
        return f"<Ends {self._known}>"

    async def look(self) -> Reason | None:
        """Why the crawl has ended since the first look; None if it has not. BusError."""
        found, _ = await read(self._bus, KEY, EndRecord)
        number = found.number if found is not None else 0
        if self._known is None or number <= self._known:  # lost records begin again at 0
            self._known = number
            return None
        self._known = number
        return found.reason if found is not None else None

    async def declare(self, reason: Reason) -> None:
        """Write an end. BusError."""
        while True:
            found, revision = await read(self._bus, KEY, EndRecord)
            number = max(found.number if found is not None else 0, self._known or 0) + 1
            record = json.encode(EndRecord(number, reason))
            if await self._bus.put(KEY, record, revision) is not None:
                self._known = number
                return
