"""The frontier's interface: what any store of a crawl's state must do.

Asynchronous and in batches, so that one interface serves memory, disk and a server. `now` is
monotonic seconds and comes from the caller; no frontier reads a clock. tests/contracts/frontier.py
is the interface in executable form.

What every implementation promises:
- at most one lease a host and, with IP clocks on, one lease an IP address;
- no lease before the clocks of its host and its address allow it;
- a URL is leased as PAGE once, unless its outcome asks for a retry or the lease is returned;
- what was put and not refused is leased sooner or later, or counted in `counters.dropped`;
- what failed in a way that may pass is in line again, by the last time kept for a later try
  (`counters.kept`): a frontier is finished when only such links are left, and the next run of a
  lasting store takes them up at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import Lease, Link, Outcome
from webcrawl.frontier.politeness import Politeness
from webcrawl.items import Original

SUPPLY_S = 2.0
# Deviation: where new addresses or robots rules cannot be had, the old ones hold for this long.
STALE_S = 3600.0
TARGET_MET = "closespider_pagecount"  # why a crawl ends


@dataclass(slots=True, frozen=True)
class Policy:
    """How this crawl treats links, hosts and failures; the names of the settings are beside."""

    politeness: Politeness = field(default_factory=Politeness)
    obey_robots: bool = True  # ROBOTSTXT_OBEY
    head_first: bool = False  # HEAD_FIRST
    depth_max: int = 0  # DEPTH_LIMIT, 0 is none
    redirects_max: int = 20  # REDIRECT_MAX_TIMES
    retry_times: int = 2  # RETRY_TIMES
    retry_codes: frozenset[int] = frozenset({500, 502, 503, 504, 522, 524, 408, 429})
    # Deviation: after so many attempts in a row without any answer a host is given up for a while.
    failures_max: int = 20  # HOST_MAX_FAILURES
    retired_s: float = 3600.0  # new links of a host that has no address are dropped for so long
    stale_s: float = STALE_S

    def refuses_way(self, link: Link) -> str:
        """The limit that the way to `link` exceeds: "depth", "redirects" or "". By another way the
        same URL may still come in.
        """
        if self.depth_max and link.depth > self.depth_max:
            return "depth"
        return "redirects" if link.redirects > self.redirects_max else ""

    def tries_again(self, reason: str, retries: int) -> bool:
        """Whether a link that failed for `reason` after `retries` retries gets another."""
        return reason in TRANSIENT and retries < self.retry_times

    def asks_again(self, status: int, retries: int, retry_after_s: float) -> bool:
        """Whether a link is asked for again after an answer, which may be another by then."""
        return (
            status in self.retry_codes
            and retries < self.retry_times
            and retry_after_s <= self.politeness.retry_after_max_s
        )


class Frontier(ABC):
    """All state of a crawl."""

    counters: Counters
    resumed: bool = False  # an earlier run began this crawl
    warnings: Sequence[str] = ()  # settings that differ from that run, and the like
    shared: bool = False  # other processes lease what this one puts
    failed_seeds: Sequence[tuple[str, str]] = ()  # the first that failed in this run, and why
    # Of a crawl with a target: how many answers to the pages that this process has leased may
    # count, those that it has not released yet included. None: all of them.
    places: int | None = None
    is_short: bool = False  # all places of the target are given out
    is_met: bool = False  # so many pages are answered

    @abstractmethod
    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        """Add links that are in scope; how many were new and not refused by a cap.

        `force` skips the URL-seen test (Scrapy's `dont_filter`). Cost: O(log k) a link for a host
        with k distinct priorities.
        """

    @abstractmethod
    async def acquire(self, now: float, limit: int, *, admissions: bool = False) -> list[Lease]:
        """Up to `limit` leases, best first: PAGE leases, or with `admissions` all other steps.

        O(log hosts) a lease. URLs that robots.txt or the IP cap refuse are dropped on the way, a
        bounded number a call: fewer leases than `limit` is no proof that there are none. One with a
        payload is not dropped but leased with `refused`, for somebody to be told.
        """

    async def acquire_pages(self, now: float, limit: int, spare: int) -> list[Lease]:
        """`acquire` of PAGE leases. With a target, up to `spare` of those that the process has out
        may be without a place; with a `limit` of 0 these still get what places there are.
        """
        return await self.acquire(now, limit) if limit > 0 else []

    @abstractmethod
    async def release(self, done: Sequence[tuple[Lease, Outcome]], now: float) -> None:
        """Give leases back, each with its outcome of the kind its step has; KeyError if unknown."""

    @abstractmethod
    async def content_seen(self, content: bytes, original: Original) -> Original | None:
        """The content-seen test: who had `content` (a digest) first; None: `original` has, now.

        Of several copies, the one whose payload digest is that of `original`: a page that was sent
        in the same bytes. It may be an earlier capture of the same URL.
        """

    @abstractmethod
    def next_at(self, *, admissions: bool = False) -> float:
        """When `acquire` may have something: 0.0 now, inf not before a put or a release."""

    @property
    def supply(self) -> int:
        """About how many pages the hosts that are admitted can give within SUPPLY_S seconds."""
        return 0

    @abstractmethod
    def is_finished(self) -> bool:
        """True when nothing waits, save what is kept for a later try, and nothing is leased."""

    @abstractmethod
    async def close(self) -> None:
        """Release what is held. Leases not given back go to the next run of a lasting store."""
