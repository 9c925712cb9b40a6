"""The bus and the processes of one crawl on this machine, for a benchmark and for `make cluster`.

All of them end with this process; where there is setpriv (util-linux), also if it is killed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.here import ROOT
from webcrawl.tools.sweep.watching import cpu_s_of

NO_SERVER = "there is no nats-server. Install one: apt-get install nats-server (Debian, Ubuntu)"
_START_S = 20.0
_LOOK_S = 0.02


class NoBus(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """There is no nats-server, or it does not start: one line for the user."""


class Process:
    """A child process, and the CPU time that it took.

    cpu_s -- user and system time of all its threads and children, once it has ended
    """

    def __init__(self, command: Sequence[str], log: Path) -> None:
        """Standard output and error go to the end of `log`."""
        tied = [setpriv, "--pdeathsig", "KILL"] if (setpriv := shutil.which("setpriv")) else []
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [*tied, *command],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip
        self.log = log
        self.cpu_s = 0.0

    @property
    def pid(self) -> int:
        return self._process.pid

    def cpu_so_far_s(self) -> float:
        """While it runs."""
        return cpu_s_of(self.pid)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        if self._process.returncode is None:
            ended, status, usage = os.wait4(self.pid, os.WNOHANG)
            if ended:
                self._process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu_s = usage.ru_utime + usage.ru_stime
        return self._process.returncode

    def send(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, None if it still runs after `timeout_s`."""
        until = time.monotonic() + timeout_s
        while self.poll() is None and time.monotonic() < until:
            time.sleep(_LOOK_S)
        return self._process.returncode

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.wait(_START_S)


@dataclass(frozen=True)
class Bus:
    """A running nats-server with JetStream."""

    url: str
    process: Process


@contextmanager
def serving_bus(folder: Path) -> Iterator[Bus]:
    """A nats-server on a free port of loopback, with its files in `folder`. NoBus."""
    program = shutil.which("nats-server", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if program is None:
        raise NoBus(NO_SERVER)
    folder.mkdir(parents=True, exist_ok=True)
    process = Process(
        [
            *(program, "-a", "127.0.0.1", "-p", "-1", "-js"),
            *("-sd", str(folder), "--ports_file_dir", str(folder)),
        ],
        folder / "nats-server.log",
    )
    try:
        until = time.monotonic() + _START_S
        while not (ports := _ports(folder)):
            if process.poll() is not None or time.monotonic() > until:
                raise NoBus(f"nats-server does not start: {process.log} says why")
            time.sleep(_LOOK_S)
        yield Bus(ports["nats"][0], process)
    finally:
        process.kill()


def _ports(folder: Path) -> dict[str, list[str]]:
    """What the server has written when it listens; empty before."""
    for path in folder.glob("*.ports"):
        try:
            ports: dict[str, list[str]] = json.loads(path.read_text())
        except ValueError:  # it is being written
            continue
        return ports
    return {}
