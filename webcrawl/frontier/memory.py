"""The frontier in memory: the whole state of a crawl in this process.

Owns the way of a URL from `put` to its last `release`: caps, queues, admission, retries, drops and
their counts. Where hosts wait is the workbench's; what a delay is, politeness's.

Memory: about 500 bytes a host and 350 a pending URL, 100 a URL ever seen, 250 a distinct content;
none of it is given back before the end. For crawls beyond some ten million URLs use a disk store.

Invariants: `counters.pending` is the number of queued links less those counted ahead; a host is
in one place (host.State); only `_settle` places hosts that are not leased.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from webcrawl.admission.robots import DISALLOW_ALL
from webcrawl.fetch.exchange import TRANSIENT, UNANSWERED
from webcrawl.frontier import workbench
from webcrawl.frontier.base import Frontier, Policy
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
from webcrawl.frontier.seen import SeenSet
from webcrawl.items import Original
from webcrawl.parse.urls import origin_of, target_of

_DROPS_MAX = 2_000  # URLs refused in one `acquire` before it gives way to the event loop


class MemoryFrontier(Frontier):
    """See the module."""

    def __init__(
        self,
        policy: Policy | None = None,
        *,
        ordering: Ordering | None = None,
        caps: Caps | None = None,
    ) -> None:
        self.counters = Counters()
        self._policy = policy or Policy()
        self._polite = self._policy.politeness
        self._ordering = ordering or Level()
        self._caps = caps or Caps()
        self._seen = SeenSet()
        self._contents: dict[bytes, Original] = {}
        self._bench = workbench.Workbench(ip_clocks=self._polite.ip_delay_s > 0)
        self._leases: set[Lease] = set()
        self._queued = 0
        self._arrivals = 0

    def __repr__(self) -> str:
        return f"<MemoryFrontier {self._queued} queued, {len(self._leases)} leased>"

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = 0
        for link in links:
            if self._refused_before_seen(link) or not (self._seen.add(link.url) or force):
                continue
            refused = self._caps.take_url(link.host)
            if refused:
                self.counters.extracted += 1
                self.counters.dropped[refused] += 1
                continue
            self._enqueue(link, now)
            accepted += 1
        return accepted

    async def acquire(self, now: float, limit: int, *, admissions: bool = False) -> list[Lease]:
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
        return leases

    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        for lease, outcome in done:
            self._leases.remove(lease)
            host = self._bench.hosts[lease.host]
            self._stop_clocks(host, lease, outcome)
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
                    await self._fetched(host, lease, outcome, now)
                case Failed():
                    self._failed(host, lease, outcome, now)
                case Dropped():
                    self.counters.dropped[outcome.reason] += 1
                case Returned():
                    self._returned(host, lease, now)
            host.state = State.IDLE
            self._settle(host, now)

    async def first_with(self, content: bytes, original: Original) -> Original | None:
        first = self._contents.setdefault(content, original)
        if original.followed and not first.followed:
            self._contents[content] = first._replace(followed=True)
        return None if first.url == original.url else first  # a page is no copy of itself

    def next_at(self, *, admissions: bool = False) -> float:
        return self._bench.next_at(workbench.ADMISSION if admissions else workbench.PAGES)

    def is_finished(self) -> bool:
        return not self._queued and not self._leases

    async def close(self) -> None:
        """Nothing outlives the process."""

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging."""
        hosts = self._bench.hosts.values()
        assert self._queued == sum(len(host.queue) for host in hosts)
        assert self.counters.pending == self._queued - sum(bool(h.counted_ahead) for h in hosts)
        leased = [host.name for host in hosts if host.state is State.LEASED]
        assert sorted(leased) == sorted(lease.host for lease in self._leases)
        self._bench.audit()

    # Links in

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

    def _enqueue(self, link: Link, now: float, *, front: bool = False) -> None:
        host = self._bench.host(link.host)
        self._arrivals += 1
        priority = self._ordering.priority(link)
        push = host.queue.push_front if front else host.queue.push
        push(priority, Entry(self._arrivals, link))
        self._queued += 1
        self.counters.pending += 1
        if host.state is State.IDLE or (
            host.state in (State.READY, State.PARKED) and self._rank(host) < host.rank
        ):
            self._settle(host, now)

    # Hosts: what each needs next, and so where it waits

    def _rank(self, host: Host) -> int:
        """Place among the ready hosts. Errands for other hosts go first: these wait for them."""
        if not host.queue or (host.errands and host.errands[0].home != host.name):
            return -1
        return self._ordering.rank(host.name, host.queue.peek()[0])

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
        if host.state is State.LEASED:
            return
        step = self._need(host, now)
        if step is None:
            self._bench.idle(host)
            return
        at = host.resolve_at if step is Step.RESOLVE else host.next_at
        if at > now and host.retired_until <= now:
            self._bench.snooze(host, at)
            return
        number = host.queue.peek()[1].number if host.queue else 0
        lane = workbench.PAGES if step is Step.PAGE else workbench.ADMISSION
        self._bench.ready(host, lane, self._rank(host), number)

    # Leases out

    def _lease(self, host: Host, lane: int, now: float) -> Lease | None:
        """A lease on `host`, popped from `lane`; None: a URL was dropped, or it fits elsewhere."""
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
        link = self._take(host, now)
        if link is None:
            return None
        self._bench.lease(host, with_ip=True)
        return Lease(host.name, step, link.url, address, link=link)

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

    def _take(self, host: Host, now: float) -> Link | None:
        """The next link, through the rest of the funnel; None when it is refused and dropped."""
        _, (_, link) = host.queue.pop()
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
            return None
        if link.counted:
            return link
        counters.robots_passed += 1
        return link._replace(counted=True)

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
            known = host.rules[origin_of(link.url)]
            if not known.rules.allows(target_of(link.url)):
                return known.reason or "robots"
        return ""

    # Leases back

    def _stop_clocks(self, host: Host, lease: Lease, outcome: Outcome) -> None:
        """Free the host and its address, each with its clock set from the request just made."""
        asked_at = getattr(outcome, "asked_at", 0.0)
        ended_at = getattr(outcome, "ended_at", 0.0)
        if isinstance(outcome, RobotsFetched):
            self._keep_rules(_errand(lease), Rules(outcome.rules, outcome.expires_at))
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
            home.away.discard(errand.origin)
        else:
            home.away.add(errand.origin)
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
            home.away.discard(errand.origin)
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
            known = Rules(DISALLOW_ALL, until, "robots_unreachable")
        self._keep_rules(errand, known._replace(expires_at=until))

    def _keep_rules(self, errand: Errand, rules: Rules) -> None:
        home = self._home(errand)
        home.away.discard(errand.origin)
        home.rules[errand.origin] = rules
        home.crawl_delay_s = max(r.rules.crawl_delay_s or 0.0 for r in home.rules.values())
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

    async def _fetched(self, host: Host, lease: Lease, outcome: Fetched, now: float) -> None:
        link = lease.link
        assert link is not None
        if lease.step is Step.HEAD and outcome.wanted:
            self._enqueue(link._replace(head_done=True), now, front=True)
            return
        await self.put(outcome.links, now)
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
            self._enqueue(link, now, front=True)
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
            self._enqueue(lease.link, now, front=True)

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
