"""Makes the index of `earlier` of the CDXJ files of earlier archives: once, in bounded memory.

1. Each line becomes a line of `places`, and 20 bytes in one of up to BUCKETS_MAX files, by the
   first bits of its digest.
2. Each bucket is sorted in memory and appended to `entries`, without repeats of a digest: the first
   capture counts, in the order of the files and lines.
3. `starts` is read off `entries`, all is synced, and `index.json` says that it is done.

After each batch, and each bucket, `building.json` says how far it is. So a build that was killed
goes on where it was; after a restart of the machine, or if a source has changed, it begins anew.

Memory: BATCH entries while lines are read, one bucket while it is sorted: 60 MB, 100 MB for three
billion lines. Disk: 20 bytes a line for the buckets, beside the index. Cost: 10 µs a line.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final

from isal import isal_zlib

from webcrawl.warc import earlier
from webcrawl.warc.earlier import Earlier, Source
from webcrawl.warc.earlierlines import EarlierError, Lines
from webcrawl.wording import counted

VERSION: Final = 1  # of the files
BATCH: Final = 200_000  # entries in memory
BUCKETS_MAX: Final = 4096
BUCKET_BYTES: Final = 64 << 20  # of source text in one bucket: about 170,000 lines
PACKED: Final = 8  # text of a gzip CDXJ for each byte of the file, about
REPORT_S: Final = 5.0

_BUILDING, _BUCKETS, _LOCK = "building.json", "buckets", "lock"

Report = Callable[[str], None]


def open_earlier(folder: Path, paths: Sequence[Path], report: Report) -> Earlier:
    """The index of the CDXJ files `paths` in `folder`, made now if it is not there.

    `report` gets a line each REPORT_S seconds while it is made. EarlierError.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _locked(folder):
            sources = [Source.of(path) for path in paths]
            done = _read(folder / earlier.DONE)
            if not _is_of(done, sources):
                done = _Build(folder, sources, report).run()
            return Earlier(folder, done)
    except OSError as error:
        raise EarlierError(f"{error.filename or folder}: {error.strerror or error}") from None


def opened_earlier(folder: Path) -> Earlier:
    """The index that another process has made in `folder`. EarlierError."""
    try:
        return Earlier(folder, _read(folder / earlier.DONE))
    except (OSError, KeyError) as error:
        raise EarlierError(f"{folder} has no index: {error}") from None


def _is_of(state: dict[str, Any], sources: list[Source]) -> bool:
    return state.get("version") == VERSION and state.get("sources") == [list(s) for s in sources]


