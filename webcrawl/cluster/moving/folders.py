"""The folders of a node's shards: which one is whole, and of which copy it is.

| in JOBDIR/shards | |
| --- | --- |
| `0003` | the shard in use: frontier, file of the courier, `copy.json` unless its epoch is 1 |
| `0003.ID.part` | a copy that is being received; removed when the node starts |
| `0003.ID.copy` | a whole copy, on the disk. The shard's record says whether it is ever used |
| `0003.parked-EPOCH` | a folder whose shard was restored elsewhere; nothing reads it |

Each copy has a random ID. The record of a shard names the ID of the copy that its node uses, so a
copy that was made for a move that has failed, and a folder of an earlier time, are never taken for
the shard. One copy at most is kept for each shard.
"""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from webcrawl.cluster.errors import CopyError
from webcrawl.cluster.mail.offsets import NAME as OFFSETS
from webcrawl.cluster.synced import sync_folder, write_file
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.store import StoreError

MARK: Final = "copy.json"
FILES_MAX: Final = 5_000  # of a shard: 80 GB, and a message of 200 KB that lists them
_NAME = re.compile(rf"{FOLDER}/[A-Za-z0-9][A-Za-z0-9._-]{{0,99}}|{re.escape(OFFSETS)}", re.ASCII)
# RocksDB makes them anew. LOG is its text for people.
_LEFT_OUT = re.compile(r"LOCK|LOG(\.old\.\d+)?")

Files = list[tuple[str, int]]  # name in the folder of the shard, and size in bytes


class Mark(Struct, frozen=True):
    """`copy.json`.

    copy -- ID
    skew_s -- to be added to this machine's clock: then waits that are stored in UTC end no earlier
        than on the machine that wrote them
    """

    copy: str = ""
    skew_s: float = 0.0


class Folders:
    """Those of one node. Blocks on the disk."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def __repr__(self) -> str:
        return f"<Folders in {self.root}>"

    def of(self, shard: int) -> Path:
        return self.root / f"{shard:04d}"

    def size_bytes(self, shard: int) -> int:
        """Of a shard's files; 0 without a folder. O(files)."""
        try:
            return sum(size for _, size in files_of(self.of(shard)))
        except OSError:
            return 0

    # Copies

    def begin_copy(self, shard: int, copy: str) -> Path:
        """An empty folder for a copy; other copies of this shard are void. OSError."""
        self.drop_copies(shard)
        part = self._part(shard, copy)
        (part / FOLDER).mkdir(parents=True)
        return part

    def end_copy(self, shard: int, copy: str, skew_s: float) -> None:
        """All files of the copy are written and synced: it is whole. OSError, CopyError."""
        part = self._part(shard, copy)
        try:
            Database(part / FOLDER, read_only=True, damaged_log=False).close()
        except StoreError as error:
            raise CopyError(str(error)) from None
        write_file(part / MARK, msgspec.json.encode(Mark(copy, skew_s)))
        sync_folder(part / FOLDER)
        sync_folder(part)
        part.rename(self._whole(shard, copy))
        sync_folder(self.root)

    def has_copy(self, shard: int, copy: str) -> bool:
        return self._whole(shard, copy).exists()

    def drop_copies(self, shard: int) -> None:
        """Remove all copies of a shard that are not in use."""
        for kind in ("part", "copy", "old"):
            for path in self.root.glob(f"{shard:04d}.*.{kind}"):
                shutil.rmtree(path, ignore_errors=True)

    def drop_parts(self) -> None:
        """The node starts: what it was receiving is not whole."""
        for path in self.root.glob("*.*.part"):
            shutil.rmtree(path, ignore_errors=True)

    # The folder in use

    def settle(self, shard: int, copy: str) -> bool:
        """Put a whole `copy` into use, if there is one. Whether the folder in use is of `copy`.

        `copy` is that of the shard's record. OSError.
        """
        folder, whole = self.of(shard), self._whole(shard, copy)
        if copy and whole.exists():
            if folder.exists():
                folder.rename(self.root / f"{shard:04d}.{copy}.old")
            whole.rename(folder)
            sync_folder(self.root)
            self.drop_copies(shard)
        return (folder / FOLDER).exists() and read_mark(folder).copy == copy

    def sync(self, shard: int) -> None:
        """After the first commit: a loss of power does not undo the names. OSError."""
        for folder in (self.of(shard), self.root, self.root.parent):
            sync_folder(folder)

    def remove(self, shard: int) -> None:
        """The shard was given away: its new node has all of it on the disk."""
        folder = self.of(shard)
        gone = self.root / f"{shard:04d}.given.old"
        with suppress(OSError):  # removed already
            folder.rename(gone)
        shutil.rmtree(gone, ignore_errors=True)

    def park(self, shard: int, epoch: int) -> Path:
        """The shard was restored elsewhere: keep the folder, for the user. OSError."""
        parked = self.root / f"{shard:04d}.parked-{epoch}"
        if self.of(shard).exists():
            self.of(shard).rename(parked)
        return parked

    def _part(self, shard: int, copy: str) -> Path:
        return self.root / f"{shard:04d}.{copy}.part"

    def _whole(self, shard: int, copy: str) -> Path:
        return self.root / f"{shard:04d}.{copy}.copy"


def read_mark(folder: Path) -> Mark:
    """Of a shard's folder; that of epoch 1 has none. CopyError."""
    try:
        return msgspec.json.decode((folder / MARK).read_bytes(), type=Mark)
    except FileNotFoundError:
        return Mark()
    except (OSError, msgspec.DecodeError) as error:
        raise CopyError(f"{folder / MARK} cannot be read: {error}") from None


def files_of(folder: Path) -> Files:
    """What a copy of a shard's folder has. OSError."""
    found = [
        (f"{FOLDER}/{path.name}", path.stat().st_size)
        for path in sorted((folder / FOLDER).iterdir())
        if not _LEFT_OUT.fullmatch(path.name)
    ]
    with suppress(FileNotFoundError):
        found.append((OFFSETS, (folder / OFFSETS).stat().st_size))
    return found


def check_files(files: Files) -> None:
    """CopyError for a list that no node of ours has made: it came over the bus."""
    names = [name for name, _ in files]
    if len(set(names)) != len(names) or not all(map(_NAME.fullmatch, names)):
        raise CopyError("its list of files is damaged")
    if len(files) > FILES_MAX or any(size < 0 for _, size in files):
        raise CopyError(f"it has more than {FILES_MAX} files")
