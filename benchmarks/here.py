"""This checkout; CPU time and memory of this process, for benchmarks without a crawl."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def cpu_us(call: Callable[[], None], count: int) -> float:
    """CPU time in µs of all threads, per each of the `count` things that `call` does."""
    began = time.process_time()
    call()
    return 1e6 * (time.process_time() - began) / count


def rss_mb() -> int:
    """Resident memory in MB (proc(5))."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(dict(line.split(":", 1) for line in lines)["VmRSS"].split()[0]) // 1000
