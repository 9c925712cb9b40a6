"""Checkpoints of a shard: a folder from which another node restores it if its machine is lost.

Owns the folder `shard-NNNN` in the folder of the checkpoints: `frontier`, the file of the courier,
and `checkpoint.json`. Does not open shards.

There is one checkpoint of each shard; the next one replaces it when it is whole and synced. On the
disk of the shard its files are links, and take room only as the shard's own files are merged; but
that disk is lost with the machine. On another disk each checkpoint is a copy.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from webcrawl.cluster.errors import CopyError
from webcrawl.cluster.mail.offsets import NAME as OFFSETS
from webcrawl.cluster.moving.folders import Folders, files_of
from webcrawl.cluster.synced import copy_file, sync_file, sync_folder, write_file
from webcrawl.frontier.disk.frontier import FOLDER

NAME: Final = "checkpoint.json"

Write = Callable[[Path], Awaitable[Mapping[int, int]]]  # `LocalFrontier.checkpoint`


class Checkpoint(Struct, frozen=True):
    """`checkpoint.json`.

    node, epoch -- that had the shard
    time -- UTC, for people
    inbox -- of the shard: by sender, the last row in this checkpoint
    """

    crawl: str
    shards: int
    shard: int
    node: str
    epoch: int
    time: str
    inbox: dict[int, int] = {}


def folder_of(root: Path, shard: int) -> Path:
    return root / f"shard-{shard:04d}"


def read_checkpoint(folder: Path) -> Checkpoint | None:
    """None if there is none. CopyError."""
    try:
        return msgspec.json.decode((folder / NAME).read_bytes(), type=Checkpoint)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise CopyError(f"{folder / NAME} cannot be read: {error}") from None


async def make_checkpoint(root: Path, shard: Path, header: Checkpoint, write: Write) -> Checkpoint:
    """Make a checkpoint of the open shard in the folder `shard`. CopyError, StoreError.

    The courier's file is copied first: if the shard is set back, the numbers in it are none that
    were given later.
    """
    folder = folder_of(root, header.shard)
    part = folder.with_name(f"{folder.name}.part")

    def begin() -> None:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        with suppress(FileNotFoundError):
            copy_file(shard / OFFSETS, part / OFFSETS)

    def end(made: Checkpoint) -> None:
        for name, _ in files_of(part):
            sync_file(part / name)
        write_file(part / NAME, msgspec.json.encode(made))
        sync_folder(part / FOLDER)
        sync_folder(part)
        old = folder.with_name(f"{folder.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        if folder.exists():
            folder.rename(old)
        part.rename(folder)
        sync_folder(root)
        shutil.rmtree(old, ignore_errors=True)

    try:
        await asyncio.to_thread(begin)
        inbox = await write(part / FOLDER)
        time = f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC"
        made = msgspec.structs.replace(header, time=time, inbox=dict(inbox))
        await asyncio.to_thread(end, made)
    except OSError as error:
        raise CopyError(f"{root} cannot be written: {error.strerror or error}") from None
    return made


def find_checkpoint(given: Path, shard: int) -> Path:
    """The checkpoint of `shard` in the folder of all, or `given` itself. CopyError."""
    inside = folder_of(given, shard)
    candidates = [inside, inside.with_name(f"{inside.name}.old"), given]
    for folder in candidates:  # .old: a machine that was lost while it replaced a checkpoint
        if (folder / NAME).exists():
            return folder
    raise CopyError(f"{given} has no checkpoint of shard {shard}")


def copy_checkpoint(folder: Path, folders: Folders, shard: int, copy: str) -> None:
    """Copy a checkpoint to this node. CopyError."""
    try:
        part = folders.begin_copy(shard, copy)
        for name, _ in files_of(folder):
            copy_file(folder / name, part / name)
        folders.end_copy(shard, copy, 0.0)
    except OSError as error:
        raise CopyError(f"{folder} cannot be copied: {error.strerror or error}") from None
