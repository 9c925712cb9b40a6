"""`scrapy runspider`: Scrapy's command, with a check of settings, names and seeds before it."""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy import Spider
from scrapy.commands import runspider
from scrapy.utils.spider import iter_spider_classes

from webcrawl.commands.preflight import CheckedCommand
from webcrawl.crawl.scrapy_private import refuse_to_start


class Command(CheckedCommand, runspider.Command):
    """Runs the spider in one file; see `scrapy runspider --help`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        assert self.settings
        refuse_to_start(log=bool(self.settings["LOG_FILE"]))
        spider = _spider_in(args[0]) if len(args) == 1 else None
        if spider is None:
            super().run(args, opts)  # reports the wrong arguments
        else:
            self.crawl_with(spider, opts)


def _spider_in(file: str) -> type[Spider] | None:
    """The spider that Scrapy runs: the last one in `file`. None if the file has no spider."""
    try:
        spiders = list(iter_spider_classes(runspider._import_file(Path(file))))
    except (ImportError, ValueError):
        return None
    return spiders[-1] if spiders else None
