"""Writes the index (CDXJ) of one WARC file: NAME.cdxj beside NAME.warc.gz, its lines sorted.

Lines come in the order of the records. They are collected in runs of RUN_BYTES. Each full run is
sorted and written to a temporary file without a name, which the system removes when the process
ends. At the end the runs are merged into NAME.cdxj.open, which is synced and renamed: no reader
sees half an index.

Invariants:
- Memory: one run, two while one is written, and 8 KiB per run of the temporary file. A WARC file of
  1 GB has about 100,000 lines, 25 to 33 MB in as many runs.
- NAME.cdxj is complete and on the disk before its WARC file loses the ending `.open`. So only a
  WARC file that is not finished can lack its index.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from heapq import merge
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO, Protocol, Self, TypeVar

RUN_BYTES = 1 << 20  # about 4,000 lines; sorted and written in 3 ms
_PIECE = 8 << 10
_BUFFER = 64 << 10
_WARC = ".warc.gz"


class _Named(Protocol):  # a path, or a file of a store
    @property
    def name(self) -> str: ...
    def with_name(self, name: str, /) -> Self: ...


_File = TypeVar("_File", bound=_Named)


def index_path(warc: _File) -> _File:
    """The index of a WARC file. pywb reads each file of a folder whose name ends in `.cdxj`."""
    return warc.with_name(warc.name.removesuffix(_WARC) + ".cdxj")


class Index:
    """Call `make_room`, then `add`, for each line; then `publish`; then `close`."""

    def __init__(self, path: Path, open_path: Path) -> None:
        """The index will be at `path`, and is at `open_path` while it is being written."""
        self._path = path
        self._open_path = open_path
        self._run: list[bytes] = []
        self._run_bytes = 0
        self._ends = [0]  # of the runs in the temporary file
        self._spool: BinaryIO | None = None  # the temporary file

    def make_room(self) -> None:
        """Put a full run into the temporary file, so that `add` cannot fail. OSError."""
        if self._run_bytes < RUN_BYTES:
            return
        if self._spool is None:
            folder = self._path.parent
            self._spool = TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  (`close` ends it)
        self._run.sort()
        data = memoryview(b"".join(self._run))
        self._spool.seek(self._ends[-1])
        while data:
            data = data[self._spool.write(data) :]
        self._ends.append(self._spool.tell())
        self._run, self._run_bytes = [], 0

    def add(self, line: bytes) -> None:
        """Keep a line, which ends with LF."""
        self._run.append(line)
        self._run_bytes += len(line)

    def publish(self) -> None:
        """Write the index, sync it, and give it its name. OSError.

        Takes 1 µs per line; other threads may run meanwhile. The folder is not synced here, because
        the caller renames the WARC file next, and then syncs the folder.
        """
        self._run.sort()
        runs = [self._stored(*ends) for ends in zip(self._ends, self._ends[1:], strict=False)]
        try:
            with self._open_path.open("wb", buffering=_BUFFER) as file:
                file.writelines(merge(*runs, self._run))
                file.flush()
                os.fsync(file.fileno())
            self._open_path.replace(self._path)
        except OSError:
            with suppress(OSError):
                self._open_path.unlink()
            raise

    def close(self) -> None:
        """Forget the lines."""
        self._run = []
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def _stored(self, start: int, end: int) -> Iterator[bytes]:
        """The lines of a run in the temporary file."""
        assert self._spool is not None
        rest = b""
        while start < end:
            piece = os.pread(self._spool.fileno(), min(_PIECE, end - start), start)
            if not piece:
                raise OSError("the temporary file of an index was cut")
            start += len(piece)
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line + b"\n" for line in lines)
