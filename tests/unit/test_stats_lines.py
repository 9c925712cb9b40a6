"""The stats lines against the example and the traces of the homework that they are from."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import fields

from tests.cases import each_of
from webcrawl.frontier.counters import Counters
from webcrawl.report.lines import (
    LEGEND,
    OutageLines,
    mean_request_s,
    named_counts,
    named_rates,
    outcome_line,
    per_second,
    speed_line,
    stats_line,
    summary,
)


def test_stats_line_of_the_reference() -> None:
    counters = Counters(
        under_way=500,
        pending=992142,
        extracted=7862,
        host_passed=1790,
        resolved=1776,
        ip_passed=1264,
        robots_passed=544,
        crawled=190,
        links=5000,
    )
    assert stats_line(6.0, counters) == (
        "[  6] 500 Q 992142 E    7862 H   1790 D   1776 I  1264 R   544 C   190 L    5K"
    )


def test_the_legend_explains_each_letter_and_is_no_stats_line() -> None:
    letters = re.findall(r" ([A-Z]) ", stats_line(0.0, Counters()))
    assert sorted(re.findall(r"\b([A-Z])  ", "\n".join(LEGEND))) == sorted(letters)
    for line in LEGEND:
        assert not re.match(r"\[ *\d+\]", line)
        assert "*** crawling" not in line
        assert len(line) < 80


def test_stats_line_outgrows_its_columns() -> None:
    """Wide numbers push the columns to the right; nothing is cut."""
    counters = Counters(
        pending=12_345_678, extracted=98_765_432, crawled=1_200_000, links=60_000_000
    )
    line = stats_line(86400.0, counters)
    assert line.startswith("[86400] 0 Q 12345678 E 98765432 H")
    assert line.endswith("C 1200000 L 60000K")


@each_of(
    ("links", "shown"), [(499, "   0K"), (543, "   1K"), (3_256_499, "3256K"), (3_256_521, "3257K")]
)
def test_thousands_are_rounded(links: int, shown: str) -> None:
    """Trace 1 shows 1K for at most 543 links, trace 2 shows 3257K for 3,256,521."""
    assert stats_line(2.0, Counters(links=links)).endswith(f"L {shown}")


@each_of(("elapsed_s", "shown"), [(1.9996, "[  2]"), (2.0004, "[  2]"), (103.46, "[103]")])
def test_elapsed_is_the_nearest_second(elapsed_s: float, shown: str) -> None:
    assert stats_line(elapsed_s, Counters()).startswith(shown)


@each_of(
    ("pages", "bits", "over_s", "speed"),
    [
        (175, 24_600_000, 2.0, "87.5 pps @ 12.3 Mbps"),  # of the reference
        # Trace 2 at [4]: 118 pages since the last line and 58.6 pps, so not over 2 s flat.
        (118, 0, 2.0137, "58.6 pps @ 0.0 Mbps"),
        (10, 1000, 0.0, "0.0 pps @ 0.0 Mbps"),
        (10, 1000, -1.0, "0.0 pps @ 0.0 Mbps"),
    ],
)
def test_speed_is_over_the_time_that_passed(
    pages: int, bits: int, over_s: float, speed: str
) -> None:
    assert speed_line(pages, bits, over_s) == f"    *** crawling {speed}"
    assert over_s > 0.0 or per_second(10, over_s) == 0.0


BIG_TRACE = Counters(
    extracted=1_000_004,
    lookups=139_300,
    robots_attempted=95_460,
    crawled=59_904,
    page_bytes=1_651_630_000,
    links=3_256_521,
    codes=Counter({"2xx": 47185, "3xx": 5826, "4xx": 6691, "5xx": 202}),
)


def test_summary_of_the_big_trace() -> None:
    assert summary(BIG_TRACE, 103.46) == [
        "Extracted 1000004 URLs @ 9666/s",
        "Looked up 139300 DNS names @ 1346/s",
        "Attempted 95460 robots @ 923/s",
        "Crawled 59904 pages @ 579/s (1651.63 MB)",
        "Parsed 3256521 links @ 31476/s",
        "HTTP codes: 2xx = 47185, 3xx = 5826, 4xx = 6691, 5xx = 202, other = 0",
    ]


def test_an_outage_is_said_when_it_begins_and_when_it_ends() -> None:
    lines = OutageLines(7.0)  # of earlier runs
    began = ("    --- our own network is out: the crawl pauses until it is back",)
    assert lines.next(7.0, 100.0) == ()
    assert lines.next(11.0, 102.0) == began
    assert lines.next(13.0, 104.0) == ()
    assert lines.next(13.2, 104.2) == ()
    assert lines.next(13.2, 104.4) == (), "the count may be late"
    assert lines.next(13.2, 106.0) == (
        "    --- our own network is back after 6 s: the crawl continues",
    )
    assert lines.next(13.2, 108.0) == ()
    assert lines.next(13.3, 110.0) == began


def test_a_page_that_is_visited_again_counts_once_in_the_share_of_sitemaps() -> None:
    answered = {"not_modified": 40, "changed": 20, "unchanged": 10, "error": 10}
    others = {"unanswered": 9, "sitemap": 99, "gone": 7, "refused": 3, "lie": 2}
    visits = Counter(answered | others)
    counters = Counters(crawled=100, sitemaps=Counter(only=5), visits=visits)
    assert named_rates(counters, 1.0)["only_sitemaps_share"] == 0.25
    line = outcome_line(counters, 1.0)
    assert line.endswith("only sitemaps gave 5 pages (25.0%, each counted once)")
    line = outcome_line(Counters(crawled=20, sitemaps=Counter(only=5)), 1.0)
    assert line.endswith("only sitemaps gave 5 of these pages (25.0%)")


def test_outcome_line() -> None:
    counters = Counters(crawled=4, fetch_s=2.0, html_pages=3, html_bytes=1_500_000)
    counters.dropped.update(dns=1, robots=2, scope_deny=9)
    counters.kept.update(timeout=1, reset=0)
    assert mean_request_s(counters) == 0.5
    assert outcome_line(counters, 12.34) == (
        "4 pages in 12.3 s, 0.500 s a request on average, 3 HTML pages kept (1.50 MB);"
        " URLs dropped: 3 (robots 2, dns 1); kept for a later try: 1 (timeout 1)"
    )
    assert mean_request_s(Counters()) == 0.0


FUNNEL = ("extracted", "host_passed", "ip_passed", "robots_passed", "crawled")


class Busy(Counters):
    """One more URL goes through the whole funnel whenever a part of it is read."""

    def __getattribute__(self, name: str) -> object:
        value = super().__getattribute__(name)
        if name in FUNNEL:
            for passed in FUNNEL:
                setattr(self, passed, super().__getattribute__(passed) + 1)
        return value


def test_the_funnel_never_widens_in_a_line_read_while_counting() -> None:
    words = stats_line(0.0, Busy()).split()
    candidates = [int(words[words.index(letter) + 1]) for letter in "EHIRC"]
    assert candidates == sorted(candidates, reverse=True)
    assert len(set(candidates)) == len(FUNNEL)


def test_every_count_has_a_name() -> None:
    names = named_counts(BIG_TRACE)
    assert names["codes/2xx"] == 47185
    assert names["codes/other"] == 0
    assert names["extracted"] == 1_000_004
    assert {field.name for field in fields(Counters)} == {
        name.partition("/")[0] for name in named_counts(ONE_OF_EACH)
    }
    assert names["fetch_s"] == 0.0


ONE_OF_EACH = Counters(
    refused_access=Counter(a=1),
    walls=Counter(a=1),
    dropped=Counter(host_cap=1),
    failed=Counter(dns=1),
    retried=Counter(dns=1),
    robots=Counter(a=1),
    kept=Counter(dns=1),
    visits=Counter(changed=1),
    sitemaps=Counter(found=1),
    conditional=Counter(asked=1),
    languages=Counter(por=1),
    dedup=Counter(found=1),
    requisites=Counter({"2xx": 1}),
    levels=Counter({"found/1": 1}),
    stage_under_way=Counter(dns=1),
    stage_ended=Counter(dns=1),
    stage_us=Counter(dns=1),
)


def test_rates_by_name() -> None:
    rates = named_rates(BIG_TRACE, 103.46)
    assert {name: round(rate) for name, rate in rates.items()} == {
        "extracted_per_s": 9666,
        "lookups_per_s": 1346,
        "robots_attempted_per_s": 923,
        "crawled_per_s": 579,
        "links_per_s": 31476,
        "mean_request_s": 0,
    }
    assert named_rates(BIG_TRACE, 0.0)["extracted_per_s"] == 0.0
