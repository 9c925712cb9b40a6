"""Writes the files of an archive: one file at a time, and a new file at a maximum size.

Owns names, locks, rotation and durability. Its calls may block; `writer` runs them so that they do
not block the event loop. A file is called NAME.open while it is being written, and NAME once it is
whole and on the disk.

Invariants:
- A file begins with its warcinfo record, and perhaps a resource record about the crawl.
- The records of a capture are in one file, one after the other.
- A file with an index (`index`) gets its name only after its index is on the disk.
- After a failed write, the next write begins where the last whole capture ended.
- The process that writes NAME.open holds a lock on it. The lock ends with the process, so that
  `recovery` knows the files of dead processes.
"""

from __future__ import annotations

import fcntl
import os
import re
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from webcrawl.base.synced import sync
from webcrawl.warc.cdxj import answer_of, cdxj_line
from webcrawl.warc.index import Index, index_path
from webcrawl.warc.members import member, stored_member
from webcrawl.warc.records import (
    Capture,
    Fields,
    capture_records,
    resource_record,
    warcinfo_record,
)

_BESIDE_ANSWER = 1 << 20  # bytes; more than the records of nearly all captures take beside it
OPEN = ".open"
_CERTIFICATES_MAX = 20_000  # remembered, 150 bytes each; then they are written once more


class WarcError(Exception):
    """The archive cannot be written (full disk, no permission). One line for the user."""


class Position(Struct, frozen=True, gc=False):
    """Where the records of a capture are: a file and a range of its bytes."""

    filename: str
    offset: int
    size_bytes: int


class About(NamedTuple):
    """A resource record of each file: its URI, and the lines of its block."""

    uri: str
    lines: Sequence[tuple[str, str]]


@dataclass(slots=True)
class Written:
    """The sums over all finished files, including the records about them."""

    files: int = 0
    records: int = 0
    revisits: int = 0
    size_bytes: int = 0


