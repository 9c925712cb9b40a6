"""Several frontiers as the hubs of one crawl, judged as one crawl of one random world.

Each hub has some of the hosts and a clock of its own. The mail between the hubs is lost,
repeated and reordered at random, and hubs on disk are killed at random. Still each URL that was
found is counted once, none is asked for twice or early, and no cash is lost.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from heapq import heappop, heappush
from math import fsum, isclose
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.frontier import FOREVER, link, memory_frontier
from tests.mailing import numbered, receive
from tests.properties.test_frontier_properties import SETUPS, Setup, World, seeds
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
    Fetched,
    Lane,
    Lease,
    Outcome,
)
from webcrawl.frontier.mailbox import Mail, RobotsAnswered
from webcrawl.frontier.orderings import ORDERINGS, Opic
from webcrawl.parse.robots import ALLOW_ALL
from webcrawl.scope.hostrules import HostRules

LATER_S = 100_000.0  # by then a host without an address is looked up again


class SharedWorld(World):
    """Hosts of several hubs. Addresses belong to a hub: sharing them is not tested here."""

    def __init__(self, setup: Setup, hubs: int) -> None:
        super().__init__(setup)
        self.hub_of = {host: self.random.randrange(hubs) for host in self.hosts}
        self.ips = {host: f"{ip} of {self.hub_of[host]}" for host, ip in self.ips.items()}
        self.found: set[str] = set()

    def end(self, lease: Lease, now: float) -> Outcome:
        task = lease.robots_task
        of_home = self.rules[task.home if task else lease.host]
        before = dict(of_home)
        outcome = super().end(lease, now)
        if task and self.hub_of[task.home] != self.hub_of[lease.host]:
            of_home.clear()  # its hub does not know the rules before they arrive there
            of_home.update(before)
        if isinstance(outcome, Fetched):
            self.found |= {link.url for link in outcome.links}
        return outcome

    def rules_arrive(self, mail: RobotsAnswered) -> None:
        task = mail.robots_task
        rules = mail.read()
        self.rules[task.home][task.origin] = ALLOW_ALL if rules == ALLOW_ALL else rules


@dataclass
class Hub:
    """A hub, the leases that are out with their ends, and its monotonic time at the beginning."""

    number: int
    frontier: LocalFrontier
    ends: list[tuple[float, int, Lease]]
    clock: float

    async def kept(self, to: int) -> list[tuple[int, Mail]]:
        return await self.frontier.call(lambda state: numbered(state, to), moves=False)

    async def receive(self, sender: int, number: int, mail: list[Mail], now: float) -> int:
        at = now + self.clock
        return await self.frontier.call(lambda state: receive(state, sender, number, mail, at))


@dataclass
class Others:
    """A `mailbox.Partition`."""

    world: SharedWorld
    hub: int

    def __call__(self, host: str) -> int | None:
        hub = self.world.hub_of[host]
        return None if hub == self.hub else hub


class Killed(Exception):  # noqa: N818  (it is no error)
    """Raised in a commit in place of a kill: the frontier is not used afterwards."""


class Cluster:
    """The hubs, and the mail under way between them. `folder`: of hubs on disk."""

    def __init__(self, setup: Setup, hubs: int, folder: str | None = None) -> None:
        self.setup = setup
        self.world = world = SharedWorld(setup, hubs)
        self.folder = folder
        self.random = world.random
        clocks = [world.random.choice([1.0, 5_000.0]) for _ in range(hubs)]
        self.hubs = [Hub(n, self.make(n, clocks[n]), [], clocks[n]) for n in range(hubs)]
        # (sender, receiver, number of the first mail or watermark, mail or None)
        self.under_way: list[tuple[int, int, int, int, list[Mail]]] = []
        self.turn = 0

    def make(self, hub: int, now: float) -> LocalFrontier:
        setup, others, rules = self.setup, Others(self.world, hub), HostRules()
        ordering = ORDERINGS[setup.order]()
        caps = Caps(per_host=setup.cap, per_ip=setup.cap)
        policy = setup.policy(rules)
        if self.folder is None:
            return memory_frontier(policy, ordering=ordering, caps=caps, partition=others)
        return LocalFrontier(
            Path(self.folder, str(hub)),
            policy,
            ordering=ordering,
            caps=caps,
            active_max=setup.active_max,
            now=now,
            utc_s=12345.0,
            partition=others,
        )

    @property
    def frontiers(self) -> list[LocalFrontier]:
        return [hub.frontier for hub in self.hubs]

    @property
    def is_finished(self) -> bool:
        return all(each.is_finished() and not waiting(each) for each in self.frontiers)

    async def run(self, urls: list[str], now: float = 0.0) -> None:
        """The whole crawl. `now` is the time since each hub's own beginning."""
        self.world.found |= set(urls)
        first = self.random.choice(self.hubs)
        await first.frontier.put([link(url) for url in urls], now + first.clock)
        for _ in range(20_000):
            if self.folder is not None and self.random.random() < 0.02:
                await self.kill(self.random.choice(self.hubs), now)
            await self.carry(now)
            if self.is_finished:
                return
            for hub in self.hubs:
                await self.begin(hub, now)
            now = await self.end_one(now)
        raise AssertionError("it does not end")

    async def begin(self, hub: Hub, now: float) -> None:
        """Lease what `hub` has."""
        hub.frontier.audit()
        known = hub.frontier._state._bench.hosts
        assert {self.world.hub_of[host] for host in known} <= {hub.number}
        for lane in reversed(Lane):
            for lease in await hub.frontier.acquire(now + hub.clock, 3, lane):
                assert self.world.hub_of[lease.host] == hub.number
                self.world.begin(lease, now + hub.clock)
                self.turn += 1
                heappush(hub.ends, (now + self.random.random() * 4, self.turn, lease))

    async def end_one(self, now: float) -> float:
        """The next lease that ends, if it is before the next one that may begin: the new time."""
        ready_at = min(
            each.frontier.next_at(lane) - each.clock for each in self.hubs for lane in Lane
        )
        hub = min(self.hubs, key=lambda each: each.ends[0][0] if each.ends else FOREVER)
        if hub.ends and hub.ends[0][0] <= max(ready_at, now):
            now = max(now, hub.ends[0][0])
            _, _, lease = heappop(hub.ends)
            here = now + hub.clock
            await hub.frontier.release([(lease, self.world.end(lease, here))], here)
        elif ready_at < FOREVER:
            now = max(now, ready_at)
        else:
            mail = self.under_way or any(map(waiting, self.frontiers))
            assert mail or self.is_finished, f"nothing will ever happen again: {self.frontiers!r}"
        return now

    async def carry(self, now: float) -> None:
        """Send some mail, and let some arrive, in any order; it may be lost or repeated."""
        random = self.random
        for hub in self.hubs:
            for to, (first, last) in hub.frontier.outbox.items():
                if last >= first and random.random() < 0.3:
                    kept = await hub.kept(to)
                    at = random.randrange(len(kept))
                    before = kept[at - 1][0] if at else 0  # those before were applied
                    number = kept[at][0]
                    some = enumerate(kept[at : at + random.randint(1, 6)])
                    mail = [each for n, (its, each) in some if its == number + n]  # of one run
                    self.under_way.append((hub.number, to, before, number, mail))
        while self.under_way and random.random() < 0.6:
            letter = self.under_way.pop(random.randrange(len(self.under_way)))
            if random.random() < 0.2:
                self.under_way.append(letter)
            if random.random() < 0.7:
                await self.arrive(*letter, now)

    async def arrive(
        self, sender: int, to: int, behind: int, number: int, mail: list[Mail], now: float
    ) -> None:
        """`mail` has the numbers from `number` on, and comes next behind number `behind`."""
        hub = self.hubs[to]
        if not mail:
            await hub.frontier.call(lambda state: state.sent(sender, number))
            return
        before = hub.frontier.inbox.get(sender, 0)
        if behind > before:  # a session with a gap has ended
            return
        if self.folder is not None and self.random.random() < 0.05:
            await self.killed_in_receive(hub, sender, number, mail, now)
            after = hub.frontier.inbox.get(sender, 0)
        else:
            after = await hub.receive(sender, number, mail, now)
        assert after == hub.frontier.inbox.get(sender, 0) >= before
        for each in mail[max(before + 1 - number, 0) :] if after > before else ():
            if isinstance(each, RobotsAnswered):
                self.world.rules_arrive(each)
        self.under_way.append((to, sender, 0, after, []))

    async def killed_in_receive(
        self, hub: Hub, sender: int, number: int, mail: list[Mail], now: float
    ) -> None:
        """A kill right before or after the commit of `mail`."""
        commit, is_before = Database.commit, self.random.random() < 0.5

        def killed(db: Database) -> None:
            if not is_before:
                commit(db)
            raise Killed

        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(Database, "commit", killed)
            await hub.receive(sender, number, mail, now)
        await self.kill(hub, now)

    async def kill(self, hub: Hub, now: float) -> None:
        for _, _, lease in hub.ends:
            self.world.killed(lease, now + hub.clock)
        hub.ends.clear()
        await hub.frontier.close()
        hub.frontier = self.make(hub.number, now + hub.clock)

    def judge(self) -> None:
        """All that was found was counted once, at one hub; no cash is lost."""
        counters = [each.counters for each in self.frontiers]
        for each in counters:
            ended = each.crawled + each.dropped.total() + each.kept.total()
            assert each.pending == each.kept.total()
            assert each.extracted == ended
        found = {name: sum(each.levels[f"found/{name}"] for each in counters) for name in range(11)}
        assert sum(found.values()) == len(self.world.found)
        dropped = sum((each.dropped for each in counters), Counter())
        assert dropped["robots"] <= sum("/private" in url for url in self.world.found)
        if not self.setup.trouble:
            assert dropped.keys() <= {"robots", "host_cap", "ip_cap"}
        orderings = [each._state._state.ordering for each in self.frontiers]
        cash = fsum(each._made - each._sent for each in orderings if isinstance(each, Opic))
        assert isclose(cash, round(cash), rel_tol=1e-9), "each seed brings 1, and nothing else does"
        assert bool(cash) == (self.setup.order == "opic")


