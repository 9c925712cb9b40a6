"""Fills the bounded workbench with the best hosts; the others wait in the store.

Owns the state and the next step of each host, and the set of hosts that have changed since the last
commit. Knows nothing of outcomes: a module that changes a host then calls `place_host`.

At most `active_max` hosts are active at a time (ready, parked, snoozed or leased). The others wait
in the store, best first. A host competes for its place again after each lease: if a waiting host
has a better URL, the two change places. So the order among active hosts is exact. A better URL on a
waiting host is leased after the next release of any lease, not at once.

A host is deferred if all its links are kept for a later try: it waits in the store until the next
try, and leaves it only while the crawl has other work.

Invariants: a host is in one state (`host.State`); only `place_host` places one that is not leased.
"""

from __future__ import annotations

from math import inf

from webcrawl.frontier.base import SUPPLY_S
from webcrawl.frontier.host import Host, State, real_address
from webcrawl.frontier.lease import (
    FIRST_KEPT,
    FIRST_PRIORITY,
    REQUISITE,
    Lane,
    RobotsTask,
    Step,
)
from webcrawl.frontier.orderings import Ordering
from webcrawl.frontier.state import CoreState
from webcrawl.frontier.store import Numbers
from webcrawl.frontier.workbench import VISITS, Workbench
from webcrawl.parse.urls import origin_of

# Names of the module: an attribute of an enumeration takes 0.1 µs, and each link places its host.
_PAGES, _ADMISSIONS, _REQUISITES = Lane
_TURNS_MAX = 2_000  # hosts taken out of the store in one `wake`, per kind


