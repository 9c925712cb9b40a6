"""`scrapy crawl`: Scrapy's own, and for the broad spider a check of seeds and settings before.

A spider that is not a broad one runs as it does in plain Scrapy, if no setting is misspelt; the
exit code says of the frontier's errors, too.
"""

from __future__ import annotations

import argparse
import sys
from difflib import get_close_matches

from scrapy.commands import crawl

from webcrawl.commands import preflight
from webcrawl.spiders.broad import BroadSpider
from webcrawl.spiders.seeds import ACCEPTED


class Command(crawl.Command):
    """Runs one spider; see `scrapy crawl --help`."""

    def long_desc(self) -> str:
        return f"{self.short_desc()}. Seeds of the broad spider: {ACCEPTED}."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1:
            super().run(args, opts)  # which says what is wrong
            return
        assert self.crawler_process
        loader, name = self.crawler_process.spider_loader, args[0]
        if name not in (names := loader.list()):
            near = get_close_matches(name, names, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
            print(f"there is no spider {name!r}; {hint}", file=sys.stderr)
            self.exitcode = 2
        elif issubclass(loader.load(name), BroadSpider):
            preflight.run(self, self._create_crawler(name), opts)
        elif not preflight.misspelt(self, loader.load(name)):
            preflight.run_plain(self, self._create_crawler(name), opts)
