"""The folders of shards, their checkpoints, and a frontier whose shards come and go."""

from __future__ import annotations

import asyncio
from math import inf
from pathlib import Path

import pytest

from tests.unit.frontier_parts import FOREVER, link
from webcrawl.cluster.buckets import Buckets
from webcrawl.cluster.errors import CopyError
from webcrawl.cluster.frontier import ClusterFrontier
from webcrawl.cluster.moving.checkpoints import (
    Checkpoint,
    copy_checkpoint,
    find_checkpoint,
    make_checkpoint,
    read_checkpoint,
)
from webcrawl.cluster.moving.folders import Folders, check_files, files_of, read_mark
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.lease import Lane, Returned, Step
from webcrawl.frontier.mailbox import FoundLink
from webcrawl.frontier.politeness import Politeness

SHARD = 3


def database(folder: Path, content: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    db = Database(folder)
    db.put(b"row", content)
    db.commit()
    db.close()


def content(folder: Path) -> bytes | None:
    db = Database(folder / FOLDER, read_only=True)
    try:
        return db.get(b"row")
    finally:
        db.close()


def copy_of(folders: Folders, copy: str, text: bytes, skew_s: float = 0.0) -> None:
    database(folders.begin_copy(SHARD, copy) / FOLDER, text)
    folders.end_copy(SHARD, copy, skew_s)


def test_a_folder_without_a_copy_is_that_of_epoch_1(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    assert not folders.settle(SHARD, "")
    database(folders.of(SHARD) / FOLDER, b"first")
    assert folders.settle(SHARD, "")
    assert not folders.settle(SHARD, "other"), "the shard has been elsewhere since"


def test_a_copy_takes_the_place_of_an_older_folder(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    database(folders.of(SHARD) / FOLDER, b"of before")
    copy_of(folders, "abc", b"new", skew_s=-5.0)
    assert folders.has_copy(SHARD, "abc")
    assert content(folders.of(SHARD)) == b"of before"
    assert not folders.settle(SHARD, "another"), "a copy that the record does not name"
    assert folders.settle(SHARD, "abc")
    assert folders.settle(SHARD, "abc"), "again, after a kill"
    assert content(folders.of(SHARD)) == b"new"
    assert read_mark(folders.of(SHARD)).skew_s == -5.0
    assert [path.name for path in tmp_path.iterdir()] == ["0003"]


def test_a_later_copy_makes_earlier_ones_void(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    copy_of(folders, "abc", b"first")
    folders.begin_copy(SHARD, "def")
    assert not folders.has_copy(SHARD, "abc")
    folders.drop_parts()
    assert list(tmp_path.iterdir()) == []


def test_a_copy_that_is_no_database_is_not_taken(tmp_path: Path) -> None:
    folders = Folders(tmp_path)
    (folders.begin_copy(SHARD, "abc") / FOLDER / "CURRENT").write_text("MANIFEST-000001\n")
    with pytest.raises(CopyError, match="cannot be used"):
        folders.end_copy(SHARD, "abc", 0.0)
    assert not folders.has_copy(SHARD, "abc")


@pytest.mark.parametrize(
    "names",
    [
        ["../x"],
        ["frontier/../../x"],
        ["/etc/x"],
        ["frontier/.x"],
        ["copy.json"],
        ["frontier/a"] * 2,
    ],
    ids=str,
)
def test_a_list_of_files_from_the_bus_is_checked(names: list[str]) -> None:
    with pytest.raises(CopyError, match="damaged"):
        check_files([(name, 1) for name in names])


def frontier(folder: Path, number: int, shards: int = 2) -> LocalFrontier:
    policy = Policy(politeness=Politeness(0.0, 0.0))
    return LocalFrontier(folder, policy, abroad=Buckets(shards).abroad(number))


def host_in(shard: int, shards: int = 2) -> str:
    buckets = Buckets(shards)
    names = (f"host{number}.example" for number in range(100))
    return next(name for name in names if buckets.shard_of(name) == shard)


def test_a_checkpoint_is_restored_as_it_was(tmp_path: Path) -> None:
    async def run() -> None:
        host, root = host_in(0), tmp_path / "checkpoints"
        shard = frontier(tmp_path / "a", 0)
        header = Checkpoint("crawl", 2, 0, "node", 1, "")
        await shard.put([link(f"http://{host}/1")], 0.0)
        await make_checkpoint(root, tmp_path / "a", header, shard.checkpoint)
        mail = [FoundLink(link(f"http://{host}/2"))]
        await shard.call(lambda state: state.receive(1, 1, mail, 0.0))
        made = await make_checkpoint(root, tmp_path / "a", header, shard.checkpoint)
        await shard.put([link(f"http://{host}/lost")], 0.0)
        await shard.close()
        assert made.inbox == {1: 1}
        folders = Folders(tmp_path / "b")
        folder = find_checkpoint(root, 0)
        assert read_checkpoint(folder) == made
        copy_checkpoint(folder, folders, 0, "abc")
        assert folders.settle(0, "abc")
        restored = frontier(folders.of(0), 0)
        assert restored.counters.pending == 2
        assert restored.inbox == {1: 1}
        await restored.close()
        with pytest.raises(CopyError, match="no checkpoint of shard 1"):
            find_checkpoint(root, 1)
        assert [path.name for path in root.iterdir()] == ["shard-0000"]
        assert files_of(folder) == files_of(folder)

    asyncio.run(run())


def test_a_shard_that_is_given_up_takes_its_leases_and_counts_along(tmp_path: Path) -> None:
    async def run() -> None:
        node = ClusterFrontier(Buckets(2))
        for number in (0, 1):
            node.add(number, frontier(tmp_path / str(number), number))
        await node.put([link(f"http://{host_in(number)}/") for number in (0, 1)], 0.0)
        leases = await node.acquire(0.0, 10, Lane.ADMISSIONS)
        assert [lease.step for lease in leases] == [Step.RESOLVE] * 2
        assert [node.leased(number) for number in (0, 1)] == [1, 1]
        node.freeze(0)
        await node.release([(lease, Returned()) for lease in leases], 0.0)
        assert [node.leased(number) for number in (0, 1)] == [0, 0]
        again = await node.acquire(0.0, 10, Lane.ADMISSIONS)
        assert [node.shard_of(lease.host) for lease in again] == [1]
        assert node.counters.pending == 2
        shard = node.remove(0)
        assert node.counters.pending == 1
        await node.put([link(f"http://{host_in(0)}/found")], 0.0)
        assert node.shards[1].outbox == {0: (1, 1)}
        node.freeze(0)  # it has gone: nothing to freeze
        node.add(0, shard)
        assert node.counters.pending == 2
        assert len(await node.acquire(FOREVER, 10, Lane.ADMISSIONS)) == 1
        node.freeze(0)
        node.freeze(1)
        assert node.next_at(Lane.ADMISSIONS) == inf
        node.remove(0)
        await shard.close()
        await node.close()

    asyncio.run(run())
