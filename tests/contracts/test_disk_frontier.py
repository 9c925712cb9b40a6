"""The frontier against the contract: with room for all hosts at once, and for two on disk."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.contracts.frontier import (
    POLITE,
    Driver,
    FrontierContract,
    answer,
    memory_frontier,
    near_duplicate_of,
)
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.candidates import FAILURES_MAX
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lease,
    Outcome,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.store import StoreError


class TestFrontier(FrontierContract):
    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        return memory_frontier(policy, ordering=ORDERINGS[order or self.order](), caps=caps)


class TestFrontierByCash(TestFrontier):
    order = "opic"


class TestSmallDiskFrontier(FrontierContract):
    """Two hosts have a place, so the order over all hosts is not exact."""

    active_max = 2
    test_hosts_come_up_by_their_best_link = None
    test_least_visited_takes_the_domain_with_the_fewest_pages = None

    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> Iterator[None]:
        self._folder, self._made = tmp_path, []
        yield
        for frontier in self._made:
            frontier._do(frontier._store.close)

    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        jobdir = self._folder / str(len(self._made))
        made = LocalFrontier(
            jobdir,
            policy,
            ordering=ORDERINGS[order or self.order](),
            caps=caps,
            active_max=self.active_max,
        )
        self._made.append(made)
        return made

    async def test_a_host_that_loses_its_place_takes_no_memory(self) -> None:
        """It needs a robots.txt, which it asks for when it has a place again."""
        driver = self.driver()
        await driver.put("http://a/1/2", "http://b/1/2")
        leases = await driver.leases()
        await driver.put("http://c/", "http://d/")
        for lease in leases:
            await driver.give_back(lease, answer(lease, driver.now))
        bench = driver.frontier._state._bench  # type: ignore[attr-defined]
        assert not {"a", "b"} & bench.hosts.keys()
        assert driver.frontier.counters.robots_attempted == 0
        assert len(await driver.run()) == 4
        assert driver.frontier.counters.robots_attempted == 4

    async def test_a_waiting_host_with_a_better_url_gets_the_next_place(self) -> None:
        driver = self.driver(obey_robots=False)
        await driver.put("http://a/1/2", "http://b/1/2", "http://c/1/2", "http://d/")
        pages = await driver.run()
        assert len(pages) == 4
        assert "http://d/" in pages[:2]

    async def test_what_is_known_of_languages_survives_a_kill(self) -> None:
        policy = Policy(obey_robots=False, languages=frozenset({"por"}))

        def begin() -> Driver:
            order = ORDERINGS["language"]()
            return Driver(LocalFrontier(self._folder / "killed", policy, ordering=order))

        driver = begin()
        await driver.put(*(f"http://a/{n}" for n in range(6)))
        for _ in range(3):
            lease = await driver.until(Step.PAGE)
            await driver.give_back(lease, answer(lease, driver.now, detected_language="por"))
        turn = driver.frontier._state._state.ordering.rank("a", 1)
        await driver.frontier.close()
        again = begin()
        assert again.frontier._state._state.ordering.rank("a", 1) == turn == 3
        assert again.frontier.counters.languages == {"por": 3}
        assert not (await again.until(Step.PAGE)).is_sampled
        await again.frontier.close()

    async def test_the_first_page_with_a_text_survives_a_kill_once_it_is_released(self) -> None:
        jobdir, policy = self._folder / "killed", Policy(obey_robots=False)
        driver = Driver(LocalFrontier(jobdir, policy))
        await driver.put("http://a/", "http://b/")
        released, leased = await driver.until(Step.PAGE), await driver.until(Step.PAGE)
        for number, lease in enumerate((released, leased)):
            text = range(100 * number, 100 * number + 100)
            assert await near_duplicate_of(driver.frontier, lease.host, text) == ""
        await driver.give_back(released, answer(released, driver.now))
        await driver.frontier.close()
        again = LocalFrontier(jobdir, policy)
        assert await near_duplicate_of(again, "c", range(100, 200)) == ""
        assert await near_duplicate_of(again, "c", range(5, 100)) == released.url
        await again.close()

    async def test_hosts_without_urls_leave_memory(self) -> None:
        driver = self.driver()
        await driver.put(*(f"http://host-{n}/" for n in range(50)))
        await driver.run()
        bench = driver.frontier._state._bench
        assert len(bench.hosts) <= self.active_max
        assert len(bench._ips) <= 2 * self.active_max


async def test_a_frontier_in_memory_leaves_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    driver = Driver(memory_frontier(Policy(obey_robots=False)))
    await driver.put(*(f"http://host-{n}/" for n in range(50)))
    pages = await driver.run()
    assert await driver.frontier.inspect(lambda found: found.status("http://host-7/"))
    await driver.frontier.close()
    assert len(pages) == 50
    assert list(tmp_path.iterdir()) == []


async def test_the_first_seeds_that_failed_are_known() -> None:
    driver = Driver(memory_frontier(Policy(obey_robots=False, retry_times=0)))
    await driver.put("http://a/", "http://gone/", "http://c/")
    await driver.put("http://gone/far", depth=1)
    plan: dict[str, list[Outcome]] = {
        "http://a/": [Failed("reset", 100.0, 100.0)],
        "gone": [Unresolved("dns", again=False)],
    }
    await driver.run(plan)
    failed = list(driver.frontier.failed_seeds)
    assert sorted(failed) == [("http://a/", "reset"), ("http://gone/", "dns")]
    await driver.put(*(f"http://gone/{n}" for n in range(2 * FAILURES_MAX)))
    await driver.run()
    assert len(driver.frontier.failed_seeds) == FAILURES_MAX


@pytest.mark.parametrize("back_s", [0.0, 500.0, 1e6])
async def test_a_clock_set_back_between_two_runs_changes_nothing(
    tmp_path: Path, back_s: float
) -> None:
    utc_s, policy = 1.7e9, Policy(politeness=POLITE)

    frontier = LocalFrontier(tmp_path, policy, now=100.0, utc_s=utc_s)
    driver = Driver(frontier)
    await driver.put("http://a/1", "http://a/2", "http://b/1")
    page = await driver.fetch()
    await frontier.close()
    frontier = LocalFrontier(tmp_path, policy, now=100.0, utc_s=utc_s - back_s)
    driver = Driver(frontier)
    pages = await driver.run()
    waits = [at - 100.0 for at, _ in driver.asked]
    assert POLITE.delay_s <= min(waits) <= max(waits) < 3 * POLITE.delay_s
    await frontier.close()
    assert sorted([page.url, *pages]) == ["http://a/1", "http://a/2", "http://b/1"]


@pytest.mark.parametrize("others_ask_s", [0.0, 30.0])
async def test_hosts_of_an_earlier_run_wait_for_its_fetchers(
    tmp_path: Path, others_ask_s: float
) -> None:
    frontier = LocalFrontier(tmp_path, Policy(politeness=POLITE))
    driver = Driver(frontier)
    await driver.put("http://a/1", "http://a/2")
    await driver.fetch()
    await frontier.close()
    frontier = LocalFrontier(
        tmp_path, Policy(politeness=POLITE), now=driver.now, others_ask_s=others_ask_s
    )
    began, driver.frontier = driver.now, frontier
    await driver.until(Step.PAGE)
    await frontier.close()
    assert (driver.now - began) == pytest.approx(POLITE.delay_s + others_ask_s)


async def test_the_next_run_knows_how_fast_a_host_answers(tmp_path: Path) -> None:
    policy = Policy(politeness=replace(POLITE, delay_factor=5.0))

    frontier = LocalFrontier(tmp_path, policy)
    driver = Driver(frontier)
    await driver.put("http://a/1", "http://a/2", "http://a/3")
    for status, first_byte_s in ((429, 0.0), (200, 4.0)):
        page = await driver.until(Step.PAGE)
        at = driver.now
        await driver.give_back(page, Fetched(status, at, at, first_byte_s=first_byte_s))
    await frontier.close()
    frontier = LocalFrontier(tmp_path, policy, now=at, utc_s=0.0)
    driver = Driver(frontier)
    driver.now = at
    await driver.until(Step.PAGE)
    await frontier.close()
    assert (driver.now - at) == pytest.approx(40.0)


async def test_rules_for_other_names_do_not_hold_while_robots_txt_is_unreachable(
    tmp_path: Path,
) -> None:
    policy = Policy(politeness=POLITE, agent="one", retry_times=0)
    frontier = LocalFrontier(tmp_path, policy)
    driver = Driver(frontier)
    await driver.put("http://a/1", "http://a/2")
    await driver.fetch()
    await frontier.close()
    frontier = LocalFrontier(tmp_path, replace(policy, agent="one,also", also=("also",)))
    lost = RobotsUnreachable("5xx", 100.0, 100.0)
    pages = await Driver(frontier).run({"http://a/robots.txt": [lost]})
    await frontier.close()
    assert pages == []


async def test_after_a_fault_of_ours_half_a_batch_is_never_committed(tmp_path: Path) -> None:
    frontier = LocalFrontier(tmp_path)
    driver = Driver(frontier)
    await driver.put("http://a/1")
    page = await driver.until(Step.PAGE)
    unknown = Lease("b", Step.RESOLVE, "", "")
    done = [(page, answer(page, driver.now)), (unknown, answer(unknown, driver.now))]
    with pytest.raises(KeyError):
        await frontier.release(done, driver.now)
    with pytest.raises(StoreError, match="as of the last commit: KeyError"):
        await driver.put("http://c/1")
    with pytest.raises(StoreError, match="as of the last commit: KeyError"):
        await frontier.checkpoint(tmp_path / "checkpoint")
    await frontier.close()
    frontier = LocalFrontier(tmp_path)
    pages = await Driver(frontier).run()
    await frontier.close()
    assert ",".join(pages) == "http://a/1"
