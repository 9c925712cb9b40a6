"""`scrapy top` beside a crawl: in a terminal, in a pipe, without a crawl."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.crawl.crawling import WAIT_S, Crawl, until
from tests.forked import Forked, python, running

pytestmark = pytest.mark.slow

WORLD = ("--hosts", "60", "--seeds", "60", "--pages-per-host", "300", "--features", "none")
SETTINGS = {"DOWNLOAD_DELAY": 5, "IP_DELAY": 0}
ESCAPES = re.compile(rb"\x1b(\[[0-?]*[ -/]*[@-~]|[()].|[=>78])")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return python("-m", "scrapy", "top", *arguments)


class Terminal:
    """`scrapy top` in a terminal of 24 lines."""

    def __init__(self, jobdir: Path, columns: int = 80, term: str = "xterm-256color") -> None:
        self._ours, theirs = pty.openpty()
        self.resize(columns, theirs)
        files = [os.ttyname(theirs)] * 3
        arguments = ("-m", "scrapy", "top", str(jobdir))
        self.process = Forked(arguments, files=files, env=os.environ | {"TERM": term})
        self._theirs = theirs  # a fork opens it itself
        self.shown = b""

    def resize(self, columns: int, terminal: int | None = None) -> None:
        size = struct.pack("HHHH", 24, columns, 0, 0)
        fcntl.ioctl(self._ours if terminal is None else terminal, termios.TIOCSWINSZ, size)

    def press(self, key: bytes) -> None:
        os.write(self._ours, key)

    def until(self, true: Callable[[], bool]) -> None:
        """Read what is shown until `true`."""
        until(lambda: true() or bool(self._read() and true()))

    def _read(self) -> bool:
        """Whether something was shown meanwhile."""
        if not select.select([self._ours], [], [], 0.05)[0]:
            return False
        try:
            self.shown += ESCAPES.sub(b"", os.read(self._ours, 65536))
        except OSError:  # the terminal has no process any more
            time.sleep(0.01)
            return False
        return True

    def wait(self) -> int:
        """The exit code, when everything that was shown has been read."""
        self.until(lambda: self.process.poll() is not None)
        while self._read():
            pass
        os.close(self._ours)
        os.close(self._theirs)
        return self.process.wait()


def test_top_shows_a_crawl_and_ends_with_it(tmp_path: Path) -> None:
    pytest.importorskip("webcrawl.live.server")
    jobdir = tmp_path / "job"
    with running(*WORLD) as web:
        crawl = Crawl(tmp_path, web=web, JOBDIR=jobdir, **SETTINGS)
        crawl.until("*** crawling")
        once = run(str(jobdir), "--once")
        assert once.returncode == 0, once.stderr
        for part in ("running", "pages/s", "Limit:", "Stage", "snoozed", "Largest queues"):
            assert part in once.stdout
        assert max(map(len, once.stdout.splitlines())) <= 80

        terminal = Terminal(jobdir)
        terminal.until(lambda: b"Slowest hosts" in terminal.shown)
        terminal.press(b"x")  # no command
        terminal.press(b"q")
        assert terminal.wait() == 0

        colourless = Terminal(jobdir, term="vt100")
        colourless.until(lambda: b"Slowest hosts" in colourless.shown)
        colourless.press(b"q")
        assert colourless.wait() == 0

        dumb = Terminal(jobdir, term="dumb")
        dumb.until(lambda: dumb.shown.count(b"Limit:") >= 2)
        dumb.process.send_signal(signal.SIGTERM)
        dumb.wait()

        watching = Terminal(jobdir, columns=200)
        out = tmp_path / "piped.txt"
        piped = Forked(("-m", "scrapy", "top", str(jobdir)), files=(os.devnull, out, out))
        until(lambda: "\n" in out.read_text())
        watching.until(lambda: b"Limit:" in watching.shown)
        watching.resize(60)
        crawl.interrupt()
        assert crawl.wait().exit_code == 0
        assert watching.wait() == 0
        assert piped.wait(WAIT_S) == 0
    output = out.read_text()
    assert re.search(
        rb"The crawl has ended(?: or was killed)?: [\d,]+ pages after \d+:\d\d:\d\d", watching.shown
    )
    assert "running" in output
    assert "The crawl has ended" in output.splitlines()[-1]
    assert "Traceback" not in output + watching.shown.decode("utf-8", "replace")


def test_without_a_crawl_top_says_so(tmp_path: Path) -> None:
    ended = run(str(tmp_path))
    assert ended.returncode == 1
    assert ended.stdout == ""
    assert len(ended.stderr.splitlines()) == 1
    assert str(tmp_path) in ended.stderr
