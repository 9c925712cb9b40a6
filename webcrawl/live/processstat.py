"""Memory and processor time of the crawl's processes, as Linux counts them.

Does I/O: reads two small files of /proc per process, 30 µs. Elsewhere nothing is known.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


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
