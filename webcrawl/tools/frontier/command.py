"""`scrapy frontier JOBDIR`: prints a summary of a crawl's frontier, also while the crawl runs.

With `--retry` it also queues URLs again that are kept for a later try, with `--set-clock` it sets
times back that are ahead of the machine's clock, and with `--forget` it takes a command back.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from scrapy.exceptions import UsageError

from webcrawl.base.textfile import named_folder
from webcrawl.config.build import hub_in, utc_offset_s
from webcrawl.crawl.keptcommands import shown, steered_by
from webcrawl.crawl.steering import KEPT_REASONS, SteeringError, kept_reasons
from webcrawl.frontier.base import Policy
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.clock import set_back
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.folderlock import InUseError
from webcrawl.frontier.disk.frontier import FOLDER, JobFolder, LocalFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError
from webcrawl.live.client import NotRunning, Refused, ask_for
from webcrawl.tools import command


class Command(command.Command):
    """Prints hosts by status, queued URLs by level and the largest queues; or all queued URLs."""

    arguments = "<JOBDIR> [--export FILE | --retry REASONS | --set-clock | --forget N]"
    about = (
        "pages, hosts by status, queued URLs by level, and the hosts with the most queued URLs."
        " Reads the last commit, also while the crawl runs, and changes nothing without"
        " --retry, --set-clock or --forget."
    )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--export",
            metavar="FILE",
            help="write the queued URLs to FILE, one per line; - is standard output",
        )
        parser.add_argument(
            "--retry",
            metavar="REASONS",
            help="queue URLs again at once that are kept for a later try; REASONS is all, or some"
            f" of {', '.join(sorted(KEPT_REASONS))}",
        )
        parser.add_argument(
            "--set-clock",
            action="store_true",
            help="after a run by a clock that was ahead: set the times of the crawl back that are"
            " ahead of this machine's clock. Stop the crawl first",
        )
        parser.add_argument(
            "--forget",
            metavar="N",
            type=int,
            help="take back the command of `scrapy ctl` with the number N. Stop the crawl first",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("give one JOBDIR")
        jobdir = named_folder(args[0])
        try:
            reasons = kept_reasons([opts.retry or ""])
        except SteeringError as error:
            raise UsageError(f"--{error}") from None
        try:
            if reasons:
                print(_retry(jobdir, reasons))
                return
            if opts.set_clock:
                print(_changed(jobdir, lambda database: set_back(database, time.time())))
                return
            if opts.forget is not None:
                print(_changed(jobdir, lambda database: _forget(database, opts.forget)))
                return
            frontier = Inspection(jobdir / FOLDER)
            if opts.export:
                _write(opts.export, (f"{url}\n" for _, url in frontier.pending()))
            else:
                lines = [*_which_hub(jobdir), *frontier.summary(time.time())]
                print(*lines, *_commands(frontier), sep="\n")
            frontier.close()
        except StoreError as error:
            self.fail(error, 1)


def _which_hub(jobdir: Path) -> list[str]:
    """A line in a crawl with several hubs: this frontier is a part of the crawl's. StoreError."""
    claim = hub_in(jobdir)
    return [f"Hub {claim.number} of the {claim.hubs} hubs of {claim.crawl}"] if claim else []


def _commands(frontier: Inspection) -> list[str]:
    """Lines for the commands that later runs obey."""
    lines = [
        f"{number:10,} {shown(each.command, each.arguments)}, from {each.time}"
        for number, each in enumerate(steered_by(frontier.commands()).commands, 1)
    ]
    return ["", "Commands of scrapy ctl, which --forget takes back", *lines] if lines else []


def _forget(database: Database, number: int) -> str:
    """Take command `number` back, and return the line to print. StoreError."""
    kept = [key for key, _ in database.rows(rows.COMMAND)]
    if not 0 < number <= len(kept):
        raise StoreError(f"there is no command {number}")
    database.delete(kept[number - 1])
    database.commit()
    return f"Command {number} is taken back"


def _changed(jobdir: Path, change: Callable[[Database], str]) -> str:
    """Change the rows of a crawl that does not run, and return the line to print. StoreError."""
    if not (jobdir / FOLDER).exists():
        raise StoreError(f"{jobdir} has no frontier")
    folder = JobFolder(jobdir)
    try:
        database = Database(jobdir / FOLDER)
        try:
            return change(database)
        finally:
            database.close()
    finally:
        folder.close()


def _retry(jobdir: Path, reasons: frozenset[str]) -> str:
    """Queue the URLs kept for `reasons` again, and return the line to print. StoreError."""
    inspection = Inspection(jobdir / FOLDER)
    settings, order = inspection.settings, ORDERINGS[inspection.order]()
    inspection.close()
    now = time.monotonic()
    try:
        frontier = LocalFrontier(
            jobdir,
            Policy(politeness=Politeness(0.0, 0.0)),  # no host is asked here
            ordering=order,
            identity=settings,
            now=now,
            utc_s=utc_offset_s(),
        )
    except InUseError:
        return _ask_crawl(jobdir, reasons)

    async def retry() -> int:
        try:
            return await frontier.retry(reasons, now)
        finally:
            await frontier.close()

    return f"{asyncio.run(retry()):,} URLs are queued again"


def _ask_crawl(jobdir: Path, reasons: frozenset[str]) -> str:
    """The answer of the crawl that runs in `jobdir`. StoreError."""
    body = {"command": "retry", "arguments": sorted(reasons)}
    try:
        return ask_for(jobdir, "/command", body)
    except (NotRunning, Refused) as error:
        raise StoreError(str(error)) from None


def _write(path: str, lines: Iterable[str]) -> None:
    if path == "-":
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    try:
        with open(path, "w", encoding="utf-8") as out:
            out.writelines(lines)
    except OSError as error:
        error.filename = path  # a full disk has none
        raise
