"""A frontier of which one run had a clock that was ahead (`disk.clock`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.test_visits import UTC_S, Crawl, closed, link
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.tools.explain.frontier import explain

__all__ = ["closed"]  # a fixture
AHEAD_S = 400 * 86_400.0


def ahead(crawl: Crawl, back_to: float) -> None:
    """End the run of `crawl`; the next one begins `back_to`, AHEAD_S before."""
    crawl.close()
    crawl.now = back_to


def begin(crawl: Crawl) -> None:
    crawl.visits.clear()
    crawl.asked.clear()
    crawl.begin()


def test_the_start_warns_with_both_times(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, now=100.0 + AHEAD_S)
    crawl.put(link("http://h/"))
    ahead(crawl, 100.0)
    begin(crawl)
    (line,) = crawl.store.warnings
    assert "2024-12-18 22:15:00 UTC" in line
    assert "2023-11-14 22:15:00 UTC" in line


@pytest.mark.parametrize("ahead_s", [-AHEAD_S, 0.0, 200.0])
def test_a_clock_that_was_corrected_is_no_warning(tmp_path: Path, ahead_s: float) -> None:
    crawl = Crawl(tmp_path, now=AHEAD_S + ahead_s)
    crawl.put(link("http://h/"))
    ahead(crawl, AHEAD_S)
    begin(crawl)
    assert not crawl.store.warnings


def test_a_host_that_was_never_given_up_is_not_said_to_be(tmp_path: Path) -> None:
    """A time of 0 is stored as the machine's start, which was in the future."""
    crawl = Crawl(tmp_path, now=100.0 + AHEAD_S)
    crawl.put(link("http://h/"))
    crawl.close()
    frontier = Inspection(tmp_path)
    said = explain(frontier, "http://h/", UTC_S + 100.0)
    summary = frontier.summary(UTC_S + 100.0)
    frontier.close()
    assert not [line for line in said if "given up" in line]
    assert "The last commit of this crawl was at 2024-12-18" in said[0]
    assert "h may be asked now." in said
    assert "         1 ready      have URLs and may be asked now, or are being asked" in summary
