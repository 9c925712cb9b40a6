"""Checkpoints of a hub: its JOBDIR as of some minutes ago, in a folder that outlives its machine.

Owns `ID-hub-K` in CLUSTER_CHECKPOINTS. Each checkpoint is a folder there, with a number: the files
of the frontier, `spider.state`, and `checkpoint.json`, which lists them and is written last. So a
folder with `checkpoint.json` is whole, and the highest number counts.

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
import json
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from xxhash import xxh3_64

from webcrawl.executor import AdaptiveExecutor
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.folderlock import LOCK, hold
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder, LocalFrontier
from webcrawl.frontier.disk.identity import read_identity, read_numbers
from webcrawl.frontier.mailbox import jump
from webcrawl.frontier.store import StoreError
from webcrawl.wording import counted, size_text

logger = logging.getLogger(__name__)

# So many minutes of pages are fetched again after a loss. More often would copy more tables that
# the next compaction replaces.
INTERVAL_S = 600.0
FORM: Final = 1  # of the folder of a checkpoint
NAME: Final = "checkpoint.json"
STATE: Final = "spider.state"  # in JOBDIR
_LINKS: Final = "checkpoint"  # in JOBDIR, while a checkpoint is made
_PART: Final = "restoring"  # in JOBDIR, while it is restored
_PIECE_BYTES: Final = 1 << 20
# RocksDB makes them anew. LOG is its text for people.
_LEFT_OUT: Final = re.compile(r"LOCK|LOG(\.old\.\d+)?")
_FILE: Final = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9._-]*|{re.escape(STATE)}", re.ASCII)


class CheckpointError(Exception):
    """A checkpoint cannot be made, or be restored: one line."""


class File(Struct, frozen=True, array_like=True):
    """`changed_ns` is the time of the file of which this is a copy."""

    size_bytes: int
    changed_ns: int
    digest: str


class Checkpoint(Struct, frozen=True):
    """`checkpoint.json`.

    time -- UTC
    inbox -- by hub: the last mail of it that is applied in this checkpoint
    files -- by name in JOBDIR
    """

    crawl: str
    hubs: int
    hub: int
    time: float = 0.0
    inbox: dict[int, int] = {}
    files: dict[str, File] = {}
    form: int = FORM


Found = tuple[Path, Checkpoint]


def folder_of(root: Path, header: Checkpoint) -> Path:
    """The folder of the checkpoints of one hub."""
    return root / f"{header.crawl}-hub-{header.hub}"


# Making


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


def write_checkpoint(root: Path, header: Checkpoint, files: Mapping[str, Path]) -> Checkpoint:
    """Copy `files`, as the last checkpoint of the hub of `header`. CheckpointError, OSError.

    Until it is whole and on the disk, the last one before stays.
    """
    home = folder_of(root, header)
    home.mkdir(exist_ok=True)
    last = newest(home)
    _remove_others(home, last)
    number = int(last[0].name) + 1 if last else 1
    folder = home / f"{number:06d}"
    (folder / FOLDER).mkdir(parents=True)
    made = {name: _link(last, name, path, folder) for name, path in files.items()}
    for name, path in files.items():
        made[name] = made[name] or _copy(path, folder / name)
    whole = replace(header, files=made)
    _sync(folder / FOLDER)
    part = folder / f"{NAME}.part"
    part.write_bytes(msgspec.json.encode(whole))
    _sync(part)
    part.rename(folder / NAME)
    for each in (folder, home, root):
        _sync(each)
    _remove_others(home, (folder, whole))
    return whole


def newest(home: Path) -> Found | None:
    """The last checkpoint that is whole, in the folder of a hub. CheckpointError, OSError."""
    folders = [path.parent for path in home.glob(f"[0-9]*/{NAME}")]
    folder = max(folders, key=lambda path: int(path.name), default=None)
    return (folder, read_checkpoint(folder)) if folder is not None else None


def read_checkpoint(folder: Path) -> Checkpoint:
    """CheckpointError if it is damaged or of another form, OSError."""
    data = (folder / NAME).read_bytes()
    try:
        form = msgspec.json.decode(data, type=dict[str, object]).get("form")
        if form != FORM:
            raise CheckpointError(f"{folder} has form {form}, this version reads {FORM}")
        found = msgspec.json.decode(data, type=Checkpoint)
    except msgspec.DecodeError:
        raise CheckpointError(f"{folder / NAME} is damaged") from None
    if not all(map(_FILE.fullmatch, found.files)):
        raise CheckpointError(f"{folder / NAME} is damaged: it names other files")
    return found


def _remove_others(home: Path, kept: Found | None) -> None:
    for path in home.iterdir():
        if kept is None or path != kept[0]:
            (path / NAME).unlink(missing_ok=True)  # first: what is left is not whole
            shutil.rmtree(path)


def _link(last: Found | None, name: str, path: Path, folder: Path) -> File | None:
    """Link a file from the last checkpoint to `folder`, if it has that of `path`."""
    file = last[1].files.get(name) if last else None
    status = path.stat()
    if not last or not file or (file.size_bytes, file.changed_ns) != _version(status):
        return None
    try:
        (folder / name).hardlink_to(last[0] / name)
    except OSError:  # a file system without links
        return None
    return file


def _copy(source: Path, target: Path) -> File:
    """Copy a file, which is on the disk then."""
    digest = xxh3_64()
    with source.open("rb") as given, target.open("wb") as made:
        size_bytes, changed_ns = _version(os.fstat(given.fileno()))
        while piece := given.read(_PIECE_BYTES):
            digest.update(piece)
            made.write(piece)
        made.flush()
        os.fsync(made.fileno())
    return File(size_bytes, changed_ns, digest.hexdigest())


def _version(status: os.stat_result) -> tuple[int, int]:
    return status.st_size, status.st_mtime_ns


def _sync(path: Path) -> None:
    """A file, or the names in a folder."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class Checkpoints:
    """Makes the checkpoints of this process's hub, in a thread, until `close`.

    root -- CLUSTER_CHECKPOINTS
    header -- which hub of which crawl
    serves -- whether this process is the hub: else another one may have a later checkpoint
    on_made -- called with `inbox` of the last checkpoint: now, and after each one

    What fails is one line in the log, and the crawl goes on.
    """

    def __init__(
        self,
        root: Path,
        jobdir: Path,
        header: Checkpoint,
        frontier: LocalFrontier,
        *,
        serves: Callable[[], bool],
        on_made: Callable[[Mapping[int, int]], None],
    ) -> None:
        self._root = root
        self._jobdir = jobdir
        self._header = header
        self._frontier = frontier
        self._serves = serves
        self._on_made = on_made
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
            last = newest(folder_of(self._root, self._header))
        except (CheckpointError, OSError) as error:
            self._failed(error)
        else:
            if self._disk == self._jobdir.stat().st_dev:
                logger.warning(
                    "CLUSTER_CHECKPOINTS: %s is on the disk of JOBDIR, and is lost with it",
                    self._root,
                )
            if last is not None:
                self._last_time, inbox = last[1].time, last[1].inbox
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
        except (CheckpointError, StoreError, OSError) as error:
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
            except (CheckpointError, StoreError, OSError) as error:
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
            raise CheckpointError(f"{self._root} was on another disk: is it mounted?")
        self._disk = disk
        header = replace(self._header, time=now, inbox=dict(inbox))
        made = write_checkpoint(self._root, header, files_of(frontier, self._jobdir))
        self._last_time = now
        size_bytes = sum(file.size_bytes for file in made.files.values())
        logger.info(
            "A checkpoint of %s, %s, was made in %.1f s",
            counted(len(made.files), "file"),
            size_text(size_bytes),
            time.monotonic() - began_at,
        )

    def _failed(self, error: Exception) -> None:
        why = getattr(error, "strerror", None) or error
        logger.error("CLUSTER_CHECKPOINTS: %s: %s; %s", self._root, why, self.age)

    def _do(self, work: Callable[[], None]) -> asyncio.Future[None]:
        return self._executor.do(work, waits=True)


