"""How many links are in line, and how many of these are only kept for a later try.

A link that failed in a way that may pass (a time-out, a refused connection, a name server that did
not answer, an unreachable robots.txt) is kept: it stays in its host's queue, behind all others and
ordered by the time of its next try. A crawl ends when only kept links are left. They are tried
while it has other work; the next run takes all of them up at once.

Owns the priorities of kept links. A priority has 32 bits: the highest marks a kept link, ten are
the number of the run that keeps it, and 21 the time of its next try, in steps of two seconds since
that run began. So what an earlier run kept comes before what this one does.

Memory: none for each link. A kept link takes the row that any link in line takes on disk.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import Link

_KEPT: Final = 1 << 31
_RUN_MAX: Final = (1 << 10) - 2  # a rank is a priority and one more, in 32 bits too
_STEP_S: Final = 2.0
_STEPS_MAX: Final = (1 << 21) - 1  # 48 days


def is_kept(priority: int) -> bool:
    """Whether a link at `priority` was kept, by this run or an earlier one."""
    return priority >= _KEPT


def due_s(priority: int) -> float:
    """Seconds from the beginning of the run that keeps a link to its next try."""
    return (priority & _STEPS_MAX) * _STEP_S


class Backlog:
    """See the module. `run` counts from 0; `began_at` is the beginning of this one (monotonic)."""

    def __init__(self, counters: Counters, run: int, began_at: float) -> None:
        self.queued = 0
        self.arrivals = 0  # links that ever got in line; each is a place in the order of arrival
        self.run = run
        self._counters = counters
        self._began_at = began_at
        self._kept = 0
        self._earlier = 0  # arrivals of earlier runs

    @property
    def fresh(self) -> int:
        """Links in line that are not kept: the crawl goes on for these."""
        return self.queued - self._kept

    def resume(self, queued: int, arrivals: int) -> None:
        """Go on with what an earlier run left: nothing of it is kept any more."""
        self.queued, self.arrivals = queued, arrivals
        self._earlier = arrivals
        self._counters.kept.clear()

    def next_number(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def priority(self, due_at: float) -> int:
        """That of a link that is kept until `due_at`."""
        steps = min(ceil(max(due_at - self._began_at, 0.0) / _STEP_S), _STEPS_MAX)
        return _KEPT | min(self.run, _RUN_MAX) << 21 | steps

    def due_at(self, priority: int, number: int) -> float:
        """When the link at (priority, number) may be tried; 0.0 if it is not kept."""
        if priority < _KEPT or number <= self._earlier:
            return 0.0
        return self._began_at + due_s(priority)

    def enters(self, priority: int, number: int, reason: str) -> None:
        """A link gets in line at (priority, number); `reason` says why it is kept if it is."""
        self.queued += 1
        if priority >= _KEPT and number > self._earlier:
            self._kept += 1
            self._counters.kept[reason] += 1

    def leaves(self, priority: int, number: int, link: Link) -> None:
        """`link` is out of line."""
        self.queued -= 1
        if priority >= _KEPT and number > self._earlier:
            self._kept -= 1
            self._counters.kept[link.kept] -= 1
