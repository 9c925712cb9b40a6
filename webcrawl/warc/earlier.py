"""What earlier archives hold: the capture with a given payload, of millions to billions of them.

An index on disk, made once by `earlierbuild` of the CDXJ files of DEDUP_INDEX, and never changed
afterwards: any number of processes read it. Files in its folder:

| file | content |
| --- | --- |
| `entries` | 14 bytes of the digest, 6 bytes of the place; sorted, each digest once |
| `starts` | for each value of the first bits of a digest: the number of the first entry, 8 bytes |
| `places` | times and URLs, BLOCK_LINES in a block that zlib has compressed |
| `index.json` | the sources with sizes and times, and counts; written last |

A look-up reads one `starts` and some ENTRIES_A_START entries: two reads of a few kB, 4 µs if the
system has them in memory. Only a digest that is found is read from `places`, some 20 µs more.
Two digests with the same 14 bytes: not by chance (one in 10^33 pairs), and on purpose only with
2^112 tries. Memory: nothing that grows.
"""

from __future__ import annotations

import asyncio
import os
import zlib
from calendar import timegm
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from webcrawl.executor import AdaptiveExecutor
from webcrawl.items import Original
from webcrawl.warc.earlierlines import EarlierError
from webcrawl.warc.records import in_field, labelled

DIGEST_BYTES: Final = 14
PLACE_BYTES: Final = 6  # of them 5: the start of the block, 1: the number of the line in it
ENTRY_BYTES: Final = DIGEST_BYTES + PLACE_BYTES
START_BYTES: Final = 8
ENTRIES_A_START: Final = 256
START_BITS_MAX: Final = 20  # then `starts` has 8 MB
BLOCK_LINES: Final = 128
SIZE_BYTES: Final = 4  # before each block: its length

ENTRIES, STARTS, PLACES, DONE = "entries", "starts", "places", "index.json"


class Source(NamedTuple):
    """A CDXJ file, as it was read."""

    path: str
    size_bytes: int
    mtime_ns: int

    @classmethod
    def of(cls, path: Path) -> Self:
        """OSError."""
        found = path.stat()
        return cls(str(path), found.st_size, found.st_mtime_ns)


class Earlier:
    """The index in a folder. Thread-safe."""

    def __init__(self, folder: Path, counts: dict[str, Any]) -> None:
        """Open the files of `folder`. OSError."""
        self.folder = folder
        self.entries: int = counts["entries"]
        self._bits: int = counts["start_bits"]
        self._executor = AdaptiveExecutor("earlier")
        self._entries, self._starts, self._places = (
            os.open(folder / name, os.O_RDONLY) for name in (ENTRIES, STARTS, PLACES)
        )

    def find(self, digest: bytes) -> Original | None:
        """The first capture whose payload has `digest`, 20 bytes. EarlierError if a read fails."""
        try:
            place = self._place(digest[:DIGEST_BYTES])
            return None if place is None else self._original(digest, place)
        except (OSError, ValueError, IndexError, zlib.error) as error:
            raise EarlierError(f"{self.folder} cannot be read: {error}") from None

    def look_up(self, digest: bytes) -> asyncio.Future[Original | None]:
        """`find`, without blocking the event loop for long."""
        return self._executor.do(partial(self.find, digest))

    def close(self) -> None:
        for descriptor in (self._entries, self._starts, self._places):
            os.close(descriptor)

    def _place(self, key: bytes) -> bytes | None:
        number = start_of(key, self._bits)
        bounds = os.pread(self._starts, 2 * START_BYTES, number * START_BYTES)
        first, end = int.from_bytes(bounds[:START_BYTES]), int.from_bytes(bounds[START_BYTES:])
        data = os.pread(self._entries, (end - first) * ENTRY_BYTES, first * ENTRY_BYTES)
        at = data.find(key)
        while at % ENTRY_BYTES and at >= 0:  # across two entries, or within a place
            at = data.find(key, at + 1)
        return data[at + DIGEST_BYTES : at + ENTRY_BYTES] if at >= 0 else None

    def _original(self, digest: bytes, place: bytes) -> Original | None:
        start = int.from_bytes(place[:-1])
        size = int.from_bytes(os.pread(self._places, SIZE_BYTES, start))
        block = zlib.decompress(os.pread(self._places, size, start + SIZE_BYTES))
        time, _, url = block.split(b"\n")[place[-1]].partition(b" ")
        return original_of(digest, time.decode("ascii"), url.decode("utf-8", "replace"))


def start_of(key: bytes, bits: int) -> int:
    """The number in `starts` of a digest."""
    return int.from_bytes(key[:3]) >> (24 - bits)


def original_of(digest: bytes, time: str, url: str) -> Original | None:
    """The original that a revisit refers to. `time` has 14 digits: an index has no more."""
    date = f"{time[:4]}-{time[4:6]}-{time[6:8]}T{time[8:10]}:{time[10:12]}:{time[12:]}Z"
    parts = (time[:4], time[4:6], time[6:8], time[8:10], time[10:12], time[12:])
    try:
        seconds = timegm((*map(int, parts),))
    except ValueError:  # no such month: the capture cannot be referred to
        return None
    return Original(in_field(url), seconds, labelled(digest), date)
