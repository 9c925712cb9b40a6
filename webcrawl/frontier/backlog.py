"""How many links are in line, and how many of these are only kept for a later try.

A link that failed in a way that may pass (a time-out, a refused connection, a name server that did
not answer, an unreachable robots.txt) is kept: it stays in its host's queue, behind all others and
ordered by the time of its next try. A crawl ends when only kept links are left. They are tried
while it has other work. When their host answers again after it was given up for a while, or in the
next run, they are links like any other, still behind the others of their host.

Owns the places of kept links. Of their priority the highest of 32 bits marks them, and the others
are the host's epoch, which grows when its links are kept no longer: so what was kept before comes
first. Of their number the upper half is the time of the next try, in seconds since the run began.

Memory: none for each link, a small dict for a host that has any on the workbench. A kept link takes
the row that any link in line takes on disk.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import FIRST_KEPT, Link

_HALF: Final = 32  # bits of a number


def was_kept(priority: int) -> bool:
    """Whether a link at `priority` is kept, or was."""
    return priority >= FIRST_KEPT


def is_kept(priority: int, host: Host) -> bool:
    """Whether a link of `host` at `priority` is kept for a later try."""
    return priority == FIRST_KEPT | host.epoch


def due_s(number: int) -> float:
    """Seconds from the beginning of the run that keeps a link, as `number`, to its next try."""
    return float(number >> _HALF)


def begin_epoch(host: Host) -> None:
    """From now on nothing of `host` is kept."""
    if host.kept:
        host.epoch += 1
        host.kept = None


class Backlog:
    """See the module. `began_at` is the beginning of this run (monotonic)."""

    def __init__(self, counters: Counters, began_at: float) -> None:
        self.queued = 0
        self.arrivals = 0  # links that ever got in line; each is a place in the order of arrival
        self._counters = counters
        self._began_at = began_at
        self._kept = 0

    @property
    def fresh(self) -> int:
        """Links in line that are not kept: the crawl goes on for these."""
        return self.queued - self._kept

    def resume(self, queued: int, arrivals: int) -> None:
        """Go on with what an earlier run left: nothing of it is kept any more."""
        self.queued, self.arrivals = queued, arrivals
        self._counters.kept.clear()

    def next_number(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def place(self, host: Host, due_at: float) -> tuple[int, int]:
        """(priority, number) of a link of `host` that is kept until `due_at`."""
        seconds = ceil(max(due_at - self._began_at, 0.0))
        order = self.next_number() & (1 << _HALF) - 1
        return FIRST_KEPT | host.epoch, seconds << _HALF | order

    def due_at(self, host: Host) -> float:
        """When the best link of `host` may be tried; 0.0 if it is not kept."""
        priority, number = host.queue.best()
        return self._began_at + due_s(number) if is_kept(priority, host) else 0.0

    def enters(self, host: Host, priority: int, link: Link) -> None:
        """`link` of `host` gets in line at `priority`."""
        self.queued += 1
        if is_kept(priority, host):
            self._count_kept(host, link.kept, 1)

    def leaves(self, host: Host, priority: int, link: Link) -> None:
        """`link` of `host` is out of line."""
        self.queued -= 1
        if is_kept(priority, host):
            self._count_kept(host, link.kept, -1)

    def host_answers(self, host: Host) -> None:
        """`host` answers again: nothing of it is kept any more."""
        for reason, count in (host.kept or {}).items():
            self._kept -= count
            self._counters.kept[reason] -= count
        begin_epoch(host)

    def _count_kept(self, host: Host, reason: str, change: int) -> None:
        self._kept += change
        self._counters.kept[reason] += change
        kept = host.kept or {}
        kept[reason] = kept.get(reason, 0) + change
        if not kept[reason]:
            del kept[reason]
        host.kept = kept or None
