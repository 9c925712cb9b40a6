"""The files of an archive: one is written at a time, and a new one begun at a size.

Owns names, locks, rotation and durability. It may block: `writer` sees to that. A file is
called NAME.open while it is written, and NAME once it is whole and on the disk.

Invariants: a file begins with its warcinfo record; the records of a capture stand in one file, one
after the other; after a write that failed, the next begins where the last whole one ended. The
process that writes a NAME.open holds a lock on it, which ends with the process: see `recovery`.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from webcrawl.warc.members import member, stored_member
from webcrawl.warc.records import Capture, Fields, capture_records, warcinfo_record

_LAST_BYTES = 1 << 20  # more than what a capture has beside its body, but for odd ones
OPEN = ".open"


class WarcError(Exception):
    """The archive cannot be written: a full disk, a folder that is not ours. One line."""


class Position(NamedTuple):
    """Where the records of a capture stand."""

    filename: str
    offset: int
    size_bytes: int


@dataclass(slots=True)
class Written:
    """What the finished files hold, warcinfo records included."""

    files: int = 0
    records: int = 0
    revisits: int = 0
    size_bytes: int = 0


class WarcFiles:
    """A row of WARC files in one folder. `info` goes into each warcinfo record."""

    def __init__(self, folder: Path, prefix: str, max_size_bytes: int, info: Fields = ()) -> None:
        self.folder = folder
        self.written = Written()
        self._prefix = prefix
        self._max_size = max_size_bytes
        self._info = tuple(info)
        self._serial = 0
        self._file: _File | None = None

    def open(self) -> None:
        """Begin the first file, so that a folder that cannot be written is known at once."""
        with self._told():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = self._begin()

    def write(self, capture: Capture) -> Position:
        """Append the records of `capture`. Raises WarcError, and nothing of it is written.

        A file outgrows its limit only by the one capture in it.
        """
        with self._told():
            file = self._file = self._file or self._begin()
            data = _members(capture, file.id)
            size = file.size + sum(map(len, data))
            if size > self._max_size and file.captures:
                self._finish()
                file = self._file = self._begin()
                data = _members(capture, file.id)
            offset = file.append(data)
            file.captures += 1
            file.revisits += capture.is_revisit
            return Position(file.name, offset, file.size - offset)

    def may_finish(self, capture: Capture) -> bool:
        """Whether `write` may have to bring a whole file to the disk first, which takes a while."""
        size = self._file.size if self._file is not None else 0
        return size + len(capture.exchange.body) > self._max_size - _LAST_BYTES

    def sync(self) -> None:
        """Return once all that was written is on the disk. Raises WarcError."""
        if self._file is not None:
            with self._told():
                os.fsync(self._file.fd)

    def close(self) -> None:
        """Finish the last file. One with nothing but its warcinfo record is removed."""
        if self._file is not None:
            with self._told():
                self._finish()

    def _begin(self) -> _File:
        now = time.time()
        file = self._create(time.strftime("%Y%m%d%H%M%S", time.gmtime(now)))
        try:
            file.append([member(warcinfo_record(file.id, now, file.name, self._info))])
        except OSError:
            file.remove()
            raise
        return file

    def _create(self, stamp: str) -> _File:
        """A new file under a name that nobody has, here or on another machine."""
        host = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname().partition(".")[0])
        while True:
            name = f"{self._prefix}-{stamp}-{self._serial:05d}-{host}-{os.getpid()}.warc.gz"
            self._serial += 1
            try:
                return _File(self.folder / name)
            except FileExistsError:
                pass  # of another crawl in this process

    def _finish(self) -> None:
        file, self._file = self._file, None
        assert file is not None
        if not file.captures:
            file.remove()
            return
        file.finish()
        written = self.written
        written.files += 1
        written.records += file.records
        written.revisits += file.revisits
        written.size_bytes += file.size

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Tell an error of the system as the user's to mend."""
        try:
            yield
        except OSError as error:
            raise WarcError(
                f"WARC_DIR = {str(self.folder)!r} cannot be written: {error.strerror or error}"
            ) from None


class _File:
    """One file that is being written. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.id = new_id()  # of its warcinfo record
        self.size = self.records = self.captures = self.revisits = 0
        self._path = path
        self._open_path = Path(f"{path}{OPEN}")
        if path.exists():
            raise FileExistsError(path)
        self.fd = os.open(self._open_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        lock(self.fd)
        if not os.fstat(self.fd).st_nlink:  # a recovery was faster, and took it for a dead one
            os.close(self.fd)
            raise FileExistsError(self._open_path)

    def append(self, members: list[bytes]) -> int:
        """Write `members` after what is there; the offset of the first."""
        offset = self.size
        data = memoryview(b"".join(members))
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self.fd, data[done:], offset + done)
        except OSError:
            os.ftruncate(self.fd, offset)
            raise
        self.size += done
        self.records += len(members)
        return offset

    def finish(self) -> None:
        """Bring it to the disk and give it its name."""
        try:
            os.fsync(self.fd)
            publish(self._open_path, self._path)
        finally:
            os.close(self.fd)

    def remove(self) -> None:
        os.close(self.fd)
        self._open_path.unlink()


def new_id() -> str:
    """A WARC-Record-ID (WARC 1.1, 5.2): a random UUID (RFC 9562, 5.4). 1 us; uuid4 takes 2.5."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return (
        f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
        f"-{variant}{digits[17:20]}-{digits[20:]}>"
    )


def lock(fd: int) -> bool:
    """Lock an open file for this process; False where another has, or nobody can."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def publish(open_path: Path, path: Path) -> None:
    """Rename a file that is on the disk, and bring the new name there too."""
    open_path.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _members(capture: Capture, warcinfo_id: str) -> list[bytes]:
    answer, *others = capture_records(capture, warcinfo_id, new_id)
    packed = stored_member(answer) if capture.is_packed else member(answer)
    return [packed, *map(member, others)]
