"""The effect of an outcome: on its host by `disposition`, on its URL here.

A URL is done, asked again, kept, or dropped. No other module decides about retries. A URL that is
done is counted, its links are put, and with RECRAWL it joins the pages that are visited again, or
waits for its next visit (`visits`).
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.frontier.candidates import Candidates
from webcrawl.frontier.disposition import Disposition
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.overview import SlowHosts
from webcrawl.frontier.sitemapnames import GUESSED, links_of_robots
from webcrawl.frontier.state import CoreState
from webcrawl.parse.robots import RobotsRules


class Outcomes:
    """Takes leases that were carried out. O(links of the page) each.

    slow -- the hosts whose pages take long
    """

    def __init__(
        self,
        state: CoreState,
        candidates: Candidates,
        disposition: Disposition,
    ) -> None:
        self.slow = SlowHosts()
        self._policy = state.policy
        self._ordering = state.ordering
        self._counters = state.counters
        self._endings = state.endings
        self._visits = state.visits
        self._languages = state.store.languages if state.policy.languages else None
        self._candidates = candidates
        self._disposition = disposition

    def apply(self, host: Host, lease: Lease, outcome: Outcome, now: float) -> None:
        disposition = self._disposition
        if lease.step is not Step.RESOLVE:
            disposition.set_clocks(host, outcome)
        match outcome:
            case Fetched():
                self._fetched(host, lease, outcome, now)
            case Resolved():
                disposition.resolved(host, outcome)
                self._candidates.take_ip_slot(host)
            case Unresolved():
                disposition.unresolved(host, outcome, now)
            case RobotsFetched() | RobotsMoved() | RobotsUnreachable():
                self._robots(host, lease, outcome, now)
            case Failed():
                self._failed(host, lease, outcome, now)
            case Dropped():
                assert lease.link is not None
                took_s = 0.0 if outcome.asked_at > 0 else None
                self._candidates.drop(host, lease.link, outcome.reason, now, took_s)
            case Returned():
                self._returned(host, lease, outcome, now)

    def _robots(
        self,
        host: Host,
        lease: Lease,
        outcome: RobotsFetched | RobotsMoved | RobotsUnreachable,
        now: float,
    ) -> None:
        task, disposition = lease.robots_task, self._disposition
        assert task is not None
        self._endings.robots(host, lease, outcome, now)
        match outcome:
            case RobotsFetched():
                disposition.robots_fetched(task, outcome, now)
                if outcome.rules.sitemaps and disposition.is_ours(task):
                    self.put_sitemaps(task, outcome.rules, now)
            case RobotsMoved():
                disposition.robots_moved(task, outcome, now)
            case RobotsUnreachable():
                disposition.robots_unreachable(host, task, outcome, now)

    def put_sitemaps(self, robots_task: RobotsTask, rules: RobotsRules, now: float) -> None:
        """Queue the sitemaps that a robots.txt of one of our hosts names. A guess is for the host:
        it may have several origins.
        """
        is_guess = rules.sitemaps == (GUESSED,)
        if is_guess and self._candidates.sitemaps.has_any(robots_task.home):
            return
        if rules.sitemaps:
            links = links_of_robots(robots_task, rules, self._policy.depth_max)
            self._candidates.put(links, now)

    def _returned(self, host: Host, lease: Lease, outcome: Returned, now: float) -> None:
        if lease.step is Step.RESOLVE and host.is_first_look_up:
            self._counters.lookups -= 1
        elif lease.robots_task is not None:
            host.add_robots_task(lease.robots_task)
        elif lease.link is not None:
            self._endings.superseded(host, lease, outcome.details, now)
            self._candidates.put_back(host, lease.link, now)

    def _fetched(self, host: Host, lease: Lease, outcome: Fetched, now: float) -> None:
        """A page, HEAD, sitemap or requisite was answered."""
        link, status, wait_s = lease.link, outcome.status, outcome.retry_after_s
        assert link is not None
        if lease.step is Step.PAGE:
            self.slow.add(host.name, outcome.took_s)
        if lease.step is Step.HEAD and outcome.wanted:
            self._candidates.put_back(host, replace(link, head_done=True), now)
            return
        may_retry = status in self._policy.retry_codes
        if outcome.wall:
            self._disposition.walled(host, outcome.ended_at, wait_s, now)
        elif may_retry:
            self._disposition.back_off(host, link.retries + 1, outcome.ended_at, wait_s)
        if may_retry and self._policy.asks_again(status, link.retries, wait_s):
            self._counters.retried[str(status)] += 1
            self._endings.superseded(host, lease, outcome.details, now)
            self._candidates.put(outcome.links, now, cash=0.0)
            self._candidates.put_again(host, link, now)
        else:
            self._done(host, lease, link, outcome, now)

    def _failed(self, host: Host, lease: Lease, outcome: Failed, now: float) -> None:
        """A page, HEAD, sitemap or requisite was not answered."""
        link = lease.link
        assert link is not None
        self._counters.failed[outcome.reason] += 1
        self._disposition.failed(host, now)
        if self._disposition.try_next_address(host, outcome.reason) and not outcome.final:
            self._candidates.put_back(host, link, now)
            return
        if self._policy.tries_again(outcome.reason, link.retries) and not outcome.final:
            self._disposition.back_off(host, link.retries + 1, outcome.ended_at)
            self._counters.retried[outcome.reason] += 1
            self._candidates.put_again(host, link, now)
        elif outcome.reason in TRANSIENT and not (link.payload or outcome.final):
            self._keep(host, link, outcome, now)
        else:
            self._candidates.drop(host, link, outcome.reason, now, outcome.took_s)

    def _done(self, host: Host, lease: Lease, link: Link, outcome: Fetched, now: float) -> None:
        """The final answer to a page or sitemap, to a visit of one, or to a HEAD without a GET.

        Neither the funnel nor the ordering counts a sitemap.
        """
        if outcome.requisites:
            self._candidates.put(outcome.requisites, now)
        if lease.step is Step.REQUISITE:
            host.queue.drop()
            self._counters.requisites[f"{outcome.status // 100}xx"] += 1
            self._endings.done(host, lease, outcome, now)
            return
        is_sitemap = lease.step is Step.SITEMAP
        visits = self._visits if lease.step is not Step.HEAD else None
        is_visit = visits is not None and bool(link.visit)
        state = visits.before(link) if visits is not None else None
        links: Sequence[Link] = outcome.links
        cash: float | None = None
        if is_sitemap:
            if not is_visit:
                self._ordering.forfeit(link)
        elif state is not None and is_visit:
            links, cash = self._ordering.spend_again(links, state.weight)
        else:
            if state is not None and state.is_first:
                state.weight = self._ordering.worth(link)
            links, cash = self._ordering.spend(link, links)
        self._candidates.put(links, now, cash=cash)
        host.queue.drop()
        if is_sitemap:
            self._candidates.sitemaps.ended(link, own_only=outcome.own_only)
            self._counters.sitemaps[f"{outcome.status // 100}xx"] += 1
        elif is_visit:  # the funnel has counted it at its first answer
            self._counters.count_visit(outcome.status, outcome.wall)
        else:
            self._counters.count_code(outcome.status, outcome.wall)
            if link.sitemap:
                self._candidates.listed.fetched(link.url)
            if self._languages is not None:
                self._languages.fetched(host.name, outcome, self._policy.languages)
                if outcome.detected_language:
                    self._counters.languages[outcome.detected_language] += 1
            self._ordering.visited(host.name)
        if outcome.near_duplicate_of:
            self._counters.near_duplicates += 1
        if not is_visit:
            self._counters.count_ended(link.url)
        found = visits.found(link, outcome) if visits is not None and is_visit else ""
        self._endings.done(host, lease, outcome, now, found)
        if visits is not None and state is not None:
            visits.fetched(link, outcome, state)

    def _keep(self, host: Host, link: Link, outcome: Failed, now: float) -> None:
        """Keep `link`, which failed too often, for a later try. Each wait is longer."""
        if link.visit and self._visits is not None:
            host.queue.drop()
            self._endings.unanswered(host, link, "kept", outcome.reason, now, outcome.took_s)
            self._visits.failed(link, outcome)
            return
        polite = self._policy.politeness
        deferrals = max(link.retries - self._policy.retry_times, 0) + 1
        due_at = outcome.ended_at + polite.deferral_s(deferrals)
        link = replace(link, retries=link.retries + 1)
        host.queue.drop()
        due_at = max(due_at, host.retired_until)
        self._candidates.keep(host, link, outcome.reason, due_at, now, outcome.took_s)
