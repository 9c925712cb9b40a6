"""Nodes that join together, after others, or after the end; orders and targets of earlier runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.properties.cluster_world import World, WorldBus
from webcrawl.cluster.agreement.ending import Ending
from webcrawl.cluster.agreement.members import SILENT_S, STALE_S
from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import PROTOCOL, Crawl, TargetRecord
from webcrawl.cluster.agreement.registry import GATHER_S
from webcrawl.cluster.agreement.target import SharedTarget
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.bus import Refused
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.steering import STOPPED, NodeSteering
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Lane, Link, Unresolved
from webcrawl.frontier.shared.wire import Orders
from webcrawl.frontier.store import StoreError
from webcrawl.scope.hostrules import HostRule, HostRules, Values

SHARDS = 4
CRAWL = Crawl("c", PROTOCOL, SHARDS, {}, "era")


class Player:
    """A node and the result of its joining."""

    def __init__(self, world: World, store: NodeStore | None = None, **settings: str) -> None:
        self.world, self.store = world, store or NodeStore(None)
        bus, agreed = WorldBus(world), {"IP_DELAY": "1.0"} | settings
        clock: Callable[[], float] = lambda: world.now  # noqa: E731
        self.node = Node(bus, self.store, agreed, SHARDS, longest_fetch_s=5.0, clock=clock)
        self.ending = Ending(bus, self.node.members.node, SHARDS, world.random)
        frontier = ClusterFrontier(Buckets(SHARDS))
        self.steering = NodeSteering(bus, self.store, self.node, self.ending, frontier, 0)
        self.refusal = ""
        self.task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        try:
            while True:
                counts = await self.node.round()
                await self.world.sleep(3.0 if counts else 0.2)
        except Refused as error:
            self.refusal = str(error)

    @property
    def has_joined(self) -> bool:
        return self.node.state == "running"

    def kill(self) -> None:
        self.task.cancel()


def play(scene: Callable[[World], Coroutine[Any, Any, None]], *, steps: bool = False) -> None:
    """Run a scene; with `steps` the time of its world passes while it waits."""

    async def run() -> None:
        world = World(Random(1), lost=0.0)
        task = asyncio.ensure_future(scene(world))
        while steps and not task.done():
            await world.run(world.now + 1)
        await task
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    asyncio.run(run())


def test_of_nodes_that_start_together_the_one_with_other_settings_is_refused() -> None:
    async def scene(world: World) -> None:
        old = Player(world)
        await world.run(world.now + 30)
        old.kill()
        await world.run(world.now + 60)
        right = [Player(world, old.store), Player(world)]
        wrong = Player(world, IP_DELAY="2.0")
        await world.run(world.now + 30)
        assert wrong.refusal.startswith("IP_DELAY = 2.0, and the nodes of the crawl ")
        assert all(each.has_joined and not each.refusal for each in right)

    play(scene)


def test_nodes_that_start_together_share_alike_when_the_crawl_begins() -> None:
    async def scene(world: World) -> None:
        nodes = [Player(world) for _ in range(2)]
        await world.run(world.now + GATHER_S + 5.0)  # of which calls take most
        assert sorted(sorted(each.node.shards.held) for each in nodes) == [[0, 2], [1, 3]]

    play(scene)


def test_without_limits_of_addresses_a_rebuilt_bus_is_settled_too() -> None:
    """Until it is, no shard is moved: a node could not leave, and a late one got nothing."""

    async def scene(world: World) -> None:
        player = Player(world)
        await world.run(world.now + 30)
        world.wipe()
        await world.run(world.now + 10)
        crawl = player.node.registry.crawl
        assert crawl is not None
        assert crawl.is_rebuilt
        await settle(world, player)
        await world.run(world.now + 5)
        assert player.node.registry.crawl == crawl, "others may not have written theirs yet"
        await world.run(world.now + SILENT_S + 10)
        await settle(world, player)
        await world.run(world.now + 5)
        assert player.node.registry.crawl == replace(crawl, is_rebuilt=False)

    play(scene)


async def settle(world: World, player: Player) -> None:
    task = asyncio.ensure_future(player.node.settle())
    await world.run(world.now + 1)
    await task


def test_dead_nodes_refuse_nobody() -> None:
    async def scene(world: World) -> None:
        dead = Player(world)
        await world.run(world.now + 30)
        dead.kill()
        later = Player(world, IP_DELAY="2.0")
        await world.run(world.now + 3)
        assert not later.has_joined
        assert later.node.waits_for.startswith("a heartbeat of ")
        await world.run(world.now + STALE_S + 5)
        assert later.has_joined
        assert later.node.registry.warning.startswith("IP_DELAY is 2.0 from now on, for all nodes")

    play(scene)


def test_another_crawl_is_refused_also_by_dead_nodes() -> None:
    async def scene(world: World) -> None:
        dead = Player(world)
        await world.run(world.now + 30)
        dead.kill()
        store = NodeStore(None)
        store.keep(crawl="another", shards=SHARDS)
        later = Player(world, store)
        await world.run(world.now + 2 * STALE_S)
        assert later.refusal.startswith("JOBDIR belongs to the crawl another, and the crawl on")

    play(scene)


def test_a_pause_ends_with_the_run_and_a_denied_host_does_not() -> None:
    async def scene(world: World) -> None:
        one, other = Player(world), Player(world)
        await world.sleep(20)
        for each in (one, other):
            await each.steering.join(is_first=each is one)
        await one.steering.orders.pause(is_paused=True)
        await one.steering.orders.add(deny=["a.example", "b.example"])
        obeyed: list[Orders] = []

        async def obey(orders: Orders) -> int:
            obeyed.append(orders)
            return 2

        other.steering.on_orders = obey
        assert await other.steering.look() == 2
        assert await other.steering.look() == 0
        assert obeyed == [Orders(is_paused=True, deny=("a.example", "b.example"))]

        # A node that knew none of it starts alone: what others know still holds.
        stranger = Player(world)
        await world.sleep(10)
        await stranger.steering.join(is_first=True)
        record = stranger.steering.orders.record
        assert (record.is_paused, record.deny) == (False, ("a.example", "b.example"))

        # One that has kept all of it, and whose user has deleted a line.
        again = Player(world, other.store)
        again.store.keep(orders=f"{again.node.registry.era} {record.version}")
        await world.sleep(10)
        again.store.keep(orders=f"{again.node.registry.era} {record.version}")
        again.steering.kept = Orders(deny=("b.example",))
        await again.steering.join(is_first=True)
        assert again.steering.orders.record.deny == ("b.example",)

    play(scene, steps=True)


def test_another_pagecount_replaces_the_target_of_a_command() -> None:
    async def scene(world: World) -> None:
        bus = WorldBus(world)

        def steering(store: NodeStore, goal: int) -> NodeSteering:
            node = Node(bus, store, {}, SHARDS, longest_fetch_s=5.0, clock=lambda: world.now)
            node.registry.crawl = CRAWL
            ending = Ending(bus, "n", SHARDS, world.random)
            return NodeSteering(bus, store, node, ending, ClusterFrontier(Buckets(SHARDS)), goal)

        store = NodeStore(None)
        first = steering(store, 100)
        await first.join(is_first=True)
        assert first.whole.goal == 100
        await first.target.set_goal(300)
        same = steering(store, 100)
        await same.join(is_first=True)
        assert same.whole.goal == 300
        another = steering(store, 50)
        await another.join(is_first=True)
        assert another.whole.goal == 50

    play(scene, steps=True)


def test_a_goal_that_is_set_later_waits_for_the_pages_of_all_shards() -> None:
    async def scene(world: World) -> None:
        bus = WorldBus(world)
        one, other = (SharedTarget(bus, NodeStore(None), 0) for _ in range(2))
        await one.count({0: 40, 1: 0})
        await one.set_goal(100)
        assert await one.refresh(CRAWL, {0: 40, 1: 0}, nodes=2, wants=50) == 40
        await other.refresh(CRAWL, {2: 30, 3: 0}, nodes=2, wants=0)
        assert await one.refresh(CRAWL, {0: 40, 1: 0}, nodes=2, wants=50) == 40 + 30 // 4
        assert sum(one.record.used.values()) == 70

    play(scene, steps=True)


def test_pages_are_counted_before_there_is_a_goal_only_if_asked() -> None:
    async def scene(world: World) -> None:
        target = SharedTarget(WorldBus(world), NodeStore(None), 0)
        await target.refresh(CRAWL, {0: 5}, nodes=1, wants=5)
        assert target.record == TargetRecord(0)
        await target.count({0: 5})
        await target.refresh(CRAWL, {0: 7}, nodes=1, wants=5)
        assert (target.record.used, target.places([0])) == ({0: 7}, None)

    play(scene, steps=True)


def test_an_end_is_for_the_nodes_that_ran() -> None:
    async def scene(world: World) -> None:
        bus = WorldBus(world)
        one, late = (Ending(bus, name, SHARDS, world.random) for name in ("one", "late"))
        assert await one.end(STOPPED) == STOPPED
        await late.look()
        assert late.reason == STOPPED
        await late.reopen()
        await one.look()
        assert one.reason == ""

    play(scene, steps=True)


def test_a_node_that_is_killed_before_it_has_made_its_folders_begins_them_again() -> None:
    async def scene(world: World) -> None:
        async def used(player: Player) -> dict[int, str]:
            events: list[Any] = []
            player.node.on_event = events.append
            while not events:
                await world.sleep(1.0)
            player.kill()
            return {event.shard: event.how for event in events}

        killed = Player(world)
        assert await used(killed) == dict.fromkeys(range(SHARDS), "begun")
        killed.node.shards.has_folder(0)
        again = await used(Player(world, killed.store))
        assert again == {0: "resumed"} | dict.fromkeys(range(1, SHARDS), "empty")

    play(scene, steps=True)


def test_new_rules_reach_all_shards_and_the_process(tmp_path: Path) -> None:
    def shard(number: int, rules: HostRules) -> LocalFrontier:
        abroad = Buckets(SHARDS).abroad(number)
        return LocalFrontier(tmp_path / str(number), Policy(rules=rules), abroad=abroad)

    async def check() -> None:
        frontier = ClusterFrontier(Buckets(SHARDS))
        own = [HostRules([]) for _ in range(2)]
        frontier.rules = HostRules([])
        for number, rules in enumerate(own):
            frontier.add(number, shard(number, rules))
        rules = [HostRule(line=1, hosts=("a.example",), values=Values(delay_s=9.0))]
        await frontier.set_rules(rules, 0.0)
        assert [each.of("a.example").delay_s for each in (frontier.rules, *own)] == [9.0] * 3
        await frontier.close()

    asyncio.run(check())


def test_the_active_hosts_of_a_node_are_those_of_the_shards_that_it_has(tmp_path: Path) -> None:
    async def check() -> None:
        buckets = Buckets(SHARDS)
        frontier = ClusterFrontier(buckets, active_max=6)
        names = (f"h{number}.example" for number in range(99))
        hosts = [name for name in names if buckets.shard_of(name) == 0][:9]

        async def active() -> int:
            await frontier.share_active_hosts()
            await frontier.acquire(0.0, 99, Lane.ADMISSIONS)
            return frontier.leased(0)

        for number in range(3):
            abroad = buckets.abroad(number)
            shard = LocalFrontier(tmp_path / str(number), Policy(), abroad=abroad, active_max=1)
            frontier.add(number, shard)
        await frontier.put([Link(f"http://{host}/", host) for host in hosts], 0.0)
        assert await active() == 2
        await frontier.remove(2).close()
        assert await active() == 3
        await frontier.remove(1).close()
        assert await active() == 6
        frontier.add(1, LocalFrontier(tmp_path / "1", Policy(), abroad=buckets.abroad(1)))
        assert await active() == 6, "no lease is taken back"
        await frontier.close()

    asyncio.run(check())


def test_a_shard_tries_its_kept_links_beside_the_work_of_others(tmp_path: Path) -> None:
    async def check() -> None:
        buckets = Buckets(SHARDS)
        frontier = ClusterFrontier(buckets)
        for number in range(2):
            abroad = buckets.abroad(number)
            frontier.add(number, LocalFrontier(tmp_path / str(number), Policy(), abroad=abroad))
        names = (f"h{number}.example" for number in range(99))
        hosts = {buckets.shard_of(name): name for name in names}
        await frontier.put([Link(f"http://{hosts[0]}/", hosts[0])], 0.0)
        now = 0.0

        async def tries() -> list[str]:
            leases = [lease for lane in Lane for lease in await frontier.acquire(now, 9, lane)]
            failed = Unresolved("dns", again=True)
            await frontier.release([(lease, failed) for lease in leases], now)
            return [lease.host for lease in leases]

        for _ in range(9):
            await tries()
            now += 600.0
        assert (frontier.counters.kept["dns"], frontier.fresh) == (1, 0)
        now += 1e6
        await frontier.see_work(elsewhere=False)
        assert await tries() == []
        assert frontier.next_at(Lane.ADMISSIONS) > now
        activity = frontier.activity(0)
        await frontier.see_work(elsewhere=True)
        assert frontier.activity(0) == activity
        assert await tries() == [hosts[0]]
        now += 1e6
        await frontier.see_work(elsewhere=False)
        assert await tries() == []
        await frontier.put([Link(f"http://{hosts[1]}/", hosts[1])], now)
        await frontier.see_work(elsewhere=False)
        assert sorted(await tries()) == sorted([hosts[0], hosts[1]])
        await frontier.close()

    asyncio.run(check())


def test_a_shard_is_no_crawl_of_its_own(tmp_path: Path) -> None:
    async def begin() -> None:
        await LocalFrontier(tmp_path, abroad=Buckets(SHARDS).abroad(0)).close()

    asyncio.run(begin())
    with pytest.raises(StoreError, match="is one shard of a crawl on several machines"):
        LocalFrontier(tmp_path, refuses_shards=True)