class _Build:
    """One build. `_state` is what `building.json` has."""

    def __init__(self, folder: Path, sources: list[Source], report: Report) -> None:
        self._folder = folder
        self._sources = sources
        self._report = report
        self._reported_at = monotonic()
        self._state: dict[str, Any] = {}
        self._batch: list[tuple[bytes, bytes]] = []  # digests and places
        self._block: list[bytes] = []

    def run(self) -> dict[str, Any]:
        """The counts of the finished index. EarlierError, OSError."""
        state = self._state = self._resumed() or self._begun()
        with (self._folder / earlier.PLACES).open("r+b") as places:
            places.truncate(state["places"])
            places.seek(state["places"])
            while state["source"] < len(self._sources):
                self._read_source(places)
            _sync(places)
        with (self._folder / earlier.ENTRIES).open("r+b") as entries:
            entries.truncate(state["entries"] * earlier.ENTRY_BYTES)
            entries.seek(0, os.SEEK_END)
            for number in range(state["sorted"], 1 << state["bits"]):
                self._sort(number, entries)
            _sync(entries)
        return self._finished()

    def _begun(self) -> dict[str, Any]:
        """A new build, in place of any other that the folder has."""
        for name in (earlier.DONE, _BUILDING):
            (self._folder / name).unlink(missing_ok=True)
        shutil.rmtree(self._folder / _BUCKETS, ignore_errors=True)
        (self._folder / _BUCKETS).mkdir()
        for name in (earlier.PLACES, earlier.ENTRIES):
            (self._folder / name).write_bytes(b"")
        text_bytes = sum(
            each.size_bytes * (PACKED if each.path.endswith(".gz") else 1) for each in self._sources
        )
        buckets = min(BUCKETS_MAX, max(1, text_bytes // BUCKET_BYTES))
        return {
            "version": VERSION,
            "sources": [list(each) for each in self._sources],
            "boot": _boot(),
            "bits": (buckets - 1).bit_length(),
            "source": 0,
            "position": 0,
            "line": 0,  # what is to be read next
            "lines": 0,
            "captures": 0,
            "places": 0,
            "sorted": 0,
            "entries": 0,
            "buckets": {},
        }

    def _resumed(self) -> dict[str, Any] | None:
        """The build that was begun of these sources; None if it cannot go on."""
        state = _read(self._folder / _BUILDING)
        if not _is_of(state, self._sources) or state.get("boot") != _boot():
            return None
        sizes = {name: state[name] for name in ("places",)}
        sizes[earlier.ENTRIES] = state["entries"] * earlier.ENTRY_BYTES
        if state["sorted"] == 0:
            sizes |= {f"{_BUCKETS}/{name}": size for name, size in state["buckets"].items()}
        for name, size in sizes.items():
            path = self._folder / name
            if not path.exists() or path.stat().st_size < size:
                return None
        for name, size in state["buckets"].items():
            with suppress(FileNotFoundError):  # it is sorted
                os.truncate(self._folder / _BUCKETS / name, size)
        for path in (self._folder / _BUCKETS).iterdir():
            if path.name not in state["buckets"]:
                path.unlink()
        self._report(f"goes on after {counted(state['lines'], 'line')}")
        return state

    def _read_source(self, places: Any) -> None:
        """Read the source at which the build is, to its end."""
        state, batch, block = self._state, self._batch, self._block
        path = Path(self._sources[state["source"]].path)
        lines = Lines(path, state["position"], state["line"])
        at = state["places"].to_bytes(earlier.PLACE_BYTES - 1)
        for line in lines:
            state["lines"] += 1
            entry = lines.entry(line)
            if entry is None:
                continue
            batch.append((entry.digest, at + len(block).to_bytes()))
            block.append(entry.time + b" " + entry.url)
            if len(block) == earlier.BLOCK_LINES:
                self._end_block(places)
                at = state["places"].to_bytes(earlier.PLACE_BYTES - 1)
                if monotonic() > self._reported_at + REPORT_S:
                    self._say_lines()
                if len(batch) >= BATCH:
                    state["position"], state["line"] = lines.position, lines.line
                    self._end_batch(places)
        state["source"] += 1
        state["position"] = state["line"] = 0
        self._end_block(places)
        self._end_batch(places)

    def _end_block(self, places: Any) -> None:
        block, state = self._block, self._state
        if not block:
            return
        data = isal_zlib.compress(b"\n".join(block), 2)
        places.write(len(data).to_bytes(earlier.SIZE_BYTES) + data)
        state["places"] += earlier.SIZE_BYTES + len(data)
        block.clear()

    def _end_batch(self, places: Any) -> None:
        """Put the entries into their buckets, and note how far the build is."""
        state, shift = self._state, 24 - self._state["bits"]
        buckets: dict[int, list[bytes]] = {}
        for digest, place in self._batch:
            entries = buckets.setdefault(int.from_bytes(digest[:3]) >> shift, [])
            entries.append(digest[: earlier.DIGEST_BYTES] + place)
        for number, entries in buckets.items():
            data, name = b"".join(entries), str(number)
            with (self._folder / _BUCKETS / name).open("ab") as file:
                file.write(data)
            state["buckets"][name] = state["buckets"].get(name, 0) + len(data)
        state["captures"] += len(self._batch)
        self._batch.clear()
        places.flush()
        self._keep()

    def _sort(self, number: int, entries: Any) -> None:
        """Append bucket `number` to `entries`, sorted."""
        state, size = self._state, earlier.ENTRY_BYTES
        path = self._folder / _BUCKETS / str(number)
        data = path.read_bytes() if str(number) in state["buckets"] else b""
        rows = sorted([data[at : at + size] for at in range(0, len(data), size)])
        last = b""
        kept = []
        for row in rows:
            digest = row[: earlier.DIGEST_BYTES]
            if digest != last:
                kept.append(row)
                last = digest
        entries.write(b"".join(kept))
        entries.flush()
        state["sorted"], state["entries"] = number + 1, state["entries"] + len(kept)
        self._keep()
        path.unlink(missing_ok=True)
        if monotonic() > self._reported_at + REPORT_S:
            self._reported_at = monotonic()
            self._report(f"sorted {number + 1:,} of {1 << state['bits']:,} parts")

    def _finished(self) -> dict[str, Any]:
        state = self._state
        count = state["entries"]
        bits = min(earlier.START_BITS_MAX, (count // earlier.ENTRIES_A_START).bit_length())
        with (self._folder / earlier.STARTS).open("wb") as file:
            file.writelines(_starts(self._folder / earlier.ENTRIES, count, bits))
            _sync(file)
        done = {name: state[name] for name in ("version", "sources", "lines", "captures")}
        done |= {"entries": count, "start_bits": bits}
        _write(self._folder / earlier.DONE, done)
        (self._folder / _BUILDING).unlink()
        shutil.rmtree(self._folder / _BUCKETS, ignore_errors=True)
        self._report(
            f"{counted(count, 'content')} of {counted(state['captures'], 'capture')}"
            f" in {counted(state['lines'], 'line')}"
        )
        return done

    def _say_lines(self) -> None:
        self._reported_at = monotonic()
        state = self._state
        self._report(
            f"{state['lines']:,} lines read, file {state['source'] + 1:,} of {len(self._sources):,}"
        )

    def _keep(self) -> None:
        _write(self._folder / _BUILDING, self._state)


def _starts(entries: Path, count: int, bits: int) -> Iterator[bytes]:
    """For each value of the first `bits` bits of a digest, and the end: the first entry. O(count).

    The entries are read in order, 1 MB at a time.
    """
    number = 0  # of the next start
    size = earlier.ENTRY_BYTES
    with entries.open("rb") as file:
        for first in range(0, count, 50_000):
            data = file.read(50_000 * size)
            values = [earlier.start_of(data[at : at + 3], bits) for at in range(0, len(data), size)]
            while number <= values[-1]:
                yield (first + bisect_left(values, number)).to_bytes(earlier.START_BYTES)
                number += 1
    for _ in range(number, (1 << bits) + 1):
        yield count.to_bytes(earlier.START_BYTES)


def _read(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; empty if there is none. OSError."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(path: Path, state: dict[str, Any]) -> None:
    """Write a JSON object: all of it or nothing."""
    new = path.with_name(path.name + ".new")
    with new.open("w") as file:
        json.dump(state, file)
        _sync(file)
    new.replace(path)


def _sync(file: Any) -> None:
    file.flush()
    os.fsync(file.fileno())


def _boot() -> str:
    """Another text after each start of the machine, where the system tells it.

    What was written before may be lost then: buckets are not synced.
    """
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / _LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EarlierError(f"another process makes the index in {folder}") from None
        yield
