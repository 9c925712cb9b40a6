"""Frontiers against random worlds: never early, one lease a host and an IP, nothing lost or twice.

Each world has a few hosts on fewer addresses, links between them, and servers that fail, move, wait
and refuse at random. Time is a number; leases are held for random times and come back in any order.
A frontier on disk is also killed at random, right before or after a commit: then what was leased is
asked for again, and nothing else.
"""

from __future__ import annotations

import asyncio
import heapq
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.frontier import FOREVER, link, memory_frontier
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Lane,
    Lease,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.politeness import Politeness
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules
from webcrawl.parse.urls import host_of, origin_of
from webcrawl.scope.hostrules import HostRule, HostRules, Values

RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 3", "x")


@dataclass(frozen=True)
class Setup:
    """The random choices for a world and its crawl."""

    seed: int
    delay_s: float
    ip_delay_s: float
    trouble: float
    order: str
    cap: int
    active_max: int

    def policy(self, rules: HostRules) -> Policy:
        return Policy(politeness=Politeness(self.delay_s, self.ip_delay_s), rules=rules)

    def memory_frontier(self, rules: HostRules) -> LocalFrontier:
        return memory_frontier(
            self.policy(rules), ordering=ORDERINGS[self.order](), caps=self.caps(rules)
        )

    def caps(self, rules: HostRules) -> Caps:
        return Caps(per_host=self.cap, per_ip=self.cap, rules=rules)


SETUPS = st.builds(
    Setup,
    seed=st.integers(0, 2**32),
    delay_s=st.sampled_from([0.0, 1.0, 10.0]),
    ip_delay_s=st.sampled_from([0.0, 0.5, 4.0]),
    trouble=st.sampled_from([0.0, 0.1, 0.5]),
    order=st.sampled_from(sorted(ORDERINGS)),
    cap=st.sampled_from([0, 0, 1, 5]),
    active_max=st.integers(1, 9),
)


class World:
    """Gives random answers, and judges the requests. `held` are the rules in force."""

    def __init__(self, setup: Setup) -> None:
        self.random = Random(setup.seed)  # the same for each run of the test
        self.delay_s, self.ip_delay_s = setup.delay_s, setup.ip_delay_s
        self.trouble = setup.trouble
        self.held = HostRules()
        self.hosts = [f"h{n}.example.com" for n in range(self.random.randint(1, 8))]
        self.ips = {host: f"ip{self.random.randint(0, 3)}" for host in self.hosts}
        self.under_way: set[str] = set()
        self.host_asked: dict[str, float] = {}
        self.ip_asked: dict[str, float] = {}
        self.answered: list[str] = []
        self.now = 0.0  # of the last end
        self.rules: dict[str, dict[str, RobotsRules]] = {host: {} for host in self.hosts}

    def url(self) -> str:
        random = self.random
        path = random.choice(["", "a", "a/b", "private", "private/x", "c", "d/e/f"])
        return f"{random.choice(['http', 'https'])}://{random.choice(self.hosts)}/{path}"

    def delay_of(self, host: str) -> float:
        return self.delay_s

    async def meddle(self, frontier: Frontier, now: float) -> None:
        """Called in each turn: may change the frontier's rules."""

    def change_between_runs(self) -> None:
        """Called between a kill and the next run: may change the file of rules."""

    def begin(self, lease: Lease, now: float) -> None:
        assert lease.host not in self.under_way, "two leases of one host"
        self.under_way.add(lease.host)
        if lease.step is Step.RESOLVE:
            return
        ip = self.ips[lease.host]
        assert lease.address == ip
        assert ip not in self.under_way or not self.ip_delay_s, "two leases of one address"
        self.under_way.add(ip)
        crawl_delays = [rules.crawl_delay_s or 0.0 for rules in self.rules[lease.host].values()]
        delay_s = self.delay_of(lease.host)
        due = self.host_asked.get(lease.host, -FOREVER) + max(delay_s, *crawl_delays, 0.0)
        assert now >= due, f"{lease.host} is asked {due - now} s too early"
        if self.ip_delay_s:
            assert now >= self.ip_asked.get(ip, -FOREVER) + self.ip_delay_s, "address too early"
        if lease.step is Step.PAGE:
            assert lease.url not in self.answered, "fetched twice"
            if self.held.of(lease.host).obey_robots is False:
                return
            assert origin_of(lease.url) in self.rules[lease.host], "before robots.txt"
            rules = self.rules[lease.host][origin_of(lease.url)]
            assert rules is ALLOW_ALL or "/private" not in lease.url, "disallowed"

    def end(self, lease: Lease, now: float) -> Outcome:
        self.now = now
        self.under_way -= {lease.host, self.ips[lease.host]}
        random, fails = self.random, self.random.random() < self.trouble
        if random.random() < 0.05:
            return Returned()
        if lease.step is Step.RESOLVE:
            if fails:
                return Unresolved("dns", again=random.random() < 0.7)
            return Resolved((self.ips[lease.host],), now + random.choice([2.0, FOREVER]))
        asked = not fails or random.random() < 0.5
        asked_at = now if asked else 0.0
        if asked:
            self.host_asked[lease.host] = self.ip_asked[self.ips[lease.host]] = now
        if lease.step is Step.ROBOTS:
            return self._robots(lease, now, asked_at, fails=fails)
        if fails:
            return random.choice([Failed("reset", asked_at, now), Dropped("test", asked_at, now)])
        links = tuple(link(self.url()) for _ in range(random.randint(0, 4)))
        status = random.choice([200, 200, 200, 404, 503])
        if status != 503:
            self.answered.append(lease.url)
        return Fetched(status, now, now, links)

    def _robots(self, lease: Lease, now: float, asked_at: float, *, fails: bool) -> Outcome:
        assert lease.robots_task is not None
        if fails:
            return RobotsUnreachable("5xx", asked_at, now)
        if self.random.random() < 0.2:
            target = self.url()
            return RobotsMoved(target, host_of(target), now, now)
        rules = self.random.choice([RULES, ALLOW_ALL])
        self.rules[lease.robots_task.home][lease.robots_task.origin] = rules
        return RobotsFetched(rules, now + self.random.choice([9.0, FOREVER]), now, now)

    def killed(self, lease: Lease, now: float) -> None:
        """The crawler died during `lease`; the server may have got the request as late as now."""
        self.under_way -= {lease.host, self.ips[lease.host]}
        if lease.step is not Step.RESOLVE:
            self.host_asked[lease.host] = self.ip_asked[self.ips[lease.host]] = now


