"""The frontier's core: leads each URL from `put` to its last `release`.

Owns leases, commits, and the numbers that the next run reads. Plain calls in one thread; the time
is an argument. `candidates` tests and counts links, `distributor` places hosts, `outcomes` has
the effect of an outcome, `visits` says which pages are fetched again, and `store` keeps the state.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import groupby
from math import inf
from typing import Unpack

from webcrawl.crawllog.files import CrawlLog, LogError
from webcrawl.frontier.base import Policy
from webcrawl.frontier.candidates import Candidates
from webcrawl.frontier.caps import GIVEN
from webcrawl.frontier.contents import Contents
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.disposition import Disposition
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.host import Host, State
from webcrawl.frontier.lease import (
    REQUISITE,
    Lane,
    Lease,
    Link,
    Outcome,
    Returned,
    Seen,
    Step,
    Text,
)
from webcrawl.frontier.mailbox import FoundLink, Mail, Mailbox, Packed, RobotsAnswered
from webcrawl.frontier.nearduplicates import NearDuplicates
from webcrawl.frontier.outcomes import Outcomes
from webcrawl.frontier.overview import Overview, overview_of
from webcrawl.frontier.state import CoreState, Given
from webcrawl.frontier.store import Numbers, StoreError
from webcrawl.frontier.visits import Visits
from webcrawl.frontier.workbench import VISITS
from webcrawl.scope.hostrules import HostRule
from webcrawl.warc.records import Original

_DROPS_MAX = 2_000  # URLs dropped in one `acquire`, before the event loop runs other tasks
_ROBOTS_STEPS_MAX = 20_000_000  # robots.txt check steps in one `acquire`: 10 ms and one check
_DROPS_OF_A_HOST = 100  # URLs dropped per host in one `acquire`, before other hosts go first
_DELETIONS_MAX = 2_000  # rows of mail deleted between two commits: they are held in memory
_RETRIED_HOSTS = 500  # hosts read in one call of `retry`


class CrawlState:
    """The state of a crawl. It must not be used after an exception of its store."""

    def __init__(
        self,
        store: Store,
        policy: Policy | None = None,
        *,
        log: CrawlLog | None = None,
        **given: Unpack[Given],
    ) -> None:
        """`log`: the crawl log."""
        self._state = state = CoreState(store, policy or Policy(), log, **given)
        self._store = store
        self._log = log
        self.counters = state.counters
        self._mailbox = state.mailbox
        self._backlog = state.backlog
        self._committed_at = now = state.began_at
        self._unsaved_deletions = 0  # of rows of mail
        self._leases: dict[Lease, float] = {}  # and when each was leased: the first is the oldest
        # Answers that earlier runs, or processes that died, have archived since then (UTC) may lack
        # their line in the log.
        self.unlogged_since: float = self._store.numbers.get("unlogged", inf)
        if not self._store.resumed:
            self.unlogged_since = self._store.created_time
        self._links_out = 0  # leases with a link
        self._is_ended = False
        self._contents = Contents(store)
        self._near = NearDuplicates(store)
        self._languages = store.languages if state.policy.languages else None
        self._distributor = Distributor(state)
        self._bench = self._distributor.bench
        self.with_requisites = self._distributor.with_requisites
        if store.visits is not None:
            state.visits = Visits(state, self._distributor)
        self._visits = state.visits
        self._disposition = Disposition(state, self._distributor)
        self._candidates = Candidates(state, self._distributor)
        self._outcomes = Outcomes(state, self._candidates, self._disposition)
        self.failed_seeds = self._candidates.failed_seeds
        self._resume(now)

    def __repr__(self) -> str:
        return f"{self._backlog.queued} queued, {len(self._leases)} leased"

    # The frontier's interface; see `base.Frontier`

    def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        accepted = self._candidates.put(links, now, force=force)
        self._commit(now)
        return accepted

    def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        if not self._backlog.has_work:  # kept links are tried only beside other work
            return []
        distributor = self._distributor
        if self._visits is not None:
            self._queue_visits(self._visits, now)
        distributor.wake(now)
        leases: list[Lease] = []
        drops_left = _DROPS_MAX
        drops: dict[Host, int] = {}
        steps_end = self._candidates.robots_steps + _ROBOTS_STEPS_MAX
        left, takes_turns = limit, self._visits is not None and lane is Lane.PAGES
        while left > 0 and drops_left and self._candidates.robots_steps < steps_end:
            host = self._next_page(now) if takes_turns else self._bench.pop(lane, now)
            if host is None:
                break
            # Its rank has become worse since it was placed: by an ordering of hosts.
            if distributor.ranks_hosts and distributor.rank(host) > host.rank:
                distributor.place_host(host, now)
                continue
            lease = self._lease(host, lane, now)
            if lease is None:
                drops_left -= 1
                drops[host] = drops.get(host, 0) + 1
                if drops[host] < _DROPS_OF_A_HOST:
                    distributor.place_host(host, now)
                self._bench.unpark_next(host, now)
            else:
                self._leases[lease] = now
                self._links_out += lease.link is not None
                leases.append(lease)
                left -= 1
        for host, count in drops.items():
            if count == _DROPS_OF_A_HOST:
                distributor.place_host(host, now)
        # Drops and newly waiting hosts must be committed; leases need not be: the next run leases
        # the same URL again.
        kept = self._candidates.keep_refused(now)
        if distributor.has_newly_waiting or drops_left < _DROPS_MAX or kept:
            self._commit(now)
        return leases

    def _queue_visits(self, visits: Visits, now: float) -> None:
        """Queue the pages that are due for a visit, in a commit: a queue on disk reads only rows
        that are committed."""
        links = visits.due(now)
        for link in links:
            self._candidates.put_visit(link, now)
        if links or visits.has_moved:
            self._commit(now)

    def _next_page(self, now: float) -> Host | None:
        """Pop the best host for a page. New pages and visits take turns."""
        assert self._visits is not None
        lanes = (VISITS, Lane.PAGES) if self._visits.turns.is_visits else (Lane.PAGES, VISITS)
        return self._bench.pop(lanes[0], now) or self._bench.pop(lanes[1], now)

    def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        for lease, outcome in done:
            self._release(lease, outcome, now)
        self._commit(now)

    def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        near = self._near.first(original.url, text) if text is not None else ""
        return self._contents.content_seen(content, original), near

    def next_at(self) -> tuple[float, float, float]:
        """`Frontier.next_at` of each lane."""
        by_lane = self._distributor.next_at()
        if self._visits is None:
            return by_lane
        visits_at = self._visits.next_at()
        return min(by_lane[0], visits_at), min(by_lane[1], visits_at), by_lane[2]

    def overview(self, now: float, limit: int) -> Overview:
        stored, slow = self._store.hosts.stored(), self._outcomes.slow
        return overview_of(self._bench.hosts, stored, slow, now, limit)

    @property
    def undated(self) -> int:
        """See `Visits.undated`."""
        return self._visits.undated if self._visits is not None else 0

    @property
    def supply(self) -> int:
        return self._bench.supply

    def is_finished(self) -> bool:
        return not (self._backlog.fresh or self._leases or self._backlog.lasts)

    def set_rules(self, rules: Sequence[HostRule], now: float) -> None:
        """Follow `rules` from now on. Hosts in the store follow them when they are loaded."""
        in_force = self._state.policy.rules
        assert in_force is not None, "the crawl began without RULES"
        hosts = list(self._bench.hosts.values())
        has_changed = in_force.change_since(in_force.of)
        in_force.replace(rules)
        for host in hosts:
            if has_changed(host.name):
                self._distributor.apply_delay(host)
                self._disposition.flush_denied(host, now)
                self._distributor.place_host(host, now)
        self._commit(now)

    def retry(self, reasons: Container[str], after: bytes, now: float) -> tuple[int, bytes | None]:
        """Queue the links that are kept for one of `reasons` again, as new links.

        One call handles _RETRIED_HOSTS hosts behind the key `after`. Returns the number of links,
        and the key for the next call; None at the end.
        """
        count = 0
        names, following = self._store.hosts.with_kept(reasons, after, _RETRIED_HOSTS)
        for name in names:
            host = self._distributor.host(name)
            moved = self._candidates.retry_kept(host, reasons, now)
            if moved:
                host.clear_failures()
                self._distributor.place_host(host, now)
            count += moved
        self._commit(now)
        return count, following

    # Between the hubs of a crawl; see `mailbox`

    @property
    def outbox(self) -> dict[int, tuple[int, int]]:
        """By hub: the numbers of the first mail that is kept for it, and of the last one ever."""
        return dict(self._mailbox.outbox) if self._mailbox is not None else {}

    @property
    def inbox(self) -> dict[int, int]:
        """By hub: the number of its last mail that was applied."""
        return dict(self._mailbox.inbox) if self._mailbox is not None else {}

    @property
    def fresh(self) -> int:
        """Queued URLs that are not kept, and foreign robots tasks. 1 if there are none, but visits
        to come."""
        return self._backlog.fresh or int(self._backlog.lasts)

    def receive_each(self, batches: Iterable[tuple[int, int, Sequence[Mail]]], now: float) -> None:
        """Apply each (sender, number of the last mail, mail) in turn, in one commit."""
        mailbox = self._own_mailbox()
        before = dict(mailbox.inbox)
        new = [each for batch in batches for each in mailbox.new_of(*batch)]
        for terms, part in groupby(new, _terms):
            if terms is None:
                for each in part:
                    assert not isinstance(each, FoundLink)
                    self._disposition.received(each, now)
                    if isinstance(each, RobotsAnswered):
                        self._outcomes.put_sitemaps(each.robots_task, each.read(), now)
            else:
                cash, force = terms
                links = [each.link for each in part if isinstance(each, FoundLink)]
                self._candidates.receive(links, cash, now, force=force)
        if mailbox.inbox != before:
            self._commit(now)

    def sync(self) -> dict[int, int]:
        """The inbox, as it is on the disk from now on, whatever fails."""
        self._commit(self._committed_at)
        self._store.sync()
        return self.inbox

    def packed(self, hub: int, after: int, limit: int, limit_bytes: int) -> Packed:
        """See `Mailbox.packed`."""
        return self._own_mailbox().packed(hub, after, limit, limit_bytes)

    def sent(self, hub: int, upto: int) -> None:
        """`hub` has all mail up to number `upto`, for good."""
        self._unsaved_deletions += self._own_mailbox().sent(hub, upto)
        if self._unsaved_deletions >= _DELETIONS_MAX:
            self._commit(self._committed_at)

    def give_pages(
        self, returned: Mapping[str, int], wanted: Iterable[str], cap: int, most: int
    ) -> dict[str, int]:
        """Count URLs at the addresses `wanted`, for any hub: `most` each, and `cap` in all.

        By address, how many. `returned` were counted and not used. On the disk when this returns.
        """
        counts, given = self._store.counts("caps"), {}
        for address, pages in returned.items():
            counts[GIVEN + address] = counts.get(GIVEN + address, 0) - pages
        for address in wanted:
            before = counts.get(GIVEN + address, 0)
            given[address] = max(min(cap - before, most), 0)
            counts[GIVEN + address] = before + given[address]
        self.sync()
        return given

    def keep_command(self, row: bytes) -> None:
        """Keep a command of the user for later runs. On the disk when this returns."""
        self._store.keep_command(row)
        self.sync()

    def _own_mailbox(self) -> Mailbox:
        assert self._mailbox is not None, "this frontier is not one of several hubs"
        return self._mailbox

    def audit(self) -> None:
        """Assert the invariants. O(hosts): for tests and debugging."""
        hosts = self._store.hosts.every(self._bench.hosts)
        queued = self._backlog.queued
        assert queued == sum(host.queue.length for host in hosts)
        kept = sum(sum((host.kept or {}).values()) for host in hosts)
        tasks = self._mailbox.robots_tasks if self._mailbox is not None else ()
        assert self._backlog.fresh == queued - kept + len(tasks)
        assert self.counters.kept.total() == kept
        assert self.counters.pending == queued
        leased = [host.name for host in hosts if host.state is State.LEASED]
        assert sorted(leased) == sorted(lease.host for lease in self._leases)
        assert self._links_out == sum(lease.link is not None for lease in self._leases)
        stored = self._store.hosts.stored()
        states = [host.state for host in hosts]
        counted = (len(hosts), states.count(State.WAITING), states.count(State.DEFERRED))
        assert stored == counted
        self._bench.audit()
        self._state.ordering.audit()

    # From run to run

    def _commit(self, now: float) -> None:
        if self._log is not None:
            try:
                self._log.flush()
            except LogError as error:
                raise StoreError(str(error)) from None
        if self._mailbox is not None:
            self._mailbox.write()
        self._distributor.commit(self._numbers(now))
        self._committed_at, self._unsaved_deletions = now, 0

    def _numbers(self, now: float) -> Numbers:
        """The counts for the next run, in which the links that are leased now are queued."""
        out = self._links_out
        counters = self.counters.to_dict()
        counters["pending"] += out
        counters["earlier_s"] += now - self._state.began_at
        # A run without a log leaves the end of the log as it was: a later run cuts the file there.
        place = self._log.place if self._log is not None else self._store.numbers.get("log")
        log = {"log": place} if place else {}
        if (since := self._unlogged_since(now)) < inf:
            log["unlogged"] = since
        mail = {"mail": self._mailbox.numbers()} if self._mailbox is not None else {}
        visits = self._visits.numbers() if self._visits is not None else None
        return {
            **log,
            **mail,
            **({"visits": visits} if visits is not None else {}),
            "utc": now,
            "began": self._state.began_at,
            "queued": self._backlog.queued + out,
            "arrivals": self._backlog.arrivals,
            "counters": counters,
            "ordering": self._state.ordering.numbers(),
        }

    def _unlogged_since(self, now: float) -> float:
        """`unlogged_since` for the next run: answers of leases that are out have no line either,
        nor have those of later leases.
        """
        if self._is_ended:
            return self.unlogged_since
        for leased_at in self._leases.values():
            now = leased_at
            break
        since = now + self._state.utc_s
        return min(self.unlogged_since, since)

    def logged_until(self, now: float) -> float:
        """See `Frontier.logged_until`. A release is committed before the next batch."""
        if self._log is not None and self.unlogged_since < inf:
            return -inf
        return next(iter(self._leases.values()), now)

    def log_lost(self, lines: Sequence[bytes]) -> None:
        """See `Frontier.log_lost`."""
        assert self._log is not None, "the caller has looked for lines in it"
        for line in lines:
            self._log.add(line)
        if not lines:
            self.unlogged_since = inf
        self._commit(self._committed_at)

    def end(self) -> None:
        """This run leases nothing any more."""
        self._is_ended = not self._leases
        self._commit(self._committed_at)

    def _resume(self, now: float) -> None:
        numbers = self._store.numbers
        if numbers:
            self.counters.restore(numbers["counters"])
            self._backlog.resume(numbers["queued"], numbers["arrivals"])
        self._distributor.resume(now)
        self._disposition.resume(now)
        # The place of the log is committed before the first line is: if this run is killed at its
        # beginning, the next one cuts the file, also if its REPORT_DIR is another one.
        if self._distributor.has_newly_waiting or (numbers and self._log is not None):
            self._commit(now)

    # Leases out

    def _lease(self, host: Host, lane: Lane, now: float) -> Lease | None:
        """A lease on `host`, popped from `lane`. None: a URL or a task was dropped, or the lane is
        wrong."""
        step = self._distributor.next_step(host, now)
        if step is None:
            return None
        if (step is Step.PAGE) != (lane is Lane.PAGES) and not (
            lane is Lane.REQUISITES and host.queue.peek().sitemap <= REQUISITE  # it will be refused
        ):
            return None
        if step is Step.RESOLVE:
            return self._lease_resolve(host, now)
        address = host.addresses[0] if host.addresses else ""
        if step is Step.ROBOTS:
            robots_task = host.next_robots_task()
            if self._disposition.is_needless(host, robots_task, now):
                return None
            self._bench.lease(host, with_ip=True)
            return Lease(host.name, step, robots_task.url, address, robots_task=robots_task)
        self._distributor.mark_changed(host)
        taken = self._candidates.pop(host, now)
        if taken is None:
            return None
        link, refused = taken
        self._bench.lease(host, with_ip=True)
        visit, is_sampled = None, False
        if self._visits is not None and step is Step.PAGE:
            self._visits.turns.took(is_visit=bool(link.visit))
            visit = self._visits.visit_of(link) if link.visit else None
        if self._languages is not None and step is Step.PAGE and not link.visit:
            is_sampled = self._languages.is_sampled(host.name)
        return Lease(
            *(host.name, step, link.url, address, link),
            refused=refused,
            visit=visit,
            is_sampled=is_sampled,
        )

    def _lease_resolve(self, host: Host, now: float) -> Lease:
        self.counters.lookups += host.is_first_look_up
        self._bench.lease(host, with_ip=False)
        self._bench.unpark_next(host, now)
        return Lease(host.name, Step.RESOLVE, "", "")

    # Leases back

    def _release(self, lease: Lease, outcome: Outcome, now: float) -> None:
        leased_at = self._leases.pop(lease)
        if outcome.__class__ is Returned and outcome.is_unknown:
            self.unlogged_since = min(self.unlogged_since, leased_at + self._state.utc_s)
        self._links_out -= lease.link is not None
        host = self._bench.hosts[lease.host]
        if lease.link is not None:
            self._contents.page_ended(lease.url, outcome)
            if self._near.fresh:
                self._near.page_ended(lease.url, outcome)
        self._outcomes.apply(host, lease, outcome, now)
        self._bench.idle(host)
        if host.robots_tasks:
            self._disposition.flush_denied(host, now)
        self._distributor.place_host(host, now)


def _terms(mail: Mail) -> tuple[float | None, bool] | None:
    """(cash, `force`) of a link; None of other mail. Links in a row with equal terms are put in one
    batch."""
    return (mail.cash, mail.force) if isinstance(mail, FoundLink) else None
