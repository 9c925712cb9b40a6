"""`scrapy runspider`: Scrapy's command, with a check of settings, names and seeds before a crawl.

A spider that is not a broad one runs as in plain Scrapy if its settings are usable. Its exit code
also reports errors of the frontier.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy import Spider
from scrapy.commands import runspider
from scrapy.utils.spider import iter_spider_classes

from webcrawl.commands import preflight
from webcrawl.commands.epilog import add_epilog
from webcrawl.config.scrapysown import refuse_unreadable, refuse_unusable
from webcrawl.scrapy_private import refuse_to_start
from webcrawl.spiders.broad import BroadSpider


class Command(runspider.Command):
    """Runs the spider in one file; see `scrapy runspider --help`."""

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
        spider = _spider_in(args[0]) if len(args) == 1 else None
        refuse_unreadable(self.settings, spider.custom_settings if spider else None)
        if spider is not None and issubclass(spider, BroadSpider):
            preflight.run(self, self._create_crawler(spider), opts)
        elif spider is None:
            super().run(args, opts)  # reports the wrong arguments
        elif not preflight.has_mistakes(self, spider):
            preflight.run_plain(self, self._create_crawler(spider), opts)


def _spider_in(file: str) -> type[Spider] | None:
    """The spider that Scrapy runs: the last one in `file`. None if the file has no spider."""
    try:
        spiders = list(iter_spider_classes(runspider._import_file(Path(file))))
    except (ImportError, ValueError):
        return None
    return spiders[-1] if spiders else None
