"""When a page is visited again: the mathematics of RECRAWL, and nothing else.

A page changes as a Poisson process of rate r. Visited each t seconds, it is fresh for the part
(1 - exp(-r t)) / (r t) of the time. Under a budget of visits the weighted freshness of all pages is
greatest if one more visit a second is worth the same at every page, the marginal value m:

    (w / r) (1 - (1 + x) exp(-x)) = m    with x = r t, the changes expected between two visits

(J. Cho and H. Garcia-Molina, "Effective Page Refresh Policies for Web Crawlers", TODS 2003; Y. Azar
and others, "Tractable near-optimal policies for crawling", PNAS 2018). So a page that changes too
often for its weight w is hardly visited: its copy is old at once, whatever we do.

Rates are learned with two numbers a page, of a Gamma distribution: a counts changes, b the time in
which they were seen, and r = a / b. Owns no state and reads no clock. Times are seconds.
"""

from __future__ import annotations

from math import exp, expm1, log1p, sqrt
from typing import Final, NamedTuple

DAY_S: Final = 86_400.0
FARTHEST: Final = 6.5  # cycles: at 28 days this is twice a year
NEAREST: Final = 1 / 672  # of a cycle: at 28 days this is an hour
# Steering, in "hours": the time NEAREST. Of gains from 0.003 to 0.1 those up to 0.01 came to rest.
_GAIN: Final = 0.01  # change of the marginal value an hour, if twice as much is planned as allowed
_DRAIN: Final = 0.01  # less planned than allowed, while visits wait for their turn
_HOURS_MAX: Final = 24.0  # at a time, such as after a pause
_CHANGES_MAX: Final = 30.0  # beyond it both numbers are halved: a page may change its habit
_BURST: Final = 0.05  # of a cycle: allowance that is kept although visits could have used it


class Recrawl(NamedTuple):
    """The settings: RECRAWL ("fixed" or "adaptive"), RECRAWL_CYCLE; and the share of visits."""

    mode: str
    cycle_s: float
    share: float = 0.5  # of requests that may be visits, while new pages wait; above 0, at most 1


class Rate(NamedTuple):
    """What was learned of a page: `changes` were seen in `seconds`."""

    changes: float
    seconds: float

    @property
    def per_s(self) -> float:
        return self.changes / self.seconds


def first_rate(cycle_s: float) -> Rate:
    """Of a page seen once: one change a cycle, believed as much as half a change seen."""
    return Rate(0.5, cycle_s / 2)


def learned(rate: Rate, after_s: float, *, has_changed: bool, age_s: float | None = None) -> Rate:
    """The rate after a visit `after_s` behind the last one.

    `age_s`: how long ago the last change was, if the server says so. Without it a change counts
    for the number of changes that are likely in a time with at least one.
    """
    changes, seconds = rate.changes, rate.seconds
    if has_changed:
        expected = rate.per_s * after_s
        if age_s is not None and 0 <= age_s <= after_s:
            changes += 1 + rate.per_s * (after_s - age_s)
        else:
            changes += expected / -expm1(-expected) if expected > 1e-9 else 1.0
    seconds += after_s
    if changes > _CHANGES_MAX:
        return Rate(changes / 2, seconds / 2)
    return Rate(changes, seconds)


def unlearned(rate: Rate, after_s: float) -> Rate:
    """The rate without visits, of `after_s` in all, that wrongly found no change."""
    return Rate(rate.changes, max(rate.seconds - after_s, 1.0)) if after_s else rate


def changes_between(value: float) -> float:
    """The x of 1 - (1 + x) exp(-x) = `value`, for 0 < `value` < 1. 1 µs.

    That is -1 - W(-(1 - value) / e) on the lower branch of Lambert's W. Newton's method on
    x - log(1 + x) = -log(1 - value) from above: convex, so each step comes nearer.
    """
    target = -log1p(-value)
    x = sqrt(2 * target) + target
    for _ in range(8):
        step = (x - log1p(x) - target) * (1 + x) / x
        x -= step
        if step < 1e-9 * x:
            break
    return x


