"""`scrapy frontier JOBDIR`: what is in a crawl's frontier, also while the crawl runs; and URLs that
are kept for a later try, back into line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.fetch.exchange import TRANSIENT
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk.frontier import FOLDER, RETRY, DiskFrontier, InUseError
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError

REASONS = TRANSIENT | {"host_retired", "robots_unreachable"}  # for which URLs are kept
WAIT_S = 10.0  # for a crawl that runs to take a request


class Command(ScrapyCommand):
    """Prints hosts by state, pending URLs by level and the largest queues; or all pending URLs."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<JOBDIR> [--export FILE | --retry REASONS]"

    def short_desc(self) -> str:
        return "Show what is in the frontier of a crawl"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}: its pages, its hosts by state, its pending URLs by level and"
            " the hosts with the most of them. Works while the crawl runs, and shows it as of the"
            " last commit; nothing is changed, unless --retry is given."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--export",
            metavar="FILE",
            help="write the pending URLs, a line each, to FILE, or with - to standard output",
        )
        parser.add_argument(
            "--retry",
            metavar="REASONS",
            help="put URLs that are kept for a later try into line at once: those kept for one of"
            f" these reasons, or all. Reasons: {', '.join(sorted(REASONS))}",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("one JOBDIR, please")
        reasons = REASONS if opts.retry == "all" else frozenset(_words(opts.retry))
        if unknown := reasons - REASONS:
            known = ", ".join(sorted(REASONS))
            raise UsageError(f"--retry {', '.join(unknown)}: known are {known}, and all")
        try:
            if reasons:
                print(_retry(Path(args[0]), reasons))
                return
            frontier = Inspection(Path(args[0]) / FOLDER)
            if opts.export:
                _write(opts.export, (f"{url}\n" for _, url in frontier.pending()))
            else:
                print(*frontier.summary(time.time()), sep="\n")
            frontier.close()
        except BrokenPipeError:  # whoever read it has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except (StoreError, OSError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1


def _words(text: str | None) -> list[str]:
    return [word.strip() for word in (text or "").split(",") if word.strip()]


def _retry(jobdir: Path, reasons: frozenset[str]) -> str:
    """Put what is kept for `reasons` into line; what to say of it. StoreError."""
    look = Inspection(jobdir / FOLDER)
    settings, order = look.settings, ORDERINGS[look.order]()
    look.close()
    now = time.monotonic()
    try:
        frontier = DiskFrontier(
            jobdir,
            Policy(politeness=Politeness(0.0, 0.0)),  # the next run makes its hosts wait
            ordering=order,
            identity=settings,
            now=now,
            utc_s=time.time() - now,
        )
    except InUseError:
        return _ask_crawl(jobdir / RETRY, reasons)
    try:
        return f"{frontier.retry(reasons, now):,} URLs are in line again"
    finally:
        asyncio.run(frontier.close())


def _ask_crawl(request: Path, reasons: frozenset[str]) -> str:
    """Have the crawl that runs do it."""
    request.write_text(" ".join(sorted(reasons)), "utf-8")
    deadline = time.monotonic() + WAIT_S
    while request.exists():
        if time.monotonic() > deadline:  # it waits for its network, or is about to end
            return "The crawl that runs puts them into line when it goes on, or its next run does"
        time.sleep(0.05)
    return "The crawl that runs puts them into line now"


def _write(path: str, lines: Iterable[str]) -> None:
    if path == "-":
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(lines)
