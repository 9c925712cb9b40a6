"""The crawl of several hubs, as lines and as values for programs."""

from __future__ import annotations

import msgspec

from webcrawl.frontier.counters import Counters, CrawlTotals
from webcrawl.report.lines import named_counts, whole_line, whole_summary, whole_values


def whole(away_since: str = "") -> CrawlTotals:
    counters = Counters(crawled=12, pending=6, page_bytes=5_000_000)
    away = {2: away_since} if away_since else {}
    return CrawlTotals(1, 10.0, 2.0, 1.0, 4, counters, 3, away)


def test_a_line_names_the_hubs_that_are_away() -> None:
    assert whole_line(whole()) == "    === all 3 hubs, C 12, Q 6, 2.0 pps @ 1.0 Mbps"
    since = "2026-11-23T05:00:00Z"
    assert whole_line(whole(since)) == (
        f"    === 2 of 3 hubs (hub 2 is away since {since}), C 12, Q 6, 2.0 pps @ 1.0 Mbps"
    )


def test_the_summary_says_what_is_of_the_hub_and_what_of_all() -> None:
    lines = whole_summary(whole("then"))
    assert lines[:2] == ["", "Above: hub 1 of 3. The whole crawl:"]
    assert "Crawled 12 pages @ 1/s (5.00 MB)" in lines
    assert lines[-1] == (
        "Hubs that are away are counted as they were last heard:"
        " 2 of 3 hubs (hub 2 is away since then)"
    )


def test_the_values_for_programs_are_json() -> None:
    values = whole_values(whole())
    assert msgspec.json.decode(msgspec.json.encode(values)) == values
    assert values["counts"] == named_counts(whole().counters)
    assert values["hubs"] == [{"hub": number, "away_since": ""} for number in range(3)]
