"""`scrapy frontier JOBDIR`: what is in a crawl's frontier, also while the crawl runs."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.frontier.database import StoreError
from webcrawl.frontier.disk import FOLDER
from webcrawl.frontier.inspection import Inspection


class Command(ScrapyCommand):
    """Prints hosts by state, pending URLs by level and the largest queues; or all pending URLs."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<JOBDIR> [--export FILE]"

    def short_desc(self) -> str:
        return "Show what is in the frontier of a crawl"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}: its pages, its hosts by state, its pending URLs by level and"
            " the hosts with the most of them. Works while the crawl runs, and shows it as of the"
            " last commit; nothing is changed."
        )

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument(
            "--export",
            metavar="FILE",
            help="write the pending URLs, a line each, to FILE, or with - to standard output",
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("one JOBDIR, please")
        try:
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


def _write(path: str, lines: Iterable[str]) -> None:
    if path == "-":
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    with open(path, "w", encoding="utf-8") as out:
        out.writelines(lines)
