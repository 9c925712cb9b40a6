"""Tests each link when it enters and when it leaves a queue, and counts the results: the funnel.

On entry: depth, redirects, the rules' denials, the URL-seen test, the caps per host and domain. On
leaving: whether its host is retired, the rules and budgets of its host, the IP cap, robots.txt. A
link that is refused, or fails too often, for a reason that may pass stays queued for a later try;
else it is dropped.

Each test counts a link once, however often it is queued again: E and H when it first leaves its
queue, I when the IP cap lets it pass, R when robots.txt does. Invariant: `counters.pending` is the
number of queued links.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable
from itertools import compress
from operator import attrgetter, not_
from typing import Literal

from msgspec.structs import replace

from webcrawl.fetch.exchange import REASONS
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import FIRST_PRIORITY, REQUISITE, DropReason, Link, Refusal
from webcrawl.frontier.listed import ListedUrls
from webcrawl.frontier.mailbox import FoundLink, Mailbox
from webcrawl.frontier.requisites import is_first, name_of
from webcrawl.frontier.sitemapnames import SitemapFiles
from webcrawl.frontier.state import CoreState
from webcrawl.frontier.visits import Visits
from webcrawl.parse.urls import origin_of, target_of

_sitemap_of = attrgetter("sitemap")

FAILURES_MAX = 10  # failed seeds that are remembered, with their reasons


class Candidates:
    """Tests links. `sitemaps` and `listed` are told what their files and pages gave.

    `failed_seeds` has (URL, reason) of the first FAILURES_MAX that failed."""

    def __init__(self, state: CoreState, distributor: Distributor) -> None:
        self._store = state.store
        self._seen = state.store.seen
        self._visits = state.visits
        self._ordering = state.ordering
        self._mailbox = state.mailbox
        self._endings = state.endings
        self._backlog = state.backlog
        self._policy = state.policy
        self._limits_hosts = state.policy.limits_hosts
        self._caps = state.caps
        self._counters = state.counters
        self._distributor = distributor
        self.robots_steps = 0  # of all checks so far (`RobotsRules.check_steps`)
        self.failed_seeds: list[tuple[str, str]] = []
        self._refused_for_now: list[tuple[Host, Link, str, float]] = []
        self.sitemaps = SitemapFiles(state.store, state.caps, state.policy.sitemaps_max)
        self.listed = ListedUrls(state.counters)

    # Into the queue

    def put(
        self, links: Iterable[Link], now: float, *, cash: float | None = None, force: bool = False
    ) -> int:
        """Queue those of `links` that are new and not refused. Returns their number.

        `cash` is the cash that the page with these links gives to each of them, known ones too;
        None if they are not from a page. `force` skips the URL-seen test. Links to foreign hosts
        are sent to their hubs, which test and count them; their number is returned too.
        """
        accepted = 0
        limits, refuses = self._policy.limits_ways, self._refused_before_seen
        links = [each for each in links if not ((limits or each.redirects) and refuses(each))]
        if not links:
            return 0
        if self._mailbox is not None:
            links, accepted = self._send_foreign(self._mailbox, links, cash, force=force)
        has_sitemaps = any(map(_sitemap_of, links))  # 20 ns per link
        if has_sitemaps:
            accepted += self._put_sitemaps([link for link in links if link.sitemap > 0], now)
            shown = [link for link in links if link.sitemap <= REQUISITE]
            accepted += self._put_requisites(shown, now)
            links = [link for link in links if REQUISITE < link.sitemap <= 0]
        added = self._seen.add_each([link.url for link in links])
        if has_sitemaps or self.listed.has_any:
            self.listed.count(links, added)
        found = links if force else list(compress(links, added))
        self._counters.count_found([link.url for link in found])
        if self._visits is not None:
            self._visits.known(compress(links, map(not_, added)), now)
        for link, new in zip(links, added, strict=True):
            if not new:
                if cash is not None:
                    self._pay(link, cash, now)
                if not force:
                    continue
                if self._visits_instead(link, now):
                    accepted += 1
                    continue
                self._ordering.forfeit(link)  # if it is queued, its credit starts again
            refused = self._caps.take_url(link.host) if self._caps.limits_urls else ""
            if refused:
                self._counters.extracted += 1
                self._count_drop(None, link, refused, now)
                continue
            self._enqueue(link, now, cash)
            accepted += 1
        return accepted

    def _put_sitemaps(self, links: list[Link], now: float) -> int:
        """Queue the new ones of `links` to sitemaps. Returns their number."""
        accepted = 0
        for link in links:
            is_new, was_known = self.sitemaps.add(link)
            if not is_new:
                if self._visits is not None:
                    self._visits.known_sitemap(link, now)
                continue
            self._counters.count_found((link.url,))
            if was_known:  # it is queued or was fetched as a page, or for another host
                self._ordering.forfeit(link)
            refused = self.sitemaps.count(link)
            if refused:
                self._count_drop(None, link, refused, now)
                continue
            # As if all tests of the funnel were passed: it counts pages.
            self._enqueue(replace(link, is_counted=True), now)
            accepted += 1
        return accepted

    def _put_requisites(self, links: list[Link], now: float) -> int:
        """Queue the new ones of `links` to requisites. Returns their number.

        A URL that is a page too is fetched as each of both: the page may be of a type that is not
        read, and a requisite has no links.
        """
        accepted = 0
        for link in compress(links, self._seen.add_each(map(name_of, links))):
            refused = self._caps.take_url(link.host) if self._caps.limits_urls else ""
            if refused:
                self._count_drop(None, link, refused, now)
                continue
            self._enqueue(link, now)
            accepted += 1
        return accepted

    def receive(self, links: list[Link], cash: float | None, now: float, *, force: bool) -> None:
        """`put` links that another hub has sent, with `cash` for each of them."""
        if cash is not None:
            for _ in links:
                self._ordering.receive(cash)
        self.put(links, now, cash=cash, force=force)

    def _send_foreign(
        self, mailbox: Mailbox, links: list[Link], cash: float | None, *, force: bool
    ) -> tuple[list[Link], int]:
        """Send the links to foreign hosts: (the other links, how many were sent).

        A user's own Request is dropped: only the process that made it can read it.
        """
        ours, sent = [], 0
        hub, host = None, ""
        for link in links:
            if link.host != host:  # most links of a page are of one host
                host = link.host
                hub = mailbox.hub_of(host)
            if hub is None:
                ours.append(link)
            elif link.payload:
                self._counters.dropped["foreign_request"] += 1
            else:
                if cash is not None:
                    self._ordering.send(cash)
                mailbox.send(hub, FoundLink(link, cash, force))
                sent += 1
        return ours, sent

    def _visits_instead(self, link: Link, now: float) -> bool:
        """Visit the page of the forced `link` at once, if it is in the cycle.

        Only for an ordering with credits: a new credit would replace the status, which has the time
        of the next visit, and the page would join the cycle once more.
        """
        if self._visits is None or not self._ordering.moves_links or link.payload:
            return False
        visits = self._visits.recalled(link.url)
        for visit in visits or ():
            self.put_visit(visit, now)
        return visits is not None

    def put_visit(self, link: Link, now: float) -> None:
        """Queue `link`, which is due for a visit, before the other links of its host.

        The funnel and the caps have counted it at its first visit.
        """
        link = replace(link, is_counted=True)
        host = self._distributor.host(link.host)
        host.queue.push(FIRST_PRIORITY, self._backlog.next_number(), link)
        self._queued_one(host, FIRST_PRIORITY, link, now)

    def put_back(self, host: Host, link: Link, now: float) -> None:
        """Queue the leased `link` again, at its old position."""
        priority = host.queue.put_back(link)
        self._queued_one(host, priority, link, now)

    def put_again(self, host: Host, link: Link, now: float) -> None:
        """Queue the leased `link` for a retry, behind the links of its priority."""
        host.queue.drop()
        link = replace(link, retries=link.retries + 1)
        if link.visit:
            self.put_visit(link, now)
        else:
            self._enqueue(link, now)

    def keep(
        self,
        host: Host,
        link: Link,
        reason: str,
        due_at: float,
        now: float,
        took_s: float | None = None,
    ) -> None:
        """Queue `link`, which failed for a `reason` that may pass, behind all others.

        It is not tried before `due_at`. It gives up its cash, so it no longer moves in the queue.
        `took_s` is as for `drop`. O(log k) for the k priorities of its host.
        """
        self._ordering.forfeit(link)
        self._note_failure(link, reason)
        self._endings.unanswered(host, link, "kept", reason, now, took_s)
        link = replace(link, kept=reason)
        priority, number = self._backlog.place(host, due_at)
        host.queue.push(priority, number, link)
        self._queued_one(host, priority, link, now)

    def retry_kept(self, host: Host, reasons: Container[str], now: float) -> int:
        """Queue the links of `host` that are kept for one of `reasons` again, as new links.

        Returns their number.
        """
        taken = host.queue.take_kept(reasons)
        for priority, link in taken:
            self._backlog.leaves(host, priority, link)
            self._counters.pending -= 1
            self._enqueue(replace(link, retries=0), now)
        return len(taken)

    def keep_refused(self, now: float) -> bool:
        """Keep the links that `pop` refused for a while. Returns whether there are any.

        Call it between the last `pop` and the commit: a queue on disk reads rows as of the last
        commit, so a link kept earlier would be missed.
        """
        refused, self._refused_for_now = self._refused_for_now, []
        for host, link, reason, due_at in refused:
            if link.visit and self._visits is not None:
                self._put_off(self._visits, host, link, reason, due_at, now)
                continue
            self.keep(host, link, reason, due_at, now)
        return bool(refused)

    def _enqueue(self, link: Link, now: float, cash: float | None = None) -> None:
        host = self._distributor.host(link.host)
        number = self._backlog.next_number()
        if link.sitemap <= REQUISITE and is_first(host, link):
            priority = FIRST_PRIORITY
            self._distributor.with_requisites.add(host)
        else:
            priority = self._ordering.enter(link, number, cash)
        host.queue.push(priority, number, link)
        self._queued_one(host, priority, link, now)

    def _queued_one(self, host: Host, priority: int, link: Link, now: float) -> None:
        self._backlog.enters(host, priority, link)
        self._counters.pending += 1
        self._distributor.link_added(host, now)

    def _pay(self, link: Link, cash: float, now: float) -> None:
        """Give `cash` to the known `link`, which may then move in its queue."""
        move = self._ordering.pay(link, cash)
        if move is not None:
            priority, number, better = move
            host = self._distributor.host(link.host)
            host.queue.promote(priority, number, better)
            self._distributor.link_promoted(host, (better, number), now)

    def _refused_before_seen(self, link: Link) -> bool:
        reason = self._policy.refuses_way(link)
        if reason:
            self._refusals(link)[reason] += 1
        return bool(reason)

    def _refusals(self, link: Link) -> Counter[str]:
        counters = self._counters
        return counters.requisites if link.sitemap <= REQUISITE else counters.dropped

    # Out of the queue

    def take_ip_slot(self, host: Host) -> None:
        """Let the IP cap count the next link of `host`, whose address is known, before its turn.

        So no robots.txt is asked for at other hosts of the address if the cap will refuse them.
        """
        if not self._caps.per_ip or host.has_ip_slot or not host.queue.length:
            return
        link = host.queue.peek()
        if not (link.is_counted or link.has_passed_ip):
            host.has_ip_slot = not self._caps.take_ip(host.addresses[0])

    def pop(self, host: Host, now: float) -> tuple[Link, Refusal | Literal[""]] | None:
        """Pop the next link of `host` and test it: (link, "").

        None if it is refused, and so dropped or kept. A refused user's Request is returned with
        the reason, since its errback must be called.
        """
        priority, link = host.queue.pop()
        self._backlog.leaves(host, priority, link)
        self._counters.pending -= 1
        is_page = link.sitemap > REQUISITE  # the funnel counts pages
        if is_page and not (link.is_counted or link.kept):
            self._counters.extracted += 1
            self._counters.host_passed += 1
        refused, due_at = self._refused(host, link, now)
        if due_at and not link.payload:
            if host.retired_until <= now:  # robots.txt refuses it, after the IP test
                link = replace(link, has_passed_ip=True)
            host.queue.drop()
            self._refused_for_now.append((host, link, refused, due_at))
            return None
        if refused and not link.payload:
            self.drop(host, link, refused, now)
            return None
        if not link.is_counted:
            if is_page:
                self._counters.robots_passed += not refused
                host.pages += not refused
                host.requisites_first = 0
            link = replace(link, is_counted=True)
            host.queue.replace(link)
        return link, refused

    def drop(
        self,
        host: Host,
        link: Link,
        reason: DropReason,
        now: float,
        took_s: float | None = None,
    ) -> None:
        """Drop `link`, which `pop` returned.

        `took_s`: seconds of the try that ended its turn; None if no server was asked.
        """
        if link.visit and self._visits is not None:
            self._put_off(self._visits, host, link, reason, 0.0, now, took_s)
        else:
            self._ordering.forfeit(link)
            self._count_drop(host, link, reason, now, took_s)
        host.queue.drop()

    def _put_off(
        self,
        visits: Visits,
        host: Host,
        link: Link,
        reason: str,
        until: float,
        now: float,
        took_s: float | None = None,
    ) -> None:
        """The visit of `link`, which `pop` returned, ends without an answer."""
        self._endings.unanswered(host, link, "kept", reason, now, took_s)
        visits.refused(link, reason, until, now, is_asked=took_s is not None)

    def _note_failure(self, link: Link, reason: str) -> None:
        seed = not (link.via or link.depth or link.redirects or link.payload)
        if seed and len(self.failed_seeds) < FAILURES_MAX:
            self.failed_seeds.append((link.url, reason))

    def _count_drop(
        self,
        host: Host | None,
        link: Link,
        reason: DropReason,
        now: float,
        took_s: float | None = None,
    ) -> None:
        self._refusals(link)[reason] += 1
        if link.sitemap > REQUISITE:
            self._counters.count_ended(link.url)
        if reason in REASONS:
            self._note_failure(link, reason)
        self._endings.unanswered(host, link, "dropped", reason, now, took_s)

    def _refused(self, host: Host, link: Link, now: float) -> tuple[Refusal | Literal[""], float]:
        """(reason, until): the reason why `link` may not be fetched, and the end of the refusal.

        `reason` is "" if it may be fetched; `until` is 0.0 if the refusal is final. Counts the IP
        test.
        """
        denied = self._policy.denied
        if denied.has_any and denied.matches(link.url, link.host):
            return "scope_deny", 0.0
        if self.sitemaps.has_also(link):
            return "sitemap", 0.0
        if host.retired_until > now:
            return host.retired_reason, host.retired_until if host.deferrals else 0.0
        if self._limits_hosts:
            limit = self._policy.refuses_next(host, link)
            if limit:
                return limit, 0.0
        if link.sitemap > 0 and not link.visit:
            full = self._caps.is_full(link.host)
            if full or self._caps.ip_is_full(host.addresses[0]):
                return full or "ip_cap", 0.0
        elif not (link.is_counted or link.has_passed_ip):
            refused = "" if host.has_ip_slot else self._caps.take_ip(host.addresses[0])
            if refused:
                return refused, 0.0
            host.has_ip_slot = False
            self._counters.ip_passed += link.sitemap > REQUISITE
        if self._policy.robots_agent(host.name) is None:
            return "", 0.0
        origin = origin_of(link.url)
        known = host.rules[origin]
        if known.reason:
            return known.reason, known.expires_at
        if not known.allows_all:
            rules, target = self._store.rules(origin), target_of(link.url)
            self.robots_steps += rules.check_steps(target)
            if not rules.allows(target):
                return "robots", 0.0
        return "", 0.0
