"""A host with very many links costs the other hosts nothing, in either store.

Cost is the number of function calls, as times depend on the machine: a crawl of a few hosts is
compared with and without a big host beside them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.contracts.frontier import FOREVER, POLITE, answer, link
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Failed, Lane, Lease, Link, Outcome, RobotsFetched, Step
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules

MANY = 20_000
COSTLY = b"".join(b"Allow: *" + b"a" * 80 + b"%daaa\n" % number for number in range(1000))
OTHERS = [f"http://other-{n}.example/{m}" for m in range(5) for n in range(20)]


@pytest.fixture
def store() -> Iterator[Store]:
    made = Store(None)
    yield made
    made.close()


def big(count: int) -> list[Link]:
    return [link(f"http://big.example/{number}") for number in range(count)]


class Walk:
    """A crawl that records when each page of the other hosts was leased, and counts calls."""

    def __init__(self, store: Store, caps: Caps | None = None, *, big_answers: bool = True) -> None:
        self.state = CrawlState(store, Policy(politeness=POLITE), caps=caps)
        self._big_answers = big_answers
        self.rules = ALLOW_ALL
        self.now = 100.0
        self.calls = 0
        self.pages: list[tuple[float, str]] = []

    def turn(self) -> None:
        """One acquire of each kind, all leases answered at once, then the clock moves on."""
        state = self.state
        leases = state.acquire(self.now, 1000, Lane.ADMISSIONS) + state.acquire(self.now, 1000)
        state.release([(lease, self._outcome(lease)) for lease in leases], self.now)
        next_at = min(state.next_at())
        self.now = max(self.now + 0.5, next_at)

    def _outcome(self, lease: Lease) -> Outcome:
        if lease.step is Step.PAGE:
            if lease.host != "big.example":
                self.pages.append((self.now, lease.url))
            elif not self._big_answers:
                return Failed("connect", self.now, self.now)
        if lease.step is Step.ROBOTS:
            return RobotsFetched(self.rules, FOREVER, self.now, self.now)
        return answer(lease, self.now)

    def others(self) -> None:
        """Queue the links of the other hosts, and crawl until all are fetched."""
        sys.setprofile(self._count)
        try:
            self.state.put(map(link, OTHERS), self.now)
            while len(self.pages) < len(OTHERS):
                self.turn()
        finally:
            sys.setprofile(None)

    def _count(self, frame: FrameType, event: str, what: object) -> None:
        self.calls += event == "call"


def test_a_big_host_takes_its_turn_like_any_other(store: Store) -> None:
    small, large = Walk(other := Store(None)), Walk(store)
    small.state.put(big(20), small.now)
    large.state.put(big(MANY), large.now)
    small.others()
    large.others()
    assert large.pages == small.pages
    assert large.calls == pytest.approx(small.calls, rel=0.01)
    large.state.audit()
    other.close()


def test_links_over_a_cap_are_never_queued(store: Store) -> None:
    walk = Walk(store, Caps(per_host=10))
    assert walk.state.put(big(5000), walk.now) == 10
    assert walk.state.counters.pending == 10
    assert walk.state.counters.dropped["host_cap"] == 4990
    assert len(list(store._db.rows(rows.QUEUE))) == 10
    walk.others()
    assert len(walk.pages) == len(OTHERS)


def test_other_hosts_are_crawled_while_the_links_of_a_big_one_are_kept(store: Store) -> None:
    """When a host is given up, its links are kept one by one, over many batches."""
    walk = Walk(store, big_answers=False)
    walk.state.put(big(15_000), walk.now)
    while not walk.state.counters.kept["host_retired"]:
        walk.turn()
    walk.others()
    assert walk.state.counters.kept["host_retired"] < 15_000
    walk.state.audit()


def test_one_acquire_makes_few_costly_checks(store: Store) -> None:
    """Long URLs against many wildcards: the event loop runs between two checks."""
    rules = RobotsRules.parse(b"User-agent: *\nDisallow: /\n" + COSTLY, "webcrawl")
    walk = Walk(store)
    walk.rules = rules
    walk.state.put([link(f"http://big.example/{n}" + "a" * 100) for n in range(60)], walk.now)
    dropped, most = walk.state.counters.dropped, 0
    while dropped["robots"] < 60:
        before = dropped["robots"]
        walk.turn()
        most = max(most, dropped["robots"] - before)
    assert 0 < most <= 2
    walk.state.audit()
