"""The views of several nodes as one crawl, and questions from node to node."""

from __future__ import annotations

import asyncio
import functools
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest

from tests.contracts.memorybus import MemoryHub
from webcrawl.cluster.agreement.records import NodeRecord, encode
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.errors import NoAnswerError
from webcrawl.cluster.explaining import Answer, Explanations, Question
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.views import (
    OTHERS,
    REASONS_MAX,
    NodeView,
    Owner,
    Seen,
    Views,
    Whole,
    counters_of,
    view_of,
    whole_of,
)
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.report.lines import done_since, named_counts, whole_line, whole_summary, whole_values

A, B, C = "aaa", "bbb", "ccc"


def counters(pages: int, **more: int) -> Counters:
    counted = Counters(crawled=pages, extracted=2 * pages, pending=3, fetch_s=0.5, **more)
    counted.codes.update({"2xx": pages})
    counted.dropped.update({"robots": 1})
    counted.levels.update({"found/1": pages})
    return counted


def view(pages: int, name: str = "", **more: float) -> NodeView:
    described = NodeView(name=name, state="running", elapsed_s=10.0 + pages, unapplied=2)
    described = msgspec.structs.replace(described, hosts={"ready": 1, "idle": pages}, **more)
    return view_of(counters(pages), described)


def whole(nodes: dict[str, Seen], owners: dict[int, str], shards: int = 4) -> Whole:
    latest = {shard: Owner(node, 2) for shard, node in owners.items()}
    return whole_of("id", A, nodes, latest, shards, 100.0)


def test_the_sum_of_two_nodes() -> None:
    nodes = {
        A: Seen(view(5, "one", pages_per_s=2.0, mbps=1.0), "alive", 98.0),
        B: Seen(view(7, "two", pages_per_s=3.0, mbps=0.5), "alive", 97.5),
    }
    found = whole(nodes, {0: A, 1: B, 2: A, 3: B})
    both = Counters()
    for each in (counters(5), counters(7)):
        both.add(each.to_dict())
    assert found.counters == both
    assert found.hosts == {"ready": 2, "idle": 12}
    assert (found.alive, found.shards, found.without_node, found.unapplied) == (2, 4, (), 4)
    assert (found.pages_per_s, found.mbps, found.elapsed_s) == (5.0, 1.5, 17.0)
    assert [(n.node, n.is_own, n.shards, n.pages, n.heard_s) for n in found.nodes] == [
        (A, True, 2, 5, 2.0),
        (B, False, 2, 7, 2.5),
    ]


def test_a_silent_node_counts_as_it_was_heard_while_it_has_a_shard() -> None:
    nodes = {A: Seen(view(5), "alive", 98.0), B: Seen(view(7, pages_per_s=9.0), "silent", 40.0)}
    found = whole(nodes, {0: A, 1: B, 2: A})
    assert found.counters.crawled == 12
    assert found.pages_per_s == 0.0
    assert (found.alive, found.without_node) == (1, (1, 3))
    assert found.nodes[1].heard_s == 60.0
    restored = whole(nodes, {0: A, 1: A, 2: A})
    assert restored.counters.crawled == 5, "its shards have brought its counts along"
    assert restored.without_node == (3,)


def test_a_shard_that_was_restored_elsewhere_counts_once_while_its_node_is_silent() -> None:
    """Pages and queue exactly, all else in proportion to the pages."""
    shards = {1: (1, 6, 1), 2: (2, 14, 2)}
    dead = msgspec.structs.replace(view(20), shards=shards)
    nodes = {A: Seen(view(5), "alive", 98.0), B: Seen(dead, "silent", 40.0)}
    found = whole(nodes, {0: A, 1: A, 2: B}).counters
    assert (found.crawled, found.pending) == (5 + 14, 3 + 2)
    assert (found.extracted, found.codes["2xx"]) == (2 * 5 + 2 * 14, 5 + 14)
    assert whole(nodes, {0: A, 1: A, 2: B}).nodes[1].pages == 14
    same = whole(nodes, {0: A, 1: B, 2: B}).counters
    assert (same.crawled, same.pending) == (25, 6)
    back = nodes | {B: Seen(dead, "alive", 99.0)}
    assert whole(back, {0: A, 1: A, 2: B}).counters.crawled == 25, "until its next heartbeat"


