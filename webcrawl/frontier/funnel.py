"""The funnel: what a link passes on its way in and out of line, and how that is counted.

On its way in: depth, redirects, the URL-seen test, the caps. On its way out: the host's standing,
the IP cap, robots.txt. A link that a host is admitted for counts ahead of its turn.

Invariant: `counters.pending` is the number of queued links less those counted ahead.
"""

from __future__ import annotations

from collections.abc import Iterable

from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import Link
from webcrawl.frontier.orderings import Ordering
from webcrawl.frontier.placement import Placement
from webcrawl.frontier.queue import Entry
from webcrawl.frontier.store import Store
from webcrawl.parse.urls import origin_of, target_of


class Funnel:
    """See the module."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        ordering: Ordering,
        caps: Caps,
        counters: Counters,
        placement: Placement,
    ) -> None:
        self._store = store
        self._policy = policy
        self._ordering = ordering
        self._caps = caps
        self._counters = counters
        self._placement = placement
        self.robots_steps = 0  # of all checks, see `RobotsRules.check_steps`
        self.queued = 0
        self.arrivals = 0

    # In

    def put(
        self, links: Iterable[Link], now: float, *, cash: float | None = None, force: bool = False
    ) -> int:
        """Queue those of `links` that are new and not refused; how many.

        `cash` is what the page that they are on gives to each, known ones too.
        """
        accepted = 0
        links = [link for link in links if not self._refused_before_seen(link)]
        added = self._store.add_urls([link.url for link in links])
        for link, new in zip(links, added, strict=True):
            if not new:
                if cash is not None:
                    self._pay(link, cash, now)
                if not force:
                    continue
                self._ordering.forfeit(link)  # it may be in line, and begins anew
            refused = self._caps.take_url(link.host)
            if refused:
                self._counters.extracted += 1
                self._count_drop(link, refused, now)
                continue
            self._enqueue(link, now, cash)
            accepted += 1
        return accepted

    def put_back(self, host: Host, link: Link, now: float) -> None:
        """A leased link gets in line where it was."""
        host.queue.put_back(link)
        self._queued_one(host, now)

    def put_again(self, host: Host, link: Link, now: float) -> None:
        """A leased link gets in line for another try, at the end."""
        host.queue.drop()
        self._enqueue(link._replace(retries=link.retries + 1), now)

    def _enqueue(self, link: Link, now: float, cash: float | None = None) -> None:
        host = self._placement.host(link.host)
        number = self.arrivals = self.arrivals + 1
        host.queue.push(self._ordering.enter(link, number, cash), Entry(number, link))
        self._queued_one(host, now)

    def _queued_one(self, host: Host, now: float) -> None:
        self.queued += 1
        self._counters.pending += 1
        self._placement.queued(host, now)

    def _pay(self, link: Link, cash: float, now: float) -> None:
        """`link` is known. If it is in line, this may move it there."""
        move = self._ordering.pay(link, cash)
        if move is not None:
            priority, number, better = move
            host = self._placement.host(link.host)
            host.queue.promote(priority, number, better)
            self._placement.promoted(host, (better, number), now)

    def _refused_before_seen(self, link: Link) -> bool:
        reason = self._policy.refuses_way(link)
        if reason:
            self._counters.dropped[reason] += 1
        return bool(reason)

    # Out

    def count_ahead(self, host: Host) -> None:
        """`host` is looked up for its next link, which so passes the host test."""
        if host.queue and not host.counted_ahead and not host.queue.peek()[1].link.counted:
            host.counted_ahead = 1
            self._counters.pending -= 1
            self._counters.extracted += 1
            self._counters.host_passed += 1

    def count_address_ahead(self, host: Host) -> None:
        """`host` was looked up: its next link passes the IP test, if the cap lets it."""
        if host.counted_ahead == 1 and not self._caps.take_ip(host.addresses[0]):
            host.counted_ahead = 2
            self._counters.ip_passed += 1

    def take(self, host: Host, now: float) -> tuple[Link, str] | None:
        """The next link, through the rest of the funnel; None when it is refused and dropped.

        A user's Request comes with why it is refused: somebody waits to hear of it.
        """
        _, entry = host.queue.pop()
        link = entry.link
        self.queued -= 1
        counters = self._counters
        ahead = 2
        if not link.counted:
            ahead, host.counted_ahead = host.counted_ahead, 0
        if link.counted or not ahead:
            counters.pending -= 1
        if not ahead:
            counters.extracted += 1
            counters.host_passed += 1
        refused = self._refused(host, link, ahead, now)
        if refused and not link.payload:
            self.drop(host, link, refused, now)
            return None
        if not link.counted:
            counters.robots_passed += not refused
            link = link._replace(counted=True)
            host.queue.keep(link)
        return link, refused

    def drop(self, host: Host, link: Link, reason: str, now: float) -> None:
        """`link`, which was taken, is not fetched."""
        self._ordering.forfeit(link)
        self._count_drop(link, reason, now)
        host.queue.drop()

    def _count_drop(self, link: Link, reason: str, now: float) -> None:
        self._counters.dropped[reason] += 1
        self._store.keep_fate(link, reason, now)

    def _refused(self, host: Host, link: Link, ahead: int, now: float) -> str:
        """Why `link` may not be fetched; "" if it may. Counts the IP test."""
        if host.retired_until > now:
            return host.retired_reason
        if ahead < 2:
            refused = self._caps.take_ip(host.addresses[0])
            if refused:
                return refused
            self._counters.ip_passed += 1
        if self._policy.obey_robots:
            origin = origin_of(link.url)
            known = host.rules[origin]
            if known.reason:
                return known.reason
            if not known.allows_all:
                rules, target = self._store.rules(origin), target_of(link.url)
                self.robots_steps += rules.check_steps(target)
                if not rules.allows(target):
                    return "robots"
        return ""
