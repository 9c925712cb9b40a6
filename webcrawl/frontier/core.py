"""The frontier's core: the way of a URL from `put` to its last `release`.

Owns caps, admission, retries, drops and their counts, as plain calls in one thread; whoever calls
says what time it is. Where hosts wait is the workbench's, what a delay is politeness's, and what is
kept where the store's.

Hosts on the workbench are bounded: at most `active_max` are active at a time, the others wait in
the store, best first. A host takes its place anew after each lease: where one that waits has a
better URL, they change places. So of the active hosts the order is exact, and a better URL on a
waiting host comes up one release of any lease later, not at once.

Invariants: `counters.pending` is the number of queued links less those counted ahead; a host is
in one place (host.State); only `_settle` places hosts that are not leased.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from webcrawl.fetch.exchange import TRANSIENT, UNANSWERED
from webcrawl.frontier import workbench
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.host import Host, Rules, State
from webcrawl.frontier.lease import (
    Dropped,
    Errand,
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.orderings import Level, Ordering
from webcrawl.frontier.queue import Entry
from webcrawl.frontier.store import Numbers, Store
from webcrawl.items import Original
from webcrawl.parse.urls import origin_of, target_of

_DROPS_MAX = 2_000  # URLs refused in one `acquire` before it gives way to the event loop


class CrawlState:
    """See the module. After an exception of its store it must not be used any more."""

    def __init__(
        self,
        store: Store,
        policy: Policy | None = None,
        *,
        ordering: Ordering | None = None,
        caps: Caps | None = None,
        active_max: int = sys.maxsize,
        now: float = 0.0,
    ) -> None:
        self.counters = Counters()
        self._store = store
        self._policy = policy or Policy()
        self._polite = self._policy.politeness
        self._ordering = ordering or Level()
        self._ordering.pages = store.counts("pages")
        self._caps = caps or Caps()
        self._caps.counts = store.counts("caps")
        self._active_max = active_max
        self._began_at = now
        # An address that an earlier run asked was asked before now: it waits as for a request.
        self._bench = workbench.Workbench(
            self._load,
            ip_clocks=self._polite.ip_delay_s > 0,
            ips_at=now + self._polite.ip_delay_s if store.resumed else 0.0,
        )
        self._leases: set[Lease] = set()
        self._touched: set[Host] = set()  # changed since the last commit
        self._newly_waiting = False  # some of them wait for a place
        self._fresh: dict[bytes, Original] = {}  # contents of pages that are still leased
        self._fresh_of: dict[str, tuple[bytes, Original]] = {}  # what each of them tells, by URL
        self._queued = 0
        self._arrivals = 0
        self._resume(now)

    def __repr__(self) -> str:
        return f"{self._queued} queued, {len(self._leases)} leased"

    # The frontier's interface; see `base.Frontier`

    def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = self._put(links, now, force=force)
        self._commit(now)
        return accepted

    def acquire(self, now: float, limit: int, *, admissions: bool = False) -> list[Lease]:
        self._fill_places(now)
        for woken in self._bench.wake(now):
            self._settle(woken, now)
        lane = workbench.ADMISSION if admissions else workbench.PAGES
        leases: list[Lease] = []
        drops_left = _DROPS_MAX
        while len(leases) < limit and drops_left:
            host = self._bench.pop(lane, now)
            if host is None:
                break
            if self._rank(host) > host.rank:  # others have become better since it was placed
                self._settle(host, now)
                continue
            lease = self._lease(host, lane, now)
            if lease is None:
                drops_left -= 1
                self._settle(host, now)
                self._bench.pass_on(host, now)
            else:
                self._leases.add(lease)
                leases.append(lease)
        # A lease that is lost comes up again; a drop is final, and who waits is in line from a
        # commit on.
        if self._newly_waiting or drops_left < _DROPS_MAX:
            self._commit(now)
        return leases

    def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        for lease, outcome in done:
            self._release(lease, outcome, now)
        self._commit(now)

    def first_with(self, content: bytes, original: Original) -> Original | None:
        first = self._fresh.get(content) or self._store.original(content)
        known = first or original
        if original.followed and not known.followed:
            known = known._replace(followed=True)
        if known is not first:
            self._fresh[content] = known
            self._fresh_of[original.url] = content, known
        return None if first is None or first.url == original.url else first

    def next_at(self, *, admissions: bool = False) -> float:
        if self._bench.active < self._active_max and self._store.best_waiting() is not None:
            return 0.0
        return self._bench.next_at(workbench.ADMISSION if admissions else workbench.PAGES)

    def is_finished(self) -> bool:
        return not self._queued and not self._leases

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging."""
        hosts = self._store.all_hosts(self._bench.hosts)
        assert self._queued == sum(len(host.queue) for host in hosts)
        assert self.counters.pending == self._queued - sum(bool(h.counted_ahead) for h in hosts)
        leased = [host.name for host in hosts if host.state is State.LEASED]
        assert sorted(leased) == sorted(lease.host for lease in self._leases)
        self._bench.audit()

    # From run to run

    def _commit(self, now: float) -> None:
        """Have the store keep everything up to here, at once or not at all."""
        for host in self._store.commit(self._touched, lambda: self._numbers(now)):
            self._bench.forget(host)
        self._touched.clear()
        self._newly_waiting = False

    def _numbers(self, now: float) -> Numbers:
        """The counts as they are for the next run, which finds leased links in line."""
        out = sum(lease.link is not None for lease in self._leases)
        counters = self.counters.to_dict()
        counters["pending"] += out
        counters["earlier_s"] += now - self._began_at
        return {"queued": self._queued + out, "arrivals": self._arrivals, "counters": counters}

    def _resume(self, now: float) -> None:
        numbers = self._store.numbers
        if numbers:
            self._queued, self._arrivals = numbers["queued"], numbers["arrivals"]
            self.counters.restore(numbers["counters"])
        for name in self._store.active_before():
            self._settle(self._bench.host(name), now)
        if self._newly_waiting:
            self._commit(now)

    def _load(self, name: str) -> Host:
        """A host from the store. One of an earlier run was asked at the end of it, for all we know:
        it waits its whole delay, counted from the beginning of this one."""
        host = self._store.host(name)
        if self._store.is_of_earlier_run(host):
            host.asked_at = max(host.asked_at, self._began_at)
            delay_s = self._polite.host_delay_s(host.crawl_delay_s)
            host.next_at = max(host.next_at, self._began_at + delay_s)
        return host

    # Links in

    def _put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = 0
        for link in links:
            if self._refused_before_seen(link) or not (self._store.add_url(link.url) or force):
                continue
            refused = self._caps.take_url(link.host)
            if refused:
                self.counters.extracted += 1
                self.counters.dropped[refused] += 1
                continue
            self._enqueue(link, now)
            accepted += 1
        return accepted

    def _refused_before_seen(self, link: Link) -> bool:
        """Limits on the way a link was reached: by another way the URL may still come in."""
        policy = self._policy
        if policy.depth_max and link.depth > policy.depth_max:
            self.counters.dropped["depth"] += 1
        elif link.redirects > policy.redirects_max:
            self.counters.dropped["redirects"] += 1
        else:
            return False
        return True

    def _enqueue(self, link: Link, now: float, number: int = 0) -> None:
        """Queue `link`; one that comes back to where it was brings its `number`."""
        host = self._bench.host(link.host)
        push = host.queue.push_front if number else host.queue.push
        if not number:
            number = self._arrivals = self._arrivals + 1
        push(self._ordering.priority(link), Entry(number, link))
        self._touched.add(host)
        self._queued += 1
        self.counters.pending += 1
        if host.state is State.IDLE or (
            host.state in (State.READY, State.PARKED, State.WAITING)
            and self._rank(host) < host.rank
        ):
            self._settle(host, now)

    # Hosts: what each needs next, and so where it waits

    def _rank(self, host: Host) -> int:
        """Place among the ready hosts. Errands for other hosts go first: these wait for them."""
        if not host.queue or (host.errands and host.errands[0].home != host.name):
            return -1
        return self._ordering.rank(host.name, host.queue.best()[0])

    def _need(self, host: Host, now: float) -> Step | None:
        """The step `host` is to be leased for; None when there is nothing to do for now."""
        if host.retired_until > now:
            return Step.PAGE if host.queue else None  # each is dropped as it comes up
        if not host.errands and not host.queue:
            return None
        if host.resolved_until <= now:
            return Step.RESOLVE
        if host.errands:
            return Step.ROBOTS
        link = host.queue.peek()[1].link
        if self._policy.obey_robots and not self._ip_exhausted(host):
            origin = origin_of(link.url)
            known = host.rules.get(origin)
            if known is None or known.expires_at <= now:
                if origin in host.away:
                    return None
                self.counters.robots_attempted += 1
                host.add_errand(Errand(origin, host.name, origin + "/robots.txt"))
                return Step.ROBOTS
        if self._policy.head_first and not link.head_done and not link.payload:
            return Step.HEAD
        return Step.PAGE

    def _ip_exhausted(self, host: Host) -> bool:
        """The IP cap lets no further link of `host` pass, so its robots.txt is not asked for."""
        return host.counted_ahead < 2 and self._caps.ip_is_full(host.addresses[0])

    def _settle(self, host: Host, now: float) -> None:
        """Put a host that is not leased where it belongs."""
        self._touched.add(host)
        if host.state is State.LEASED:
            return
        step = self._need(host, now)
        if step is None:
            self._bench.idle(host)
            return
        rank, number = self._rank(host), host.queue.best()[1] if host.queue else 0
        if host.state in (State.IDLE, State.WAITING) and not self._has_place(rank, number):
            self._bench.wait(host, rank)
            self._newly_waiting = True
            return
        at = host.resolve_at if step is Step.RESOLVE else host.next_at
        if at > now and host.retired_until <= now:
            self._bench.snooze(host, at)
            return
        lane = workbench.PAGES if step is Step.PAGE else workbench.ADMISSION
        self._bench.ready(host, lane, rank, number)

    def _has_place(self, rank: int, number: int) -> bool:
        """Whether a host with this best link may be active: there is room and no better one."""
        if self._bench.active >= self._active_max:
            return False
        best = self._store.best_waiting()
        return best is None or (rank, number) <= best

    def _fill_places(self, now: float) -> None:
        """Make the best of the waiting hosts active while there is room."""
        turns = _DROPS_MAX
        while turns and self._bench.active < self._active_max:
            name = self._store.next_waiting()
            if name is None:
                return
            self._settle(self._bench.host(name), now)
            turns -= 1

    # Leases out

    def _lease(self, host: Host, lane: int, now: float) -> Lease | None:
        """A lease on `host`, popped from `lane`; None: a URL was dropped, or it fits elsewhere."""
        self._touched.add(host)
        step = self._need(host, now)
        if step is None or (step is Step.PAGE) != (lane == workbench.PAGES):
            return None
        if step is Step.RESOLVE:
            return self._lease_resolve(host, now)
        address = host.addresses[0] if host.addresses else ""
        if step is Step.ROBOTS:
            assert host.errands
            errand = host.errands.popleft()
            self._bench.lease(host, with_ip=True)
            return Lease(host.name, step, errand.url, address, errand=errand)
        entry = self._take(host, now)
        if entry is None:
            return None
        number, link = entry
        self._bench.lease(host, with_ip=True)
        return Lease(host.name, step, link.url, address, link, number=number)

    def _lease_resolve(self, host: Host, now: float) -> Lease:
        if host.queue and not host.counted_ahead and not host.queue.peek()[1].link.counted:
            host.counted_ahead = 1
            self.counters.pending -= 1
            self.counters.extracted += 1
            self.counters.host_passed += 1
        if not (host.addresses or host.resolve_tries or host.is_literal):
            self.counters.lookups += 1
        self._bench.lease(host, with_ip=False)
        self._bench.pass_on(host, now)
        return Lease(host.name, Step.RESOLVE, "", "")

    def _take(self, host: Host, now: float) -> Entry | None:
        """The next link, through the rest of the funnel; None when it is refused and dropped."""
        priority, (number, link) = host.queue.pop()
        self._queued -= 1
        counters = self.counters
        ahead = 2
        if not link.counted:
            ahead, host.counted_ahead = host.counted_ahead, 0
        if link.counted or not ahead:
            counters.pending -= 1
        if not ahead:
            counters.extracted += 1
            counters.host_passed += 1
        refused = self._refused(host, link, ahead, now)
        if refused:
            counters.dropped[refused] += 1
            host.queue.drop(priority, number)
            return None
        if not link.counted:
            counters.robots_passed += 1
            link = link._replace(counted=True)
            host.queue.keep(priority, Entry(number, link))
        return Entry(number, link)

    def _refused(self, host: Host, link: Link, ahead: int, now: float) -> str:
        """Why `link` may not be fetched; "" if it may. Counts the IP test."""
        if host.retired_until > now:
            return host.retired_reason
        if ahead < 2:
            refused = self._caps.take_ip(host.addresses[0])
            if refused:
                return refused
            self.counters.ip_passed += 1
        if self._policy.obey_robots:
            origin = origin_of(link.url)
            if host.rules[origin].reason:
                return host.rules[origin].reason
            if not self._store.rules(origin).allows(target_of(link.url)):
                return "robots"
        return ""

    # Leases back

    def _release(self, lease: Lease, outcome: Outcome, now: float) -> None:
        self._leases.remove(lease)
        host = self._bench.hosts[lease.host]
        self._stop_clocks(host, lease, outcome)
        if lease.link is not None:
            host.queue.drop(self._ordering.priority(lease.link), lease.number)
            self._keep_content(lease.url, outcome)
        match outcome:
            case Resolved():
                self._resolved(host, outcome)
            case Unresolved():
                self._unresolved(host, outcome, now)
            case RobotsFetched():
                self._robots_known(_errand(lease), outcome, now)
            case RobotsMoved():
                self._robots_moved(_errand(lease), outcome, now)
            case RobotsUnreachable():
                self._robots_unreachable(host, _errand(lease), outcome, now)
            case Fetched():
                self._fetched(host, lease, outcome, now)
            case Failed():
                self._failed(host, lease, outcome, now)
            case Dropped():
                self.counters.dropped[outcome.reason] += 1
            case Returned():
                self._returned(host, lease, now)
        self._bench.idle(host)
        self._settle(host, now)

    def _keep_content(self, url: str, outcome: Outcome) -> None:
        """A content is kept with the end of its page's lease, so both are in the next run."""
        if url not in self._fresh_of:
            return
        content, known = self._fresh_of.pop(url)
        self._fresh.pop(content, None)
        if isinstance(outcome, Fetched):
            first = self._store.original(content) or known
            followed = first.followed or known.followed
            self._store.keep_original(content, first._replace(followed=followed))

    def _stop_clocks(self, host: Host, lease: Lease, outcome: Outcome) -> None:
        """Free the host and its address, each with its clock set from the request just made."""
        asked_at = getattr(outcome, "asked_at", 0.0)
        ended_at = getattr(outcome, "ended_at", 0.0)
        if isinstance(outcome, RobotsFetched):
            delay_s = outcome.rules.crawl_delay_s or 0.0
            self._store.keep_rules(_errand(lease).origin, outcome.rules)
            self._keep_rules(_errand(lease), Rules(outcome.expires_at, delay_s))
        polite = self._polite
        host.asked_at = max(host.asked_at, asked_at)
        delay_s = polite.host_delay_s(host.crawl_delay_s)
        host.next_at = max(host.next_at, polite.next_at(delay_s, asked_at, ended_at))
        ip_next_at = polite.next_at(polite.ip_delay_s, asked_at, ended_at)
        self._bench.vacate(host, with_ip=lease.step is not Step.RESOLVE, ip_next_at=ip_next_at)
        if isinstance(outcome, Fetched | RobotsFetched | RobotsMoved):
            host.failures = host.dead_addresses = 0

    def _resolved(self, host: Host, outcome: Resolved) -> None:
        if not (host.addresses or host.is_literal):
            self.counters.resolved += 1
        host.addresses = outcome.addresses
        host.resolved_until = outcome.expires_at
        host.resolve_tries = host.dead_addresses = 0
        self._bench.bind(host, outcome.addresses[0])
        if host.counted_ahead == 1 and not self._caps.take_ip(outcome.addresses[0]):
            host.counted_ahead = 2
            self.counters.ip_passed += 1

    def _unresolved(self, host: Host, outcome: Unresolved, now: float) -> None:
        host.resolve_tries += 1
        if outcome.again and host.resolve_tries <= self._policy.retry_times:
            self.counters.retried[outcome.reason] += 1
            host.resolve_at = now + self._polite.backoff_s(host.resolve_tries, 0.0)
            return
        host.resolve_tries = 0
        if host.addresses and outcome.again:  # House: stale is better than none (RFC 8767)
            host.resolved_until = now + self._policy.retired_s
            return
        self._retire(host, outcome.reason, now)

    def _robots_known(self, errand: Errand, outcome: RobotsFetched, now: float) -> None:
        self.counters.robots[outcome.kind] += 1
        self._settle(self._home(errand), now)

    def _robots_moved(self, errand: Errand, outcome: RobotsMoved, now: float) -> None:
        home, target = self._home(errand), self._bench.host(outcome.host)
        target.add_errand(errand._replace(url=outcome.url, redirects=errand.redirects + 1))
        if target is home:
            home.away -= {errand.origin}
        else:
            home.away |= {errand.origin}
            if target.retired_until > now:
                self._flush_errands(target, now)
        self._settle(target, now)

    def _robots_unreachable(
        self, host: Host, errand: Errand, outcome: RobotsUnreachable, now: float
    ) -> None:
        home = self._home(errand)
        if self._try_next_address(host, outcome.reason):
            host.add_errand(errand)
            return
        tries = errand.tries + 1
        self._back_off(home, tries, outcome.ended_at, outcome.retry_after_s)
        if tries <= self._policy.retry_times:
            self.counters.retried["robots"] += 1
            home.away -= {errand.origin}
            url = errand.origin + "/robots.txt"
            home.add_errand(Errand(errand.origin, errand.home, url, tries=tries))
        else:
            self._robots_lost(errand, outcome.reason, now)
        self._settle(home, now)

    def _robots_lost(self, errand: Errand, reason: str, now: float) -> None:
        """Nobody can say what the origin allows: for a while, what it said last or nothing."""
        self.counters.robots[reason] += 1
        until = now + self._policy.robots_again_s
        known = self._home(errand).rules.get(errand.origin)
        if known is None or known.reason:
            known = Rules(until, reason="robots_unreachable")
        self._keep_rules(errand, known._replace(expires_at=until))

    def _keep_rules(self, errand: Errand, rules: Rules) -> None:
        home = self._home(errand)
        home.away -= {errand.origin}
        home.rules[errand.origin] = rules
        home.crawl_delay_s = max(rules.crawl_delay_s for rules in home.rules.values())
        delay_s = self._polite.host_delay_s(home.crawl_delay_s)
        home.next_at = max(home.next_at, self._polite.next_at(delay_s, home.asked_at, 0.0))

    def _home(self, errand: Errand) -> Host:
        """The host whose robots.txt an errand is for."""
        return self._bench.host(errand.home)

    def _back_off(
        self, host: Host, tries: int, ended_at: float, retry_after_s: float = 0.0
    ) -> None:
        """Leave `host` alone for a while after the `tries`-th failure, or as it asked."""
        polite = self._polite
        wait_s = polite.backoff_s(tries, polite.host_delay_s(host.crawl_delay_s))
        wait_s = max(wait_s, min(retry_after_s, polite.retry_after_max_s))
        host.next_at = max(host.next_at, ended_at + wait_s)

    def _fetched(self, host: Host, lease: Lease, outcome: Fetched, now: float) -> None:
        link = lease.link
        assert link is not None
        if lease.step is Step.HEAD and outcome.wanted:
            self._enqueue(link._replace(head_done=True), now, lease.number)
            return
        self._put(outcome.links, now)
        if outcome.status in self._policy.retry_codes and self._retry_answer(host, link, outcome):
            self.counters.retried[str(outcome.status)] += 1
            self._enqueue(link._replace(retries=link.retries + 1), now)
            return
        self.counters.count_code(outcome.status)
        self._ordering.visited(host.name)

    def _retry_answer(self, host: Host, link: Link, outcome: Fetched) -> bool:
        """Whether an answer that may change is asked for again; the host backs off either way."""
        self._back_off(host, link.retries + 1, outcome.ended_at, outcome.retry_after_s)
        return (
            link.retries < self._policy.retry_times
            and outcome.retry_after_s <= self._polite.retry_after_max_s
        )

    def _failed(self, host: Host, lease: Lease, outcome: Failed, now: float) -> None:
        link = lease.link
        assert link is not None
        self.counters.failed[outcome.reason] += 1
        host.failures += 1
        if host.failures >= self._policy.failures_max:
            self._retire(host, "host_retired", now)
        if self._try_next_address(host, outcome.reason):
            self._enqueue(link, now, lease.number)
            return
        if outcome.reason in TRANSIENT and link.retries < self._policy.retry_times:
            self._back_off(host, link.retries + 1, outcome.ended_at)
            self.counters.retried[outcome.reason] += 1
            self._enqueue(link._replace(retries=link.retries + 1), now)
        else:
            self.counters.dropped[outcome.reason] += 1

    def _try_next_address(self, host: Host, reason: str) -> bool:
        """Turn to the next address of `host`; True when that is a try for nothing.

        Which it is where nobody answered at an address, until each was tried once (RFC 8305, 5).
        An address that the IP cap refuses is passed over.
        """
        addresses = host.addresses
        for turn in range(1, len(addresses)):
            if not self._caps.take_ip(addresses[turn]):
                host.addresses = addresses[turn:] + addresses[:turn]
                host.dead_addresses += turn
                self._bench.bind(host, addresses[turn])
                return reason in UNANSWERED and host.dead_addresses < len(addresses)
        return False

    def _returned(self, host: Host, lease: Lease, now: float) -> None:
        if lease.step is Step.ROBOTS:
            host.add_errand(_errand(lease))
        elif lease.link is not None:
            self._enqueue(lease.link, now, lease.number)

    def _retire(self, host: Host, reason: str, now: float) -> None:
        """Give `host` up for a while: its links are dropped as they come up, so are new ones."""
        host.failures = 0
        host.retired_reason = reason
        host.retired_until = now + self._policy.retired_s
        self._flush_errands(host, now)

    def _flush_errands(self, host: Host, now: float) -> None:
        """Errands for others cannot be run at a host that is given up."""
        errands, host.errands = host.errands or (), None
        for errand in errands:
            self._robots_lost(errand, host.retired_reason, now)
            home = self._home(errand)
            if home is not host:
                self._settle(home, now)


def _errand(lease: Lease) -> Errand:
    assert lease.errand is not None
    return lease.errand