def test_a_node_that_has_left_without_a_shard_is_only_counted_as_known() -> None:
    refused = NodeView()
    nodes = {
        A: Seen(view(5), "alive", 98.0),
        B: Seen(refused, "left", 0.0),
        C: Seen(view(1), "left", 0.0),
    }
    found = whole(nodes, {0: A})
    assert [node.node for node in found.nodes] == [A]
    assert found.ever == 2, "A and C: there may be an archive of both"
    assert found.counters.crawled == 5


def test_its_own_node_is_as_it_is_now_and_another_one_as_last_heard() -> None:
    now = 100.0
    own = counters(5)
    views = Views(A, own, lambda: now)
    described = NodeView(name="one", pages_per_s=1.0)
    assert views.whole().nodes[0].condition == "joining"
    views.see(
        "id",
        {A: Seen(views.own(described), "alive", 99.0), B: Seen(view(7), "alive", 99.0)},
        {0: Owner(A, 1), 1: Owner(B, 1)},
        2,
    )
    own.crawled = 9
    assert views.whole().counters.crawled == 16
    assert views.whole().alive == 2
    now = 120.0  # this node has lost the bus
    assert [node.condition for node in views.whole().nodes if not node.is_own] == ["silent"]


def test_a_view_is_small_and_has_a_bounded_number_of_reasons() -> None:
    many = counters(10**12)
    many.dropped.update({f"a user's own reason, and it is a long one {n}": n for n in range(500)})
    found = view_of(many, NodeView())
    dropped = found.groups["dropped"]
    assert len(dropped) <= REASONS_MAX + 1
    assert sum(dropped.values()) == many.dropped.total()
    assert dropped[OTHERS] > 0
    assert all(len(name) <= 40 for name in dropped)
    for group in ("failed", "kept"):
        getattr(many, group).update({f"{group} {n} of a name that is long": n for n in range(500)})
    many.levels.update({f"{kind}/{n}": 10**9 for kind in ("found", "ended") for n in range(11)})
    record = NodeRecord(
        "r" * 16, 1, "running", [], "e" * 16, view_of(many, NodeView(name="n" * 40))
    )
    assert len(encode(record)) < 4_000


def test_a_view_comes_back_as_it_was_sent() -> None:
    record = NodeRecord("run", 1, "running", [1], "era", view(5, "one"))
    assert msgspec.msgpack.decode(encode(record), type=NodeRecord) == record


def test_names_that_this_version_does_not_know_are_not_added() -> None:
    found = counters_of(
        [
            NodeView(numbers={"crawled": 2, "__class__": 1, "under_way": 7, "codes": 3}),
            NodeView(numbers={"crawled": 1}, groups={"to_dict": {"a": 1}, "codes": {"2xx": 1}}),
        ]
    )
    assert found == Counters(crawled=3, codes=Counter({"2xx": 1}))


def test_earlier_runs_of_nodes_were_at_the_same_time() -> None:
    views = [view_of(Counters(earlier_s=seconds), NodeView()) for seconds in (5.0, 9.0)]
    assert counters_of(views).earlier_s == 9.0


def test_the_lines_of_the_whole_crawl() -> None:
    nodes = {
        A: Seen(view(5, "one", pages_per_s=2.0, mbps=1.0), "alive", 98.0),
        B: Seen(view(7, "two\x1b[2J"), "silent", 40.0),
    }
    found = whole(nodes, {0: A, 1: B, 2: A, 3: B})
    assert whole_line(found) == (
        "    === 1 of 2 nodes, C 12, Q 6, 2.0 pps @ 1.0 Mbps, 4 links between shards,"
        " 2 of 4 shards without a node"
    )
    lines = whole_summary(found)
    assert lines[:2] == ["", "Above: this node, one (aaa), one of 2. The whole crawl:"]
    assert "Crawled 12 pages @ 1/s (0.00 MB)" in lines
    assert lines[-1] == "Nodes not heard, counted as they were last: bbb"
    assert "\x1b" not in "".join(lines)


