"""The common base of the debugging commands: fetch, view, shell, parse, check and bench.

They leave the crawl as it is: no archive, no report, nothing in JOBDIR, one process.
"""

from __future__ import annotations

import argparse
import logging
import sys
from tempfile import gettempdir
from typing import TYPE_CHECKING, Any, Self

from scrapy import Spider, signals
from scrapy.addons import AddonManager
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.spiderloader import get_spider_loader

from webcrawl.config.check import problems_of
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.scrapy_private import refuse_to_start

if TYPE_CHECKING:
    from scrapy.commands import ScrapyCommand as _Base
else:
    _Base = object

logger = logging.getLogger(__name__)

DELAY_S = 1.0  # between robots.txt and the one page that a person asks for, as with wget -w 1

SETTINGS: dict[str, Any] = {
    "CLOSESPIDER_PAGECOUNT": 0,
    "CLUSTER": "",
    "CLUSTER_CHECKPOINTS": None,
    "CLUSTER_HUBS": 1,
    "CRAWL_PROCESSES": 1,
    "FRONTIER_STORE": "memory",
    "RECRAWL": "off",
    "JOBDIR": None,
    "LIVE": 0,
    "WARC_ENABLED": False,
}


class DebugMark:
    """The first extension of a command's crawl: tells the others that this is no crawl.

    At the end a warning says why URLs have no answer. A person waits for the answer, and no crawl
    log has the reason.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        crawler.signals.connect(self.spider_closed, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        crawl_of(crawler).is_debugging = crawl_of(crawler).is_checked = True
        return cls(crawler)

    def spider_closed(self) -> None:
        counters = crawl_of(self._crawler).counters
        if counters is not None and (lost := +(counters.dropped + counters.kept)):
            reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(lost.items()))
            logger.warning("URLs without an answer: %s (docs/watching.md has all reasons)", reasons)


class DebugCommand(_Base):
    """Mixin of a command. SETTINGS override its command line; other settings there are kept."""

    delay_s = DELAY_S

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        super().process_options(args, opts)
        refuse_to_start()
        assert self.settings is not None
        AddonManager.load_pre_crawler_settings(self.settings)  # Scrapy does it after this method
        extensions = self.settings.getdict("EXTENSIONS_BASE") | {f"{__name__}.DebugMark": -1}
        for name, value in (SETTINGS | {"EXTENSIONS_BASE": extensions}).items():
            self.settings.set(name, value, priority="cmdline")
        _refuse_mistakes(self.settings, getattr(opts, "spider", None))
        # Unless the command line sets it.
        is_given = (self.settings.getpriority("DOWNLOAD_DELAY") or 0) >= SETTINGS_PRIORITIES[
            "cmdline"
        ]
        if self.is_short(opts) and not is_given:
            delay_s = min(self.settings.getfloat("DOWNLOAD_DELAY"), self.delay_s)
            self.settings.set("DOWNLOAD_DELAY", delay_s, priority="cmdline")

    def is_short(self, opts: argparse.Namespace) -> bool:
        """Whether the command asks for a page or two, so that a short delay is polite."""
        return True


def _refuse_mistakes(settings: BaseSettings, spider_name: str | None) -> None:
    """End the command if settings have mistakes, with a line for each wrong name or value."""
    spider: type[Spider] = Spider
    if spider_name:
        try:
            spider = get_spider_loader(settings).load(spider_name)
        except KeyError:
            return  # Scrapy reports it
    settings = settings.copy()
    # The user's may be folders that are not there.
    settings.setdict({"REPORT_DIR": "", "WARC_DIR": gettempdir()}, "cmdline")
    spider.update_settings(settings)
    if problems := problems_of(settings, spider):
        print(*problems, sep="\n", file=sys.stderr)
        raise SystemExit(2)
