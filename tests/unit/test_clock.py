"""A frontier of which one run had a clock that was ahead (`disk.clock`)."""

from __future__ import annotations

import time
from argparse import Namespace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from tests.unit.test_visits import CYCLE_S, POLITE, UTC_S, Crawl, closed, link, page
from webcrawl.frontier.base import Policy
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.clock import set_back
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder
from webcrawl.frontier.disk.hosts import read_host
from webcrawl.frontier.disk.identity import _new, read_numbers
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Failed, Lease, Outcome
from webcrawl.frontier.revisit import Recrawl
from webcrawl.live.frontierexplanation import explain
from webcrawl.tools.frontier.command import Command

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
    assert "--set-clock" in line


@pytest.mark.parametrize("ahead_s", [-AHEAD_S, 0.0, 200.0])
def test_a_clock_that_was_corrected_is_no_warning(tmp_path: Path, ahead_s: float) -> None:
    crawl = Crawl(tmp_path, now=AHEAD_S + ahead_s)
    crawl.put(link("http://h/"))
    ahead(crawl, AHEAD_S)
    begin(crawl)
    assert not crawl.store.warnings


def set_clock(folder: Path, now: float) -> str:
    db = Database(folder)
    try:
        return set_back(db, now + UTC_S)
    finally:
        db.close()


@pytest.mark.parametrize("run_s", [20.0, 3.5 * CYCLE_S])
def test_visits_come_a_cycle_after_the_clock_is_set(tmp_path: Path, run_s: float) -> None:
    """Of a run that began with the right clock, and one of `run_s` by a clock that was ahead."""
    crawl = Crawl(tmp_path)
    crawl.put(*(link(f"http://right/{n}") for n in range(4)))
    crawl.run(150.0)
    crawl.kill()
    crawl.close()
    crawl.now = 200.0 + AHEAD_S
    begin(crawl)
    crawl.put(*(link(f"http://ahead/{n}") for n in range(4)))
    crawl.run(crawl.now + run_s)
    now = 300.0 + run_s
    ahead(crawl, now)
    assert "are set back" in set_clock(tmp_path, now)
    assert set_clock(tmp_path, now).startswith("No time is ahead")
    begin(crawl)
    assert not crawl.store.warnings
    assert crawl.store.utc_s == UTC_S
    crawl.run(now + 2.5 * CYCLE_S)
    assert len(crawl.visits) == 8
    for times in crawl.visits.values():
        assert now <= times[0] <= now + CYCLE_S + 20
        assert all(CYCLE_S - 1 <= b - a < CYCLE_S + 20 for a, b in pairwise(times))


def test_no_host_is_asked_early(tmp_path: Path) -> None:
    """One was asked at the last commit, and one had begun to back off before the clock changed."""

    def answer(lease: Lease, now: float) -> Outcome:
        return Failed("timeout", now, now) if lease.host == "slow" else page(now)

    crawl = Crawl(tmp_path, answer=answer)
    crawl.put(link("http://slow/"), link("http://slow/2"))
    crawl.run(105.0)
    slow_at = crawl.state._bench.hosts["slow"].next_at
    assert slow_at > 105.0
    crawl.close()
    policy = Policy(politeness=POLITE, recrawl=Recrawl("fixed", CYCLE_S, 0.5))
    crawl.now = 110.0 + AHEAD_S
    store = Store(tmp_path, now=crawl.now, utc_s=UTC_S, has_visits=True)
    state = CrawlState(store, policy, now=crawl.now, utc_s=UTC_S)
    state.put([link("http://new/")], crawl.now)
    host = state._bench.hosts["new"]
    host.asked_at, host.next_at = crawl.now, crawl.now + 30.0
    state._distributor.mark_changed(host)
    state._commit(crawl.now)
    store.close()
    set_clock(tmp_path, 106.0)
    db = Database(tmp_path)
    numbers = read_numbers(db)
    assert numbers is not None
    for name, at in (("slow", slow_at), ("new", 106.0 + 30.0)):
        row = db.get(b"h" + name.encode())
        assert row is not None
        assert read_host(db, name, row, UTC_S, numbers["run"]).next_at >= at - 1e-3
    db.close()


