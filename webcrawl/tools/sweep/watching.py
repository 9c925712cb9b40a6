"""Runs one crawl in a process of its own, to its end; samples it every second.

Pages are read from its stats lines, memory from proc(5): where there is none, there are no samples.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

LOOK_S = 0.05
SAMPLE_S = 1.0
STOP_S = 30.0  # for a crawl to end cleanly when it is interrupted
_CRAWLED = re.compile(rb" C +(\d+) L ")  # of a stats line
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Sample:
    """A process at one moment, `at_s` after its start."""

    at_s: float
    pages: int  # in its last stats line
    rss_mb: float
    peak_mb: float
    cpu_s: float


@dataclass
class Run:
    """A process that has ended. `cpu_s` is user and system time of all threads and children."""

    exit_code: int
    cpu_s: float
    wall_s: float
    samples: list[Sample]
    log: str  # standard error


def watch(
    command: Sequence[str],
    folder: Path,
    longest_s: float,
    *,
    cwd: Path | None = None,
    on_sample: Callable[[Sample], None] | None = None,
) -> Run:
    """Run `python -m COMMAND` in `cwd` to its end; kill it after `longest_s`.

    Output goes to `folder`. An exception, such as KeyboardInterrupt, interrupts the process and
    waits for its end. The process has a group of its own, so that Ctrl-C in a terminal reaches it
    only once.
    """
    out, log = folder / "out.txt", folder / "log.txt"
    samples: list[Sample] = []
    began = time.monotonic()
    interrupts: list[int] = []
    # Between its fork and the end of the call, an interrupt would leave a process nobody knows.
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))
    try:
        with out.open("wb") as stdout, log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", *command],
                cwd=cwd, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, process_group=0,
            )  # fmt: skip
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        if interrupts:
            raise KeyboardInterrupt
        sample_at = began
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            now = time.monotonic()
            if ended:
                process.returncode = os.waitstatus_to_exitcode(status)
                break
            if now - began > longest_s:
                process.kill()
            if now >= sample_at and (sample := _sample(process.pid, now - began, out)):
                samples.append(sample)
                sample_at = now + SAMPLE_S
                if on_sample is not None:
                    on_sample(sample)
            time.sleep(LOOK_S)
    finally:
        if process.returncode is None:
            _stop(process)
    cpu_s = usage.ru_utime + usage.ru_stime
    return Run(process.returncode, cpu_s, now - began, samples, log.read_text(errors="replace"))


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(STOP_S)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        process.kill()
        process.wait()


def _sample(pid: int, at_s: float, out: Path) -> Sample | None:
    """One sample, or None if the process has just ended, or there is no proc(5)."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except FileNotFoundError:
        return None
    memory = dict(line.split(":", 1) for line in lines)
    if "VmRSS" not in memory:
        return None
    rss_mb, peak_mb = (int(memory[name].split()[0]) * 1.024e-3 for name in ("VmRSS", "VmHWM"))
    return Sample(at_s, _crawled(out), rss_mb, peak_mb, cpu_s_of(pid))


def cpu_s_of(pid: int) -> float:
    """CPU seconds so far, user and system, of a running process (proc(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _crawled(out: Path) -> int:
    with out.open("rb") as file:
        file.seek(max(0, out.stat().st_size - 4096))
        found = _CRAWLED.findall(file.read())
    return int(found[-1]) if found else 0
