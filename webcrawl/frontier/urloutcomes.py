"""The effect of an answer or a failure on its URL: done, asked again, kept, or dropped.

No other module decides about retries. `disposition` has the effect on the host. A URL that is done
is counted, its links are put, and with RECRAWL it joins the pages that are visited again, or waits
for its next visit (`visits`).
"""

from __future__ import annotations

from msgspec.structs import replace

from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.frontier.base import Policy
from webcrawl.frontier.candidates import Candidates
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disposition import Disposition
from webcrawl.frontier.endings import Endings
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import Failed, Fetched, Lease, Link, Step
from webcrawl.frontier.orderings import Ordering
from webcrawl.frontier.visits import Visits


class UrlOutcomes:
    """Takes leases with a link that were carried out. O(links of the page) each."""

    def __init__(
        self,
        policy: Policy,
        ordering: Ordering,
        counters: Counters,
        candidates: Candidates,
        disposition: Disposition,
        endings: Endings,
        visits: Visits | None = None,
    ) -> None:
        """`visits`: None if this crawl has never had RECRAWL."""
        self._policy = policy
        self._ordering = ordering
        self._counters = counters
        self._candidates = candidates
        self._disposition = disposition
        self._endings = endings
        self._visits = visits

    def fetched(self, host: Host, lease: Lease, outcome: Fetched, now: float) -> None:
        """A page, HEAD or sitemap was answered."""
        link, status, wait_s = lease.link, outcome.status, outcome.retry_after_s
        assert link is not None
        if lease.step is Step.HEAD and outcome.wanted:
            self._candidates.put_back(host, replace(link, head_done=True), now)
            return
        if outcome.wall:
            self._disposition.walled(host, outcome.ended_at, wait_s, now)
        elif status in self._policy.retry_codes:
            self._disposition.back_off(host, link.retries + 1, outcome.ended_at, wait_s)
        if self._policy.asks_again(status, link.retries, wait_s):
            self._counters.retried[str(status)] += 1
            self._candidates.put(outcome.links, now, cash=0.0)
            self._candidates.put_again(host, link, now)
        elif lease.step is Step.SITEMAP:
            self._sitemap_done(host, lease, link, outcome, now)
        else:
            self._page_done(host, lease, link, outcome, now)

    def failed(self, host: Host, lease: Lease, outcome: Failed, now: float) -> None:
        """A page, HEAD or sitemap was not answered."""
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

    def _page_done(
        self, host: Host, lease: Lease, link: Link, outcome: Fetched, now: float
    ) -> None:
        """The final answer to a page, to a visit of one, or to a HEAD that no GET follows."""
        visits = self._visits if lease.step is Step.PAGE else None
        state = visits.before(link) if visits is not None else None
        if state is not None and link.visit:
            links, cash = self._ordering.spend_again(outcome.links, state.weight)
        else:
            if state is not None and state.is_first:
                state.weight = self._ordering.worth(link)
            links, cash = self._ordering.spend(link, outcome.links)
        self._candidates.put(links, now, cash=cash)
        host.queue.drop()
        found = ""
        if visits is not None and link.visit:  # the funnel has counted it at its first answer
            found = visits.found(link, outcome)
            self._counters.count_visit(outcome.status, outcome.wall)
        else:
            self._counters.count_code(outcome.status, outcome.wall)
            self._counters.count_ended(link.url)
            if link.sitemap:
                self._candidates.listed.fetched(link.url)
            self._ordering.visited(host.name)
        self._endings.done(host, lease, outcome, now, found)
        if visits is not None and state is not None:
            visits.fetched(link, outcome, state)

    def _sitemap_done(
        self, host: Host, lease: Lease, link: Link, outcome: Fetched, now: float
    ) -> None:
        """The final answer to a sitemap. Neither the funnel nor the ordering counts it."""
        if not link.visit:
            self._ordering.forfeit(link)
            self._counters.count_ended(link.url)
        self._candidates.put(outcome.links, now)
        self._candidates.sitemaps.ended(link, own_only=outcome.own_only)
        host.queue.drop()
        self._counters.sitemaps[f"{outcome.status // 100}xx"] += 1
        visits = self._visits
        state = visits.before(link) if visits is not None else None
        found = visits.found(link, outcome) if visits is not None and link.visit else ""
        self._endings.done(host, lease, outcome, now, found)
        if visits is not None and state is not None:
            visits.fetched(link, outcome, state)

    def _keep(self, host: Host, link: Link, outcome: Failed, now: float) -> None:
        """Keep `link`, which failed too often, for a later try. Each wait is longer."""
        if link.visit and self._visits is not None:
            host.queue.drop()
            self._endings.kept(host, link, outcome.reason, now, outcome.took_s)
            self._visits.failed(link, outcome)
            return
        polite = self._policy.politeness
        deferrals = max(link.retries - self._policy.retry_times, 0) + 1
        due_at = outcome.ended_at + polite.deferral_s(deferrals)
        link = replace(link, retries=link.retries + 1)
        host.queue.drop()
        due_at = max(due_at, host.retired_until)
        self._candidates.keep(host, link, outcome.reason, due_at, now, outcome.took_s)
