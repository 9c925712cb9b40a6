"""MAX_PAGES_PER_IP of all hubs, in the frontier of the hub that owns the address."""

from __future__ import annotations

from pathlib import Path

from tests.contracts.frontier import memory_frontier
from tests.sim.processes import kill_frontier
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.frontier import LocalFrontier

ONE, TWO = "192.0.2.1", "192.0.2.2"


def test_pages_are_given_up_to_the_cap_and_taken_back() -> None:
    state: CrawlState = memory_frontier()._state
    assert state.give_pages({}, [ONE, TWO], 10, 4) == {ONE: 4, TWO: 4}
    assert state.give_pages({}, [ONE], 10, 64) == {ONE: 6}
    assert state.give_pages({}, [ONE], 10, 64) == {ONE: 0}
    assert state.give_pages({ONE: 3}, [ONE, TWO], 10, 64) == {ONE: 3, TWO: 6}
    assert state.give_pages({}, [TWO], 5, 64) == {TWO: 0}  # the next run has a lower cap


def test_what_is_given_is_on_the_disk(tmp_path: Path) -> None:
    frontier = LocalFrontier(tmp_path)
    assert frontier._state.give_pages({}, [ONE], 10, 7) == {ONE: 7}
    kill_frontier(frontier)
    frontier = LocalFrontier(tmp_path)
    assert frontier._state.give_pages({}, [ONE], 10, 7) == {ONE: 3}
