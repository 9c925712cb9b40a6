"""checkpoints: real folders of RocksDB, and a kill before each change of a file system."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.frontier import link
from tests.mailing import receive
from webcrawl.cluster import checkpoints
from webcrawl.cluster.checkpoints import (
    NAME,
    STATE,
    Checkpoint,
    Checkpoints,
    Found,
    files_of,
    folder_of,
    newest,
    write_checkpoint,
)
from webcrawl.cluster.claims import Claim, read_claim
from webcrawl.cluster.restoring import find_checkpoint, make_jobdir
from webcrawl.cluster.sentcheckpoints import fetch_checkpoint, send_checkpoint
from webcrawl.frontier.base import Policy
from webcrawl.frontier.buckets import hub_of, other_hubs
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.mailbox import FoundLink
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError

HUBS, HUB = 3, 1
CLAIM = Claim("20261126180000-abcdef", HUB, HUBS)
HEADER = Checkpoint(CLAIM, 0.0)
CHANGES = {"open", "os.link", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime"}


class KilledError(BaseException):
    """In the place of the end of a process."""


class Killer:
    """Ends this process, as far as its files know, before change number `at`, 1 the first."""

    def __init__(self) -> None:
        self.left: int | None = None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.left is not None and event in CHANGES:
            self.left -= 1
            if self.left <= 0:  # nothing is tidied up after a kill
                raise KilledError

    @contextmanager
    def kill(self, at: int) -> Iterator[None]:
        """`killed` says whether it was."""
        self.left, self.killed = at, False
        try:
            yield
        except KilledError:
            self.killed = True
        finally:
            self.left = None


KILLER = Killer()


def restore(found: Found, jobdir: Path) -> None:
    make_jobdir(jobdir, found[1].claim, found[0])


def host_in(hub: int) -> str:
    names = (f"host{number}.example" for number in range(100))
    return next(name for name in names if hub_of(name, HUBS) == hub)


def hub_in(jobdir: Path) -> LocalFrontier:
    policy = Policy(politeness=Politeness(0.0, 0.0))
    return LocalFrontier(jobdir, policy, partition=other_hubs(HUB, HUBS))


async def put(frontier: LocalFrontier, *names: str, hub: int = HUB) -> None:
    await frontier.put([link(f"http://{host_in(hub)}/{name}") for name in names], 0.0)


def pending_in(jobdir: Path) -> int:
    async def look() -> int:
        frontier = hub_in(jobdir)
        await frontier.close()
        return frontier.counters.pending

    return asyncio.run(look())


@pytest.fixture
def states(tmp_path: Path) -> tuple[dict[str, Path], dict[str, Path]]:
    """The files of a hub with one queued URL, and with two."""

    async def make() -> tuple[dict[str, Path], dict[str, Path]]:
        frontier = hub_in(tmp_path / "job")
        (tmp_path / "job" / STATE).write_bytes(b"state")
        folders = tmp_path / "first", tmp_path / "second"
        for folder in folders:
            await put(frontier, folder.name)
            await frontier.checkpoint(folder)
        await frontier.close()
        first, second = (files_of(folder, tmp_path / "job") for folder in folders)
        return first, second

    return asyncio.run(make())


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # no power fails here


def names_in(folder: Path) -> set[str]:
    """The files of a checkpoint, by name in JOBDIR."""
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return files - {NAME}


# Making


def test_a_kill_at_each_step_leaves_a_whole_checkpoint(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    first, second = states
    found: set[float] = set()
    for at in count(1):
        root = tmp_path / f"root{at}"
        root.mkdir()
        write_checkpoint(root, Checkpoint(CLAIM, 1.0), first)
        with KILLER.kill(at):
            write_checkpoint(root, Checkpoint(CLAIM, 2.0), second)
        folder, last = find_checkpoint(root)
        found.add(last.time)
        files = first if last.time == 1.0 else second
        assert names_in(folder) == files.keys()
        for name, path in files.items():
            assert (folder / name).read_bytes() == path.read_bytes()
        write_checkpoint(root, Checkpoint(CLAIM, 2.0), second)
        [home] = root.iterdir()
        assert len(list(home.iterdir())) == 1
        if not KILLER.killed:
            break
    assert found == {1.0, 2.0}
    assert at > 2 * len(second)


def test_only_new_files_are_copied(tmp_path: Path, states: tuple[dict[str, Path], ...]) -> None:
    first, second = states
    write_checkpoint(tmp_path, HEADER, first)
    before = newest(folder_of(tmp_path, CLAIM))
    assert before is not None
    kept = {name: (before[0] / name).stat().st_ino for name in names_in(before[0])}
    write_checkpoint(tmp_path, HEADER, second)
    last = newest(folder_of(tmp_path, CLAIM))
    assert last is not None
    found = names_in(last[0])
    same = {name for name in found if (last[0] / name).stat().st_ino == kept.get(name)}
    tables = {name for name in first if name.endswith(".sst")}
    assert tables | {STATE} <= same < found
    assert not any((last[0] / name).samefile(path) for name, path in second.items()), "copies"


def test_two_crawls_and_two_hubs_in_one_folder_do_not_touch_each_other(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    claims = CLAIM, replace(CLAIM, number=0), replace(CLAIM, crawl="20261126180001-abcdef")
    for claim in claims:
        write_checkpoint(root, Checkpoint(claim, 0.0), states[0])
    for claim in claims:
        assert find_checkpoint(folder_of(root, claim))[1].claim == claim
    with pytest.raises(StoreError, match=r"give one of .*abcdef-hub-0, .*abcdef-hub-1, "):
        find_checkpoint(root)


class Run:
    """A hub with checkpoints, each as soon as it can be made."""

    def __init__(self, root: Path, jobdir: Path, url: str = "") -> None:
        self.frontier = hub_in(jobdir)
        self.kept: list[Mapping[int, int]] = []
        self.made = asyncio.Event()
        self.serves = True
        self.checkpoints = Checkpoints(
            root,
            jobdir,
            CLAIM,
            self.frontier,
            serves=lambda: self.serves,
            on_made=self._on_made,
            send=partial(send_checkpoint, url) if url else None,
        )
        self.made.clear()

    def _on_made(self, inbox: Mapping[int, int]) -> None:
        self.kept.append(inbox)
        self.made.set()

    async def next(self) -> None:
        """The next checkpoint that begins after this call."""
        for _ in range(2):
            self.made.clear()
            await asyncio.wait_for(self.made.wait(), 60)

    async def end(self, *, is_clean: bool) -> None:
        self.checkpoints.stop()
        await self.frontier.close()
        await self.checkpoints.close(is_clean=is_clean)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "INTERVAL_S", 0.0)


@pytest.mark.usefixtures("at_once")
def test_a_hub_is_restored_as_of_its_last_checkpoint(tmp_path: Path) -> None:
    root, new = tmp_path / "checkpoints", tmp_path / "new"

    async def crawl() -> None:
        run = Run(root, tmp_path / "old")
        assert run.checkpoints.age == "there is no checkpoint yet"
        await put(run.frontier, "found")
        await put(run.frontier, "sent", "also", hub=0)
        mail = [FoundLink(link(f"http://{host_in(HUB)}/received"))]
        await run.frontier.call(lambda state: receive(state, 2, 1, mail, 0.0))
        await run.next()
        assert run.checkpoints.age == "the last checkpoint is 0 min old"
        run.serves = False  # another process has taken over
        await put(run.frontier, "lost")
        await put(run.frontier, "lost", hub=2)
        await run.end(is_clean=True)
        assert run.kept[0] == {}
        assert run.kept[-1] == {2: 1}

    async def resume() -> None:
        run = Run(root, new)
        assert run.kept == [{2: 1}]
        assert run.frontier.counters.pending == 2
        assert run.frontier.inbox == {2: 1}
        assert run.frontier.outbox == {0: (1, 2)}
        await put(run.frontier, "last")
        await run.end(is_clean=True)

    asyncio.run(crawl())
    restore(find_checkpoint(root), new)
    asyncio.run(resume())
    shutil.rmtree(new)
    restore(find_checkpoint(root), new)
    assert read_claim(new) == CLAIM
    assert pending_in(new) == 3, "a clean end is a checkpoint"


@pytest.mark.usefixtures("at_once")
def test_what_cannot_be_written_is_a_line_and_the_crawl_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    root, away = tmp_path / "checkpoints", tmp_path / "away"

    def lines() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]

    async def crawl() -> None:
        run = Run(root, tmp_path / "job")
        await put(run.frontier, "1")
        await run.next()
        root.rename(away)  # a mount that is lost
        while not lines():  # noqa: ASYNC110  (a line of the log sets no event)
            await asyncio.sleep(0)
        await put(run.frontier, "2")
        away.rename(root)
        await run.next()
        await run.end(is_clean=False)

    asyncio.run(crawl())
    said = f"CLUSTER_CHECKPOINTS: {root}: No such file or directory; the last checkpoint is 0 min"
    assert all(line.startswith(said) for line in lines())
    restore(find_checkpoint(root), tmp_path / "new")
    assert pending_in(tmp_path / "new") == 2


# In an object store


def test_a_checkpoint_in_a_store_has_each_file_once_and_is_whole_after_a_kill(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    (store := tmp_path / "store").mkdir()
    url = f"file://{store}"
    for files in states:
        send_checkpoint(url, last := write_checkpoint(tmp_path, HEADER, files))
    home = folder_of(store / "checkpoints", CLAIM)
    assert [path.name for path in home.glob("*.json")] == ["000002.json"]
    tables = {name for name in states[0] if name.endswith(".sst")}
    assert len([*home.glob("files/*/*")]) == len(states[1]) > len(tables) > 0
    left = home / "files" / "x-1" / "left"  # of a hub that was killed before it sent the list
    left.parent.mkdir()
    left.touch()
    send_checkpoint(url, last)
    assert [path.name for path in home.glob("*.json")] == ["000003.json"]
    assert not left.exists()
    for number, given in enumerate((url, f"{url}/checkpoints", f"file://{home}")):
        (folder := tmp_path / f"fetched{number}").mkdir()
        restore(fetch_checkpoint(given, folder, lambda claim: None), tmp_path / f"job{number}")
        assert pending_in(tmp_path / f"job{number}") == 2
    (tmp_path / "none").mkdir()
    with pytest.raises(StoreError, match="has no checkpoint"):
        fetch_checkpoint(f"file://{tmp_path}/none", tmp_path, lambda claim: None)


def test_files_of_a_hub_that_runs_are_not_fetched(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    (store := tmp_path / "store").mkdir()
    send_checkpoint(f"file://{store}", write_checkpoint(tmp_path, HEADER, states[0]))

    def refuse(claim: Claim) -> None:
        raise StoreError(f"hub {claim.number} runs")

    (folder := tmp_path / "fetched").mkdir()
    with pytest.raises(StoreError, match=f"hub {HUB} runs"):
        fetch_checkpoint(f"file://{store}", folder, refuse)
    assert [path.name for path in folder.iterdir()] == ["checkpoint.json"]


# Restoring


def test_a_kill_at_each_step_of_a_restore_leaves_one_that_can_be_restored(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    write_checkpoint(tmp_path, HEADER, states[1])
    found = find_checkpoint(folder_of(tmp_path, CLAIM))
    for at in count(1):
        jobdir = tmp_path / f"job{at}"
        with KILLER.kill(at):
            restore(found, jobdir)
        if (jobdir / FOLDER).exists():
            assert pending_in(jobdir) == 2
        else:
            restore(found, jobdir)
        assert (jobdir / STATE).read_bytes() == b"state"
        if not KILLER.killed:
            break
    assert at > 2 * len(states[1])


def torn(folder: Path) -> None:
    (folder / NAME).write_bytes((folder / NAME).read_bytes()[:-9])


def of_a_later_version(folder: Path) -> None:
    header = json.loads((folder / NAME).read_text())
    (folder / NAME).write_text(json.dumps(header | {"form": 2}))


@pytest.mark.parametrize("damage", [torn, of_a_later_version])
def test_a_damaged_checkpoint_is_refused(
    tmp_path: Path, states: tuple[dict[str, Path], ...], damage: Callable[[Path], None]
) -> None:
    write_checkpoint(tmp_path, HEADER, states[0])
    [folder] = folder_of(tmp_path, CLAIM).iterdir()
    damage(folder)
    with pytest.raises(StoreError, match="is damaged, or of another version"):
        find_checkpoint(folder_of(tmp_path, CLAIM))


def test_a_folder_that_is_not_empty_is_refused(
    tmp_path: Path, states: tuple[dict[str, Path], ...]
) -> None:
    write_checkpoint(tmp_path, HEADER, states[0])
    found = find_checkpoint(folder_of(tmp_path, CLAIM))
    with pytest.raises(StoreError, match="job is not empty"):
        restore(found, tmp_path / "job")
    with pytest.raises(StoreError, match="has no checkpoint"):
        find_checkpoint(tmp_path / "job")


@pytest.mark.usefixtures("at_once")
async def test_a_store_that_is_away_holds_back_what_others_may_forget(tmp_path: Path) -> None:
    """A hub that is restored from its last checkpoint there needs their links again."""
    run = Run(tmp_path / "checkpoints", tmp_path / "job", url=f"file://{tmp_path}/store")
    await put(run.frontier, "1")
    mail = [FoundLink(link(f"http://{host_in(HUB)}/received"))]
    await run.frontier.call(lambda state: receive(state, 2, 1, mail, 0.0))
    while newest(folder_of(tmp_path / "checkpoints", CLAIM)) is None:  # noqa: ASYNC110  (no event)
        await asyncio.sleep(0)
    assert run.kept == [{}]
    (tmp_path / "store").mkdir()
    await run.next()
    assert run.kept[-1] == {2: 1}
    await run.end(is_clean=True)
    again = Run(tmp_path / "checkpoints", tmp_path / "job", url=f"file://{tmp_path}/store")
    assert again.kept == [{}]
    await again.end(is_clean=True)
