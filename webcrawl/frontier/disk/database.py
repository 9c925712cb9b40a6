"""An ordered map of bytes on disk (RocksDB) that is changed in batches, the commits.

Owns RocksDB and its options. Does not know what the rows mean (`rows`). One thread at a time.

A kill of this process loses nothing of a commit that has returned: the operating system has it. A
power failure may lose the last commits: all commits after some moment. A commit is never written in
part.

Memory: two write buffers, `_CACHE_BYTES` of blocks, a filter of 1.2 bytes per row, an index of a
few bytes per `_BLOCK_BYTES` on disk, and the uncommitted changes. In all 40 MB and 4 bytes per URL,
measured to ten million URLs. Blocks of data are cached by the operating system.
RocksDB writes sorted files one after the other, so the cost of a random key does not grow with the
map as in a B-tree (docs/architecture.md).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    DBRecoveryMode,
    Env,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
)

from webcrawl.base.openfiles import plan
from webcrawl.frontier.store import StoreError

_CACHE_BYTES = 1 << 20  # for blocks that are read in order; 8 MB saved no CPU
_WRITE_BUFFER_BYTES = 8 << 20
_BLOCK_BYTES = 8 << 10  # with 4 KB the index takes as much memory as the filters
_BLOOM_BITS = 10  # per key: 1 % of the look-ups of unknown keys read the disk
# On the first level; twice as large on each further level. While RocksDB writes a file, it holds
# the hashes of its filter in memory, 8 bytes per row.
_FILE_BYTES = 16 << 20
# Files that RocksDB makes before CURRENT, the file that a database begins with.
_NOT_BEGUN = re.compile(
    r"LOCK|LOG(\.old\.\d+)?|IDENTITY|MANIFEST-000001|00000\d\.dbtmp|rocksdict-config\.json"
)
_MEMORY = Path("memory")  # in messages: the folder of a database in memory
_LOG_BLOCK_BYTES, _LOG_HEAD_BYTES = 32 << 10, 7  # of RocksDB's log format


class Database:
    """Rows by key. `get` sees uncommitted changes; `rows` sees the last commit."""

    def __init__(
        self, folder: Path | None, *, read_only: bool = False, damaged_log: bool = True
    ) -> None:
        """Open the database in `folder`, or make one. StoreError if that fails. None: in memory.

        With `read_only` nothing is changed, even in a foreign folder. With `damaged_log` a damaged
        log is read up to the damage, to the last commit before it; without, it is a StoreError.
        A log that is cut off at its end is not damaged.
        """
        self.folder = folder or _MEMORY
        self._read_only = read_only
        self._changes: dict[bytes, bytes | None] = {}
        self.put: Callable[[bytes, bytes], None] = self._changes.__setitem__  # builtin: 5 a page
        access = AccessType.read_only() if read_only else AccessType.read_write()
        if folder is not None and not is_begun(folder) and read_only:
            raise StoreError(
                f"{folder} is no frontier: it does not exist or is empty. A crawl with"
                " FRONTIER_STORE=memory leaves none"
            )
        options = _options(read_only, damaged_log)
        with ExitStack() as opening:
            if folder is None:  # rocksdict makes the folder in any case
                options.set_env(Env.mem_env())
                folder = Path(opening.enter_context(TemporaryDirectory(prefix="webcrawl-")))
            try:
                # With the column family: else rocksdict takes the options of the last run from a
                # file, which leaves the filters out.
                families = {"default": options}
                self._rows: Any = Rdict(str(folder), options, families, access)
                self._rows.set_read_options(_read_options())
            except Exception as error:
                raise self._broken(error) from None

    def get(self, key: bytes) -> bytes | None:
        if key in self._changes:
            return self._changes[key]
        try:
            value: bytes | None = self._rows.get(key)
        except Exception as error:
            raise self._broken(error) from None
        return value

    def get_each(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """`get` for each of `keys`, in half the time for a thousand keys."""
        changes = self._changes
        stored: list[Any] = [key for key in keys if key not in changes]
        try:
            found = dict(zip(stored, self._rows.get(stored) or (), strict=True))
        except Exception as error:
            raise self._broken(error) from None
        return [changes[key] if key in changes else found[key] for key in keys]

    def delete(self, key: bytes) -> None:
        self._changes[key] = None

    def commit(self) -> None:
        """Write all changes since the last commit, or nothing."""
        batch = WriteBatch(raw_mode=True)
        for key, value in self._changes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        try:
            self._rows.write(batch)
        except Exception as error:
            raise self._broken(error) from None
        self._changes.clear()

    def sync(self) -> None:
        """Return once all commits are on the disk: a power failure now loses none. StoreError."""
        if self.folder is _MEMORY:
            return
        try:
            self._rows.flush_wal(True)
        except Exception as error:
            raise self._broken(error) from None

    def rows(self, prefix: bytes, after: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Rows of the last commit whose key begins with `prefix`, in order, behind the key `after`.

        Rows deleted since then are left out, rows changed since then have their new value, and rows
        added since then are missing. A few µs for the first row, 1 µs for each further one.
        """
        try:
            found = self._rows.iter()
        except Exception as error:  # it is closed
            raise self._broken(error) from None
        found.seek(after + b"\0" if after else prefix)
        while found.valid():
            key: bytes = found.key()
            if not key.startswith(prefix):
                break
            value = self._changes[key] if key in self._changes else found.value()
            if value is not None:
                yield key, value
            found.next()
        try:
            found.status()
        except Exception as error:
            raise self._broken(error) from None

    def added(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        """Rows put since the last commit whose key begins with `prefix`. O(changes)."""
        changes = self._changes.items()
        return [(key, row) for key, row in changes if row is not None and key.startswith(prefix)]

    def checkpoint(self, folder: Path) -> None:
        """Write the last commit to `folder`, which must not exist: a database of its own.

        Files are linked, on another disk copied. StoreError.
        """
        try:
            Checkpoint(self._rows).create_checkpoint(str(folder))
        except Exception as error:
            raise StoreError(f"{folder} cannot be written: {_first_line(error)}") from None

    def close(self) -> None:
        """Drop uncommitted changes, and sync the log: a power failure now loses no commit."""
        in_memory = self.folder is _MEMORY
        if not self._read_only:
            self.sync()
        try:
            self._rows.close()
        except Exception as error:
            if not in_memory:  # RocksDB closes the one in memory, and says that it has no log
                raise self._broken(error) from None

    def _broken(self, error: Exception) -> StoreError:
        return StoreError(f"{self.folder} cannot be used: {_first_line(error)}")


def is_begun(folder: Path) -> bool:
    """Whether `folder` has a database. StoreError if it has other files, or part of a database."""
    try:
        names = {path.name for path in folder.iterdir()} if folder.exists() else set()
        if "CURRENT" not in names:
            if not all(map(_NOT_BEGUN.fullmatch, names)):
                raise StoreError(f"{folder} is no frontier: it holds other files")
            return False
        # A database always has a log. Without one RocksDB would begin with an empty database.
        if any(name.startswith("OPTIONS-") for name in names) and not any(folder.glob("*.log")):
            raise StoreError(f"{folder} cannot be used: its log is missing")
    except OSError as error:
        raise StoreError(f"{folder} cannot be used: {error.strerror}") from None
    return True


def refuse_lost_files(folder: Path) -> None:
    """StoreError if the manifest, the list of the database's files, was cut off with loss of rows.

    RocksDB takes the record at the cut as unfinished, and deletes the files that it names. After a
    full disk that is right: the log still has the rows of these files, and begins where the
    manifest ends.
    """
    try:
        manifest = folder / (folder / "CURRENT").read_text("latin-1").strip()
        if not _is_cut(manifest):
            return
        heads = [_head(log, _LOG_HEAD_BYTES + 8) for log in folder.glob("*.log")]
    except (OSError, ValueError) as error:
        raise StoreError(f"{folder} cannot be used: {error}") from None
    # A record of the log begins with the sequence number of its first change.
    logged = [int.from_bytes(head[_LOG_HEAD_BYTES:], "little") for head in heads if head]
    with TemporaryDirectory() as no_log:
        options = _options(read_only=True, damaged_log=True)
        options.set_wal_dir(no_log)
        try:
            listed = Rdict(str(folder), options, access_type=AccessType.read_only())
            listed_to = listed.latest_sequence_number()
            listed.close()
        except Exception as error:
            raise StoreError(f"{folder} cannot be used: {_first_line(error)}") from None
    if not logged or min(logged) > listed_to + 1:
        raise StoreError(f"{folder} cannot be used: {manifest.name} is cut off")


def _is_cut(manifest: Path) -> bool:
    """Whether a file in RocksDB's log format ends within a record."""
    size, at = manifest.stat().st_size, 0
    with manifest.open("rb") as file:
        while at < size:
            left = _LOG_BLOCK_BYTES - at % _LOG_BLOCK_BYTES
            if left < _LOG_HEAD_BYTES:  # zeros fill the rest of a block
                at += left
                continue
            file.seek(at)
            at += _LOG_HEAD_BYTES + int.from_bytes(file.read(_LOG_HEAD_BYTES)[4:6], "little")
    return at > size


def _head(path: Path, size_bytes: int) -> bytes:
    with path.open("rb") as file:
        return file.read(size_bytes)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def size_bytes(folder: Path) -> int:
    """Disk space that the files of `folder` occupy."""
    with os.scandir(folder) as files:
        return sum(512 * file.stat().st_blocks for file in files)


def _options(read_only: bool, damaged_log: bool) -> Options:
    tables = BlockBasedOptions()
    tables.set_block_cache(Cache(_CACHE_BYTES))
    tables.set_block_size(_BLOCK_BYTES)
    # On all levels: most keys that are looked up on disk are absent. The row of a host, a content
    # or a URL is looked up before it is first written, and most known URLs are in `RecentRows`.
    tables.set_bloom_filter(_BLOOM_BITS, False)
    tables.set_format_version(5)
    options = Options(raw_mode=True)
    options.create_if_missing(not read_only)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_target_file_size_multiplier(2)
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    # A filter for the write buffer as well: most keys that are looked up are not in it. It saves a
    # third to a half of each look-up.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    # A reader beside a crawl opens all files at once: the crawl deletes the files that it merges.
    options.set_max_open_files(-1 if read_only else plan().tables)
    options.set_keep_log_file_num(2)
    if not damaged_log:
        options.set_wal_recovery_mode(DBRecoveryMode.tolerate_corrupted_tail_records())
    return options


def _read_options() -> ReadOptions:
    """Look-ups do not fill the cache: a crawl rarely reads a block twice within a short time."""
    options = ReadOptions()
    options.fill_cache(False)  # type: ignore[call-arg]  # missing in the stub
    return options
