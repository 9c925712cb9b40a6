"""`scrapy runspider`: Scrapy's own, and for a broad spider a check of seeds and settings before.

A spider that is not a broad one runs as it does in plain Scrapy, if no setting is misspelt; the
exit code says of the frontier's errors, too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy import Spider
from scrapy.commands import runspider
from scrapy.utils.spider import iter_spider_classes

from webcrawl.commands import preflight
from webcrawl.spiders.broad import BroadSpider


class Command(runspider.Command):
    """Runs the spider in one file; see `scrapy runspider --help`."""

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        spider = _spider_in(args[0]) if len(args) == 1 else None
        if spider is not None and issubclass(spider, BroadSpider):
            preflight.run(self, self._create_crawler(spider), opts)
        elif spider is None:
            super().run(args, opts)  # which says what is wrong
        elif not preflight.misspelt(self, spider):
            preflight.run_plain(self, self._create_crawler(spider), opts)


def _spider_in(file: str) -> type[Spider] | None:
    """The spider that Scrapy would run: the last in `file`."""
    try:
        spiders = list(iter_spider_classes(runspider._import_file(Path(file))))
    except (ImportError, ValueError):
        return None
    return spiders[-1] if spiders else None
