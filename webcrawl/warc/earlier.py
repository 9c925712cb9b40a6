"""What earlier archives hold: the capture with a given payload, of millions to billions of them.

A RocksDB on disk, made once by `earlierbuild` of the CDXJ files of DEDUP_INDEX, and never changed
afterwards: any number of processes read it. Its rows:

| key | value |
| --- | --- |
| 14 bytes of a digest | the first capture with it: its time in 6 bytes, and its URL |
| `SOURCES` | JSON: the files that it is made of, each with its size and time |
| `STATE` | JSON: how far they are read, and counts |

A look-up takes 3 µs, and 22 µs for a digest that is found. Two digests with the same 14 bytes: not
by chance (one in 10^33 pairs), and on purpose only with 2^112 tries. Memory: `_CACHE_BYTES`.
"""

from __future__ import annotations

import asyncio
import json
from calendar import timegm
from functools import partial
from pathlib import Path
from typing import Any, Final

from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
)

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.warc.earlierlines import EarlierError
from webcrawl.warc.records import Original, in_field, labelled

DIGEST_BYTES: Final = 14
TIME_BYTES: Final = 6  # of 14 digits, as a number
SOURCES: Final = b"sources"
STATE: Final = b"state"

_CACHE_BYTES = 8 << 20  # of filters, indexes and blocks: all else is read from the system's cache
_WRITE_BUFFER_BYTES = 16 << 20
_FILE_BYTES = 64 << 20  # twice as large on each further level
_OPEN_FILES = 32  # RocksDB leaves 10 of them to other files than tables
_BLOCK_BYTES = 8 << 10
_BLOOM_BITS = 10  # per key: 1 % of the look-ups of other digests read a block


class Earlier:
    """The index in a folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        """Open the index that `earlierbuild` has made in `folder`. EarlierError."""
        self.folder = folder
        self._executor = AdaptiveExecutor("earlier")
        self._rows = opened(folder, AccessType.read_only())
        try:
            self.sources: Any = row(self._rows, SOURCES)
            state = row(self._rows, STATE)
            if not state.get("is_done"):
                raise EarlierError(f"{folder} has no index")
        except EarlierError:
            self.close()
            raise
        self.entries: int = state["entries"]

    def find(self, digest: bytes) -> Original | None:
        """The first capture whose payload has `digest`, 20 bytes. EarlierError if a read fails."""
        try:
            value: bytes | None = self._rows.get(digest[:DIGEST_BYTES])
        except Exception as error:
            raise EarlierError(f"{self.folder} cannot be read: {error}") from None
        return None if value is None else _original(digest, value)

    def look_up(self, digest: bytes) -> asyncio.Future[Original | None]:
        """`find`, without blocking the event loop for long."""
        return self._executor.do(partial(self.find, digest))

    def close(self) -> None:
        self._rows.close()


def opened(folder: Path, access: AccessType) -> Any:
    """The RocksDB in `folder`. EarlierError."""
    options = _options()
    try:
        # With the column family: else rocksdict reads options of another run from a file.
        return Rdict(str(folder), options, {"default": options}, access)
    except Exception as error:
        if "/LOCK" in str(error):
            raise EarlierError(f"another process makes the index in {folder}") from None
        raise EarlierError(f"{folder} has no index that can be read: {error}") from None


def row(rows: Any, key: bytes) -> Any:
    """The value of a row in JSON; an empty object if there is none. EarlierError."""
    try:
        return json.loads(rows.get(key) or b"{}")
    except Exception as error:
        raise EarlierError(f"the index cannot be read: {error}") from None


def _options() -> Options:
    tables = BlockBasedOptions()
    tables.set_block_size(_BLOCK_BYTES)
    tables.set_bloom_filter(_BLOOM_BITS, False)
    # Filters and indexes in pieces, of which the cache has some: their sum grows with the entries.
    tables.set_block_cache(Cache(_CACHE_BYTES))
    tables.set_cache_index_and_filter_blocks(True)
    tables.set_index_type(BlockBasedIndexType.two_level_index_search())
    tables.set_partition_filters(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(tables)
    options.set_compression_type(DBCompressionType.zstd())
    options.set_write_buffer_size(_WRITE_BUFFER_BYTES)
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(0.1)
    options.set_target_file_size_base(_FILE_BYTES)
    options.set_target_file_size_multiplier(2)
    options.set_max_open_files(_OPEN_FILES)
    options.set_keep_log_file_num(1)
    return options


def _original(digest: bytes, value: bytes) -> Original | None:
    """The original that a revisit refers to, with a time in seconds: an index has no more."""
    time = f"{int.from_bytes(value[:TIME_BYTES]):014}"
    parts = (time[:4], time[4:6], time[6:8], time[8:10], time[10:12], time[12:])
    try:
        seconds = timegm((*map(int, parts),))
    except ValueError:  # no such month: the capture cannot be referred to
        return None
    year, month, day, hour, minute, second = parts
    date = f"{year}-{month}-{day}T{hour}:{minute}:{second}Z"
    url = value[TIME_BYTES:].decode("utf-8", "replace")
    return Original(in_field(url), seconds, labelled(digest), date)
