"""Several frontiers as the shards of one crawl, judged as one crawl of one random world.

Each shard has some of the hosts and a clock of its own. The mail between the shards is lost,
repeated and reordered at random, and shards on disk are killed at random. Still each URL that was
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
from tests.mailing import receive, unsent
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
    """Hosts of several shards. Addresses belong to a shard: sharing them is not tested here."""

    def __init__(self, setup: Setup, shards: int) -> None:
        super().__init__(setup)
        self.shard_of = {host: self.random.randrange(shards) for host in self.hosts}
        self.ips = {host: f"{ip} of {self.shard_of[host]}" for host, ip in self.ips.items()}
        self.found: set[str] = set()

    def end(self, lease: Lease, now: float) -> Outcome:
        task = lease.robots_task
        of_home = self.rules[task.home if task else lease.host]
        before = dict(of_home)
        outcome = super().end(lease, now)
        if task and self.shard_of[task.home] != self.shard_of[lease.host]:
            of_home.clear()  # its shard does not know the rules before they arrive there
            of_home.update(before)
        if isinstance(outcome, Fetched):
            self.found |= {link.url for link in outcome.links}
        return outcome

    def rules_arrive(self, mail: RobotsAnswered) -> None:
        task = mail.robots_task
        rules = mail.read()
        self.rules[task.home][task.origin] = ALLOW_ALL if rules == ALLOW_ALL else rules


@dataclass
class Shard:
    """A shard, the leases that are out with their ends, and its monotonic time at the beginning."""

    number: int
    frontier: LocalFrontier
    ends: list[tuple[float, int, Lease]]
    clock: float

    async def unsent(self, to: int, after: int, limit: int) -> list[Mail]:
        return await self.frontier.call(lambda state: unsent(state, to, after, limit), moves=False)

    async def receive(self, sender: int, number: int, mail: list[Mail], now: float) -> int:
        at = now + self.clock
        return await self.frontier.call(lambda state: receive(state, sender, number, mail, at))


@dataclass
class Others:
    """A `mailbox.Abroad`."""

    world: SharedWorld
    shard: int

    def shard_of(self, host: str) -> int | None:
        shard = self.world.shard_of[host]
        return None if shard == self.shard else shard


class Killed(Exception):  # noqa: N818  (it is no error)
    """Raised in a commit in place of a kill: the frontier is not used afterwards."""


class Cluster:
    """The shards, and the mail under way between them. `folder`: of shards on disk."""

    def __init__(self, setup: Setup, shards: int, folder: str | None = None) -> None:
        self.setup = setup
        self.world = world = SharedWorld(setup, shards)
        self.folder = folder
        self.random = world.random
        clocks = [world.random.choice([1.0, 5_000.0]) for _ in range(shards)]
        self.shards = [Shard(n, self.make(n, clocks[n]), [], clocks[n]) for n in range(shards)]
        # (sender, receiver, number of the first mail or watermark, mail or None)
        self.under_way: list[tuple[int, int, int, list[Mail] | None]] = []
        self.turn = 0

    def make(self, shard: int, now: float) -> LocalFrontier:
        setup, others, rules = self.setup, Others(self.world, shard), HostRules()
        ordering = ORDERINGS[setup.order]()
        caps = Caps(per_host=setup.cap, per_ip=setup.cap)
        policy = setup.policy(rules)
        if self.folder is None:
            return memory_frontier(policy, ordering=ordering, caps=caps, abroad=others)
        return LocalFrontier(
            Path(self.folder, str(shard)),
            policy,
            ordering=ordering,
            caps=caps,
            active_max=setup.active_max,
            now=now,
            utc_s=12345.0,
            abroad=others,
        )

    @property
    def frontiers(self) -> list[LocalFrontier]:
        return [shard.frontier for shard in self.shards]

    @property
    def is_finished(self) -> bool:
        return all(each.is_finished() and not waiting(each) for each in self.frontiers)

    async def run(self, urls: list[str], now: float = 0.0) -> None:
        """The whole crawl. `now` is the time since each shard's own beginning."""
        self.world.found |= set(urls)
        first = self.random.choice(self.shards)
        await first.frontier.put([link(url) for url in urls], now + first.clock)
        for _ in range(20_000):
            if self.folder is not None and self.random.random() < 0.02:
                await self.kill(self.random.choice(self.shards), now)
            await self.carry(now)
            if self.is_finished:
                return
            for shard in self.shards:
                await self.begin(shard, now)
            now = await self.end_one(now)
        raise AssertionError("it does not end")

    async def begin(self, shard: Shard, now: float) -> None:
        """Lease what `shard` has."""
        shard.frontier.audit()
        known = shard.frontier._state._bench.hosts
        assert {self.world.shard_of[host] for host in known} <= {shard.number}
        for lane in reversed(Lane):
            for lease in await shard.frontier.acquire(now + shard.clock, 3, lane):
                assert self.world.shard_of[lease.host] == shard.number
                self.world.begin(lease, now + shard.clock)
                self.turn += 1
                heappush(shard.ends, (now + self.random.random() * 4, self.turn, lease))

    async def end_one(self, now: float) -> float:
        """The next lease that ends, if it is before the next one that may begin: the new time."""
        ready_at = min(
            each.frontier.next_at(lane) - each.clock for each in self.shards for lane in Lane
        )
        shard = min(self.shards, key=lambda each: each.ends[0][0] if each.ends else FOREVER)
        if shard.ends and shard.ends[0][0] <= max(ready_at, now):
            now = max(now, shard.ends[0][0])
            _, _, lease = heappop(shard.ends)
            here = now + shard.clock
            await shard.frontier.release([(lease, self.world.end(lease, here))], here)
        elif ready_at < FOREVER:
            now = max(now, ready_at)
        else:
            mail = self.under_way or any(map(waiting, self.frontiers))
            assert mail or self.is_finished, f"nothing will ever happen again: {self.frontiers!r}"
        return now

    async def carry(self, now: float) -> None:
        """Send some mail, and let some arrive, in any order; it may be lost or repeated."""
        random = self.random
        for shard in self.shards:
            for to, (first, last) in shard.frontier.outbox.items():
                if last >= first and random.random() < 0.3:
                    after = random.randint(first - 1, last)
                    mail = await shard.unsent(to, after, random.randint(1, 6))
                    assert len(mail) <= last - after
                    self.under_way.append((shard.number, to, after + 1, mail))
        while self.under_way and random.random() < 0.6:
            letter = self.under_way.pop(random.randrange(len(self.under_way)))
            if random.random() < 0.2:
                self.under_way.append(letter)
            if random.random() < 0.7:
                await self.arrive(*letter, now)

    async def arrive(
        self, sender: int, to: int, number: int, mail: list[Mail] | None, now: float
    ) -> None:
        shard = self.shards[to]
        if mail is None:
            await shard.frontier.call(lambda state: state.sent(sender, number))
            return
        before = shard.frontier.inbox.get(sender, 0)
        if number > before + 1:  # a session with a gap has ended
            return
        if self.folder is not None and self.random.random() < 0.05:
            await self.killed_in_receive(shard, sender, number, mail, now)
            after = shard.frontier.inbox.get(sender, 0)
        else:
            after = await shard.receive(sender, number, mail, now)
        assert after == shard.frontier.inbox.get(sender, 0) >= before
        for each in mail[before + 1 - number :] if after > before else ():
            if isinstance(each, RobotsAnswered):
                self.world.rules_arrive(each)
        self.under_way.append((to, sender, after, None))

    async def killed_in_receive(
        self, shard: Shard, sender: int, number: int, mail: list[Mail], now: float
    ) -> None:
        """A kill right before or after the commit of `mail`."""
        commit, is_before = Database.commit, self.random.random() < 0.5

        def killed(db: Database) -> None:
            if not is_before:
                commit(db)
            raise Killed

        with pytest.MonkeyPatch.context() as patch, suppress(Killed):
            patch.setattr(Database, "commit", killed)
            await shard.receive(sender, number, mail, now)
        await self.kill(shard, now)

    async def kill(self, shard: Shard, now: float) -> None:
        for _, _, lease in shard.ends:
            self.world.killed(lease, now + shard.clock)
        shard.ends.clear()
        await shard.frontier.close()
        shard.frontier = self.make(shard.number, now + shard.clock)

    def judge(self) -> None:
        """All that was found was counted once, at one shard; no cash is lost."""
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


@settings(max_examples=max(30, settings().max_examples // 4))
@given(SETUPS, st.integers(2, 4))
def test_shards_are_one_crawl(setup: Setup, shards: int) -> None:
    cluster = Cluster(setup, shards)
    asyncio.run(cluster.run(seeds(cluster.world)))
    cluster.judge()


@pytest.mark.slow
@settings(max_examples=max(10, settings().max_examples // 10))
@given(SETUPS, st.integers(2, 4))
def test_shards_that_are_killed_repeatedly_are_one_crawl(setup: Setup, shards: int) -> None:
    async def run(cluster: Cluster) -> None:
        await cluster.run(seeds(cluster.world))
        cluster.judge()
        cluster.world.trouble, cluster.world.host_asked, cluster.world.ip_asked = 0.0, {}, {}
        for shard in cluster.shards:
            await cluster.kill(shard, LATER_S)
        await cluster.run([], LATER_S)
        cluster.judge()
        kept = sum(each.counters.kept.total() for each in cluster.frontiers)
        assert not kept, "the next run takes up all that was kept"
        for each in cluster.frontiers:
            await each.close()

    with TemporaryDirectory() as folder:
        asyncio.run(run(Cluster(setup, shards, folder)))
