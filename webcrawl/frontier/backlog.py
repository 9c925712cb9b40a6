"""Counts queued links, and those of them that are kept for a later try.

A link that failed for a reason that may pass (a time-out, a refused connection, a name server that
did not answer, an unreachable robots.txt) is kept: it stays in its host's queue, behind all other
links and ordered by the time of its next try. Kept links are tried only while the crawl has other
work, and a crawl ends when only kept links are left. They become ordinary links, still behind the
other links of their host, when their host answers again after it was retired, and in the next run.

Owns the positions of kept links. In their priority the highest of 32 bits marks a kept link. The
other bits are the host's epoch, which grows when the host's kept links become ordinary: so links
kept in an earlier epoch come first. In their number the upper half is the time of the next try, in
seconds since the run began.

Memory: nothing per link; a small dict per host on the workbench that has kept links. On disk a kept
link has one row, as any queued link.
"""

from __future__ import annotations

from collections.abc import Collection
from math import ceil
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import FIRST_KEPT, Link

_HALF: Final = 32  # bits of a number


def was_kept(priority: int) -> bool:
    """Whether a link at `priority` is kept, or was in an earlier epoch."""
    return priority >= FIRST_KEPT


def is_kept(priority: int, host: Host) -> bool:
    """Whether a link of `host` at `priority` is kept for a later try."""
    return priority == FIRST_KEPT | host.epoch


def due_s(number: int) -> float:
    """The time of the next try of a kept link: seconds since the beginning of its run."""
    return float(number >> _HALF)


def begin_epoch(host: Host) -> None:
    """Make the kept links of `host` ordinary links."""
    if host.kept:
        host.epoch += 1
        host.kept = None


class Backlog:
    """Counts queued links and kept links. `began_at`: the beginning of this run (monotonic).

    `is_recrawl`: the pages of the cycle (`counters.in_cycle`) are visited again. `foreign_tasks`:
    the robots tasks of hosts of other hubs, for hosts of ours.
    """

    def __init__(
        self,
        counters: Counters,
        began_at: float,
        *,
        is_recrawl: bool = False,
        foreign_tasks: Collection[str] = (),
    ) -> None:
        self.queued = 0
        self.arrivals = 0  # links ever queued: the last number in the order of arrival
        self._is_recrawl = is_recrawl
        self._foreign_tasks = foreign_tasks
        self._counters = counters
        self._began_at = began_at
        self._kept = 0

    @property
    def lasts(self) -> bool:
        """Whether pages will be visited again: the crawl does not end."""
        return self._is_recrawl and self._counters.in_cycle > 0

    @property
    def fresh(self) -> int:
        """Queued links that are not kept, and foreign robots tasks.

        The crawl continues while there are any.
        """
        return self.queued - self._kept + len(self._foreign_tasks)

    @property
    def has_work(self) -> bool:
        """Whether the crawl has work other than kept links."""
        is_fresh = self.queued + len(self._foreign_tasks) > self._kept  # `fresh`, without its call
        return is_fresh or self.lasts

    def resume(self, queued: int, arrivals: int) -> None:
        """Take over the counts of an earlier run, whose kept links are ordinary links now."""
        self.queued, self.arrivals = queued, arrivals
        self._counters.kept.clear()

    def next_number(self) -> int:
        self.arrivals += 1
        return self.arrivals

    def place(self, host: Host, due_at: float) -> tuple[int, int]:
        """(priority, number) for a link of `host` that is kept until `due_at`."""
        seconds = ceil(max(due_at - self._began_at, 0.0))
        order = self.next_number() & (1 << _HALF) - 1
        return FIRST_KEPT | host.epoch, seconds << _HALF | order

    def due_at(self, host: Host) -> float:
        """When the best link of `host` may be tried; 0.0 if there is none, or it is not kept."""
        best = host.queue.best
        if best is None or not is_kept(best[0], host):
            return 0.0
        return self._began_at + due_s(best[1])

    def enters(self, host: Host, priority: int, link: Link) -> None:
        """Count `link` of `host`, which enters the queue at `priority`."""
        self.queued += 1
        if is_kept(priority, host):
            self._count_kept(host, link.kept, 1)

    def leaves(self, host: Host, priority: int, link: Link) -> None:
        """Count `link` of `host`, which leaves the queue."""
        self.queued -= 1
        if is_kept(priority, host):
            self._count_kept(host, link.kept, -1)

    def host_answers(self, host: Host) -> None:
        """`host` answers again: its kept links become ordinary links."""
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
