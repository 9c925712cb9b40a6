"""`scrapy crawl`: Scrapy's own, and for the broad spider a check of seeds and settings before.

A spider that is not a broad one runs as it does in plain Scrapy.
"""

from __future__ import annotations

import argparse

from scrapy.commands import crawl

from webcrawl import checked_crawl
from webcrawl.spiders.broad import BroadSpider
from webcrawl.spiders.seeds import ACCEPTED


class Command(crawl.Command):
    """Runs one spider; see `scrapy crawl --help`."""

    def long_desc(self) -> str:
        return f"{self.short_desc()}. Seeds of the broad spider: {ACCEPTED}."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) == 1 and self._is_broad(args[0]):
            checked_crawl.run(self, self._create_crawler(args[0]), opts)
        else:
            super().run(args, opts)

    def _is_broad(self, name: str) -> bool:
        assert self.crawler_process
        loader = self.crawler_process.spider_loader
        return name in loader.list() and issubclass(loader.load(name), BroadSpider)
