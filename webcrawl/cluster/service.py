"""The hub's side of a crawl on several machines: holds the hub's record, and serves fetchers.

Runs its rounds: one renews the record, which may wait for the bus, and one ticks; one of several
hubs has more. Neither this process nor a fetcher sends a request while the record is not known to
be there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from webcrawl.cluster.bus import Bus, BusError, Refused, cancel_all, repeat
from webcrawl.cluster.packets import TICK_S
from webcrawl.cluster.peers import Peers
from webcrawl.cluster.records import Ownership
from webcrawl.cluster.sessions import Sessions
from webcrawl.cluster.several import SeveralHubs
from webcrawl.cluster.streams import Clock

logger = logging.getLogger(__name__)

CHECK_S = 2.0  # between two renewals of the record


class HubService:
    """Runs `ownership`, `sessions`, and `several` if there are other hubs, from `join` on.

    allow -- told until when this process may send requests
    refuse -- told why this process must end
    """

    def __init__(
        self,
        bus: Bus,
        ownership: Ownership,
        sessions: Sessions,
        several: SeveralHubs | None = None,
        *,
        allow: Callable[[float], None],
        refuse: Callable[[str], None],
        clock: Clock,
    ) -> None:
        self.sessions = sessions
        self._several = several
        self._served: list[Sessions | Peers] = [sessions, *([several.peers] if several else [])]
        self._bus = bus
        self._ownership = ownership
        self._allow = allow
        self._refuse = refuse
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._is_away = False  # the bus, and it was said

    def __repr__(self) -> str:
        return f"<HubService {self._ownership!r}, {self.sessions!r}>"

    def start(self) -> None:
        """Send no request from now on, until the record is there."""
        self._serve_until(self._clock())
        self._bus.on_lost = self._on_lost
        several = self._several
        rounds = [(CHECK_S, self.check), (TICK_S, self.tick), *(several.rounds if several else ())]
        works = [*(repeat(*each) for each in rounds), *(each.open() for each in self._served)]
        self._tasks = [asyncio.create_task(work) for work in works]

    async def check(self) -> None:
        try:
            until = await self._ownership.check()
        except Refused as refusal:
            self._serve_until(self._clock())
            self._refuse(str(refusal))
            self._tasks[0].cancel()
        except BusError as error:  # what the last check allowed, runs out
            if not self.sessions.serves and not self._is_away:
                self._is_away = True
                logger.warning(
                    "The bus does not answer: no request is sent until it does: %s", error
                )
        else:
            if self._is_away:
                self._is_away = False
                logger.warning("The bus answers again")
            self._serve_until(max(until, self._clock()))

    def tick(self) -> None:
        for each in self._served:
            each.tick()

    async def close(self, reason: str) -> None:
        """The crawl has ended in this process, and its frontier is closed."""
        await cancel_all(self._tasks)
        if self._several is not None and self._tasks:
            await self._several.close()
        is_free = await self.sessions.close()
        try:
            await self._ownership.end(reason, is_free=is_free)
        except BusError as error:
            line = "The bus did not hear of the end: fetchers wait until this hub runs again: %s"
            logger.warning(line, error)

    def _on_lost(self) -> None:
        self._serve_until(self._clock())
        for each in self._served:
            each.end_all()

    def _serve_until(self, until: float) -> None:
        for each in self._served:
            each.serves_until = until
        self._allow(until)
