"""Decides which answers count towards the crawl's target, CLOSESPIDER_PAGECOUNT.

An answer counts only if it has one of the target's places. The frontier gives places to processes
(`frontier.shared.server`); this module gives the places of this process to the answers that come
first.

At the end of a target some pages are slow. Then other pages are requested beside them. If slow
pages leave no room for a request, they are cut, and their leases are held back so that their URLs
are not requested again until nothing else is under way.

Invariant: answers that have a place and are not released are at most `frontier.places`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.lease import Lease, Outcome

# A page is slow after this time, and after so many times the usual one.
_SLOW_S = 1.0
_SLOW_TIMES = 3.0
_STEP = 1.05  # of the usual time, up or down with each answer: so it follows their median


class Target:
    """The places of this process. Without a target there is one for every answer."""

    def __init__(self, frontier: Frontier, placed: set[Lease], cuts_max: int) -> None:
        self._frontier = frontier
        self._placed = placed  # leases that have a place; `frontier.outbox` removes them
        self._usual_s = 0.1  # from a lease to its answer
        self._cuts_left = cuts_max  # in this run; later slow pages are waited for
        self._being_cut: set[PageFetch] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()  # answers that wait for a place
        self.is_held = False  # while the target is changed, no answer gets a place
        self.held_back: list[tuple[Lease, Outcome]] = []  # of pages that were cut

    @property
    def placed(self) -> int:
        """How many answers have a place and are not released."""
        return len(self._placed)

    @property
    def is_waited_for(self) -> bool:
        """Whether an answer waits for a place."""
        return bool(self._waiting)

    def counts(self, page_fetch: PageFetch, now: float) -> bool:
        """Whether the answer to `page_fetch` has a place, or gets one now."""
        places = self._frontier.places
        if places is None or page_fetch.lease in self._placed:
            return True
        if self.is_held or len(self._placed) >= places:
            return False
        self._placed.add(page_fetch.lease)
        is_long = now - page_fetch.begun_at > self._usual_s
        self._usual_s *= _STEP if is_long else 1 / _STEP
        return True

    async def wait(self) -> None:
        """Wait until a place may be free. An answer with a place gives it up if it is retried."""
        place = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        await place

    def wake(self, *, everyone: bool) -> None:
        """Make waiting answers check again: one per free place, or `everyone`."""
        if not self._waiting:
            return
        free = (self._frontier.places or 0) - len(self._placed)
        for _ in range(len(self._waiting) if everyone else free):
            if self._waiting:
                place = self._waiting.popleft()
                if not place.done():  # its task was cancelled
                    place.set_result(None)

    def slow(self, under_way: Iterable[PageFetch], now: float) -> list[PageFetch]:
        """Pages `under_way` that have taken much longer than usual and have no place."""
        before = now - max(_SLOW_S, _SLOW_TIMES * self._usual_s)
        late = (each for each in under_way if each.begun_at < before)
        return [
            each for each in late if each not in self._being_cut and each.lease not in self._placed
        ]

    def cut(self, slow: list[PageFetch]) -> frozenset[str]:
        """Choose the pages of `slow` to cut. Returns their URLs."""
        chosen = slow[: self._cuts_left]
        self._cuts_left -= len(chosen)
        self._being_cut.update(chosen)
        return frozenset(each.lease.url for each in chosen)

    def ended(self, page_fetch: PageFetch) -> bool:
        """Note the end of `page_fetch`; whether it was being cut."""
        was_cut = page_fetch in self._being_cut
        self._being_cut.discard(page_fetch)
        return was_cut

    def take_held_back(self) -> list[tuple[Lease, Outcome]]:
        held, self.held_back = self.held_back, []
        return held
