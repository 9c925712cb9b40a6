"""The arithmetic of `benchmarks scale`, against cases computed by hand."""

from __future__ import annotations

import pytest

from benchmarks.scale_model import (
    Costs,
    Course,
    Hosts,
    Needs,
    Prices,
    imbalance,
    monthly,
    needs,
    pages_of,
)
from benchmarks.scale_web import (
    DOMAINS,
    Domains,
    common_crawl,
    with_heavy,
)


def test_a_heavy_domain_burdens_one_hub() -> None:
    web = with_heavy([Domains(1.0, 1, 1, f"{k}.example") for k in range(9)], 0.1)
    assert [each.pages for each in web] == [0.9] * 9 + [0.9]
    tenth = [0.9 / 10] * 10
    tenth[3] += 0.1
    assert imbalance(tenth) == pytest.approx(1.9)  # 0.1 * 10 + 0.9


def test_a_polite_hub_waits_for_its_largest_hosts() -> None:
    hosts = Hosts({10.0: 1, 20.0: 2})
    course = Course(hosts, 30, 1000)
    assert (pages_of(hosts), course.end_s) == (50, 600)
    assert [course.pages_at(s) for s in (0, 150, 300, 450, 600, 9e9)] == [0, 15, 30, 40, 50, 50]


def test_a_slow_hub_is_its_own_limit() -> None:
    course = Course({10.0: 1, 20.0: 2}, 30, 0.05)  # 60 s a round of three hosts, 40 s of two
    assert course.times_s == [0, 600, 1000]
    assert course.pages_at(800) == 40


def test_machines_and_their_rent() -> None:
    costs = Costs(1.0, 0.5, 0.4, 0.1, 4, 40, 2000, 30, 150, 10_000, 25_000)
    found = needs(1e9, 1000, 1e9, hubs=10, delay_s=30, costs=costs)
    # 2.5 cores; 4 GB of filters, 60 MB of hosts, 300 of hubs, 1500 of processes
    assert found == pytest.approx((2.5, 0.4, 5.86, 0.04, 10.0, 0.2))
    assert monthly(Needs(10, 1, 100, 2, 50, 1), Prices(7, 2, 80, 18), 2) == (860, 900)


def test_the_domains_of_common_crawl() -> None:
    web = common_crawl(2_482_057_519)
    assert sum(each.number for each in web) == DOMAINS
    assert sum(each.pages * each.number for each in web) == pytest.approx(2_482_057_519, rel=1e-4)
    assert web[0] == Domains(14_940_873, 329_087, 1, "blogspot.com")
    assert web[59].pages == pytest.approx(493_045, rel=0.2)  # published for the 60th
    assert web[499].pages == pytest.approx(104_945)
    even = common_crawl(2_482_057_519, even_hosts=True)
    assert web[499].hosts == 1 < even[499].hosts
