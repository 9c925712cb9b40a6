"""The clocks of IP addresses that the shards of a node share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import pairwise

from tests.contracts.frontier import POLITE, memory_frontier
from webcrawl.cluster.addresses import AGAIN_S, GRACE_S, IDLE_S, TURN_S, NodeAddresses
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Failed, Fetched, Lane, Lease, Link, Resolved, Returned, Step

IP, DELAY_S, FETCH_S = "192.0.2.1", 1.0, 10.0


def made(*, held: bool = True, cap: int = 0, delay_s: float = DELAY_S) -> NodeAddresses:
    addresses = NodeAddresses(ip_delay_s=delay_s, longest_fetch_s=FETCH_S, pages_max=cap)
    if held:
        addresses.hold(IP, 0.0, 100.0)
    return addresses


def test_shards_take_turns_at_the_moment_the_clock_is_due() -> None:
    addresses = made()
    views = [addresses.of(shard) for shard in range(3)]
    now, turns = 100.0, []
    for view in views:
        view.take(IP, now, 0)
    for _ in range(8):
        [asked] = [n for n, view in enumerate(views) if addresses._addresses[IP].taker == n]
        turns.append(asked)
        views[asked].release(IP, now + DELAY_S)
        assert views[asked].take(IP, now, 0) > now  # it has another host, which is behind the rest
        now += DELAY_S
        [first] = [view for view in views if view.next_at() == now]
        assert [*first.freed(now)] == [IP]
        assert first.take(IP, now, 0) == 0.0
    assert turns == [0, 1, 2, 0, 1, 2, 0, 1]


def test_an_address_that_comes_from_the_bus_is_told_at_once() -> None:
    """Else the pump would wait until its next turn (`scheduler.pump`)."""
    frontier = ClusterFrontier(Buckets(1), addresses := made(held=False))
    view, next_at = addresses.of(0), []
    frontier.on_address(lambda: next_at.append(view.next_at()))
    assert view.take(IP, 100.0, 0) == 100.0 + AGAIN_S
    addresses.hold(IP, 100.1, 100.2)
    assert next_at == [100.2]
    assert view.freed(100.2) == [IP]


def test_a_shard_that_does_not_come_loses_its_turn() -> None:
    addresses = made()
    absent, present = addresses.of(0), addresses.of(1)
    assert addresses.of(2).take(IP, 100.0, 0) == 0.0
    for view in (absent, present):
        assert view.take(IP, 100.0, 0) == 100.0 + AGAIN_S
    addresses.of(2).release(IP, 101.0)
    assert present.take(IP, 101.0, 0) > 101.0
    assert present.take(IP, 101.0 + GRACE_S, 0) == 0.0


def test_a_shard_that_has_no_host_any_more_hands_its_turn_on() -> None:
    addresses = made()
    for shard in range(3):
        addresses.of(shard).take(IP, 100.0, 0)
    addresses.of(0).release(IP, 101.0)
    addresses.of(1).leave(IP, 101.0)
    assert addresses.of(2).freed(101.0) == [IP]
    assert addresses.of(2).take(IP, 101.0, 0) == 0.0


def test_a_closed_shard_s_request_may_run_for_the_longest_fetch() -> None:
    addresses = made()
    assert addresses.of(0).take(IP, 100.0, 0) == 0.0
    addresses.forget(0, 100.0)
    free_at = 100.0 + FETCH_S + DELAY_S
    assert addresses.of(1).take(IP, 100.5, 0) == free_at
    addresses.of(0).release(IP, 101.0)  # too late to count
    assert addresses.of(1).take(IP, free_at, 0) == 0.0


def test_the_count_of_a_shard_that_is_closed_is_forgotten() -> None:
    """Its next node counts on: what it reserves there must not be trimmed to this count."""
    addresses = made(cap=9)
    for shard, pages in ((0, 3), (1, 4)):
        addresses.of(shard).take(IP, 100.0, pages)
    addresses.forget(0, 100.0)
    assert addresses.counts(IP) == addresses.trim(IP, 2) == {1: 4}
    later = 100.0 + FETCH_S + DELAY_S + IDLE_S
    assert addresses.give_up(IP, later, is_wanted=True) == {1: 4}


def test_an_address_that_is_not_held_is_wished_for_and_offered_when_it_comes() -> None:
    addresses = made(held=False)
    view = addresses.of(0)
    assert view.take(IP, 100.0, 0) == 100.0 + AGAIN_S
    assert addresses.wishes() == {IP}
    assert addresses.is_wanted(IP, 101.0)
    addresses.hold(IP, 103.0, 102.0)
    assert view.next_at() == 103.0
    assert view.freed(102.9) == []
    assert view.freed(103.0) == [IP]
    assert view.take(IP, 103.0, 0) == 0.0


def test_another_node_gets_an_address_after_a_turn_and_when_its_clock_is_due() -> None:
    addresses = made()
    view = addresses.of(0)
    assert view.take(IP, 102.0, 0) == 0.0
    addresses.of(1).take(IP, 102.0, 0)
    addresses.stop(IP, 102.0)
    view.release(IP, 104.5)
    assert addresses.give_up(IP, 104.6, is_wanted=True) is None  # shard 1 waits, the turn runs
    end = 100.0 + TURN_S
    assert addresses.of(1).take(IP, end - 0.1, 0) == 0.0
    addresses.of(1).release(IP, end + DELAY_S)
    assert view.take(IP, end + DELAY_S, 0) > end + DELAY_S  # the turn is over
    assert addresses.give_up(IP, end, is_wanted=True) is None
    assert addresses.give_up(IP, end + DELAY_S, is_wanted=True) == {}
    assert addresses.wishes() == {IP}


def test_an_idle_address_is_given_at_once_to_another_node_and_later_to_the_bus() -> None:
    addresses = made()
    assert addresses.give_up(IP, 101.0, is_wanted=False) is None
    assert addresses.idle(100.0 + IDLE_S) == [IP]
    assert addresses.give_up(IP, 100.0 + IDLE_S, is_wanted=False) == {}
    addresses.hold(IP, 200.0, 200.0)
    addresses.stop(IP, 200.0)
    assert addresses.give_up(IP, 200.0, is_wanted=True) == {}
    assert addresses.idle(500.0) == []
    assert not addresses._addresses


def test_pages_are_counted_up_to_what_is_reserved() -> None:
    addresses = made(cap=9)
    view = addresses.of(0)
    assert view.take(IP, 100.0, 0) > 100.0
    assert addresses.page_wishes() == {(IP, 0)}
    addresses.set_pages(IP, 0, 2, is_full=False)
    assert view.freed(100.0) == [IP]
    assert view.take(IP, 100.0, 0) == 0.0
    assert [view.take_page(IP, pages) for pages in range(3)] == [True, True, False]
    assert addresses.counts(IP) == {0: 2}
    assert not view.is_full(IP, 2)
    addresses.set_pages(IP, 0, 2, is_full=True)
    assert view.is_full(IP, 2)
    view.release(IP, 101.0)
    assert view.take(IP, 101.0, 2) == 0.0  # so its links are dropped


def test_shared_addresses_need_no_tenancy() -> None:
    addresses = NodeAddresses(
        ip_delay_s=DELAY_S, longest_fetch_s=FETCH_S, pages_max=1, shared=["192.0.2.0/24"]
    )
    assert addresses.of(0).take(IP, 100.0, 7) == 0.0
    assert addresses.of(1).take(IP, 100.0, 7) > 100.0  # the node has one clock
    assert addresses.of(0).take("198.51.100.1", 100.0, 0) > 100.0
    assert addresses.wishes() == {"198.51.100.1"}


# Two frontiers and one clock


class Shards:
    """Two frontiers with hosts of one address, and a driver without real time."""

    def __init__(self, addresses: NodeAddresses) -> None:
        policy = Policy(politeness=POLITE, obey_robots=False)
        self.addresses = addresses
        self.frontiers = [
            memory_frontier(policy, addresses=addresses.of(shard)) for shard in range(2)
        ]
        self.asked: list[tuple[float, int, str]] = []
        self.now = 100.0

    async def run(self, until: float) -> None:
        out: list[tuple[float, int, Lease]] = []
        while self.now < until and not all(each.is_finished() for each in self.frontiers):
            for shard, lease in [each async for each in self._leases()]:
                if lease.step is Step.RESOLVE:
                    resolved = Resolved((IP,), 1e9)
                    await self.frontiers[shard].release([(lease, resolved)], self.now)
                    self.addresses.expect(IP, self.now)
                else:
                    self.asked.append((self.now, shard, lease.url))
                    out.append((self.now + 0.3, shard, lease))
            for end in [each for each in out if each[0] <= self.now]:
                out.remove(end)
                await self._end(end[1], end[2])
            self.now = round(self.now + 0.1, 3)

    async def _leases(self) -> AsyncIterator[tuple[int, Lease]]:
        for shard, frontier in enumerate(self.frontiers):
            for lane in Lane:
                for lease in await frontier.acquire(self.now, 10, lane):
                    yield shard, lease
            frontier._state.audit()

    async def _end(self, shard: int, lease: Lease) -> None:
        number = len(self.asked)
        outcome: Fetched | Failed | Returned = Fetched(200, self.now - 0.1, self.now)
        if number % 5 == 4:
            outcome = Failed("reset", self.now, self.now)
        elif number % 7 == 6:
            outcome = Returned(self.now, self.now)  # it was cut off
        await self.frontiers[shard].release([(lease, outcome)], self.now)


def test_two_frontiers_never_ask_an_address_early_and_share_it_alike() -> None:
    async def check() -> Shards:
        shards = Shards(made())
        for shard, frontier in enumerate(shards.frontiers):
            hosts = [f"h{shard}{n}.example" for n in range(1 + 9 * shard)]
            links = [Link(f"http://{host}/{n}", host) for host in hosts for n in range(5)]
            await frontier.put(links, shards.now)
        await shards.run(1_000.0)
        return shards

    shards = asyncio.run(check())
    assert all(frontier.is_finished() for frontier in shards.frontiers)
    assert len({url for _, _, url in shards.asked}) == 55
    times = [at for at, _, _ in shards.asked]
    gaps = [later - at for at, later in pairwise(times)]
    assert min(gaps) >= POLITE.ip_delay_s - 1e-6
    assert {shard for _, shard, _ in shards.asked[:2]} == {0, 1}
