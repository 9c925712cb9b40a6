"""`scrapy top JOBDIR`: asks a running crawl for its snapshot once a second, and draws it.

Without a terminal (a pipe, TERM=dumb) each snapshot is printed as a block of lines.
"""

from __future__ import annotations

import argparse
import os
import sys
import termios
import time
import tty
from collections.abc import Callable
from pathlib import Path
from select import select
from typing import Any, Final, cast

from rich.console import Console
from rich.live import Live
from scrapy.exceptions import UsageError

from webcrawl.base.textfile import named_folder
from webcrawl.live.client import NotRunning, Refused, ask
from webcrawl.tools import command
from webcrawl.tools.top.screen import console, duration, screen

INTERVAL_S: Final = 1.0

Snapshot = dict[str, Any]
Show = Callable[[Snapshot], bool]  # shows a snapshot for INTERVAL_S; whether the user presses q


class Command(command.Command):
    """Draws the snapshot of a crawl until the crawl ends, or the user presses q."""

    arguments = "<JOBDIR> [--once]"
    about = (
        "pages per second, the stages and which of them is the limit, hosts by state, reasons"
        " of losses, memory and disk, the largest queues and the slowest hosts. Refreshes every"
        " second; q ends it. The crawl needs a JOBDIR."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--once", action="store_true", help="print one snapshot and exit")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give one JOBDIR")
        jobdir, terminal = named_folder(args[0]), console()
        try:
            first = _ask(jobdir)
            if opts.once:
                time.sleep(INTERVAL_S)  # rates are those since the snapshot before
                terminal.print(screen(_ask(jobdir)))
            elif terminal.is_terminal and not terminal.is_dumb_terminal and sys.stdin.isatty():
                print(_draw(terminal, jobdir, first))
            else:
                print(_until_end(lambda each: _print(terminal, each), jobdir, first))
        except (NotRunning, Refused) as error:
            self.fail(error, 1)
        except KeyboardInterrupt:
            pass


def _ask(jobdir: Path) -> Snapshot:
    return cast("Snapshot", ask(jobdir, "GET", "/snapshot"))


def _until_end(show: Show, jobdir: Path, last: Snapshot) -> str:
    """Show snapshots until the crawl ends or q is pressed; the line to print then."""
    while not show(last):
        try:
            last = _ask(jobdir)
        except NotRunning:
            return ended(last)
        except Refused:  # its frontier is closed: the crawl is about to end
            last["state"] = "closing"
    return ""


def _print(terminal: Console, snapshot: Snapshot) -> bool:
    terminal.print(screen(snapshot), "")
    time.sleep(INTERVAL_S)
    return False


def _draw(terminal: Console, jobdir: Path, first: Snapshot) -> str:
    keys = sys.stdin.fileno()
    before = termios.tcgetattr(keys)
    try:
        tty.setcbreak(keys)  # a key comes at once, and is not shown
        with Live(console=terminal, screen=True, auto_refresh=False) as live:

            def show(snapshot: Snapshot) -> bool:
                live.update(screen(snapshot), refresh=True)
                is_pressed = select([keys], [], [], INTERVAL_S)[0]
                return bool(is_pressed) and os.read(keys, 1) in (b"q", b"Q")

            return _until_end(show, jobdir, first)
    finally:
        termios.tcsetattr(keys, termios.TCSADRAIN, before)


def ended(last: Snapshot) -> str:
    """The line for a crawl that does not answer any more, after its last snapshot.

    A crawl that ends between two snapshots cannot be told from one that was killed.
    """
    pages, elapsed_s = last["counts"].get("crawled", 0), last["elapsed_s"]
    end = "has ended" if last["state"] == "closing" else "has ended or was killed"
    return f"The crawl {end}: {pages:,.0f} pages after {duration(elapsed_s)}."
