"""A simulated web in a process of its own, for tests and benchmarks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any
from urllib.request import ProxyHandler, build_opener


@dataclass(frozen=True)
class Running:
    """A running web. `dns` is the value for the crawler's DNS_SERVERS."""

    dns: str
    port: int
    https: int
    control: str
    pid: int

    def ledger(self) -> dict[str, Any]:
        """The report so far."""
        report: dict[str, Any] = json.loads(self.ask("/ledger"))
        return report

    def totals(self) -> dict[str, int]:
        """The totals of the report so far: quick, for those who ask often."""
        totals: dict[str, int] = json.loads(self.ask("/totals"))
        return totals

    def latest(self) -> list[tuple[float, str, str, str]]:
        """The latest requests: when (monotonic seconds), method, host, target."""
        return [tuple(each) for each in json.loads(self.ask("/latest"))]

    @property
    def seeds(self) -> list[str]:
        return self.ask("/seeds").decode().splitlines()

    def reset(self) -> None:
        """Begins a new ledger."""
        self.ask("/reset")

    def hold(self, pages: int) -> None:
        """Give no answer any more when so many pages have been asked for, until `release`."""
        self.ask(f"/hold?{pages}")

    def release(self) -> None:
        self.ask("/release")

    def ask(self, path: str) -> bytes:
        """A page of the control port."""
        # A proxy of the environment is not used.
        with build_opener(ProxyHandler({})).open(self.control + path, timeout=300) as reply:
            body: bytes = reply.read()
            return body


@contextmanager
def running(*arguments: str) -> Iterator[Running]:
    """Runs `python -m simweb` with these arguments until the end of the block."""
    command = [sys.executable, "-m", "simweb", *arguments]
    pipe = subprocess.PIPE
    # In its own process group: Ctrl-C stops the caller only, which may still read the ledger.
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, process_group=0) as process:
        assert process.stdin
        assert process.stdout
        with started(process.pid, process.stdin, process.stdout) as web:
            yield web


@contextmanager
def started(pid: int, stdin: IO[bytes], stdout: IO[bytes]) -> Iterator[Running]:
    """Waits until the process of a simulated web serves, and ends it with the block."""
    try:
        line = stdout.readline()
        if not line:
            raise RuntimeError("the simulated web did not start")
        ready = json.loads(line)
        yield Running(ready["dns"], ready["port"], ready["https"], ready["control"], pid)
    finally:
        stdin.close()
        stdout.read()
