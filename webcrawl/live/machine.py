"""What the machine tells of a crawl: its disk, and the memory and processor time of its processes.

Does I/O: one look at each file of the crawl; of /proc two small files per process, 30 µs. Where
there is no /proc, nothing is known of the processes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import monotonic
from typing import Final, NamedTuple

_EVERY_S: Final = 10.0  # a folder may have thousands of files, at some 3 µs each
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


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


class ProcessStat(NamedTuple):
    """One process at one moment.

    `cpu_s` and `waited_s` are of the main thread, which runs the event loop: seconds on a
    processor, and seconds for which it was ready but other threads had the processors.
    """

    rss_bytes: int
    cpu_s: float
    waited_s: float


def process_stat(pid: int) -> ProcessStat | None:
    """The numbers of process `pid` (proc(5): statm, schedstat); None if they cannot be read."""
    folder = Path("/proc") / str(pid)
    try:
        resident = int((folder / "statm").read_text().split()[1])
        cpu_ns, waited_ns, _ = map(int, (folder / "schedstat").read_text().split())
    except (OSError, ValueError, IndexError):  # it has ended, or this is not Linux
        return None
    return ProcessStat(resident * _PAGE_BYTES, cpu_ns / 1e9, waited_ns / 1e9)


def process_stats(workers: Mapping[int, int]) -> dict[str, ProcessStat]:
    """The processes of a crawl that are alive: "main" is this one, "process 2" a worker.

    `workers` are numbers, as in the log, with pids.
    """
    pids = {"main": os.getpid()} | {f"process {number}": pid for number, pid in workers.items()}
    stats = {name: process_stat(pid) for name, pid in pids.items()}
    return {name: stat for name, stat in stats.items() if stat is not None}