class Killed(Exception):  # noqa: N818  (it is no error)
    """Raised in a commit in place of a kill: the frontier is not used afterwards."""


class DiskFrontiers:
    """One frontier after the other in a folder of their own.

    dies -- "before" or "after" the next commit; "": it does not
    """

    dies = ""

    def __init__(self, folder: str, setup: Setup, rules: HostRules) -> None:
        self.make = lambda now: LocalFrontier(
            Path(folder),
            setup.policy(rules),
            ordering=ORDERINGS[setup.order](),
            caps=setup.caps(rules),
            active_max=setup.active_max,
            now=now,
            utc_s=12345.0,
        )
        self.frontier = self.make(1.0)

    def dying(self) -> AbstractContextManager[object]:
        """In this context the frontier dies as `dies` says."""
        commit = Database.commit

        def dying(db: Database) -> None:
            if self.dies == "before":
                raise Killed
            commit(db)
            if self.dies:
                raise Killed

        return patch.object(Database, "commit", dying)

    async def kill(self, now: float) -> LocalFrontier:
        """Kill: all state that is not committed is lost."""
        self.dies = ""
        await self.frontier.close()
        self.frontier = self.make(now)
        return self.frontier


def seeds(world: World) -> list[str]:
    return [world.url() for _ in range(10)]


async def crawl(
    world: World,
    frontier: LocalFrontier,
    urls: list[str],
    disk: DiskFrontiers | None = None,
    now: float = 1.0,
) -> LocalFrontier:
    """Run the whole crawl; return the frontier at its end."""
    await frontier.put([link(url) for url in urls], now)
    ends: list[tuple[float, int, Lease]] = []
    for turn in range(20_000):
        if disk is not None and world.random.random() < 0.03:
            disk.dies = world.random.choice(["before", "after"])
        rules = {host: dict(of_host) for host, of_host in world.rules.items()}
        answered = len(world.answered)
        try:
            if disk is not None and disk.dies:
                with disk.dying():
                    now = await step(world, frontier, ends, turn, now)
            else:
                now = await step(world, frontier, ends, turn, now)
        except Killed:
            assert disk is not None
            if disk.dies == "before":  # the frontier has not heard of the last outcome
                world.rules = rules
                del world.answered[answered:]
            now = max(now, world.now)
            for _, _, lease in ends:
                world.killed(lease, now)
            ends.clear()
            world.change_between_runs()
            frontier = await disk.kill(now)
        if frontier.is_finished():
            return frontier
    raise AssertionError("it does not end")


async def step(
    world: World,
    frontier: LocalFrontier,
    ends: list[tuple[float, int, Lease]],
    turn: int,
    now: float,
) -> float:
    """Lease what can be leased, and release the lease that ends first; the new time."""
    await world.meddle(frontier, now)
    frontier.audit()
    counters = frontier.counters
    assert (
        counters.extracted
        >= counters.host_passed
        >= counters.ip_passed
        >= counters.robots_passed
        >= counters.crawled
    )
    for lane in reversed(Lane):
        for number, lease in enumerate(await frontier.acquire(now, 3, lane)):
            world.begin(lease, now)
            place = 10 * turn + 3 * lane + number
            heapq.heappush(ends, (now + world.random.random() * 4, place, lease))
    ready_at = min(frontier.next_at(), frontier.next_at(Lane.ADMISSIONS))
    if ends and ends[0][0] <= max(ready_at, now):
        now, _, lease = heapq.heappop(ends)
        await frontier.release([(lease, world.end(lease, now))], now)
    elif ready_at < FOREVER:
        now = max(now, ready_at)
    else:
        assert frontier.is_finished(), f"nothing will ever happen again: {frontier!r}"
    return now


