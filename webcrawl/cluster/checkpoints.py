"""Checkpoints of a hub: its JOBDIR as of some minutes ago, in a folder that outlives its machine.

Owns `ID-hub-K` in CLUSTER_CHECKPOINTS. Each checkpoint is a folder there, with a number: the files
of the frontier, `spider.state`, and `checkpoint.json`, which is written last. So a folder with
`checkpoint.json` is whole, and the highest number counts.

| step | a kill here leaves |
| --- | --- |
| RocksDB links the files of the last commit into JOBDIR/checkpoint, between two batches | links, which the next checkpoint removes |
| new files are copied, files of the last checkpoint are linked, all are synced | a folder that is not whole, which the next checkpoint removes |
| `checkpoint.json` is renamed | two checkpoints, of which the new one counts |
| the last checkpoint is removed | the same |

RocksDB never changes a table once it is written, so most files are links, and a checkpoint costs
what the crawl has written since the last one.

Knows nothing of the bus. The archive and the crawl log are no part of a checkpoint.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.base.synced import replace_file, sync
from webcrawl.cluster.claims import Claim
from webcrawl.frontier.disk.folderlock import hold
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)

# So many minutes of pages are fetched again after a loss. More often would copy more tables that
# the next compaction replaces.
INTERVAL_S = 600.0
NAME: Final = "checkpoint.json"
STATE: Final = "spider.state"  # in JOBDIR
_LINKS: Final = "checkpoint"  # in JOBDIR, while a checkpoint is made
# RocksDB makes them anew. LOG is its text for people.
_LEFT_OUT: Final = re.compile(r"LOCK|LOG(\.old\.\d+)?")


class Checkpoint(Struct, frozen=True):
    """`checkpoint.json`.

    claim -- which hub of which crawl
    time -- UTC
    inbox -- by hub: the last mail of it that is applied in this checkpoint
    objects -- its files, of one that is in an object store (`sentcheckpoints`)
    """

    claim: Claim
    time: float
    inbox: dict[int, int] = {}
    objects: tuple[str, ...] = ()
    form: Literal[1] = 1  # of this struct and of the folder


Found = tuple[Path, Checkpoint]


def folder_of(root: Path, claim: Claim) -> Path:
    """The folder of the checkpoints of one hub."""
    return root / f"{claim.crawl}-hub-{claim.number}"


def files_of(frontier: Path, jobdir: Path) -> dict[str, Path]:
    """What a checkpoint has, by name in JOBDIR. `frontier`: nobody changes its files. OSError."""
    found = {
        f"{FOLDER}/{path.name}": path
        for path in sorted(frontier.iterdir())
        if not _LEFT_OUT.fullmatch(path.name)
    }
    if (jobdir / STATE).exists():
        found[STATE] = jobdir / STATE
    return found


def write_checkpoint(root: Path, header: Checkpoint, files: Mapping[str, Path]) -> Found:
    """Copy `files`, each with its name in JOBDIR, and write `header`. StoreError, OSError.

    Until it is whole and on the disk, the last one before stays.
    """
    home = folder_of(root, header.claim)
    home.mkdir(exist_ok=True)
    last = newest(home)
    _remove_others(home, last)
    number = int(last[0].name) + 1 if last else 1
    folder = home / f"{number:06d}"
    (folder / FOLDER).mkdir(parents=True)
    for name, path in files.items():
        _link_or_copy(last[0] / name if last else None, path, folder / name)
    sync(folder / FOLDER)
    replace_file(folder / NAME, msgspec.json.encode(header))
    sync(home)
    sync(root)
    _remove_others(home, (folder, header))
    return folder, header


def newest(home: Path) -> Found | None:
    """The last checkpoint that is whole, in the folder of a hub. StoreError, OSError."""
    folders = [path.parent for path in home.glob(f"[0-9]*/{NAME}")]
    folder = max(folders, key=lambda path: int(path.name), default=None)
    return (folder, read_checkpoint(folder)) if folder is not None else None


def read_checkpoint(folder: Path) -> Checkpoint:
    """StoreError if it is damaged or of another form, OSError."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Checkpoint)
    except msgspec.DecodeError:
        raise StoreError(f"{folder / NAME} is damaged, or of another version") from None


def _remove_others(home: Path, kept: Found | None) -> None:
    for path in home.iterdir():
        if kept is None or path != kept[0]:
            (path / NAME).unlink(missing_ok=True)  # first: what is left is not whole
            shutil.rmtree(path)


def _link_or_copy(last: Path | None, source: Path, target: Path) -> None:
    """Link `target` to the file of the last checkpoint, if that is a copy of `source`."""
    if last is not None and last.exists() and version_of(last) == version_of(source):
        with suppress(OSError):  # a file system without links
            target.hardlink_to(last)
            return
    copy_file(source, target)


