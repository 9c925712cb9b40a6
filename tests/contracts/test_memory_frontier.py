"""The frontier in memory against the contract."""

from __future__ import annotations

from typing import Any

from tests.contracts.frontier import Driver, FrontierContract, run
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.lease import Failed, Outcome, Unresolved
from webcrawl.frontier.memory import MemoryFrontier
from webcrawl.frontier.orderings import ORDERINGS


class TestMemoryFrontier(FrontierContract):
    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        return MemoryFrontier(policy, ordering=ORDERINGS[order or self.order](), caps=caps)


class TestMemoryFrontierByCash(TestMemoryFrontier):
    order = "opic"


def test_the_first_seeds_that_failed_are_known() -> None:
    async def check() -> Any:
        driver = Driver(MemoryFrontier(Policy(obey_robots=False, retry_times=0)))
        await driver.put("http://a/", "http://gone/", "http://c/")
        plan: dict[str, list[Outcome]] = {
            "http://a/": [Failed("reset", 100.0, 100.0)],
            "gone": [Unresolved("dns", again=False)],
        }
        await driver.run(plan)
        return driver.frontier.failed_seeds

    failed = list(run(check()))
    assert sorted(failed) == [("http://a/", "reset"), ("http://gone/", "dns")]