def test_the_values_for_programs_are_json() -> None:
    found = whole({A: Seen(view(5, "one"), "alive", 98.0)}, {0: A})
    values = whole_values(found)
    assert msgspec.json.decode(msgspec.json.encode(values)) == values
    assert values["counts"] == named_counts(found.counters)
    assert values["shards_without_node"] == [1, 2, 3]


# In a loop: explanations from node to node, shards that move


def in_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(**fixtures: Path) -> None:
        asyncio.run(test(**fixtures))  # type: ignore[arg-type]  # a coroutine

    return run


async def nodes(hub: MemoryHub, crawl: str = "id") -> tuple[Explanations, Explanations]:
    found = []
    for name in (A, B):
        bus = hub.bus()
        await bus.open()
        found.append(Explanations(bus, name, lambda: crawl if len(found) < 2 else "id"))
        await found[-1].open()
    return found[0], found[1]


@in_loop
async def test_a_node_asks_another_one() -> None:
    one, other = await nodes(MemoryHub())

    async def here(url: str) -> list[str]:
        return [url, "Fetched."]

    other.here = here
    assert await one.ask(B, "http://a.example/") == ["http://a.example/", "Fetched."]


@in_loop
async def test_what_the_other_node_cannot_answer_is_one_line() -> None:
    one, other = await nodes(MemoryHub())
    with pytest.raises(NoAnswerError, match=r"^node bbb: it has no spider yet"):
        await one.ask(B, "http://a.example/")

    async def refuses(url: str) -> list[str]:
        raise NoAnswerError("it does not use shard 3")

    other.here = refuses
    with pytest.raises(NoAnswerError, match=r"^node bbb: it does not use shard 3$"):
        await one.ask(B, "http://a.example/")


@in_loop
async def test_a_question_of_another_crawl_or_none_is_refused() -> None:
    hub = MemoryHub()
    _, other = await nodes(hub)

    async def here(url: str) -> list[str]:
        raise AssertionError

    other.here = here
    asker = hub.bus()
    await asker.open()
    for question, said in (
        (encode(Question("other", "http://a.example/")), "another crawl"),
        (encode(Question("id", "x" * 100_000)), "cannot be read"),
        (b"\x80", "cannot be read"),
        (b"", "cannot be read"),
    ):
        answer = await asker.request(f"explain.{B}", question, 1.0)
        assert said in msgspec.msgpack.decode(answer, type=Answer).problem


@in_loop
async def test_an_answer_that_is_none_is_one_line() -> None:
    hub = MemoryHub()
    one, _ = await nodes(hub)
    liar = hub.bus()
    await liar.open()

    async def answer(data: bytes) -> bytes:
        await asyncio.sleep(0)
        return encode(Answer(["x"] * 300))

    await liar.answer(f"explain.{C}", answer)
    with pytest.raises(NoAnswerError, match=r"^the answer of node ccc cannot be read$"):
        await one.ask(C, "http://a.example/")


@in_loop
async def test_a_shard_that_comes_or_leaves_is_no_work_of_the_node(tmp_path: Path) -> None:
    node = ClusterFrontier(Buckets(2))
    shard = LocalFrontier(tmp_path, abroad=Buckets(2).abroad(0))
    shard.counters.crawled = 1000
    node.add(0, shard)
    assert done_since(node.brought, node.counters) == (0, 0)
    node.counters.crawled += 10  # as the scheduler counts
    node.counters.page_bytes += 5
    assert done_since(node.brought, node.counters) == (10, 5)
    await node.remove(0).close()
    assert node.counters.crawled == 0
    assert done_since(node.brought, node.counters) == (10, 5), "this node has done it"


@in_loop
async def test_the_time_of_a_shard_that_comes_is_not_added_to_that_of_the_node(
    tmp_path: Path,
) -> None:
    node = ClusterFrontier(Buckets(3))
    for number, (earlier_s, run_s) in enumerate(((100.0, 0.0), (160.0, 60.0), (200.0, 60.0))):
        shard = LocalFrontier(tmp_path / str(number), abroad=Buckets(3).abroad(number))
        shard.counters.earlier_s = earlier_s
        node.add(number, shard, run_s)
    assert node.counters.earlier_s == 140.0, "the longest, without the 60 s that both nodes ran"
    await node.close()
