"""The files of a crawl log, one after the other, and their end as of the last commit.

The file that is being written is plain text, `crawl-ID-00001.jsonl`. A file of FILE_BYTES is
finished: a thread compresses it to `.jsonl.gz` (RFC 1952), and then removes the plain file.

Invariants:
- The lines of a batch are in the file before the frontier commits the batch, and the commit has the
  end of the file. A run after a kill cuts the file there (`recover`). So the log has exactly the
  turns that the frontier counts as ended: a URL whose line was cut is fetched again, or was only
  refused, and is refused again.
- A line that was committed is never cut. A file is finished only when all its lines are committed.
- Memory: the lines of one batch, the last RECENT lines, 1 MiB while a file is compressed; at the
  start, if committed lines are lost, one file.
"""

from __future__ import annotations

import os
import re
import threading
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, TypedDict

from isal import isal_zlib

HUB_FOLDER: Final = "hub-"  # and its number: in a store, the log and reports of one of several
FILE_BYTES: Final = 64 << 20  # about 150,000 lines; compressed in 0.3 s
RECENT: Final = 200
_PIECE = 1 << 20
_LEVEL = 2  # of 0 to 3: 93 of 512 bytes a line, in 1.3 µs
_GZIP = 31  # zlib's number for the gzip format
_NAME = re.compile(r"crawl-(\d{14}-[0-9a-f]{6})-(\d{5,})\.jsonl(?:\.gz)?")
_SYNC_BYTES = 8 << 20  # a power failure loses at most so much of a file that is being written


class LogError(Exception):
    """The log cannot be written: one line for the user, which names the setting."""


class Place(TypedDict):
    """The end of the log, as a commit keeps it."""

    folder: str
    file: str
    size: int


class CrawlLog:
    """The log of one crawl. Call `add` for each line, then `flush` before the commit.

    folder -- REPORT_DIR
    folders -- it, and that of the run before if it is another one
    crawl -- the ID of the crawl, the same in all its runs
    warnings -- lines for the log: a file that has lost committed lines
    """

    def __init__(self, folder: Path, crawl: str, before: Place | None = None) -> None:
        """Recover the files of the earlier run, which ended at `before`; begin a file. LogError."""
        self.folder = folder
        self.folders = [folder]
        self._absolute = str(folder.absolute())
        self.crawl = crawl
        self.warnings: list[str] = []
        self.last_number = 0  # lines of this run
        self._recent: deque[bytes] = deque(maxlen=RECENT)
        self._lines: list[bytes] = []  # since the last flush
        self._fd = -1
        self._size = self._synced = 0
        self._threads: list[threading.Thread] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if before is not None:
                self._recover(before)
            else:  # killed before the first commit
                _remove(self._plain())
            self._finish_left()
            numbers = [number for each, number, _ in log_files(folder) if each == crawl]
            # Beyond that of an earlier folder too: one name is one file, wherever it is.
            self._number = max(numbers + ([_number(before["file"])] if before else [0]))
            self._begin()
        except OSError as error:
            raise self._failed(error) from None

    @property
    def place(self) -> Place:
        """The end of the log after the last `flush`."""
        return {"folder": self._absolute, "file": self._name, "size": self._size}

    def recent(self) -> list[bytes]:
        """The last RECENT lines, without line breaks. Any thread may call it."""
        return list(self._recent)

    def add(self, line: bytes) -> None:
        """Keep `line`, which has no line break, for the next `flush`."""
        self._lines.append(line)
        self._recent.append(line)
        self.last_number += 1

    def flush(self) -> None:
        """Write the lines, all of them or, with LogError, no line. All earlier lines are committed.

        One system call for a batch.
        """
        if not self._lines:
            return
        self._lines.append(b"")
        data = b"\n".join(self._lines)
        try:
            if self._size >= FILE_BYTES:
                full = self._fd, self._path
                self._begin()
                self._finish(*full)
            self._write(data)
            if self._size >= self._synced + _SYNC_BYTES:
                os.fdatasync(self._fd)
                self._synced = self._size
        except OSError as error:
            raise self._failed(error) from None
        self._lines.clear()

    def abandon(self) -> None:
        """Leave the file as it is: lines may lack their commit, and the next run cuts them."""
        os.close(self._fd)

    def close(self) -> None:
        """Finish the last file, and wait until all files are compressed. LogError.

        All lines are committed.
        """
        try:
            if self._size:
                self._finish(self._fd, self._path)
            else:
                os.close(self._fd)
                self._path.unlink()
            for thread in self._threads:
                thread.join()
            for path in self._plain():  # a thread failed, on a full disk
                compress(path)
        except OSError as error:
            raise self._failed(error) from None

    def _write(self, data: bytes) -> None:
        offset = self._size
        try:
            while data:
                written = os.pwrite(self._fd, data, offset)
                data, offset = data[written:], offset + written
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size = offset

    def _begin(self) -> None:
        self._number += 1
        self._name = f"crawl-{self.crawl}-{self._number:05d}.jsonl"
        self._path = self.folder / self._name
        self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        self._size = self._synced = 0

    def _finish(self, fd: int, path: Path) -> None:
        os.close(fd)
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(target=_compress, args=(path,), name="crawl-log")
        thread.start()
        self._threads.append(thread)

    def _recover(self, before: Place) -> None:
        """Cut what was written after the last commit of the earlier run."""
        folder = Path(before["folder"])
        moved = self.folder / before["file"]
        if moved.exists() or _packed(moved).exists():  # perhaps together with JOBDIR
            folder = self.folder
        committed = folder / before["file"]
        if committed.exists() and not _packed(committed).exists():
            size = committed.stat().st_size
            if size > before["size"]:
                os.truncate(committed, before["size"])
            elif size < before["size"]:
                lost = before["size"] - size
                self.warnings.append(f"The crawl log {committed} has lost its last {lost} bytes")
                os.truncate(committed, committed.read_bytes().rfind(b"\n") + 1)  # no torn line
        elif not _packed(committed).exists() and before["size"]:
            self.warnings.append(f"The crawl log {committed} is missing")
        plain = {*self._plain(folder), *self._plain()}
        _remove(path for path in plain if path.name > committed.name)
        if folder not in (self.folder, self.folder.absolute()) and folder.exists():
            self._finish_left(folder)  # REPORT_DIR was changed
            self.folders.append(folder)

    def _finish_left(self, folder: Path | None = None) -> None:
        """Compress the plain files of earlier runs, and remove empty ones."""
        for path in self._plain(folder):
            if path.stat().st_size and not _packed(path).exists():
                compress(path)
            else:
                path.unlink()

    def _plain(self, folder: Path | None = None) -> list[Path]:
        """The plain files of this crawl, in order; [] without the folder."""
        return sorted((folder or self.folder).glob(f"crawl-{self.crawl}-*.jsonl"))

    def _failed(self, error: OSError) -> LogError:
        problem = error.strerror or error
        return LogError(f"REPORT_DIR = {str(self.folder)!r} cannot be written: {problem}")


