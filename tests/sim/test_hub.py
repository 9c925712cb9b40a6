"""Whole crawls by several processes in virtual time: thousands of kills, each repeatable.

The frontier, its server and its clients are the real ones, and the files of the frontier; time,
network and web are simulated. SIM_SEEDS=400 runs as many crawls, with 80 kills each.
`test_planted_faults` shows that the judge sees what it is there for.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.sim.network import run as run_simulated
from tests.sim.network import seeds
from tests.sim.web import Judge
from tests.sim.world import crawl
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.hosts import HostRows
from webcrawl.frontier.store import StoreError
from webcrawl.hub.member import Member
from webcrawl.hub.server import FrontierServer

SEEDS = seeds(3)
Plant = Callable[[pytest.MonkeyPatch], None]


def run(seed: int, folder: Path, *, hub_dies: bool = True, target: int = 0) -> Judge:
    return run_simulated(crawl(seed, folder, hub_dies=hub_dies, target=target), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_page_is_lost_or_early_however_processes_end(seed: int, tmp_path: Path) -> None:
    assert run(seed, tmp_path).fault is None


@pytest.mark.parametrize("seed", SEEDS)
def test_a_target_is_met_exactly_however_processes_end(seed: int, tmp_path: Path) -> None:
    judge = run(seed, tmp_path, target=20 + 7 * (seed % 16))
    assert judge.answers.total() - judge.excused.total() <= judge.target


def test_a_seed_is_one_crawl(tmp_path: Path) -> None:
    first, again = (run(3, tmp_path / name).trace for name in ("a", "b"))
    assert first == again


def returned_as_never_asked(patch: pytest.MonkeyPatch) -> None:
    """The leases of a dead process: their hosts may be asked at once."""
    real = Member._return_all
    patch.setattr(Member, "_return_all", lambda self, *, asked: real(self, asked=False))


def one_lease_lost(patch: pytest.MonkeyPatch) -> None:
    """One lease of each dead process is never given back."""
    real = Member._return_all

    def lose(self: Member, *, asked: bool) -> None:
        if asked and self._leases:
            self._leases.popitem()
        real(self, asked=asked)

    patch.setattr(Member, "_return_all", lose)


def commits_lost(patch: pytest.MonkeyPatch) -> None:
    """One commit in fifty is not written."""
    real, count = Database.commit, [0]

    def lose(self: Database) -> None:
        count[0] += 1
        if count[0] % 50 == 0:
            self._changes.clear()
        real(self)

    patch.setattr(Database, "commit", lose)


def clocks_forgotten(patch: pytest.MonkeyPatch) -> None:
    """The next run asks the hosts of the run before at once."""
    real = HostRows.__init__

    def forget(self: HostRows, *given: Any) -> None:
        real(self, *given)
        self.before = 0

    patch.setattr(HostRows, "__init__", forget)


def leased_beyond_target(patch: pytest.MonkeyPatch) -> None:
    """A page takes its place of the target when it is answered, and not when it is leased."""
    room = property(lambda self: self.target - self.counters.crawled)
    patch.setattr(FrontierServer, "_room", room)


@pytest.mark.parametrize(
    ("plant", "hub_dies", "target"),
    [
        (returned_as_never_asked, True, 0),
        (one_lease_lost, False, 0),  # the next run finds it
        (commits_lost, True, 0),
        (clocks_forgotten, True, 0),
        (leased_beyond_target, True, 80),
    ],
)
def test_planted_faults(
    plant: Plant, hub_dies: bool, target: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    monkeypatch.setattr("tests.sim.world.LONGEST_S", 1_000)
    with pytest.raises((AssertionError, StoreError)):  # noqa: PT012  (at the first that shows it)
        for seed in range(6):
            run(seed, tmp_path / str(seed), hub_dies=hub_dies, target=target)