async def again(world: World, disk: DiskFrontiers) -> LocalFrontier:
    """A further run, in which no server fails."""
    later = 100_000.0  # by then a host without an address is looked up again
    return await crawl(world, await disk.kill(later), [], disk, now=later)


def assert_all_counted(frontier: LocalFrontier) -> None:
    counters = frontier.counters
    assert counters.pending == counters.kept.total()
    assert counters.extracted == counters.crawled + counters.dropped.total() + counters.kept.total()


@settings(max_examples=max(70, settings().max_examples // 4))
@given(SETUPS)
def test_a_crawl_of_a_random_world_ends_and_is_polite(setup: Setup) -> None:
    world = World(setup)
    frontier = setup.memory_frontier(world.held)
    asyncio.run(crawl(world, frontier, seeds(world)))
    assert_all_counted(frontier)


@pytest.mark.slow
@settings(max_examples=max(20, settings().max_examples // 10))
@given(SETUPS)
def test_a_crawl_that_is_killed_repeatedly_ends_and_is_polite(setup: Setup) -> None:
    world = World(setup)
    with TemporaryDirectory() as folder:
        disk = DiskFrontiers(folder, setup, world.held)
        frontier = asyncio.run(crawl(world, disk.frontier, seeds(world), disk))
        assert_all_counted(frontier)
        world.trouble, world.host_asked, world.ip_asked = 0.0, {}, {}
        frontier = asyncio.run(again(world, disk))
        assert_all_counted(frontier)
        assert not frontier.counters.kept.total(), "the next run takes up all that was kept"
        asyncio.run(frontier.close())


class RuledWorld(World):
    """Rules that change at random times."""

    async def meddle(self, frontier: Frontier, now: float) -> None:
        if self.random.random() < 0.1:
            await frontier.set_rules(self.some_rules(), now)

    def change_between_runs(self) -> None:
        if self.random.random() < 0.7:
            self.held.replace(self.some_rules())

    def some_rules(self) -> list[HostRule]:
        return [self.rule(host) for host in self.hosts]

    def rule(self, host: str) -> HostRule:
        choice = self.random.choice
        values = Values(
            delay_s=choice([None, 0.0, 2.0, 20.0]),
            max_pages=choice([None, None, 0, 2]),
            max_depth=choice([None, 0, 1]),
            max_bytes=choice([None, None, 1000]),
            robots_agent=choice([None, "a", "b"]),
            obey_robots=choice([None, True, False]),
            deny=choice([None, False, True, ("/a",)]),
            priority=choice([None, -3, 5]),
        )
        return HostRule(line=1, hosts=(host,), values=values)

    def delay_of(self, host: str) -> float:
        ruled_s = self.held.of(host).delay_s
        return self.delay_s if ruled_s is None else ruled_s

    def begin(self, lease: Lease, now: float) -> None:
        super().begin(lease, now)
        values = self.held.of(lease.host)
        assert not values.denies_all
        if lease.robots_task is not None:
            assert self.held.of(lease.robots_task.home).obey_robots is not False, "not obeyed"
        if lease.link is not None:
            assert not values.denies(lease.url)
            assert not values.max_depth or lease.link.depth <= values.max_depth

    def end(self, lease: Lease, now: float) -> Outcome:
        outcome = super().end(lease, now)
        if isinstance(outcome, RobotsFetched):
            return replace(outcome, agent=self.held.of(lease.robots_task.home).robots_agent or "")  # type: ignore[union-attr]
        return replace(outcome, size_bytes=300) if isinstance(outcome, Fetched) else outcome


@settings(max_examples=max(70, settings().max_examples // 4))
@given(SETUPS)
def test_a_crawl_whose_rules_change_ends_is_polite_and_obeys_them(setup: Setup) -> None:
    world = RuledWorld(setup)
    frontier = setup.memory_frontier(world.held)
    asyncio.run(crawl(world, frontier, seeds(world)))
    counters = frontier.counters
    assert counters.pending == counters.kept.total()
    refused = counters.dropped.total()  # those before the queue are not extracted
    ended = counters.crawled + counters.kept.total()
    assert ended <= counters.extracted <= ended + refused


@pytest.mark.slow
@settings(max_examples=max(20, settings().max_examples // 10))
@given(SETUPS)
# A rule raises the delay of a host of an earlier run, which waits for a place in this one.
@example(Setup(2958, delay_s=1.0, ip_delay_s=0.0, trouble=0.1, order="depth", cap=0, active_max=3))
def test_a_killed_crawl_whose_rules_change_ends_is_polite_and_obeys_them(setup: Setup) -> None:
    world = RuledWorld(setup)
    with TemporaryDirectory() as folder:
        disk = DiskFrontiers(folder, setup, world.held)
        frontier = asyncio.run(crawl(world, disk.frontier, seeds(world), disk))
        assert frontier.counters.pending == frontier.counters.kept.total()
        asyncio.run(frontier.close())
