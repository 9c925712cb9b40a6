"""The mathematics of RECRAWL, against plain numeric integration and random changes."""

from __future__ import annotations

from math import exp
from random import Random

import pytest

from tests.cases import each_of
from webcrawl.frontier.revisit import (
    DAY_S,
    FARTHEST,
    NEAREST,
    Allowance,
    Marginal,
    Rate,
    Turns,
    changes_between,
    first_rate,
    learned,
)

CYCLE_S = 28 * DAY_S


@each_of("value", [1e-9, 1e-4, 0.1, 0.264, 0.5, 0.9, 0.999, 1 - 1e-9])
def test_lambert(value: float) -> None:
    x = changes_between(value)
    assert 1 - (1 + x) * exp(-x) == pytest.approx(value, rel=1e-6, abs=1e-12)


def test_a_page_of_which_nothing_is_known_is_visited_once_a_cycle() -> None:
    assert Marginal(CYCLE_S, 0.0).next_s(first_rate(CYCLE_S)) == pytest.approx(CYCLE_S)


def test_heavier_pages_are_visited_more_often() -> None:
    marginal, rate = Marginal(CYCLE_S, 0.0), first_rate(CYCLE_S)
    times = [marginal.next_s(rate, weight) for weight in (0.1, 0.5, 1.0, 2.0, 10.0, 1e9)]
    assert times == sorted(times, reverse=True)
    assert times[0] == FARTHEST * CYCLE_S
    assert times[-1] == NEAREST * CYCLE_S


def test_pages_that_change_too_often_or_never_are_hardly_visited() -> None:
    marginal = Marginal(CYCLE_S, 0.0)
    monthly, hourly, never = Rate(1, CYCLE_S), Rate(1, 3600.0), Rate(0.5, 100 * CYCLE_S)
    assert marginal.next_s(hourly) == FARTHEST * CYCLE_S
    assert CYCLE_S < marginal.next_s(never) <= FARTHEST * CYCLE_S
    assert marginal.next_s(monthly) < marginal.next_s(never)


@each_of("days", [1.0, 7.0, 60.0])
def test_rates_are_learned(days: float) -> None:
    random, after_s, found = Random(17), 2 * DAY_S, 0.0
    for _ in range(30):
        rate = first_rate(CYCLE_S)
        for _ in range(200):
            has_changed = random.random() < 1 - exp(-after_s / (days * DAY_S))
            rate = learned(rate, after_s, has_changed=has_changed)
        found += rate.per_s * DAY_S / 30
    assert found == pytest.approx(1 / days, rel=0.25)


def test_a_true_date_of_the_last_change_tells_more() -> None:
    rate = Rate(1.0, 10 * DAY_S)
    just_now = learned(rate, 10 * DAY_S, has_changed=True, age_s=10.0)
    long_ago = learned(rate, 10 * DAY_S, has_changed=True, age_s=9.9 * DAY_S)
    assert long_ago.per_s < learned(rate, 10 * DAY_S, has_changed=True).per_s < just_now.per_s


def test_the_marginal_value_comes_to_rest_where_the_budget_is_met() -> None:
    """4,000 pages of unlike rates, planned again at each visit; the first plans are too many."""
    random = Random(3)
    marginal = Marginal(CYCLE_S, 0.0, value=0.01)
    rates = [Rate(10.0, random.choice((1, 7, 45, 365)) * 10 * DAY_S) for _ in range(500)]
    plans = [0.0] * len(rates)
    for hour in range(5_000):
        for page in random.sample(range(len(rates)), 5):
            before_s, plans[page] = plans[page], marginal.next_s(rates[page])
            marginal.plan(before_s, plans[page])
        marginal.adjust(hour * 3600.0, len(rates), is_more_due=False)
    assert marginal.planned_per_s == pytest.approx(len(rates) / CYCLE_S, rel=0.1)


def test_the_allowance_is_one_visit_a_page_and_cycle() -> None:
    allowance, used = Allowance(100.0, 0.0), 0
    for now in range(1, 1001):
        visits = allowance.visits(float(now), 50)
        used += visits
        allowance.spend(visits, 50)
    assert used == pytest.approx(500, abs=2)
    assert allowance.visits(1e6, 50) > 1_000  # nobody asked meanwhile
    allowance.spend(0, 50)
    assert allowance.visits(1e6, 50) <= 3


@each_of("share", [0.1, 0.5, 0.9, 1.0])
def test_turns_are_shared(share: float) -> None:
    turns, visits = Turns(share), 0
    for _ in range(1000):
        visits += turns.is_visits
        turns.took(is_visit=turns.is_visits)
    assert visits / 1000 == pytest.approx(share, abs=0.01)
