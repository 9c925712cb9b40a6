"""Visits pages again (RECRAWL): which are due, what a visit taught, when the next one comes.

A page that was fetched waits on disk until it is due (`Store.visits`). Then it enters its host's
queue as any link, before the new links: so clocks, robots.txt, caps and leases are those of any
request. At most _QUEUED_MAX pages are queued for a visit at a time, and one host gets no more of
them than its delay allows: further pages get a slot, a later time at which the host is free. When
the visit ends, in whatever way, the page waits on disk again, or has left the cycle.

Invariant: a page in the cycle is either on disk, or queued or leased with its state in the link.
The change from one to the other is one commit. Does not know how a visit is made.

Memory: _QUEUED_MAX names for slots, 2 MB; nothing per page.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any, Final

from msgspec.structs import replace

from webcrawl.fetch.conditions import Validators
from webcrawl.frontier.disk.visitrows import VisitRows
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.lease import Failed, Fetched, Link, Visit, Visited
from webcrawl.frontier.revisit import (
    FARTHEST,
    NEAREST,
    Allowance,
    Marginal,
    Recrawl,
    Turns,
    first_rate,
    learned,
    unlearned,
)
from webcrawl.frontier.state import CoreState
from webcrawl.frontier.trust import NotModified, SitemapHints, is_audited, learn_hint
from webcrawl.frontier.visitstate import MISSES_MAX, VisitState, seconds_of
from webcrawl.parse.urls import host_of

_QUEUED_MAX: Final = 5_000  # pages queued or leased for a visit
_AT_A_TIME: Final = 200  # pages that enter queues in one `due`
_SLOTS_MAX: Final = 20_000  # hosts and addresses whose next slot is remembered
_SITEMAP_VISITS: Final = 4  # of a sitemap in a cycle: its dates bring visits of pages forward
_DYNAMIC_S: Final = 2.0  # a Last-Modified this near to the answer is the time of the answer
_GONE: Final = frozenset({404, 410})
_PAGE: Final = ("2", "304")  # how the outcomes of its visits begin
# Reasons for which no request was or will be made: twice, and the page leaves the cycle.
_NO_SERVER: Final = frozenset({"dns", "blocked_address", "blocked_port"})


class Visits:
    """The cycle of one crawl or hub.

    queued -- pages of the cycle (`counters.in_cycle`) that are queued or leased
    turns -- of new pages and visits, in leases
    has_moved -- the last `due` has given slots, which must be committed
    """

    has_moved = False

    def __init__(self, state: CoreState, distributor: Distributor) -> None:
        store, policy, now = state.store, state.policy, state.began_at
        assert store.visits is not None, "the store was opened without visits"
        self._line: VisitRows = store.visits
        self._seen = store.seen
        self._is_on = policy.recrawl is not None
        self._settings = policy.recrawl or Recrawl("fixed", 28 * 86_400.0, 1.0)
        self._policy = policy
        self._counters = state.counters
        self._distributor = distributor
        hosts = store.counts("visits")
        self._hints = SitemapHints(hosts)
        self._not_modified = NotModified(hosts, self._hints)
        self._utc_s = store.utc_s
        numbers: dict[str, Any] = store.numbers.get("visits", {})
        self.queued: int = numbers.get("queued", 0)
        self._sitemaps: int = numbers.get("sitemaps", 0)  # of the pages in the cycle
        self._weights: float = numbers.get("weights", 0.0)  # the sum over all pages
        # Pages without a revisit date, which earlier runs fetched without RECRAWL: they join when a
        # link to them is found.
        self._undated: int = numbers.get("undated", 0)
        if not numbers and store.numbers:
            self._undated = store.numbers["counters"]["crawled"]
        cycle_s = self._settings.cycle_s
        same = numbers.get("cycle_s") == cycle_s
        value = numbers.get("value") if same else None
        self._marginal = Marginal(cycle_s, now, value, numbers.get("planned_per_s", 0.0))
        self._allowance = Allowance(cycle_s, now)
        self.turns = Turns(self._settings.share)
        self._allowed_at = 0.0  # no page is visited before
        self._slots: dict[str, float] = {}  # by host, and by address

    def numbers(self) -> dict[str, Any]:
        """JSON values for the next run's `store.numbers["visits"]`."""
        return {
            "queued": self.queued,
            "sitemaps": self._sitemaps,
            "weights": self._weights,
            "undated": self._undated,
            "cycle_s": self._settings.cycle_s,
            "value": self._marginal.value,
            "planned_per_s": self._marginal.planned_per_s,
        }

    @property
    def undated(self) -> int:
        """Pages without a revisit date: of runs without RECRAWL, and not in the cycle so far."""
        return self._undated if self._is_on else 0

    @property
    def _is_adaptive(self) -> bool:
        return self._settings.mode == "adaptive"

    @property
    def _pages(self) -> int:
        """Pages that the budget is for: one visit in a cycle each. A sitemap counts as four, or a
        crawl of many small hosts would have no visits left for their pages."""
        return self._counters.in_cycle + self._undated + (_SITEMAP_VISITS - 1) * self._sitemaps

    # Into the queues

    def next_at(self) -> float:
        """When `due` may return a page."""
        if not self._is_on or self.queued >= _QUEUED_MAX:
            return inf
        return max(self._line.next_due_at(), self._allowed_at)

    def due(self, now: float) -> list[Link]:
        """The pages that are visited now, as links: the caller queues them, and commits."""
        if not self._is_on:
            return []
        limit = min(_AT_A_TIME, _QUEUED_MAX - self.queued)
        if self._is_adaptive:
            limit = min(limit, self._allowance.visits(now, self._pages))
        self.has_moved = False
        links = []
        due = self._line.take_due(now, max(limit, 0))
        is_more_due = self._line.next_due_at() <= now
        for url, row in due:
            state = VisitState.of_row(row)
            at = 0.0 if state.is_slotted else self._slot(host_of(url), now)
            if at > now:
                state.is_slotted = True
                self._line.add(url, at, state.to_row())
                self.has_moved = True
            else:
                links.append(self._link(url, state))
        self.queued += len(links)
        if self._is_adaptive:
            self._allowance.spend(len(links), self._pages)
            if is_more_due and not self._allowance.visits(now, self._pages):
                self._allowed_at = now + self._settings.cycle_s / max(self._pages, 1)
            self._marginal.adjust(now, self._pages, is_more_due=is_more_due)
        return links

    def _link(self, url: str, state: VisitState) -> Link:
        status = self._seen.status(url)
        state.is_slotted = False
        return Link(
            url,
            host_of(url),
            status.depth if status else 0,
            status.redirects if status else 0,
            status.via if status else "",
            head_done=True,
            sitemap=state.sitemap,
            visit=state.to_row(),
        )

    def _slot(self, name: str, now: float) -> float:
        """When the host `name` and its address have room for one more visit; takes the room."""
        host = self._distributor.host(name)
        self._distributor.mark_changed(host)  # so the next commit may remove it from memory
        share = self._settings.share if host.queue.length else 1.0
        spaces = {name: self._policy.delay_s(host) / share}
        if host.addresses:
            spaces[f"ip {host.addresses[0]}"] = self._policy.politeness.ip_delay_s / share
        at = now
        for each, space_s in spaces.items():
            free_at = max(self._slots.pop(each, 0.0), now)
            self._slots[each] = free_at + space_s
            at = max(at, free_at)
        while len(self._slots) > _SLOTS_MAX:
            del self._slots[next(iter(self._slots))]
        return at

    def recalled(self, url: str) -> list[Link] | None:
        """The page `url` as a link to queue now, before it is due; empty if it is queued already.

        None if it is not in the cycle.
        """
        status = self._seen.status(url)
        if status is None or not status.visit_ms:
            return None
        found = self._line.find(url)
        if found is None:
            return []
        self._line.remove(url, found[0])
        self.queued += 1
        return [self._link(url, VisitState.of_row(found[1]))]

    # Leases

    def visit_of(self, link: Link) -> Visit:
        """The last visit of `link`, for its lease."""
        state = VisitState.of_row(link.visit)
        is_plain = state.is_check or state.is_gone
        return state.visit(is_conditional=not is_plain and self._not_modified.is_trusted(link.host))

    # What became of a page

    def found(self, link: Link, outcome: Fetched) -> str:
        """What the visit of `link` found, a key of `counters.visits`."""
        seen, status = outcome.visited, outcome.status
        if outcome.wall:
            return "wall"
        if link.sitemap > 0 and status < 300:
            return "sitemap"
        if status >= 300 and not (seen and seen.is_304):
            return "error" if status >= 400 else "redirect"
        if seen is None or seen.is_unchanged is None:
            return "unknown"
        if not seen.is_unchanged:
            return "changed"
        return "not_modified" if seen.is_304 else "unchanged"

    def before(self, link: Link) -> VisitState | None:
        """The state of `link`, which was answered, before its answer; for `fetched`.

        None if it is not visited again. Call it before the status of the answer is kept.
        """
        if link.visit:
            return self._taken(link)
        if link.payload:
            return None
        status = self._seen.status(link.url)
        if status is None or not status.visit_ms:
            if self._is_on:
                return VisitState(0.0, first_rate(self._settings.cycle_s), weight=0.0)
            self._undated += link.sitemap <= 0
            return None
        found = self._line.find(link.url)  # a user's code has asked for the page once more
        if found is None:  # and it is queued for a visit as well
            return None
        self._line.remove(link.url, found[0])
        return VisitState.of_row(found[1])

    def fetched(self, link: Link, outcome: Fetched, state: VisitState) -> None:
        """`link` has its final answer, and its status is kept.

        `state` is that of `before`. Of a page that `is_first` it has the weight in the ordering; a
        sitemap has none.
        """
        if state.is_first:
            self._join(state)
        elif self._checks(link, state, outcome):
            return
        else:
            self._learn(link, state, outcome)
        is_gone = outcome.status in _GONE and not outcome.wall
        if is_gone and state.is_gone:
            self._leave(link, state)
            return
        state.is_gone = is_gone
        self._mark(state, link)
        self._remember(state, outcome.visited)
        is_304 = outcome.visited is not None and outcome.visited.is_304
        is_page = is_304 or (200 <= outcome.status < 300 and not outcome.wall)
        next_s = self._plan(state, is_page=is_page)
        state.misses, state.hint, state.hinted_s, state.is_check = 0, 0, 0.0, False
        state.last_at = outcome.ended_at + self._utc_s
        self._line.add(link.url, outcome.ended_at + next_s, state.to_row())

    def failed(self, link: Link, outcome: Failed) -> None:
        """A visit got no answer, and no further retry: it is tried later, as kept links are."""
        state = self._taken(link)
        state.misses = min(state.misses + 1, MISSES_MAX)
        wait_s = self._policy.politeness.deferral_s(state.misses)
        if state.misses == MISSES_MAX:
            wait_s = max(wait_s, self._settings.cycle_s)
        self._counters.visits["unanswered"] += 1
        self._line.add(link.url, outcome.ended_at + wait_s, state.to_row())

    def refused(
        self, link: Link, reason: str, until: float, now: float, *, is_asked: bool = False
    ) -> None:
        """A visit was not made for `reason`, or (`is_asked`) can have no answer.

        `until`: it may be made then; 0.0: unknown.
        """
        state = self._taken(link)
        self._counters.visits["unanswered" if is_asked else "refused"] += 1
        if reason in _NO_SERVER and not until:
            if state.is_gone:
                self._leave(link, state)
                return
            state.is_gone = True
        at = max(until, now) if until else now + self._settings.cycle_s
        self._line.add(link.url, at, state.to_row())

    def _taken(self, link: Link) -> VisitState:
        """The state of `link`, which is not queued any more."""
        self.queued -= 1
        return VisitState.of_row(link.visit)

    def _join(self, state: VisitState) -> None:
        self._counters.in_cycle += 1
        self._weights += state.weight

    def _mark(self, state: VisitState, link: Link) -> None:
        """Keep whether `link` is a sitemap."""
        number = min(max(link.sitemap, 0), 255)
        self._sitemaps += bool(number) - bool(state.sitemap)
        state.sitemap = number

    def _leave(self, link: Link, state: VisitState) -> None:
        self._sitemaps = max(self._sitemaps - bool(state.sitemap), 0)
        self._counters.in_cycle -= 1
        self._weights = max(self._weights - state.weight, 0.0)
        self._marginal.plan(state.planned_s, 0.0)
        self._counters.visits["gone"] += 1
        self._line.set_due(link.url, 0)

    def _checks(self, link: Link, state: VisitState, outcome: Fetched) -> bool:
        """Whether the answer is a 304 that is checked: then its page is due at once."""
        seen, checks = outcome.visited, self._not_modified
        is_304 = seen is not None and seen.is_304
        if seen is None or not (is_304 and checks.is_checked(link.url, link.host, state, seen)):
            return False
        self._counters.visits["not_modified"] += 1
        state.is_check = state.is_slotted = True
        state.misses = 0
        self._line.add(link.url, outcome.ended_at, state.to_row())
        return True

    def _learn(self, link: Link, state: VisitState, outcome: Fetched) -> None:
        """What the answer tells of the page's rate, and of its host's honesty."""
        seen, found = outcome.visited, self.found(link, outcome)
        self._counters.visits[found] += 1
        if self._not_modified.judge(link.host, state, outcome):
            self._counters.visits["lie"] += 1
        if seen is None or found not in ("changed", "unchanged", "not_modified"):
            return
        is_unchanged = found != "changed"
        self._hints.judge(link.url, link.host, state, is_unchanged=is_unchanged)
        # A plain request has found a change that the 304s before it may have hidden.
        hidden_s = 0.0 if is_unchanged or seen.validators_held is None else state.unread_s
        state.rate = unlearned(state.rate, hidden_s)
        state.unread_s = state.unread_s if seen.is_304 else 0.0
        if state.hint > 0 and state.hinted_s:
            return  # the date was learned from, and the visit came because of it
        now_utc = outcome.ended_at + self._utc_s
        age_s = None
        if changed := seen.capture.validators.last_modified:
            age_s = now_utc - seconds_of(changed)
            age_s = age_s if age_s > _DYNAMIC_S else None
        after_s = max(now_utc - state.last_at - state.hinted_s, 1e-3) + hidden_s
        state.unread_s += after_s if seen.is_304 else 0.0
        state.rate = learned(state.rate, after_s, has_changed=not is_unchanged, age_s=age_s)

    def _remember(self, state: VisitState, seen: Visited | None) -> None:
        """Keep what the next visit compares."""
        if seen is not None:
            state.capture = seen.capture
        else:
            state.capture = replace(state.capture, validators=Validators())

    @property
    def _mean_weight(self) -> float:
        pages = self._counters.in_cycle
        return self._weights / pages if pages and self._weights else 1.0

    def _plan(self, state: VisitState, *, is_page: bool = True) -> float:
        """Seconds to the next visit. Errors and redirects: once a cycle."""
        next_s = planned_s = self._settings.cycle_s
        reading_s = next_s / _SITEMAP_VISITS
        if state.sitemap and is_page:
            next_s = planned_s = reading_s
        elif self._is_adaptive and is_page:
            weight = state.weight / self._mean_weight
            next_s = planned_s = self._marginal.next_s(state.rate, weight)
            if state.hinted_s:
                planned_s = self._marginal.hinted_s(state.rate, weight, reading_s)
        self._marginal.plan(state.planned_s, planned_s)
        state.planned_s = planned_s
        return next_s

    # What links and sitemaps tell of pages that are known

    def known(self, links: Iterable[Link], now: float) -> None:
        """Links to known URLs were found: pages of runs without RECRAWL join the cycle, and a date
        may bring a visit forward. One look-up for each with a date; for others one while the URL is
        in the cache, and none without pages that have no revisit date."""
        if not self._is_on:
            return
        for link in links:
            if link.lastmod:
                self._dated(link, now)
            elif self._undated:
                self._meet(link, now)

    def known_sitemap(self, link: Link, now: float) -> None:
        """As `known`, of a sitemap that robots.txt or an index names."""
        status = self._seen.status(link.url) if self._is_on else None
        if status is None:
            return
        if status.visit_ms:
            if link.lastmod:
                self._dated(link, now)
        elif status.outcome.startswith(("sitemap 2", "sitemap 3")):  # of a run without RECRAWL
            self._admit(link, status.time, self._settings.cycle_s / _SITEMAP_VISITS, 0.0, now)

    def _meet(self, link: Link, now: float) -> None:
        """Let a page join that was fetched without RECRAWL: due a cycle after that."""
        status = self._seen.undated_status(link.url)
        if status is not None:
            self._undated -= 1
            self._admit(link, status.time, self._settings.cycle_s, self._mean_weight, now)

    def _admit(
        self, link: Link, fetched_time: float, next_s: float, weight: float, now: float
    ) -> None:
        """Let what an earlier run fetched join: due `next_s` after that."""
        fetched_time = min(fetched_time, now + self._utc_s)  # its clock may have been ahead
        rate = first_rate(self._settings.cycle_s)
        state = VisitState(fetched_time, rate, next_s, weight)
        self._mark(state, link)
        self._join(state)
        self._marginal.plan(0.0, next_s)
        self._line.add(link.url, fetched_time - self._utc_s + next_s, state.to_row())

    def _dated(self, link: Link, now: float) -> None:
        """A sitemap says when the page, or file, of `link` changed."""
        found = self._line.find(link.url)
        if found is None:
            if self._undated:
                self._meet(link, now)
            return
        due_at, row = found
        state = VisitState.of_row(row)
        at = self._hinted(link, state, due_at, now)
        if at is not None:
            self._line.remove(link.url, due_at)
            self._line.add(link.url, at, state.to_row())

    def _hinted(self, link: Link, state: VisitState, due_at: float, now: float) -> float | None:
        """A date says whether the page of `state` has changed. When the page is due now; None if
        there is nothing to keep.
        """
        hint = 1 if link.lastmod > state.last_at else -1
        if hint < 0 <= state.hint and not self._has_page(link.url):
            return None  # of the page before the error: it is still to be fetched
        is_trusted = self._hints.trusts(link.host)
        is_page = not (state.sitemap or state.is_gone or state.misses)
        is_as_good = is_trusted and self._is_adaptive and is_page
        if is_as_good and (hint > 0 or not is_audited(link.url, state)):
            return self._trust(link, state, hint, due_at, now)
        is_new, state.hint = hint != state.hint, hint
        at = self._forward(state, due_at, now) if is_trusted and hint > 0 else due_at
        return at if is_new or at < due_at else None

    def _has_page(self, url: str) -> bool:
        """Whether the last answer of `url` was a page, and no error or redirect."""
        status = self._seen.status(url)
        return status is not None and status.outcome.removeprefix("sitemap ").startswith(_PAGE)

    def _trust(self, link: Link, state: VisitState, hint: int, due_at: float, now: float) -> float:
        """Take a date as the answer of a visit. When the page is due now."""
        learn_hint(state, link.lastmod, now + self._utc_s)
        next_s = self._plan(state)
        state.hint = hint
        if hint < 0:
            farthest_s = FARTHEST * self._settings.cycle_s
            state.is_slotted = False
            return min(now + next_s, state.last_at - self._utc_s + farthest_s)
        is_worth = self._marginal.is_worth(state.rate, state.weight / self._mean_weight)
        return self._forward(state, due_at, now) if is_worth else due_at

    def _forward(self, state: VisitState, due_at: float, now: float) -> float:
        """When a page is due that has changed, or a sitemap: now if it can be.

        A slot of its host is the first that was free. However many files name each other with new
        dates, a sitemap is read no more than twice as often, and a page no more often than any.
        """
        cycle_s = self._settings.cycle_s
        nearest_s = cycle_s / (2 * _SITEMAP_VISITS) if state.sitemap else NEAREST * cycle_s
        at = max(state.last_at - self._utc_s + nearest_s, now)
        if state.is_slotted or due_at <= at:
            return due_at
        self._counters.visits["brought_forward"] += 1
        return at
