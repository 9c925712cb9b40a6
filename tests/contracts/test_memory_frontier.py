"""The frontier in memory against the contract."""

from __future__ import annotations

from tests.contracts.frontier import FrontierContract
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.memory import MemoryFrontier
from webcrawl.frontier.orderings import ORDERINGS


class TestMemoryFrontier(FrontierContract):
    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        return MemoryFrontier(policy, ordering=ORDERINGS[order or self.order](), caps=caps)


class TestMemoryFrontierByCash(TestMemoryFrontier):
    order = "opic"