def _remove(begun: Iterable[Path]) -> None:
    """Remove files that were begun after the last commit."""
    for path in begun:
        path.unlink(missing_ok=True)


def _number(name: str) -> int:
    """The number in the name of a file; 0 for another name."""
    named = _NAME.fullmatch(name)
    return int(named[2]) if named else 0


def log_files(folder: Path) -> list[tuple[str, int, Path]]:
    """The crawl logs in `folder`: (ID of the crawl, number, path), in order. OSError.

    Of a file that is both plain and compressed only the compressed one: the plain file is about to
    be removed.
    """
    found: dict[tuple[str, int], Path] = {}
    for path in sorted(folder.iterdir()):  # the plain file comes first
        named = _NAME.fullmatch(path.name)
        if named:
            found[named[1], int(named[2])] = path
    return [(crawl, number, path) for (crawl, number), path in sorted(found.items())]


def compress(path: Path) -> None:
    """Compress a plain file, then remove it. A reader sees one of them, or both. OSError."""
    packed = _packed(path)
    part = packed.with_name(packed.name + ".part")
    try:
        with path.open("rb") as plain, part.open("wb") as file:
            packer = isal_zlib.compressobj(_LEVEL, wbits=_GZIP)
            while piece := plain.read(_PIECE):
                file.write(packer.compress(piece))
            file.write(packer.flush())
            file.flush()
            os.fsync(file.fileno())
        part.rename(packed)
    except OSError:
        part.unlink(missing_ok=True)
        raise
    path.unlink()


def _compress(path: Path) -> None:
    """`compress` on a thread: after a failure the file stays plain, and `close` tries again."""
    with suppress(OSError):
        compress(path)


def _packed(path: Path) -> Path:
    return path.with_name(path.name + ".gz")