class Marginal:
    """The marginal value of a crawl or hub, steered so that visits planned are visits allowed.

    value -- in units of a page of mean weight in one cycle. It begins where such a page, of which
        nothing is known, is visited once a cycle
    planned_per_s -- the sum of 1 / (time to the next visit) of all pages. The visits that are due
        would tell the same a cycle later, and a hand that steers by them never comes to rest
    """

    FIRST: Final = 1 - 2 * exp(-1)  # x = 1

    def __init__(
        self, cycle_s: float, now: float, value: float | None = None, planned_per_s: float = 0.0
    ) -> None:
        self.cycle_s = cycle_s
        self.value = value if value is not None else self.FIRST
        self.planned_per_s = planned_per_s
        self._at = now

    def next_s(self, rate: Rate, weight: float = 1.0) -> float:
        """Seconds from one visit of a page to the next. `weight`: of the mean of all pages."""
        value = self._value(rate, weight)
        if value >= 1.0:  # not worth a visit; but its rate may have become lower
            return FARTHEST * self.cycle_s
        after_s = changes_between(value) / rate.per_s if value > 1e-12 else 0.0
        return min(max(after_s, NEAREST * self.cycle_s), FARTHEST * self.cycle_s)

    def is_worth(self, rate: Rate, weight: float = 1.0) -> bool:
        """Whether a page that has changed is worth a visit: its copy is then fresh for 1 / rate."""
        return self._value(rate, weight) < 1.0

    def hinted_s(self, rate: Rate, weight: float, reading_s: float) -> float:
        """Seconds from one visit of a page to the next, if it is visited when a sitemap, read each
        `reading_s`, says that it has changed; and when `next_s` without a word of it are over.
        """
        next_s = self.next_s(rate, weight)
        if next_s <= reading_s or not self.is_worth(rate, weight):
            return next_s
        return min(reading_s / -expm1(-rate.per_s * reading_s), FARTHEST * self.cycle_s)

    def _value(self, rate: Rate, weight: float) -> float:
        """1 - (1 + x) exp(-x) of a page, and that of one not worth a visit is 1 or more."""
        return self.value * rate.per_s * self.cycle_s / weight if weight > 0 else 1.0

    def plan(self, before_s: float, next_s: float) -> None:
        """The visits of a page come each `next_s` seconds, and came each `before_s`. 0: never."""
        gone = 1 / before_s if before_s > 0 else 0.0
        come = 1 / next_s if next_s > 0 else 0.0
        self.planned_per_s = max(self.planned_per_s + come - gone, 0.0)

    def adjust(self, now: float, pages: int, *, is_more_due: bool) -> None:
        """Bring the visits planned nearer to those allowed: each of `pages` once in a cycle.

        `is_more_due`: visits have waited for their turn; then a little less is planned.
        """
        allowed_per_s = pages / self.cycle_s * (1 - _DRAIN * is_more_due)
        hours = min((now - self._at) / (NEAREST * self.cycle_s), _HOURS_MAX)
        if hours <= 0 or not allowed_per_s:
            return
        self._at = now
        beyond = min(self.planned_per_s / allowed_per_s - 1, 1.0)
        self.value = min(max(self.value * exp(_GAIN * hours * beyond), 1e-9), 1e9)


class Allowance:
    """How many visits are allowed: each page once in a cycle, on the average.

    Nothing is lost while nobody asks, as in a pause: then visits are overdue. What `spend` leaves
    over is kept up to a burst.
    """

    def __init__(self, cycle_s: float, now: float) -> None:
        self._cycle_s = cycle_s
        self._at = now
        self._saved = 1.0

    def visits(self, now: float, pages: int) -> int:
        """Whole visits that are allowed now, for a crawl of `pages`."""
        per_s = pages / self._cycle_s
        self._saved += max(now - self._at, 0.0) * per_s
        self._at = max(self._at, now)
        return int(self._saved)

    def spend(self, visits: int, pages: int) -> None:
        """`visits` were used. What is left beyond a burst is lost."""
        left = self._saved - visits
        self._saved = min(left, 1.0 + _BURST * pages)


class Turns:
    """Shares requests between new pages and visits. `share` is that of the visits, 0 to 1.

    Whoever has nothing to ask leaves its turns to the other.
    """

    _DEBT_MAX: Final = 10.0  # turns that one side may be behind

    def __init__(self, share: float) -> None:
        self._share = share
        self._credit = 0.0  # of the visits

    @property
    def is_visits(self) -> bool:
        """Whether the next request is a visit's, if both have one."""
        return self._credit >= 0

    def took(self, *, is_visit: bool) -> None:
        credit = self._credit + (self._share - 1 if is_visit else self._share)
        self._credit = min(max(credit, -self._DEBT_MAX), self._DEBT_MAX)
