"""Joining a crawl: each order of events of the table in `registry`; `node.json`; orders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from tests.properties.cluster_world import World, WorldBus
from webcrawl.cluster.agreement.nodefile import NAME, NodeFileError, NodeStore
from webcrawl.cluster.agreement.orders import SharedOrders
from webcrawl.cluster.agreement.records import CRAWL, PROTOCOL, ShardRecord
from webcrawl.cluster.agreement.registry import GATHER_S, OWN_SETTINGS, Registry, settings_to_agree
from webcrawl.cluster.bus import Refused
from webcrawl.config.table import TABLE
from webcrawl.frontier.shared.wire import Orders

SETTINGS = {"IP_DELAY": "1.0"}


def play(scene: Callable[[World], Awaitable[Any]]) -> None:
    async def run() -> None:
        world = World(Random(1), lost=0.0)
        task = asyncio.ensure_future(scene(world))
        while not task.done():
            await world.run(world.now + 1)
        task.result()

    asyncio.run(run())


def registry(
    world: World, store: NodeStore | None = None, *, shards: int = 8, **settings: str
) -> Registry:
    store = store or NodeStore(None)
    return Registry(WorldBus(world), store, SETTINGS | settings, shards, lambda: world.now)


async def joined(world: World, store: NodeStore | None = None) -> Registry:
    made = registry(world, store)
    while await made.join(is_alone=False) is None:
        await world.sleep(1)
    return made


def test_a_fresh_node_waits_and_begins_a_crawl() -> None:
    async def scene(world: World) -> None:
        first, began_at = await joined(world), world.now
        assert began_at >= 1000 + GATHER_S
        second = await joined(world)
        assert first.crawl == second.crawl
        assert first.crawl is not None
        assert (first.crawl.losses, first.crawl.is_rebuilt) == (0, False)

    play(scene)


def test_a_lost_record_is_made_anew_with_another_era() -> None:
    async def scene(world: World) -> None:
        one, other = await joined(world), await joined(world)
        era = one.era
        assert await one.confirm(era)
        world.wipe()
        assert not await one.confirm(era)
        crawl = await one.check()
        assert crawl.era != era
        assert (crawl.is_rebuilt, crawl.losses) == (True, 1)
        assert await other.check() == crawl
        await other.settle(crawl.era)
        assert not (await one.check()).is_rebuilt

    play(scene)


def test_with_a_node_file_the_crawl_is_made_anew_at_once() -> None:
    async def scene(world: World) -> None:
        store = NodeStore(None)
        first = await joined(world, store)
        world.wipe()
        again = await registry(world, store).join(is_alone=True)
        assert again is not None
        assert first.crawl is not None
        assert again.id == first.crawl.id

    play(scene)


def test_the_later_one_of_two_crawls_is_refused() -> None:
    async def scene(world: World) -> None:
        old = await joined(world, store := NodeStore(None))
        world.wipe()
        await joined(world)  # a fresh node, while the old one is cut off
        with pytest.raises(Refused, match="JOBDIR belongs to the crawl"):
            await old.check()
        with pytest.raises(Refused, match="JOBDIR belongs to the crawl"):
            await registry(world, store).join(is_alone=True)

    play(scene)


def test_other_settings_are_refused_unless_no_node_is_alive() -> None:
    async def scene(world: World) -> None:
        first = await joined(world)
        line = r"IP_DELAY = 2.0, and the nodes of the crawl .* have 1.0"
        with pytest.raises(Refused, match=line):
            await registry(world, IP_DELAY="2.0").join(is_alone=False)
        with pytest.raises(Refused, match=r"CLUSTER_SHARDS = 4, .* with 8"):
            await registry(world, shards=4).join(is_alone=True)
        alone = registry(world, IP_DELAY="2.0")
        assert await alone.join(is_alone=True) is not None
        assert alone.warning.startswith("IP_DELAY is 2.0 from now on")
        with pytest.raises(Refused, match="IP_DELAY"):
            await first.check()

    play(scene)


def test_another_protocol_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene(world: World) -> None:
        await joined(world)
        monkeypatch.setattr("webcrawl.cluster.agreement.registry.PROTOCOL", 99)
        with pytest.raises(Refused, match=f"has protocol {PROTOCOL}, and this .* has 99"):
            await registry(world).join(is_alone=True)

    play(scene)


def test_the_nodes_own_settings_exist_and_need_not_agree() -> None:
    assert {name for name in OWN_SETTINGS if not name.startswith("CLUSTER")} <= TABLE.keys()
    assert settings_to_agree({"JOBDIR": "a", "IP_DELAY": 1.0}) == {"IP_DELAY": "1.0"}


def test_node_json_is_replaced_and_read_again(tmp_path: Path) -> None:
    store = NodeStore(tmp_path)
    store.keep(crawl="c", map={3: ShardRecord("x", 2)}, begun={3: 2})
    assert NodeStore(tmp_path).content == store.content
    assert [path.name for path in tmp_path.iterdir()] == [NAME]
    (tmp_path / NAME).write_text("{")
    with pytest.raises(NodeFileError, match=NAME):
        NodeStore(tmp_path)


def test_a_copy_of_a_jobdir_does_not_take_the_place_of_the_original(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    NodeStore(tmp_path / "job").keep(run="r")
    (tmp_path / "job").rename(tmp_path / "moved")
    assert NodeStore(tmp_path / "moved").content.run == "r"
    copytree(tmp_path / "moved", tmp_path / "copy")
    assert NodeStore(tmp_path / "copy").content.run == "", "the original may run still"


def test_an_entry_on_the_bus_that_cannot_be_used_is_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It ended all nodes once, and kept them from starting. Nor may it name a file."""

    async def scene(world: World) -> None:
        one, other = SharedOrders(WorldBus(world)), SharedOrders(WorldBus(world))
        await one.add(allow=["@/etc/hostname"], deny=["re:((((", "a.example"])
        for _ in range(2):
            await other.look()
            assert other.orders == Orders(deny=("a.example",))
        await one.pause(is_paused=True)
        await other.look()
        assert other.orders == Orders(is_paused=True, deny=("a.example",))

    play(scene)
    assert [record.getMessage().partition(": ")[2][:19] for record in caplog.records] == [
        "allow = '@/etc/host",
        "deny = 're:((((' ca",
    ]


def test_orders_reach_all_nodes_and_survive_a_loss() -> None:
    async def scene(world: World) -> None:
        one, other = SharedOrders(WorldBus(world)), SharedOrders(WorldBus(world))
        await one.add(deny=["a.example", "a.example"])
        await one.pause(is_paused=True)
        assert await other.look()
        await other.add(deny=["b.example", "a.example"])
        assert await one.look()
        assert (one.orders.is_paused, one.orders.deny) == (True, ("a.example", "b.example"))
        world.wipe()
        assert not await one.look()
        assert CRAWL not in world.kv
        assert not await other.look()
        assert one.record == other.record

    play(scene)
