"""WARC files: naming, rotation, and the one thread that writes them.

Owns the folder's files while a crawl runs. A capture is built, compressed and written off the event
loop: what is queued is written in one go, and each caller hears when its own bytes are in the file.

Invariants: a file is called `.open` while it may grow, holds an exclusive lock that dies with its
process, and is synced before it gets its final name; a capture's records are consecutive in one
file; after an error the file ends where the last whole capture did.
Memory: what callers have handed over and not been told is written. The callers bound it.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import queue
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from webcrawl.warc.records import Capture, new_id, warcinfo

OPEN_SUFFIX = ".open"
_BATCH_MAX = 64  # captures written at once


class WarcError(OSError):
    """The archive cannot be written. One line that names the folder and the reason."""


@dataclass(slots=True, frozen=True)
class Naming:
    """Where files go and what they say of themselves."""

    folder: Path
    prefix: str = "webcrawl"
    max_size_bytes: int = 1_000_000_000
    about: tuple[tuple[str, str], ...] = ()  # fields of the warcinfo record


class WarcFile:
    """One file, from `.open` to its final name. Called from one thread at a time."""

    def __init__(self, naming: Naming, serial: int, now_time: float) -> None:
        stamp = datetime.fromtimestamp(now_time, UTC).strftime("%Y%m%d%H%M%S")
        name = f"{naming.prefix}-{stamp}-{serial:05d}-{os.getpid()}.warc.gz"
        self.path = naming.folder / name
        self._open_path = self.path.with_name(name + OPEN_SUFFIX)
        self.warcinfo_id = new_id()
        self.size_bytes = 0
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
        self._fd = os.open(self._open_path, flags, 0o644)
        fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.append([warcinfo(self.warcinfo_id, now_time, name, list(naming.about))])
        self._empty_bytes = self.size_bytes

    def append(self, records: list[bytes]) -> None:
        """Write all of `records`, or none of them and raise OSError."""
        data = memoryview(b"".join(records))
        written = 0
        try:
            while written < len(data):
                written += os.write(self._fd, data[written:])
        except OSError:
            os.ftruncate(self._fd, self.size_bytes)
            raise
        self.size_bytes += written

    def sync(self) -> None:
        """The bytes are on the disk when this returns."""
        os.fdatasync(self._fd)

    def close(self) -> None:
        """Give the file its final name; a file that got no capture is removed."""
        try:
            if self.size_bytes == self._empty_bytes:
                self._open_path.unlink()
            else:
                os.fsync(self._fd)
                self._open_path.rename(self.path)
        finally:
            os.close(self._fd)


_Job = tuple[Capture, "asyncio.Future[None]", asyncio.AbstractEventLoop]


class WarcWriter:
    """Writes captures from any number of tasks. Raises WarcError at once if it cannot write."""

    def __init__(self, naming: Naming) -> None:
        self._naming = naming
        self._serial = 0
        self.files: list[Path] = []  # finished; at most one for each max_size_bytes written
        self.records = 0
        self.bytes = 0
        try:
            naming.folder.mkdir(parents=True, exist_ok=True)
            self._file = self._next_file()
        except OSError as error:
            raise self._error(error) from None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        # A daemon: a process that is told to end at once does not wait for it.
        self._thread = threading.Thread(target=self._run, name="warc-writer", daemon=True)
        self._thread.start()

    async def write(self, capture: Capture) -> None:
        """Return when the records of `capture` are in the file. Raises WarcError."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._jobs.put((capture, done, loop))
        await done

    async def close(self) -> None:
        """Write what is queued and finish the last file. Raises WarcError."""
        self._jobs.put(None)
        await asyncio.to_thread(self._thread.join)
        try:
            self._finish_file()
        except OSError as error:
            raise self._error(error) from None

    def _run(self) -> None:
        while True:
            jobs, last = self._next_jobs()
            for capture, done, loop in jobs:
                error = self._try_write(capture)
                loop.call_soon_threadsafe(_settle, done, error)
            if last:
                return

    def _next_jobs(self) -> tuple[list[_Job], bool]:
        """What is queued, one job at least; and whether it was the last."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) >= _BATCH_MAX:
                return jobs, False
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                return jobs, False
        return jobs, True

    def _try_write(self, capture: Capture) -> WarcError | None:
        try:
            if self._file.size_bytes >= self._naming.max_size_bytes:
                self._finish_file()
                self._file = self._next_file()
            before = self._file.size_bytes
            records = capture.records(self._file.warcinfo_id)
            self._file.append(records)
        except OSError as error:
            return self._error(error)
        self.records += len(records)
        self.bytes += self._file.size_bytes - before
        return None

    def _next_file(self) -> WarcFile:
        self._serial += 1
        return WarcFile(self._naming, self._serial, time.time())

    def _finish_file(self) -> None:
        self._file.close()
        if self._file.path.exists():
            self.files.append(self._file.path)

    def _error(self, error: OSError) -> WarcError:
        return WarcError(f"cannot write WARC files in {self._naming.folder}: {error.strerror}")


def _settle(done: asyncio.Future[None], error: WarcError | None) -> None:
    if done.done():
        return  # its task was cancelled
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