def test_a_kill_on_the_way_leaves_the_rest_for_the_next_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl = Crawl(tmp_path, now=100.0 + AHEAD_S)
    crawl.put(*(link(f"http://h/{n}") for n in range(10)))
    crawl.run(crawl.now + 50.0)
    ahead(crawl, 200.0)
    monkeypatch.setattr("webcrawl.frontier.disk.clock._COMMIT_ROWS", 4)
    db = Database(tmp_path)
    commit, commits = db.commit, []

    def killed() -> None:
        commit()
        commits.append(1)
        if len(commits) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(db, "commit", killed)
    with pytest.raises(KeyboardInterrupt):
        set_back(db, crawl.now + UTC_S)
    db.close()
    assert "set back" in set_clock(tmp_path, crawl.now)
    begin(crawl)
    crawl.run(crawl.now + CYCLE_S + 60)
    assert [len(times) for times in crawl.visits.values()] == [1] * 10


def test_the_command_sets_the_clock_while_no_crawl_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl = Crawl(tmp_path / FOLDER, now=time.time() - UTC_S + AHEAD_S)
    crawl.put(link("http://h/"))
    crawl.run(crawl.now + 5)
    crawl.close()
    command, options = Command(), Namespace(retry=None, export=None, set_clock=True, forget=None)
    command.exitcode = 0
    running = JobFolder(tmp_path)
    command.run([str(tmp_path)], options)
    assert "in use by another crawl" in capsys.readouterr().err
    assert command.exitcode == 1
    running.close()
    command.run([str(tmp_path)], options)
    assert "2 rows of hosts and pages are set back" in capsys.readouterr().out
    command.run([str(tmp_path)], options)
    assert "No time is ahead" in capsys.readouterr().out
    (tmp_path / "none").mkdir()
    command.run([str(tmp_path / "none")], options)
    assert "has no frontier" in capsys.readouterr().err
    assert list((tmp_path / "none").iterdir()) == []


def test_what_was_queued_for_a_visit_learns_of_no_time_to_come(tmp_path: Path) -> None:
    crawl = Crawl(
        tmp_path, now=100.0 + AHEAD_S, answer=lambda lease, now: page(now, unchanged=True)
    )
    crawl.put(link("http://h/"))
    crawl.run(crawl.now + 50.0)
    crawl.now += CYCLE_S
    crawl.state.acquire(crawl.now, 1)
    assert crawl.state._visits is not None
    assert crawl.state._visits.queued == 1
    before = 0.5 * CYCLE_S
    ahead(crawl, 100.0 + CYCLE_S)
    set_clock(tmp_path, crawl.now)
    begin(crawl)
    crawl.run(crawl.now + 20)
    assert crawl.rate("http://h/").seconds == pytest.approx(before + CYCLE_S, rel=0.1)


def test_the_jump_of_the_clock_is_no_time_without_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page was visited before it and after it. Another one only after it."""
    created = {"created": datetime.fromtimestamp(UTC_S + 100.0, UTC).isoformat()}
    monkeypatch.setattr("webcrawl.frontier.disk.identity._new", lambda *args: _new(*args) | created)
    crawl = Crawl(tmp_path, answer=lambda lease, now: page(now, unchanged=True))
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    crawl.close()
    crawl.now = 100.0 + AHEAD_S
    begin(crawl)
    crawl.put(link("http://g/"))
    crawl.run(crawl.now + 1.5 * CYCLE_S)
    assert crawl.rate("http://h/").seconds >= AHEAD_S
    ahead(crawl, 150.0 + 1.5 * CYCLE_S)
    set_clock(tmp_path, crawl.now)
    begin(crawl)
    assert crawl.rate("http://h/").per_s == pytest.approx(1 / CYCLE_S, rel=0.01)
    assert crawl.rate("http://g/").seconds == pytest.approx(1.5 * CYCLE_S, rel=0.02)


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