# Restoring


def find_checkpoint(given: Path) -> Found:
    """The checkpoint in a hub's folder, or the only one in CLUSTER_CHECKPOINTS.

    CheckpointError, OSError.
    """
    homes = sorted({path.parents[1] for path in given.glob(f"*/[0-9]*/{NAME}")})
    if len(homes) > 1:
        raise CheckpointError(f"give one of {', '.join(map(str, homes))}")
    found = newest(homes[0] if homes else given)
    if found is None:
        raise CheckpointError(f"{given} has no checkpoint")
    return found


def restore(found: Found, jobdir: Path) -> None:
    """Make `jobdir`, which must be empty or new, from a checkpoint. CheckpointError, StoreError.

    OSError. After a kill it can be restored again.
    """
    checkpoint, part = found[1], jobdir / _PART
    if jobdir.exists() and {path.name for path in jobdir.iterdir()} - {LOCK, _PART, STATE}:
        raise CheckpointError(f"{jobdir} is not empty")
    with ExitStack() as opened:
        opened.callback(JobFolder(jobdir).close)
        opened.callback(shutil.rmtree, part, ignore_errors=True)
        _copy_back(found, part)
        mark_restored(part / FOLDER, checkpoint.hub, checkpoint.hubs)
        _sync(part / FOLDER)
        for name in (STATE, FOLDER):  # the frontier last
            with suppress(FileNotFoundError):
                (part / name).rename(jobdir / name)
        _sync(jobdir)
        _sync(jobdir.absolute().parent)


def _copy_back(found: Found, part: Path) -> None:
    folder, checkpoint = found
    shutil.rmtree(part, ignore_errors=True)
    (part / FOLDER).mkdir(parents=True)
    for name, file in checkpoint.files.items():
        try:
            is_whole = _copy(folder / name, part / name).digest == file.digest
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            raise CheckpointError(f"{folder} is damaged: {name} is not as it was written")
        os.utime(part / name, ns=(file.changed_ns, file.changed_ns))  # the next checkpoint links it
    Database(part / FOLDER, read_only=True, damaged_log=False).close()


def mark_restored(frontier: Path, hub: int, hubs: int) -> None:
    """The folder of a closed frontier is an earlier copy: its mail gets other numbers. StoreError.

    Twice does no harm.
    """
    db = Database(frontier)
    try:
        identity, numbers = read_identity(db), read_numbers(db)
        if identity is None or numbers is None:
            raise StoreError(f"{frontier} is no frontier: it is empty")
        others = (other for other in range(hubs) if other != hub)
        if hubs > 1:
            jump(numbers.setdefault("mail", {}), others)
            db.put(rows.NUMBERS, json.dumps(numbers).encode())
            db.commit()
    finally:
        db.close()
