"""Rates between two samples of the counts of a crawl."""

from __future__ import annotations

from webcrawl.frontier.counters import Counters
from webcrawl.live.machine import ProcessStat, process_stats
from webcrawl.live.rates import Rates


def counters(pages: int, **stages: tuple[int, float]) -> Counters:
    """`stages`: requests that have ended, and the seconds of each."""
    counted = Counters(crawled=pages, page_bytes=pages * 1000, robots_bytes=500)
    for name, (ended, took_s) in stages.items():
        for _ in range(ended):
            counted.count_stage(name, took_s)
    return counted


def test_the_first_sample_is_compared_with_the_beginning_of_the_crawl() -> None:
    rates = Rates()
    rates.add(counters(500, page=(10, 0.25)), 100.0, {"main": ProcessStat(1, 2.0, 3.0)})
    assert rates.pages_per_s == 5.0
    assert round(rates.mbps, 9) == 0.04004
    assert rates.stage("page") == (0.1, 250.0)
    assert rates.stage("head") == (0.0, 0.0)
    assert rates.busy == {}


def test_later_samples_are_compared_with_the_last_five() -> None:
    rates = Rates()
    for second in range(20):
        rates.add(counters(10 * second), 1000.0 + second, {})
    assert rates.over_s == 5.0
    assert rates.pages_per_s == 10.0


def test_a_reader_that_comes_back_sees_the_present_rates_at_its_second_sample() -> None:
    rates = Rates()
    for second in (*range(10), 3600, 3602):
        rates.add(counters(second if second < 3600 else 72_000), 1000.0 + second, {})
    assert (rates.over_s, rates.pages_per_s) == (2.0, 0.0)


def test_without_a_new_request_the_mean_is_that_of_the_whole_crawl() -> None:
    rates = Rates()
    rates.add(counters(1, dns=(4, 0.5)), 10.0, {})
    rates.add(counters(1, dns=(4, 0.5)), 11.0, {})
    assert rates.stage("dns") == (0.0, 500.0)


def test_a_process_is_busy_while_it_runs_and_while_it_waits_for_a_processor() -> None:
    rates = Rates()
    before = {"main": ProcessStat(1, 10.0, 1.0), "process 2": ProcessStat(1, 50.0, 1.0)}
    now = {
        "main": ProcessStat(1, 10.5, 1.25),
        "process 2": ProcessStat(1, 0.5, 0.0),  # it was started again
        "process 3": ProcessStat(1, 0.5, 0.0),
    }
    rates.add(counters(1), 20.0, before)
    rates.add(counters(1), 21.0, now)
    assert rates.busy == {"main": 0.75}
    assert rates.waited == {"main": 0.25}


def test_this_process_has_memory_and_a_dead_one_is_left_out() -> None:
    stats = process_stats({2: 1 << 30})
    assert list(stats) == ["main"]
    assert stats["main"].rss_bytes > 1_000_000
    assert stats["main"].cpu_s > 0
