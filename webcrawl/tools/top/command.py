"""`scrapy top JOBDIR`: shows in a terminal what a running crawl does, once a second.

The terminal is drawn with curses, of the standard library. Without a terminal (a pipe, TERM=dumb)
each look is printed as a block of lines.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

from scrapy.exceptions import UsageError

from webcrawl.live.client import NotRunning, Refused, ask
from webcrawl.report.console import discard_output
from webcrawl.tools import command
from webcrawl.tools.top.screen import Line, duration, screen

try:
    import curses
except ImportError:  # Windows
    curses = None  # type: ignore[assignment]

INTERVAL_S: Final = 1.0

Snapshot = dict[str, Any]
Look = Callable[[], Snapshot]


class Command(command.Command):
    """Draws the snapshot of a crawl until the crawl ends, or the user presses q."""

    def syntax(self) -> str:
        return "<JOBDIR> [--once]"

    def long_desc(self) -> str:
        return (
            "pages per second, the stages and which of them is the limit,"
            " hosts by state, reasons of losses, memory and disk, the largest queues and the"
            " slowest hosts. Refreshes every second; q ends it. The crawl needs a JOBDIR."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--once", action="store_true", help="print one look and exit")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give one JOBDIR")
        jobdir = Path(args[0])

        def look() -> Snapshot:
            return cast("Snapshot", ask(jobdir, "GET", "/snapshot"))

        try:
            last = look()
            if opts.once:
                time.sleep(INTERVAL_S)  # rates are those since the look before
                show(look())
            else:
                end = _draw(look, last) if _has_terminal() else _print(look, last)
                print(end)
        except (NotRunning, Refused) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
        except KeyboardInterrupt:
            pass
        except BrokenPipeError:  # the reader of standard output has exited, as `head` does
            discard_output()


def show(snapshot: Snapshot) -> None:
    """Print one look, in full."""
    width = shutil.get_terminal_size().columns
    print(*(line.text.rstrip() for line in screen(snapshot, width)), sep="\n", flush=True)


def _print(look: Look, last: Snapshot) -> str:
    """Print blocks of lines until the crawl ends; the line to print then."""
    while True:
        show(last)
        print()
        time.sleep(INTERVAL_S)
        try:
            last = look()
        except NotRunning:
            return ended(last)
        except Refused:  # as in `_Terminal.run`
            last["state"] = "closing"


def _has_terminal() -> bool:
    if curses is None or not (sys.stdout.isatty() and sys.stdin.isatty()):
        return False
    try:
        curses.setupterm()
    except curses.error:  # TERM is unknown
        return False
    return curses.tigetstr("cup") is not None  # the cursor can be moved


def _draw(look: Look, last: Snapshot) -> str:
    """Draw the screen until the crawl ends or q is pressed; the line to print then."""
    return curses.wrapper(lambda window: _Terminal(window).run(look, last))


class _Terminal:
    """A terminal in curses' hands."""

    def __init__(self, window: curses.window) -> None:
        self._window = window
        for prepare in (curses.use_default_colors, partial(curses.curs_set, 0)):
            try:
                prepare()
            except curses.error:  # this terminal has no colours, or cannot hide its cursor
                pass
        self._styles = {
            "": curses.A_NORMAL,
            "title": curses.A_REVERSE,
            "head": curses.A_BOLD,
            "limit": curses.A_BOLD,
        }

    def run(self, look: Look, last: Snapshot) -> str:
        next_at = time.monotonic() + INTERVAL_S
        while True:
            self._draw(last)
            self._window.timeout(max(int(1000 * (next_at - time.monotonic())), 0))
            key = self._window.getch()
            if key in (ord("q"), ord("Q")):
                return ""
            if key != -1:  # another key, or a new size: draw again
                continue
            next_at = time.monotonic() + INTERVAL_S
            try:
                last = look()
            except NotRunning:
                return ended(last)
            except Refused:  # its frontier is closed: the crawl is about to end
                last["state"] = "closing"

    def _draw(self, snapshot: Snapshot) -> None:
        height, width = self._window.getmaxyx()
        self._window.erase()
        lines: list[Line] = screen(snapshot, width, height)
        for row, line in enumerate(lines):
            try:
                self._window.addnstr(row, 0, line.text, width, self._styles[line.style])
            except curses.error:  # the cursor cannot move behind the last cell
                pass
        self._window.refresh()


def ended(last: Snapshot) -> str:
    """The line for a crawl that does not answer any more, after its last snapshot.

    A crawl that ends between two looks cannot be told from one that was killed.
    """
    pages, elapsed_s = last["counts"].get("crawled", 0), last["elapsed_s"]
    end = "has ended" if last["state"] == "closing" else "has ended or was killed"
    return f"The crawl {end}: {pages:,.0f} pages after {duration(elapsed_s)}."
