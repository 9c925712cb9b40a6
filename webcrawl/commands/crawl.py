"""`scrapy crawl`: Scrapy's command, with a check of settings, names and seeds before a crawl.

A spider that is not a broad one runs as in plain Scrapy if its settings are usable. Its exit code
also reports errors of the frontier.
"""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches

from scrapy.commands import crawl

from webcrawl.commands import preflight
from webcrawl.commands.epilog import add_epilog
from webcrawl.config.scrapysown import refuse_unreadable, refuse_unusable
from webcrawl.scrapy_private import refuse_to_start
from webcrawl.spiders.broad import BroadSpider
from webcrawl.spiders.seeds import ACCEPTED


class Command(crawl.Command):
    """Runs a spider by its name; see `scrapy crawl --help`."""

    def long_desc(self) -> str:
        return f"{self.short_desc()}. Seeds of the broad spider: {ACCEPTED}."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        add_epilog(parser)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings is not None
        refuse_unreadable(
            self.settings, dict(each.split("=", 1) for each in opts.set if "=" in each)
        )
        super().process_options(args, opts)
        refuse_unusable(self.settings)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        refuse_to_start(log=bool(self.settings["LOG_FILE"]))
        if len(args) != 1:
            super().run(args, opts)  # reports the wrong arguments
            return
        assert self.crawler_process
        loader, name = self.crawler_process.spider_loader, args[0]
        if name not in (names := loader.list()):
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
            print(f"there is no spider {name!r}; {hint}", file=sys.stderr)
            self.exitcode = 2
            return
        spider = loader.load(name)
        refuse_unreadable(self.settings, spider.custom_settings)
        if issubclass(spider, BroadSpider):
            preflight.run(self, self._create_crawler(name), opts)
        elif not preflight.has_mistakes(self, spider):
            preflight.run_plain(self, self._create_crawler(name), opts)