def waiting(frontier: LocalFrontier) -> bool:
    """Whether it has mail that was not received, as far as it knows."""
    return any(last >= first for first, last in frontier.outbox.values())


@settings(max_examples=max(20, settings().max_examples // 4))
@given(SETUPS, st.integers(2, 4))
def test_hubs_are_one_crawl(setup: Setup, hubs: int) -> None:
    cluster = Cluster(setup, hubs)
    asyncio.run(cluster.run(seeds(cluster.world)))
    cluster.judge()


@pytest.mark.slow
@settings(max_examples=max(7, settings().max_examples // 15))
@given(SETUPS, st.integers(2, 4))
def test_hubs_that_are_killed_repeatedly_are_one_crawl(setup: Setup, hubs: int) -> None:
    async def run(cluster: Cluster) -> None:
        await cluster.run(seeds(cluster.world))
        cluster.judge()
        cluster.world.trouble, cluster.world.host_asked, cluster.world.ip_asked = 0.0, {}, {}
        for hub in cluster.hubs:
            await cluster.kill(hub, LATER_S)
        await cluster.run([], LATER_S)
        cluster.judge()
        kept = sum(each.counters.kept.total() for each in cluster.frontiers)
        assert not kept, "the next run takes up all that was kept"
        for each in cluster.frontiers:
            await each.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Cluster(setup, hubs, folder)))
