"""The frontier's interface. `tests/contracts/frontier.py` is the interface in executable form.

Asynchronous and in batches, so that one interface serves memory, disk and a server. `now` is
monotonic seconds and comes from the caller; no frontier reads a clock.

What every implementation promises:
- at most one lease per host and, with IP clocks on, one lease per IP address;
- no lease before the clocks of its host and its address allow it;
- a URL is leased as PAGE once, unless its outcome asks for a retry or the lease is returned; with
  RECRAWL once more each time when a visit is due, and never twice at a time;
- each link that `put` got and did not refuse is leased sooner or later, or counted in
  `counters.dropped`;
- a link that failed for a reason that may pass is queued again, after its last retry as a kept
  link (`counters.kept`). A frontier is finished when only kept links are left; the next run of a
  lasting store tries them at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from webcrawl.crawllog.line import LostLine
from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.host import Host
from webcrawl.frontier.lease import (
    Answered,
    Fetched,
    Lane,
    Lease,
    LimitReason,
    Link,
    Outcome,
    Seen,
    Text,
)
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.revisit import Recrawl
from webcrawl.parse.jointrules import names_key
from webcrawl.scope import HostsAndPatterns
from webcrawl.scope.hostrules import HostRules
from webcrawl.warc.records import Original

if TYPE_CHECKING:
    from webcrawl.frontier.disk.frontier import LocalFrontier

SUPPLY_S = 2.0  # the time that `LocalFrontier.supply` looks ahead
# Deviation: if new addresses or robots rules cannot be fetched, the old ones stay valid this long.
STALE_S = 3600.0

_TOO_MANY = 429  # a bot wall asks for less, whatever its status
TARGET_MET: Final = "closespider_pagecount"  # the reason for which a crawl ends at its target


@dataclass(slots=True, frozen=True)
class Policy:
    """The settings for links, hosts and failures. Built once, by `config.build`.

    politeness -- the delays, in seconds
    obey_robots -- ROBOTSTXT_OBEY
    agent -- the names with which robots.txt is read (`parse.jointrules.names_key`), the crawl's own
        first: another run may have others
    also -- those of them that are not its own (ROBOTSTXT_USER_AGENT)
    head_first -- HEAD_FIRST: ask for the type of a page before the page
    depth_max -- DEPTH_LIMIT, link hops from a seed; 0: no limit
    bytes_max -- MAX_BYTES_PER_HOST, on the wire; 0: no limit
    redirects_max -- REDIRECT_MAX_TIMES, redirect hops in a row
    retry_times -- RETRY_TIMES, retries of a page, a look-up or a robots.txt after its first try
    retry_codes -- RETRY_HTTP_CODES, status codes that are retried
    failures_max -- Deviation: after so many attempts in a row without any answer, a host is retired
        for a while
    retired_s -- seconds for which new links of a host without any address are dropped
    stale_s -- seconds, see STALE_S
    languages -- LANGUAGES, ISO 639-3; empty: no page's language is found
    recrawl -- RECRAWL and its settings; None: no page is visited again
    denied -- SCOPE_DENY, which URLs in line obey too; it may grow while the crawl runs
    sitemaps_max -- sitemaps of a host at most: each costs the host as much time as a page, and has
        up to 50,000 URLs
    rules -- RULES: other values for some hosts; None: no file of rules
    """

    politeness: Politeness = field(default_factory=Politeness)
    obey_robots: bool = True
    agent: str = ""
    also: tuple[str, ...] = ()
    head_first: bool = False
    depth_max: int = 0
    bytes_max: int = 0
    redirects_max: int = 20
    retry_times: int = 2
    retry_codes: frozenset[int] = frozenset({500, 502, 503, 504, 522, 524, 408, 429})
    failures_max: int = 20
    retired_s: float = 3600.0
    stale_s: float = STALE_S
    sitemaps_max: int = 100
    rules: HostRules | None = None
    languages: frozenset[str] = frozenset()
    recrawl: Recrawl | None = None
    denied: HostsAndPatterns = field(default_factory=HostsAndPatterns)

    @property
    def limits_ways(self) -> bool:
        """Whether `refuses_way` may refuse a link that no redirect led to."""
        return self.rules is not None or self.depth_max > 0

    def refuses_way(self, link: Link) -> Literal["deny", "depth", "redirects", ""]:
        """The limit that the hops to `link` exceed, or "deny".

        With fewer hops, or after a change of the rules, the URL is accepted later.
        """
        depth_max = self.depth_max
        if self.rules is not None:
            values = self.rules.of(link.host)
            if values.deny and not link.payload and values.denies(link.url):
                return "deny"
            depth_max = depth_max if values.max_depth is None else values.max_depth
        if depth_max and link.depth > depth_max:
            return "depth"
        return "redirects" if link.redirects > self.redirects_max else ""

    @property
    def limits_hosts(self) -> bool:
        """Whether `refuses_next` may refuse a link."""
        return self.rules is not None or self.bytes_max > 0

    def refuses_next(self, host: Host, link: Link) -> LimitReason | Literal[""]:
        """The rule or budget that refuses `link`, the next of `host`: no request is made for it."""
        bytes_max = self.bytes_max
        if self.rules is not None:
            values = self.rules.of(host.name)
            if values.deny and values.denies(link.url):
                return "deny"
            if values.max_depth and link.depth > values.max_depth:
                return "depth"
            if values.max_pages and not link.is_counted and host.pages >= values.max_pages:
                return "host_cap"
            bytes_max = bytes_max if values.max_bytes is None else values.max_bytes
        return "host_bytes" if 0 < bytes_max <= host.received_bytes else ""

    def denies_all(self, host: str) -> bool:
        """Whether a rule denies all URLs of `host`: it is not asked for a robots.txt either."""
        return self.rules is not None and self.rules.of(host).denies_all

    def delay_s(self, host: Host) -> float:
        """The delay between two requests to `host`."""
        ruled_s = self.rules.of(host.name).delay_s if self.rules is not None else None
        polite = self.politeness
        least_s = polite.host_delay_s(host.crawl_delay_s, ruled_s)
        return polite.adapted_s(least_s, host.pace) if polite.delay_factor else least_s

    def learn_pace(self, host: Host, outcome: Answered) -> None:
        """`host` has answered: adapt its delay, if DELAY_FACTOR is on."""
        polite = self.politeness
        if polite.delay_factor and outcome.status:
            is_wall = isinstance(outcome, Fetched) and bool(outcome.wall)
            host.pace = host.pace.after(
                _TOO_MANY if is_wall else outcome.status,
                outcome.first_byte_s,
                may_double=self.delay_s(host) < polite.crawl_delay_max_s,
                is_robots=not isinstance(outcome, Fetched),
            )

    def robots_agent(self, host: str) -> str | None:
        """The names with which robots.txt is read for `host`; None if it is not obeyed."""
        if self.rules is None:
            return self.agent if self.obey_robots else None
        ruled = self.rules.of(host)
        obeys = self.obey_robots if ruled.obey_robots is None else ruled.obey_robots
        return self.robots_names(ruled.robots_agent) if obeys else None

    def robots_names(self, ruled: str | None) -> str:
        """As `robots_agent`, of a host for which a rule sets the crawl's own name to `ruled`."""
        return names_key((ruled, *self.also)) if ruled else self.agent

    def tries_again(self, reason: str, retries: int) -> bool:
        """Whether a link that failed for `reason` after `retries` retries is retried."""
        return reason in TRANSIENT and retries < self.retry_times

    def asks_again(self, status: int, retries: int, retry_after_s: float) -> bool:
        """Whether a link is retried after an answer with `status`, the try after `retries`."""
        return (
            status in self.retry_codes
            and retries < self.retry_times
            and retry_after_s <= self.politeness.retry_after_max_s
        )


