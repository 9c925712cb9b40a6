"""`scrapy crawl`: Scrapy's own, and for the broad spider a check of seeds and settings before.

The exit code says how a crawl went: 1 for a bad seed or an error, 2 for a setting that cannot be
used. A spider that is not a broad one runs as it does in plain Scrapy.
"""

from __future__ import annotations

import argparse
import logging
import sys

from scrapy.commands import crawl
from scrapy.crawler import Crawler

from webcrawl.settings_check import check
from webcrawl.spiders.broad import BroadSpider, project_root
from webcrawl.spiders.seeds import ACCEPTED, BadSeed, SeedSource

logger = logging.getLogger(__name__)


class Command(crawl.Command):
    """Runs one spider; see `scrapy crawl --help`."""

    def long_desc(self) -> str:
        return f"{self.short_desc()}. Seeds of the broad spider: {ACCEPTED}."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) != 1 or not self._is_broad(args[0]):
            super().run(args, opts)
            return
        crawler = self._create_crawler(args[0])
        if problems := check(crawler.settings):
            self._end(2, crawler, *problems)
            return
        try:
            opts.spargs["seeds"] = _checked_seeds(opts.spargs.get("seeds", ""))
        except BadSeed as error:
            self._end(1, crawler, f"bad seed: {error}")
            return
        except KeyboardInterrupt:  # while it waited for standard input
            self.exitcode = 130
            return
        self._crawl(crawler, opts)

    def _is_broad(self, name: str) -> bool:
        assert self.crawler_process
        loader = self.crawler_process.spider_loader
        return name in loader.list() and issubclass(loader.load(name), BroadSpider)

    def _crawl(self, crawler: Crawler, opts: argparse.Namespace) -> None:
        assert self.crawler_process
        self.crawler_process.crawl(crawler, **opts.spargs)
        self.crawler_process.start()
        if self.crawler_process.bootstrap_failed:
            self.exitcode = 1
            return
        reason = crawler.stats.get_value("finish_reason", "")
        if reason == "bad_seed":
            self._end(1, crawler, f"bad seed: {_shortfall(crawler)}")
        elif reason.endswith("error"):
            self._end(1, crawler, f"the crawl ended by an error: {reason}")

    def _end(self, exitcode: int, crawler: Crawler, *lines: str) -> None:
        """Say what is wrong: on standard error always, and in the log where that is a file."""
        self.exitcode = exitcode
        for line in lines:
            print(line, file=sys.stderr)
            if crawler.settings.get("LOG_FILE"):
                logger.error("%s", line)


def _checked_seeds(spec: str) -> SeedSource:
    """The seeds, of which one at least is known to be usable. The spider reads on from there."""
    source = SeedSource(spec, project_root())
    source.check()
    return source


def _shortfall(crawler: Crawler) -> str:
    """How far a crawl came whose frontier emptied too early."""
    target = crawler.settings.getint("CLOSESPIDER_PAGECOUNT")
    crawled = crawler.stats.get_value("webcrawl/crawled", 0)
    return (
        f"the frontier emptied after {crawled} of {target} pages" if target else "none is in scope"
    )
