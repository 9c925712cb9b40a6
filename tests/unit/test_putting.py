"""Links of a node without a shard: another node puts them, and nothing else that is sent to it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contracts.memorybus import MemoryHub
from webcrawl.cluster.agreement.records import ShardRecord
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.mail.messages import ROWS_MAX, Batch, pack, write
from webcrawl.cluster.putting import Putting
from webcrawl.frontier.lease import Link
from webcrawl.frontier.mailbox import FoundLink

SHARDS = 2


def link(number: int, **fields: Any) -> Link:
    return Link(f"http://a{number}.test/", f"a{number}.test", **fields)


def putting(bus: Bus, name: str, put: list[tuple[Link, bool]], *, crawl: str = "c") -> Putting:
    """The side of node `name`; node "owner" has all shards."""
    members = SimpleNamespace(node=name, is_alive=lambda node: True)
    records = {number: ShardRecord("owner", 1) for number in range(SHARDS)}
    held = dict.fromkeys(records, 1) if name == "owner" else {}
    node: Any = SimpleNamespace(
        members=members,
        shards=SimpleNamespace(map=records, held=held),
        registry=SimpleNamespace(crawl=SimpleNamespace(id=crawl)),
        state="running",
    )

    async def into_own(links: list[Link], force: bool) -> int:
        put.extend((each, force) for each in links)
        return len(links)

    return Putting(bus, node, SHARDS, into_own)


def test_all_links_are_put_by_the_other_node_but_a_users_request() -> None:
    async def check() -> None:
        hub, put = MemoryHub(), []
        ours, theirs = hub.bus(), hub.bus()
        await ours.open()
        await theirs.open()
        await putting(theirs, "owner", put).open()
        sender = putting(ours, "other", [])
        links = [link(n) for n in range(ROWS_MAX + 7)] + [link(9999, payload=b"pickle")]
        left, accepted = links, 0
        while left:
            count, new = await sender.send(left, force=True)
            left, accepted = left[count:], accepted + new
        assert accepted == len(links) - 1
        assert put == [(each, True) for each in links[:-1]]

    asyncio.run(check())


def test_what_is_not_of_this_crawl_or_no_link_is_refused() -> None:
    async def check() -> None:
        hub, put = MemoryHub(), []
        ours, theirs = hub.bus(), hub.bus()
        await ours.open()
        await theirs.open()
        await putting(theirs, "owner", put).open()
        with pytest.raises(BusError, match="puts no links"):
            await putting(ours, "other", [], crawl="another").send([link(1)], force=False)
        data, _ = pack([FoundLink(Link("http://a.test/ x", "a.test"))])
        unsound = write(Batch("c", 0, 0, 0, 0, 0, first=1, count=1, data=data))
        for message in (b"", b"garbage", unsound):
            assert await ours.request("put.owner", message, 1.0) == b""
        assert not put

    asyncio.run(check())


def test_a_node_that_may_get_a_shard_waits_for_it() -> None:
    bus = MemoryHub().bus()
    assert putting(bus, "other", []).owner == "owner"
    assert not putting(bus, "owner", []).owner
    side = putting(bus, "other", [])
    del side._node.shards.map[1]
    assert not side.owner
