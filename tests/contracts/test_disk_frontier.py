"""The frontier on disk against the contract: with room for all hosts at once, and for two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contracts.frontier import FrontierContract, run
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk import ACTIVE_HOSTS_MAX, DiskFrontier
from webcrawl.frontier.orderings import ORDERINGS


class TestDiskFrontier(FrontierContract):
    active_max = ACTIVE_HOSTS_MAX

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
        made = DiskFrontier(
            jobdir,
            policy,
            ordering=ORDERINGS[order or self.order](),
            caps=caps,
            active_max=self.active_max,
        )
        self._made.append(made)
        return made


class TestDiskFrontierByCash(TestDiskFrontier):
    order = "opic"


class TestSmallDiskFrontier(TestDiskFrontier):
    """Two hosts have a place, so the order over all hosts is not exact."""

    active_max = 2
    test_hosts_come_up_by_their_best_link = None
    test_least_visited_takes_the_domain_with_the_fewest_pages = None

    def test_a_waiting_host_with_a_better_url_gets_the_next_place(self) -> None:
        async def check() -> list[str]:
            driver = self.driver(obey_robots=False)
            await driver.put("http://a/1/2", "http://b/1/2", "http://c/1/2", "http://d/")
            return await driver.run()

        pages = run(check())
        assert len(pages) == 4
        assert "http://d/" in pages[:2]

    def test_hosts_without_urls_leave_memory(self) -> None:
        async def check() -> DiskFrontier:
            driver = self.driver()
            await driver.put(*(f"http://host-{n}/" for n in range(50)))
            await driver.run()
            return driver.frontier

        bench = run(check())._state._bench
        assert len(bench.hosts) <= self.active_max
        assert len(bench._ips) <= 2 * self.active_max