class Distributor:
    """Places hosts."""

    def __init__(self, state: CoreState) -> None:
        self._state = state
        self._hosts = state.store.hosts
        self._store = state.store
        self._backlog = state.backlog
        self._policy = policy = state.policy
        self._limits_hosts = policy.limits_hosts
        # Else the rank of a host is the priority of its best link.
        has_ranks = type(state.ordering).rank is not Ordering.rank
        self.ranks_hosts = has_ranks or policy.rules is not None
        self._wants_some = type(state.ordering).is_wanted is not Ordering.is_wanted
        self._has_visits = state.store.visits is not None
        polite = policy.politeness
        # The store does not keep the clocks of addresses. An earlier run may have used any address
        # until its end, so each address waits one delay.
        self.bench = Workbench(
            ip_clocks=polite.ip_delay_s > 0,
            ips_at=state.asked_until + polite.ip_delay_s if state.store.resumed else 0.0,
            shared=state.addresses,
        )
        # Some hosts have begun to wait, or were deferred, since the last commit: the store does not
        # return them before the next one.
        self.has_newly_waiting = False
        self._changed: set[Host] = set()  # since the last commit: it stores them
        # In memory, and the next link, or the leased one, is a requisite with FIRST_PRIORITY.
        self.with_requisites: set[Host] = set()
        self.mark_changed = self._changed.add

    def host(self, name: str) -> Host:
        host = self.bench.hosts.get(name)
        return host if host is not None else self._load(name)

    def rank(self, host: Host) -> int:
        """Rank among the ready hosts. Robots tasks for other hosts go first, since they wait."""
        best = host.queue.best
        if best is None or (host.robots_tasks and host.robots_tasks[0].home != host.name):
            return -1
        priority = best[0]
        is_fixed = priority >= FIRST_KEPT or priority == FIRST_PRIORITY
        return self._rank(host, priority) if self.ranks_hosts and not is_fixed else priority

    def _rank(self, host: Host, priority: int) -> int:
        rank = self._state.ordering.rank(host.name, priority)
        rules = self._policy.rules
        if rules is not None and (earlier := rules.of(host.name).priority):
            return min(max(rank - earlier, 0), FIRST_KEPT - 1)
        return rank

    def next_step(self, host: Host, now: float) -> Step | None:
        """The step of the next lease of `host`; None if there is nothing to do for now."""
        policy, queue = self._policy, host.queue
        limits_hosts = self._limits_hosts
        if host.retired_until > now or (limits_hosts and policy.denies_all(host.name)):
            return Step.PAGE if queue.length else None  # `candidates.take` drops or keeps each link
        if not host.robots_tasks and not queue.length:
            return None
        denied = policy.denied
        if denied.has_any and queue.length and denied.matches(queue.peek().url, host.name):
            return Step.PAGE  # as above: a denied host is asked for nothing, robots.txt included
        if limits_hosts and not host.robots_tasks and policy.refuses_next(host, queue.peek()):
            return Step.PAGE  # as above: no request prepares the link
        if host.resolved_until <= now:
            return Step.RESOLVE
        if host.robots_tasks:
            return Step.ROBOTS
        link = queue.peek()
        # If the IP cap refuses the link, robots.txt is not needed.
        is_refused = (
            self._state.caps.per_ip > 0
            and not (link.is_counted or link.has_passed_ip or host.has_ip_slot)
            and self._state.caps.ip_is_full(host.addresses[0])
        )
        if not is_refused and (agent := policy.robots_agent(host.name)) is not None:
            origin = origin_of(link.url)
            known = host.rules.get(origin)
            if known is None or known.expires_at <= now or known.agent != agent:
                if origin in host.robots_elsewhere:
                    return None
                self._state.counters.robots_attempted += 1
                tries = self._policy.retry_times if known is not None and known.losses else 0
                host.add_robots_task(
                    RobotsTask(
                        *(origin, host.name, origin + "/robots.txt"), tries=tries, depth=link.depth
                    )
                )
                return Step.ROBOTS
        if link.sitemap > 0:
            return Step.SITEMAP
        if link.sitemap <= REQUISITE:
            return Step.REQUISITE
        if policy.head_first and not link.head_done and not link.payload:
            return Step.HEAD
        return Step.PAGE

    def link_added(self, host: Host, now: float) -> None:
        """`host` has a new link: place the host again if the link is its best."""
        self._changed.add(host)
        if host.state in (State.IDLE, State.DEFERRED) or (
            host.state in (State.READY, State.PARKED, State.WAITING) and self.rank(host) < host.rank
        ):
            self.place_host(host, now)

    def link_promoted(self, host: Host, place: tuple[int, int], now: float) -> None:
        """A link of `host` has moved up to `place`, (priority, number): it may be the best now."""
        if host.state is State.LEASED:
            self._changed.add(host)
        elif host.queue.best == place:
            self._changed.add(host)
            if host.state is not State.SNOOZED:
                self.place_host(host, now)
        elif host.state in (State.IDLE, State.WAITING, State.DEFERRED):
            self._changed.add(host)  # so the next commit may remove it from memory

    def place_host(self, host: Host, now: float) -> None:
        """Decide the state of `host` and move it there, unless it is leased."""
        self._changed.add(host)
        if host.state is State.LEASED:
            return
        if self.with_requisites:
            self.with_requisites.discard(host)
        if host.kept and (due_at := self._due_at(host)) > now:
            self.bench.defer(host, due_at)
            self.has_newly_waiting = True
            return
        had_task = host.robots_tasks is not None
        step = self.next_step(host, now)
        if step is None:
            self.bench.idle(host)
            return
        rank, best = self.rank(host), host.queue.best
        number = best[1] if best is not None else 0
        is_full = self.bench.active >= self._state.active_max
        if not host.state.is_active and (
            is_full or (self._hosts.waiting.length and self._hosts.best_waiting() < (rank, number))
        ):
            if host.robots_tasks and not had_task:  # with it, the host would stay in memory
                host.robots_tasks = None
                self._state.counters.robots_attempted -= 1
            self.bench.wait(host, rank)
            self.has_newly_waiting = True
            return
        lane: int = _PAGES if step is Step.PAGE else _ADMISSIONS
        if best is not None and best[0] == FIRST_PRIORITY:
            if host.queue.peek().sitemap <= REQUISITE:
                lane = _REQUISITES
                self.with_requisites.add(host)
            elif lane == _PAGES:
                lane = VISITS
        at = host.resolve_at if step is Step.RESOLVE else host.next_at
        supply = self._supply(host, at, now) if step is Step.PAGE else 0
        if at > now and host.retired_until <= now:
            self.bench.snooze(host, at, supply)
            return
        self.bench.ready(host, lane, rank, number, supply)

    def wake(self, now: float) -> None:
        """Place the hosts whose clock is due, and the best waiting hosts while there is room."""
        self._fill(now)
        self._try_deferred(now)
        for woken in self.bench.wake(now):
            self.place_host(woken, now)

    def next_at(self) -> tuple[float, float, float]:
        """By lane, when it may have a host: 0.0 is now; inf is not before a host changes."""
        if not self._backlog.has_work:
            return inf, inf, inf
        bench = self.bench
        if bench.active < self._state.active_max and self._hosts.waiting.length:
            return 0.0, 0.0, 0.0
        due_at = self._hosts.next_due_at()
        pages_at = min(bench.next_at(_PAGES), due_at)
        if self._has_visits:
            pages_at = min(bench.next_at(VISITS), pages_at)
        requisites_at = min(bench.next_at(_REQUISITES), due_at) if self.with_requisites else inf
        return pages_at, min(bench.next_at(_ADMISSIONS), due_at), requisites_at

    def resume(self, now: float) -> None:
        """Place the hosts that were active when an earlier run ended."""
        for name in self._hosts.active_before():
            self.place_host(self.host(name), now)

    def commit(self, numbers: Numbers) -> None:
        """Commit all changes so far to the store: all of them, or nothing."""
        for host in self._store.commit(self._changed, numbers):
            self.bench.forget(host)
            if self.with_requisites:
                self.with_requisites.discard(host)
        self._changed.clear()
        self.has_newly_waiting = False

    def _load(self, name: str) -> Host:
        """A host from the store.

        An earlier run may have asked it until its end. So a host of an earlier run waits its whole
        delay, counted from the beginning of this run.
        """
        host = self._hosts.host(name)
        is_of_earlier_run = host.queue.host_id <= self._hosts.before
        if is_of_earlier_run:
            host.asked_at = max(host.asked_at, self._state.asked_until)
            if not all(map(real_address, host.addresses)):  # this run may have no proxy
                host.addresses, host.resolved_until = (), 0.0
        if is_of_earlier_run or self._policy.rules is not None:  # they may have changed since
            self.apply_delay(host)
        self.bench.add(host)
        return host

    def apply_delay(self, host: Host) -> None:
        """Let `host` wait its present delay from its last request, if that is longer."""
        delay_s = self._policy.delay_s(host)
        host.next_at = max(
            host.next_at, self._policy.politeness.next_at(delay_s, host.asked_at, 0.0)
        )

    def _due_at(self, host: Host) -> float:
        """When a link of `host` may be tried, if all its links are kept; else 0.0."""
        if host.robots_tasks:
            return 0.0
        due_at = self._backlog.due_at(host)
        if due_at and host.deferrals:  # so its links need not be kept again, one by one
            return max(due_at, host.retired_until)
        return due_at

    def _supply(self, host: Host, at: float, now: float) -> int:
        """How many pages `host`, whose clock is due at `at`, can give within SUPPLY_S; of a host
        that the ordering does not want, none counts.
        """
        if at > now + SUPPLY_S or host.retired_until > now:
            return 0
        if self._wants_some and not self._state.ordering.is_wanted(host.name):
            return 0
        left_s = SUPPLY_S - max(at - now, 0.0)
        delay_s = self._policy.delay_s(host)
        queued = host.queue.length
        return min(queued, 1 + int(left_s / delay_s)) if delay_s > 0 else queued

    def _fill(self, now: float) -> None:
        """Make the best waiting hosts active while there is room."""
        turns = _TURNS_MAX
        while turns and self.bench.active < self._state.active_max:
            name = self._hosts.pop_first(self._hosts.waiting)
            if name is None:
                return
            self.place_host(self.host(name), now)
            turns -= 1

    def _try_deferred(self, now: float) -> None:
        """Place the deferred hosts whose time has come, while the crawl has other work."""
        turns = _TURNS_MAX
        while turns and self._backlog.has_work and self._hosts.next_due_at() <= now:
            name = self._hosts.pop_first(self._hosts.deferred)
            assert name is not None
            host = self.host(name)
            if host.state is State.DEFERRED:
                self.place_host(host, now)
            turns -= 1
