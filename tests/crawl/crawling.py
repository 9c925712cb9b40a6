"""Whole crawls as a user starts them: `scrapy crawl broad` in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from simweb import Running, faults
from tests.forked import Forked

ROOT = Path(__file__).parents[2]
STARTED: list[subprocess.Popen[bytes] | Forked] = []  # a test that fails leaves its crawl running
WAIT_S = 280  # for anything, on a busy machine; a test has 300
QUICK = {"DOWNLOAD_DELAY": 0.1, "IP_DELAY": 0.02, "DOWNLOAD_TIMEOUT": 5, "STATS_INTERVAL": 1}


@dataclass
class Result:
    """The output, log, report and files of a crawl that has ended."""

    exit_code: int
    output: str
    log: str
    folder: Path
    seconds: float

    @property
    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.folder / "warc" / "report.json").read_text())
        return report

    @property
    def warcs(self) -> list[Path]:
        return sorted((self.folder / "warc").glob("*.warc.gz"))


class Crawl:
    """A running crawl. `wait` for its end, or `interrupt` it.

    `within` is a command that runs the command behind it, as `env` does.
    """

    def __init__(
        self,
        folder: Path,
        *seeds: str,
        web: Running | None = None,
        spider: Sequence[str] = ("crawl", "broad"),
        program: Sequence[str] = ("scrapy",),
        within: Sequence[str] = (),
        stdin: bytes | None = None,
        **settings: Any,
    ) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        chosen: dict[str, Any] = QUICK | {"WARC_DIR": folder / "warc"}
        if web is not None:
            chosen |= {"DNS_SERVERS": web.dns, "ALLOW_PRIVATE_ADDRESSES": 1}
            if not seeds:
                (folder / "seeds.txt").write_text("\n".join(web.seeds))
                seeds = (str(folder / "seeds.txt"),)
        chosen |= settings
        arguments = ["-m", *program, *spider, "-a", f"seeds={','.join(seeds)}"]
        for name, value in chosen.items():
            arguments += ["-s", f"{name}={value}"]
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        self.started = time.monotonic()
        given = Path(os.devnull) if stdin is None else folder / "in.txt"
        if stdin is not None:
            given.write_bytes(stdin)
        for file in (self._out, self._err):
            file.unlink(missing_ok=True)  # workers of a killed crawl may still write to the old one
        self.process = self._start(arguments, given, within)
        STARTED.append(self.process)

    def _start(
        self, arguments: Sequence[str], stdin: Path, within: Sequence[str]
    ) -> subprocess.Popen[bytes] | Forked:
        if not within:
            return Forked(arguments, files=(stdin, self._out, self._err))
        with stdin.open("rb") as given, self._out.open("wb") as out, self._err.open("wb") as err:
            return subprocess.Popen(
                [*within, sys.executable, *arguments],
                cwd=ROOT, stdin=given, stdout=out, stderr=err,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )  # fmt: skip

    def output(self) -> str:
        return self._out.read_text()

    def until(self, text: str, times: int = 1) -> None:
        """Wait until `text` is on its standard output or in its log, `times` times."""
        self.until_true(lambda: (self.output() + self._err.read_text()).count(text) >= times)

    def until_again(self, text: str) -> None:
        """Wait until `text` comes once more."""
        self.until(text, (self.output() + self._err.read_text()).count(text) + 1)

    def until_true(self, condition: Callable[[], object]) -> None:
        """Wait until `condition` holds. It must before the crawl ends."""

        def holds() -> bool:
            if condition():
                return True
            assert self.process.poll() is None, self._err.read_text()[-3000:]
            return False

        until(holds, lambda: (self.output() + self._err.read_text())[-3000:])

    def interrupt(self) -> None:
        self.process.send_signal(signal.SIGINT)

    def interrupt_twice(self) -> None:
        """Interrupt, wait, interrupt again: two signals at once would count as one."""
        self.interrupt()
        self.until("Received SIGINT")
        self.interrupt()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def wait(self, seconds: float = WAIT_S) -> Result:
        """Wait until it has ended by itself."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the crawl does not end: {self.output()[-2000:]}") from None
        took_s = time.monotonic() - self.started
        return Result(code, self.output(), self._err.read_text(), self.folder, took_s)


def until(condition: Callable[[], object], tell: Callable[[], str] = str) -> None:
    """Wait until `condition` holds. A failure shows what `tell` returns."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"what the test waits for does not happen\n{tell()}"
        time.sleep(0.05)


def crawl(folder: Path, *seeds: str, **arguments: Any) -> Result:
    """Run a crawl to its end."""
    return Crawl(folder, *seeds, **arguments).wait()


def assert_clean(result: Result) -> None:
    """Assert that it ended with 0, and that the log has no error, with or without a traceback."""
    error = re.search(r".* ERROR: |Traceback", result.log)
    assert error is None, result.log[error.start() :][:4000]
    assert result.exit_code == 0, result.log[-4000:]


def assert_faultless(web: Running) -> dict[str, Any]:
    """Assert that the ledger has no violation and misses no page; return the ledger."""
    ledger = web.ledger()
    assert not faults(ledger), json.dumps(faults(ledger), indent=1)[:4000]
    return ledger


def wait_for_servers(port: int) -> None:
    """Wait until the servers of the simulated web have read all requests sent before.

    What a killed crawl has asked counts when it is read, and they may be behind. One loop reads
    in turn; what is no request is closed, and not in the ledger.
    """
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        connection.sendall(b"none\r\n\r\n")
        with suppress(ConnectionError):
            connection.recv(1)
