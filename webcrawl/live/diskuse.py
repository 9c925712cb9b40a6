"""How much of the disk a crawl takes, and what is left of it. Does I/O: one look at each file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Final

_EVERY_S: Final = 10.0  # a folder may have thousands of files, at some 3 µs each


class DiskUse:
    """The sizes of WARC_DIR and JOBDIR, measured in a thread, at most once in _EVERY_S seconds."""

    def __init__(self, warc_dir: Path, jobdir: Path | None) -> None:
        self._warc_dir = warc_dir
        self._jobdir = jobdir
        self._measured: dict[str, int] = {}
        self._next_at = 0.0

    async def measure(self) -> dict[str, int]:
        """`free_bytes` of the disk of WARC_DIR, `warc_bytes` of all WARC files in it, finished or
        not, and `jobdir_bytes`. A number that is not known is left out.
        """
        if monotonic() >= self._next_at:
            self._next_at = monotonic() + _EVERY_S
            self._measured = await asyncio.to_thread(self._measure)
        return self._measured

    def _measure(self) -> dict[str, int]:
        sizes = _sizes(self._warc_dir, (".warc.gz", ".warc.gz.open"), deep=False)
        measured = {"warc_bytes": sum(sizes)}
        free = free_bytes(self._warc_dir)
        if free is not None:
            measured["free_bytes"] = free
        if self._jobdir is not None:
            measured["jobdir_bytes"] = sum(_sizes(self._jobdir, ("",), deep=True))
        return measured


def free_bytes(folder: Path) -> int | None:
    """The bytes that may be written on the disk of `folder`, or of its first parent that exists.

    None if the system does not tell.
    """
    for each in (folder, *folder.parents):
        try:
            disk = os.statvfs(each)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return disk.f_bavail * disk.f_frsize
    return None


def _sizes(folder: Path, suffixes: tuple[str, ...], *, deep: bool) -> Iterator[int]:
    """Sizes of the files in `folder` whose names end in one of `suffixes`."""
    for path, folders, names in os.walk(folder):
        if not deep:
            folders.clear()
        for name in names:
            if name.endswith(suffixes):
                try:
                    yield os.lstat(os.path.join(path, name)).st_size
                except OSError:  # renamed or compacted meanwhile, or not ours
                    pass
