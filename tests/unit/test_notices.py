"""The lines about other nodes: once when a matter begins, again after a while, and at its end."""

from __future__ import annotations

import logging

import pytest

from tests.contracts.memorybus import MemoryHub
from webcrawl.cluster.agreement.members import Members
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import NodeRecord, ShardRecord
from webcrawl.cluster.notices import HELD_BACK_S, LOST_S, Notices, Repeated


def notices() -> Notices:
    return Notices(Members(MemoryHub().bus(), NodeStore(None), lambda: 0.0))


def test_a_line_is_repeated_after_a_while_and_at_once_if_it_was_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    line = Repeated(10.0)
    assert [line.say("a", now) for now in (0.0, 9.0, 10.0, 11.0)] == [True, False, True, False]
    assert line.say("b", 12.0)
    assert not line.say("", 13.0)
    assert line.say("b", 14.0)
    assert [record.getMessage() for record in caplog.records] == ["a", "a", "b", "b"]


def test_shards_that_no_node_knows_after_a_loss_are_named_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = notices()
    known = {1: ShardRecord("a", 1)}
    said.lost(known, 3, 0.0, losses=1)
    said.lost(known, 3, LOST_S, losses=1)
    assert not caplog.records, "their nodes may write what they know"
    for now in (LOST_S + 1, LOST_S + 2):
        said.lost(known, 3, now, losses=1)
    (record,) = caplog.records
    assert "knows the shards 0, 2: " in record.getMessage()


def test_shards_that_are_not_claimed_yet_are_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    said = notices()
    for now in (0.0, LOST_S + 1):
        said.lost({}, 3, now, losses=0)
    assert not caplog.records


def test_a_node_without_a_shard_says_so_once_all_are_claimed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    said = notices()
    said.has_none((), False, 0.0)
    assert not caplog.records
    said.has_none((), True, 1.0)
    said.has_none((), True, 2.0)
    assert [record.getMessage() for record in caplog.records] == [
        "This node has no shard: all are on other nodes"
    ]


def test_a_node_says_why_it_may_not_use_its_shards(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    said = notices()
    waits = {1: "no records", 3: "no records", 2: "b"}
    said.held_back(waits, 0.0)
    said.held_back({}, 1.0)
    said.held_back(waits, 2.0)
    said.held_back(waits, 2.0 + HELD_BACK_S)
    assert not caplog.records, "a usual start"
    said.held_back(waits, 3.0 + HELD_BACK_S)
    assert [record.getMessage() for record in caplog.records] == [
        "This node may not use all of its shards yet: shard 2: b; shards 1, 3: no records"
    ]


def test_a_node_with_a_new_jobdir_is_told_that_the_crawl_of_this_name_is_an_old_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = notices()
    shards = {0: ShardRecord("a", 1), 1: ShardRecord("b", 1)}
    for now in (0.0, LOST_S, LOST_S + 1, LOST_S + 2):
        said.has_none((), True, now)
        said.waits(shards, now, is_idle=False)
    (record,) = caplog.records
    assert record.getMessage() == (
        "Nothing is left to do here: the crawl waits for shard 0 of node a; shard 1 of node b."
        " Start each again with its JOBDIR, or end this node with Ctrl-C."
        " If these nodes are no more, a new crawl needs another CLUSTER_NAME"
    )


def test_a_node_that_leaves_for_good_is_not_silent(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    said, running = notices(), ["a", "b", "c"]
    states = {"a": "leaving", "b": "left", "c": "running"}
    monkeypatch.setattr(Members, "running", lambda _: running)
    monkeypatch.setattr(
        Members,
        "record",
        lambda _, node: NodeRecord("run", 1, states[node], [], "era"),  # type: ignore[arg-type]
    )
    said.nodes()
    running.clear()
    caplog.clear()
    said.nodes()
    assert [record.getMessage() for record in caplog.records] == [
        "Node a leaves for good: its shards move to others",
        "Node b has left: its shards pause until it is back",
        "Node c is silent: its shards pause until it is back",
    ]
