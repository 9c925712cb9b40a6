"""RECRAWL=adaptive keeps more pages fresh than fixed revisits, with as many visits.

1,000 pages change as Poisson processes for two years, the second one counted: 12 % daily, 18 %
weekly, 30 % each 45 days, 40 % yearly. Each policy may visit a page in 28 days, on the average.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import exp
from random import Random

from tests.cases import each_of
from webcrawl.frontier.revisit import (
    DAY_S,
    Allowance,
    Marginal,
    first_rate,
    learned,
)

PAGES, CYCLE_S, YEAR_S, HOUR_S = 1_000, 28 * DAY_S, 365 * DAY_S, 3600.0
HABITS = ((0.12, 1.0), (0.18, 7.0), (0.30, 45.0), (0.40, 365.0))  # share of pages, days a change

# Seconds to the next visit of a page, after a visit that saw a change or not.
Decide = Callable[[int, float, bool], float]


def freshness(
    weights: list[float], decide: Decide, steer: Callable[[float, bool], None] | None = None
) -> float:
    """Weighted share of the second year in which the copies were those of the servers."""
    random = Random(17)
    days = [day for share, day in HABITS for _ in range(round(share * PAGES))]
    rates = [exp(random.gauss(0, 0.3)) / (day * DAY_S) for day in days]
    allowance = Allowance(CYCLE_S, 0.0)
    seen_at, fresh_s = [0.0] * PAGES, [0.0] * PAGES
    changes_at = [random.expovariate(rate) for rate in rates]  # first after the visit
    due = [(random.random() * CYCLE_S, page) for page in range(PAGES)]
    heapq.heapify(due)

    def count(page: int, until: float) -> None:
        begin, end = max(seen_at[page], YEAR_S), min(changes_at[page], until, 2 * YEAR_S)
        fresh_s[page] += max(end - begin, 0.0)

    for hour in range(1, 2 * 365 * 24 + 1):
        now, used = hour * HOUR_S, 0
        allowed = allowance.visits(now, PAGES)
        while used < allowed and due[0][0] <= now:
            page, used = due[0][1], used + 1
            count(page, now)
            next_s = decide(page, now - seen_at[page], changes_at[page] < now)
            seen_at[page], changes_at[page] = now, now + random.expovariate(rates[page])
            heapq.heapreplace(due, (now + next_s, page))
        allowance.spend(used, PAGES)
        if steer:
            steer(now, due[0][0] <= now)
    for page in range(PAGES):
        count(page, 2 * YEAR_S)
    return sum(w * s for w, s in zip(weights, fresh_s, strict=True)) / (YEAR_S * sum(weights))


def adaptive(weights: list[float]) -> float:
    mean = sum(weights) / PAGES
    marginal = Marginal(CYCLE_S, 0.0, planned_per_s=PAGES / CYCLE_S)
    rates, planned_s = [first_rate(CYCLE_S)] * PAGES, [CYCLE_S] * PAGES

    def decide(page: int, after_s: float, has_changed: bool) -> float:
        rates[page] = learned(rates[page], after_s, has_changed=has_changed)
        before_s = planned_s[page]
        planned_s[page] = marginal.next_s(rates[page], weights[page] / mean)
        marginal.plan(before_s, planned_s[page])
        return planned_s[page]

    return freshness(
        weights, decide, lambda now, more: marginal.adjust(now, PAGES, is_more_due=more)
    )


@each_of(("rank", "gain"), [(0.0, 0.0), (-0.7, 0.05)])
def test_adaptive_revisits_keep_more_fresh_than_fixed_ones(rank: float, gain: float) -> None:
    weights = [(n + 1) ** rank for n in range(PAGES)]
    Random(17).shuffle(weights)
    fixed = freshness(weights, lambda page, after_s, has_changed: CYCLE_S)
    assert adaptive(weights) >= fixed + gain
