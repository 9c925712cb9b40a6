"""`scrapy frontier JOBDIR`: what is in a crawl's frontier, also while the crawl runs."""

from __future__ import annotations

import argparse
import sys
import time
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

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        parser.add_argument("--export", metavar="FILE", help="write the pending URLs; - for here")

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            raise UsageError("one JOBDIR, please")
        try:
            frontier = Inspection(Path(args[0]) / FOLDER)
        except StoreError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        urls = (f"{url}\n" for _, url in frontier.pending())
        if opts.export == "-":
            sys.stdout.writelines(urls)
        elif opts.export:
            with open(opts.export, "w", encoding="utf-8") as out:
                out.writelines(urls)
        else:
            print(*frontier.summary(time.time()), sep="\n")
        frontier.close()
