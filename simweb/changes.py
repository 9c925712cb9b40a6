"""Pages that change: each as a Poisson process of a known rate, and how fresh a crawl keeps them.

With a cycle of 28 days: 12 % of the pages change daily, 18 % weekly, 30 % each 45 days and 40 %
yearly. Another cycle shortens all four alike, so 20 seconds stand for 28 days. A page's version is
in its text. Times are monotonic seconds; a page's time must not go back.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from simweb.spec import ROBOTS_PAGE, SITEMAP_PAGE, Place

# Share of the pages, and changes in a cycle.
HABITS = ((0.12, 28.0), (0.18, 4.0), (0.30, 28 / 45), (0.40, 28 / 365))


@dataclass(slots=True)
class _Past:
    """The changes of a page so far."""

    random: Random
    rate: float  # a second
    next_at: float  # of its next change
    version: int = 0
    changed_at: float = 0.0  # last; 0.0: not yet


class Changes:
    """The versions of all pages. Memory: 3 KB for each page ever asked for.

    `utc_s` turns monotonic times into UTC.
    """

    utc_s = 0.0

    def __init__(self, seed: int, cycle_s: float) -> None:
        self.cycle_s = cycle_s
        self._seed = seed
        self._pages: dict[Place, _Past] = {}

    def version(self, place: Place, now: float) -> tuple[int, float]:
        """(version of the page, time of its next change). The first request is for version 0."""
        past = self._pages.get(place)
        if past is None:
            random = Random(f"{self._seed} {place}")
            rate = self.rate(random)
            past = _Past(random, rate, now + random.expovariate(rate))
            self._pages[place] = past
        while past.next_at <= now:
            past.version += 1
            past.changed_at = past.next_at
            past.next_at += past.random.expovariate(past.rate)
        return past.version, past.next_at

    def changed_time(self, place: Place, now: float) -> float:
        """When the page changed last, UTC; 0.0 if it has not, since it was asked for first."""
        past = self._pages.get(place)
        if past is None:
            return 0.0
        self.version(place, now)
        return past.changed_at and past.changed_at + self.utc_s

    def rate(self, random: Random) -> float:
        """Draw the rate of a page."""
        shares, changes = zip(*HABITS, strict=True)
        return random.choices(changes, shares)[0] / self.cycle_s


@dataclass(slots=True)
class _Copy:
    """What the crawler has of a page."""

    first_at: float
    got_at: float
    stale_at: float  # when the page changes next, after it was got
    visits: int = 0
    fresh_s: float = 0.0

    def fresh_until(self, now: float) -> float:
        return self.fresh_s + min(self.stale_at, now) - self.got_at


class Freshness:
    """How long the crawler's copies were equal to the pages."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._copies: dict[Place, _Copy] = {}
        self._changed = 0  # visits that found a new version
        self._versions: dict[Place, int] = {}

    def got(self, place: Place, now: float) -> None:
        """A page was asked for."""
        if place.page in (ROBOTS_PAGE, SITEMAP_PAGE):
            return
        version, next_at = self._changes.version(place, now)
        copy = self._copies.get(place)
        if copy is None:
            self._copies[place] = _Copy(now, now, next_at)
        else:
            copy.fresh_s = copy.fresh_until(now)
            copy.got_at, copy.stale_at = now, next_at
            copy.visits += 1
            self._changed += version != self._versions[place]
        self._versions[place] = version

    def report(self, now: float) -> dict[str, Any]:
        """`fresh_s` of `watched_s`: summed over the pages, each since it was got first."""
        copies = self._copies.values()
        return {
            "pages": len(copies),
            "visits": sum(copy.visits for copy in copies),
            "visited": sum(copy.visits > 0 for copy in copies),
            "changed": self._changed,
            "fresh_s": sum(copy.fresh_until(now) for copy in copies),
            "watched_s": sum(now - copy.first_at for copy in copies),
        }
