"""Writes JOBDIR/crawl.json, by which other commands find what belongs to the crawl."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from webcrawl import __version__
from webcrawl.config.build import (
    hubs_from,
    job_folder,
    leads_crawl,
    report_folder,
    warc_folder,
)
from webcrawl.crawl.crawl import crawl_of
from webcrawl.report.card import FILE, Card, write_card
from webcrawl.wording import utc_now

logger = logging.getLogger(__name__)


class CrawlCard:
    """Writes the file when the spider opens. It stays after the end."""

    def __init__(self, crawler: Crawler, jobdir: Path) -> None:
        self._crawler = crawler
        self._jobdir = jobdir

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        jobdir = job_folder(crawler.settings)
        if jobdir is None or not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler, jobdir)
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        return extension

    def spider_opened(self, spider: Spider) -> None:
        crawl_id = crawl_of(self._crawler).crawl_id
        if not crawl_id:
            return  # the frontier could not be opened
        settings = self._crawler.settings
        card = Card(
            crawl=crawl_id,
            spider=spider.name,
            started=utc_now(),
            pid=os.getpid(),
            warc_dir=str(warc_folder(settings).absolute()),
            report_dir=str(report_folder(settings).absolute()),
            version=__version__,
            hubs=hubs_from(settings),
        )
        try:
            write_card(self._jobdir, card)
        except OSError as error:  # the frontier writes there as well, and will end the crawl
            logger.warning("JOBDIR: %s cannot be written: %s", FILE, error)