class WarcFiles:
    """WARC files in one folder, one after the other.

    `info` goes into each warcinfo record, and `about` into a resource record behind it, if it has
    lines: set both before `open`. `mark`: letters and digits behind the host in the names, for
    machines that share its name.
    """

    def __init__(
        self,
        folder: Path,
        prefix: str,
        max_size_bytes: int,
        info: Fields = (),
        *,
        mark: str = "",
    ) -> None:
        self.folder = folder
        self.written = Written()
        self._prefix = prefix
        self._max_size = max_size_bytes
        self.info, self.about = tuple(info), About("", ())
        host = re.sub(r"[^A-Za-z0-9]+", "_", socket.gethostname().partition(".")[0])
        self._host = f"{host}_{mark}" if mark else host
        self._serial = 0
        self._file: _File | None = None

    @property
    def size_bytes(self) -> int:
        """The bytes of all files so far."""
        file = self._file
        return self.written.size_bytes + (file.size if file is not None else 0)

    def open(self) -> None:
        """Begin the first file, so that an unwritable folder fails at the start. WarcError."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._file = self._begin()
        except OSError as error:
            raise self._failed(error) from None

    def write(self, capture: Capture) -> Position:
        """Append the records of `capture`, all of them or, with WarcError, no part of them.

        A file exceeds the maximum size only if it holds a single capture.
        """
        try:
            file = self._file = self._file or self._begin()
            data = file.members(capture)
            size = file.size + sum(map(len, data))
            if size > self._max_size and file.captures:
                # First the next: a killed process has always left a file without an end, by which
                # the next run knows that its last answers may have no line (`crawl.lost`).
                full, file = file, self._begin()
                self._file = file
                self._finish(full)
                data = file.members(capture)
            offset = file.append_capture(capture, data)
            file.captures += 1
            file.revisits += capture.is_revisit
            return Position(file.name, offset, file.size - offset)
        except OSError as error:
            if self._file is not None:
                self._file.certificates.clear()  # the capture's may not be in the file
            raise self._failed(error) from None

    def may_finish(self, capture: Capture) -> bool:
        """Whether `write` may have to finish a file first: its fsync takes long."""
        size = self._file.size if self._file is not None else 0
        answer_bytes = capture.exchange.size_bytes if capture.has_answer else 0
        return size + answer_bytes > self._max_size - _BESIDE_ANSWER

    def close(self) -> None:
        """Finish the last file; remove it if it holds its warcinfo record only. WarcError."""
        try:
            file, self._file = self._file, None
            if file is not None:
                self._finish(file)
        except OSError as error:
            raise self._failed(error) from None

    def _begin(self) -> _File:
        now = time.time()
        file = self._create(time.strftime("%Y%m%d%H%M%S", time.gmtime(now)))
        try:
            records = [warcinfo_record(file.id, now, file.name, self.info)]
            if self.about.lines:
                records.append(resource_record(new_id(), now, file.id, *self.about))
            file.append([*map(member, records)])
        except OSError:
            file.remove()
            raise
        return file

    def _create(self, stamp: str) -> _File:
        """A new file. Its name is unique in the folder, and with a mark among all machines."""
        while True:
            name = f"{self._prefix}-{stamp}-{self._serial:05d}-{self._host}-{os.getpid()}.warc.gz"
            self._serial += 1
            try:
                return _File(self.folder / name)
            except FileExistsError:
                pass  # another crawl in this process has the name

    def _finish(self, file: _File) -> None:
        if not file.captures:
            file.remove()
            return
        file.finish()
        written = self.written
        written.files += 1
        written.records += file.records
        written.revisits += file.revisits
        written.size_bytes += file.size

    def _failed(self, error: OSError) -> WarcError:
        problem = error.strerror or error
        return WarcError(f"WARC_DIR = {str(self.folder)!r} cannot be written: {problem}")


class _File:
    """The file being written. Its methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self.id = new_id()  # of its warcinfo record
        self.size = self.records = self.captures = self.revisits = 0
        self.certificates: set[str] = set()  # SHA-256 of those in the file
        self._path = path
        self._open_path = Path(f"{path}{OPEN}")
        if path.exists():
            raise FileExistsError(path)
        self.fd = os.open(self._open_path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        self._index = new_index(path)
        lock(self.fd)
        if not os.fstat(self.fd).st_nlink:  # removed by a `recovery` before the lock was held
            os.close(self.fd)
            raise FileExistsError(self._open_path)

    def members(self, capture: Capture) -> list[bytes]:
        """The records of `capture`, each a gzip member. A compressed body is not compressed again.

        A certificate is in the first metadata record of the file that names it.
        """
        certificate, tls, known = b"", capture.exchange.tls, self.certificates
        if tls is not None and capture.metadata and tls.fingerprint not in known:
            certificate = tls.certificate
            if len(known) >= _CERTIFICATES_MAX:
                known.clear()
            known.add(tls.fingerprint)
        answer, *others = capture_records(capture, self.id, new_id, certificate)
        packed = stored_member(answer) if capture.is_packed else member(answer)
        return [packed, *map(member, others)]

    def append_capture(self, capture: Capture, members: list[bytes]) -> int:
        """Append the records of `capture`, the answer's first, and keep the line of the index, if
        there is one (`cdxj`).

        Room for the line is made first, so that a full disk leaves no record without its line.
        """
        if not capture.has_answer or capture.is_not_modified:
            return self.append(members)
        self._index.make_room()
        offset = self.append(members)
        self._index.add(cdxj_line(answer_of(capture), self.name, offset, len(members[0])))
        return offset

    def append(self, members: list[bytes]) -> int:
        """Append `members`, gzip members; return the offset of the first."""
        data, offset = b"".join(members), self.size
        try:
            done = os.pwrite(self.fd, data, offset)
            while rest := data[done:]:
                done += os.pwrite(self.fd, rest, offset + done)
        except OSError:
            os.ftruncate(self.fd, offset)
            raise
        self.size += done
        self.records += len(members)
        return offset

    def finish(self) -> None:
        """Sync the file to the disk, write its index, and rename the file to NAME."""
        try:
            os.fsync(self.fd)
            self._index.publish()
            publish(self._open_path, self._path)
        finally:
            self._close()

    def remove(self) -> None:
        """Close and delete the file."""
        self._close()
        self._open_path.unlink()

    def _close(self) -> None:
        os.close(self.fd)
        self._index.close()


def open_files(folder: Path) -> list[Path]:
    """The files in `folder` that are being written, or were when their process was killed."""
    return sorted(folder.glob(f"*.warc.gz{OPEN}"))


def new_index(path: Path) -> Index:
    """An empty index for the WARC file that will be at `path`."""
    name = index_path(path)
    return Index(name, Path(f"{name}{OPEN}"))


def new_id() -> str:
    """A WARC-Record-ID (WARC 1.1, 5.2): a random UUID (RFC 9562, 5.4). 1 µs; uuid4 takes 2.5."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return (
        f"<urn:uuid:{digits[:8]}-{digits[8:12]}-4{digits[13:16]}"
        f"-{variant}{digits[17:20]}-{digits[20:]}>"
    )


def lock(fd: int) -> bool:
    """Lock an open file for this process.

    False if another process holds the lock, or the file system has no locks.
    """
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def publish(open_path: Path, path: Path) -> None:
    """Rename a file that has been synced, and sync its new name as well."""
    open_path.rename(path)
    sync(path.parent)