class Frontier(ABC):
    """All state of a crawl.

    All attributes are written by the frontier and read by its caller.

    counters -- the crawl in numbers; in a worker process, what this process counts
    local -- the frontier of this process, with what no other process asks; None in a worker
    shared -- other processes may lease links that this process puts
    is_short -- all pages that the target still needs are under way; False in a worker
    has_spare -- and other pages are ready: a slow one may be ended for another
    is_met -- the target is reached, and no requisite of its pages is ready or waits for a clock
    has_requisites -- a requisite that goes before pages (`requisites.is_first`) is the next link of
        a host in memory, or is leased
    crawl_id -- of the crawl, the same in all its runs
    goal -- pages that the whole crawl is to answer; 0: no target, or a worker process
    """

    counters: Counters
    local: LocalFrontier | None = None
    shared: bool = False
    is_short: bool = False
    has_spare: bool = False
    is_met: bool = False
    has_requisites: bool = False
    crawl_id: str = ""
    goal: int = 0

    @property
    def crawled(self) -> int:
        """Answered pages of the whole crawl, as far as this machine knows."""
        return self.counters.crawled

    @abstractmethod
    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        """Add links that are in scope. Returns how many were new and not refused by a cap.

        `force` skips the URL-seen test (Scrapy's `dont_filter`). Cost: O(log k) per link for a host
        with k distinct priorities.
        """

    @abstractmethod
    async def acquire(self, now: float, limit: int, lane: Lane = Lane.PAGES) -> list[Lease]:
        """Up to `limit` leases of `lane`, best first. O(log hosts) per lease.

        The call drops links that robots.txt or the IP cap refuse, a bounded number of them. So it
        may return fewer leases than `limit` although more hosts are ready. A refused link with a
        payload is leased with `refused`, since the errback of its Request must be called.
        """

    def withdraw(self) -> list[Lease]:
        """Leases that wait for the next `acquire`: it gets none that was asked for until now."""
        return []

    @abstractmethod
    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        """Give leases back, each with an outcome of its step. KeyError for an unknown lease.

        A frontier in another process may carry it out later, before the next call. The next
        `acquire`, or `close`, raises what goes wrong.
        """

    @abstractmethod
    async def content_seen(self, content: bytes, original: Original, text: Text | None) -> Seen:
        """The content-seen test: the first page with `content`, a digest; None if it is `original`.
        Behind it the URL of the first page with nearly the text `text`; "" if that is `original`,
        or there is none.

        If there are several earlier copies, returns the one with the payload digest of `original`:
        it was sent in the same bytes. The copy may be an earlier capture of the same URL.
        """

    async def log_if_lost(self, warc: str, lines: Sequence[LostLine]) -> None:
        """Write those `lines` of answers in the WARC file `warc` that the log has no line for.

        The first call for a file reads the log. No other process may have leases of these answers.
        """
        raise NotImplementedError(f"{self!r} has no crawl log")

    @abstractmethod
    def next_at(self, lane: Lane = Lane.PAGES) -> float:
        """When `acquire` may give leases of `lane`, in monotonic seconds.

        0.0 is now; inf is not before the next `put` or `release`.
        """

    async def logged_until(self, now: float) -> float:
        """Answers that were archived before then (monotonic) have their line in the crawl log, in
        a commit.
        """
        raise NotImplementedError(f"{self!r} has leases of one process only")

    @abstractmethod
    def is_finished(self) -> bool:
        """True when no link is queued, except kept links, no lease is out, and no visit will be
        due."""

    @abstractmethod
    async def close(self) -> None:
        """Free all resources. A store on disk has the links of open leases for the next run."""
