"""`scrapy crawl`: Scrapy's command, with a check of settings, names and seeds before a crawl."""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches

from scrapy.commands import crawl
from scrapy.exceptions import UsageError

from webcrawl.commands.preflight import CheckedCommand
from webcrawl.crawl.scrapy_private import refuse_to_start
from webcrawl.spiders.seeds import ACCEPTED


class Command(CheckedCommand, crawl.Command):
    """Runs a spider by its name; see `scrapy crawl --help`."""

    def long_desc(self) -> str:
        return f"{self.short_desc()}. Seeds of the broad spider: {ACCEPTED}."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        refuse_to_start(log=bool(self.settings["LOG_FILE"]))
        if len(args) > 1:
            raise UsageError(f"{args} is not one spider and known options; seeds are -a seeds=FILE")
        if not args:
            super().run(args, opts)  # prints the help
            return
        assert self.crawler_process
        loader, name = self.crawler_process.spider_loader, args[0]
        if name in (names := loader.list()):
            self.crawl_with(loader.load(name), opts)
            return
        near = get_close_matches(name, names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
        print(f"there is no spider {name!r}; {hint}", file=sys.stderr)
        self.exitcode = 2
