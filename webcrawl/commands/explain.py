"""`scrapy explain URL -s JOBDIR=...`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl.config.explanation import SCOPE_SETTINGS, explained
from webcrawl.config.kinds import SettingError
from webcrawl.crawl.steeringfile import SteeringFileError
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError
from webcrawl.parse.urls import canonicalize
from webcrawl.scope import ScopeError


class Command(ScrapyCommand):
    """Prints how scope, caps, robots.txt, the queue and the delays have decided on one URL."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<URL> -s JOBDIR=..."

    def short_desc(self) -> str:
        return "Explain why a URL was fetched, refused or is waiting"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}: its outcome and the time, the scope rule, cap or robots.txt"
            " rule that decided, the rules of its host (RULES), its level, the page it was found"
            " on, its place in the queue, and when its host may be asked next. Times are UTC. Reads"
            " the last commit, also while the crawl runs, and changes nothing."
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        settings = cast("Settings", self.settings)
        if len(args) != 1 or not settings.get("JOBDIR"):
            raise UsageError("give one URL, and the folder of the crawl with -s JOBDIR=...")
        url = canonicalize(args[0])
        if url is None:
            raise UsageError(f"{args[0]} is not an http(s) URL", print_help=False)
        try:
            frontier = Inspection(Path(settings["JOBDIR"]) / FOLDER)
            # Of the crawl's last run, whose command line may have set them.
            for name in SCOPE_SETTINGS & frontier.settings.keys():
                settings.set(name, frontier.settings[name], "cmdline")
            print(*explained(settings, frontier, url), sep="\n")
            frontier.close()
        except (StoreError, ScopeError, SettingError, SteeringFileError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
