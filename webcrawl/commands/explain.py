"""`scrapy explain URL -s JOBDIR=...`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.components import scope_from
from webcrawl.frontier.database import StoreError
from webcrawl.frontier.disk import FOLDER
from webcrawl.frontier.inspection import Inspection
from webcrawl.parse.urls import canonicalize, host_of


class Command(ScrapyCommand):
    """Says what scope, frontier, robots.txt and clocks have to do with one URL."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<URL> -s JOBDIR=..."

    def short_desc(self) -> str:
        return "Say why a URL is fetched, refused or waiting"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        jobdir = self.settings.get("JOBDIR")
        if len(args) != 1 or not jobdir:
            raise UsageError("one URL, and the crawl's folder with -s JOBDIR=...")
        url = canonicalize(args[0])
        if url is None:
            raise UsageError(f"{args[0]} is no http(s) URL")
        print(url)
        refused = scope_from(self.settings).refuses(url, host_of(url))
        if refused:
            print(f"It is out of scope by {refused}, as the settings are now.")
        try:
            frontier = Inspection(Path(jobdir) / FOLDER)
        except StoreError as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
            return
        print(*frontier.explain(url, time.time()), sep="\n")
        frontier.close()