def copy_file(source: Path, target: Path) -> None:
    """Copy a file with its time; it is on the disk then."""
    shutil.copy2(source, target)
    with target.open("rb") as made:
        os.fsync(made.fileno())


def version_of(path: Path) -> tuple[int, int]:
    """Bytes and time, which a copy has too."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns


class Checkpoints:
    """Makes the checkpoints of this process's hub, in a thread, until `close`.

    root -- CLUSTER_CHECKPOINTS
    claim -- which hub of which crawl
    serves -- whether this process is the hub: else another one may have a later checkpoint
    on_made -- called with `inbox` of the last checkpoint: now, and after each one
    send -- sends a checkpoint to another place too, or raises StoreError: then it is not made

    What fails is one line in the log, and the crawl goes on.
    """

    def __init__(
        self,
        root: Path,
        jobdir: Path,
        claim: Claim,
        frontier: LocalFrontier,
        *,
        serves: Callable[[], bool],
        on_made: Callable[[Mapping[int, int]], None],
        send: Callable[[Found], None] | None = None,
    ) -> None:
        self._root = root
        self._jobdir = jobdir
        self._claim = claim
        self._frontier = frontier
        self._serves = serves
        self._on_made = on_made
        self._send = send
        self._executor = AdaptiveExecutor("checkpoint")  # a second Ctrl-C does not wait for it
        self._disk: int | None = None  # of `root`
        self._last_time = 0.0  # of the last checkpoint, UTC; 0: there is none
        self._making: asyncio.Future[None] | None = None
        self._open()
        self._rounds = asyncio.create_task(self._make_each())

    def _open(self) -> None:
        inbox: Mapping[int, int] = {}
        try:
            self._root.mkdir(parents=True, exist_ok=True)
            self._disk = self._root.stat().st_dev
            last = newest(folder_of(self._root, self._claim))
        except (StoreError, OSError) as error:
            self._failed(error)
        else:
            if self._disk == self._jobdir.stat().st_dev:
                logger.warning(
                    "CLUSTER_CHECKPOINTS: %s is on the disk of JOBDIR, and is lost with it",
                    self._root,
                )
            if last is not None:
                self._last_time = last[1].time
                inbox = last[1].inbox if self._send is None else {}  # the other may be older
        self._on_made(inbox)

    @property
    def age(self) -> str:
        """How old the last checkpoint is, for people."""
        if not self._last_time:
            return "there is no checkpoint yet"
        minutes = max(time.time() - self._last_time, 0.0) / 60
        return f"the last checkpoint is {minutes:.0f} min old"

    async def _make_each(self) -> None:
        while True:
            await asyncio.sleep(INTERVAL_S)
            if self._serves():
                self._making = asyncio.ensure_future(self._make())
                await asyncio.shield(self._making)

    async def _make(self) -> None:
        """A checkpoint of the open frontier."""
        links, now = self._jobdir / _LINKS, time.time()
        remove = lambda: shutil.rmtree(links, ignore_errors=True)  # noqa: E731
        try:
            await self._do(remove)
            inbox = await self._frontier.checkpoint(links)
            await self._do(lambda: self._write(links, now, inbox))
        except (StoreError, OSError) as error:
            self._failed(error)
        else:
            self._on_made(inbox)
        await self._do(remove)

    def stop(self) -> None:
        """The frontier is about to be closed: begin no checkpoint of the open one."""
        self._rounds.cancel()

    async def close(self, *, is_clean: bool) -> None:
        """The frontier is closed. `is_clean`: its last commit is a checkpoint too."""
        self.stop()
        if self._making is not None:
            await self._making
        if is_clean and self._serves():
            try:
                await self._do(self._write_closed)
            except (StoreError, OSError) as error:
                self._failed(error)

    def _write_closed(self) -> None:
        lock = hold(self._jobdir)
        try:
            self._write(self._jobdir / FOLDER, time.time(), self._frontier.inbox)
        finally:
            os.close(lock)

    def _write(self, frontier: Path, now: float, inbox: Mapping[int, int]) -> None:
        began_at = time.monotonic()
        disk = self._root.stat().st_dev
        if disk != (self._disk or disk):
            raise StoreError(f"{self._root} was on another disk: is it mounted?")
        self._disk = disk
        header = Checkpoint(self._claim, now, dict(inbox))
        found = write_checkpoint(self._root, header, files_of(frontier, self._jobdir))
        if self._send is not None:
            self._send(found)
        self._last_time = now
        logger.info("A checkpoint was made in %.1f s", time.monotonic() - began_at)

    def _failed(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        logger.error("CLUSTER_CHECKPOINTS: %s: %s; %s", self._root, why, self.age)

    def _do(self, work: Callable[[], None]) -> asyncio.Future[None]:
        return self._executor.do(work, waits=True)
