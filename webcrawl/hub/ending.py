"""The end of a crawl with several hubs: found by two waves, or ordered; then told to all.

A hub is quiet if its frontier is finished, it has no seeds to read, and all its mail is applied.
Its activity is the sum of the numbers of its mail, sent and applied. Hub 0 asks all hubs (a wave).
A hub answers once it is quiet, with its activity. If all have answered, hub 0 asks once more. If
all answer with the same activity, the crawl has ended:

All first answers came before all second ones. Between its two answers a hub has neither sent nor
applied mail, and what it had sent before was applied. So at a moment between the two waves no mail
was on its way. Since then a hub could only have got work from its own user, and it was quiet again
without mail to another one.

The end of a session with any hub voids the waves. Knows no bus and no clock.
"""

from __future__ import annotations

from typing import Final, Literal

from webcrawl.hub.mesh import Letter

FINISHED: Final = "finished"
STOPPED: Final = "shutdown"  # by `scrapy ctl stop`

Reason = Literal["finished", "shutdown", "closespider_pagecount"]  # the last is TARGET_MET


class Wave(Letter, frozen=True):
    """Hub 0 asks whether the hub is quiet."""

    number: int


class Quiet(Letter, frozen=True):
    """The answer to wave `number`."""

    number: int
    activity: int


class End(Letter, frozen=True):
    """The crawl has ended in all hubs."""

    reason: Reason


class Waves:
    """Hub 0's waves to `hubs` hubs."""

    def __init__(self, hubs: int) -> None:
        self._hubs = hubs
        self._number = 0
        self._answers: dict[int, int] | None = None  # to the wave that is out; None: none is
        self._first: dict[int, int] = {}  # to the wave before, from all hubs

    def __repr__(self) -> str:
        answers = "none is out" if self._answers is None else f"{len(self._answers)} answers"
        return f"<Waves {self._number}: {answers}>"

    def void(self) -> None:
        self._answers, self._first = None, {}

    def answer(self, hub: int, quiet: Quiet) -> None:
        if self._answers is not None and quiet.number == self._number:
            self._answers[hub] = quiet.activity

    def step(self) -> Wave | Literal["finished"] | None:
        """The next wave, if it is time for one; or the end. Call it if hub 0 is quiet itself."""
        if self._answers is not None and len(self._answers) < self._hubs:
            return None
        answers = self._answers or {}
        if answers and answers == self._first:
            return FINISHED
        self._first, self._answers = answers, {}
        self._number += 1
        return Wave(self._number)
