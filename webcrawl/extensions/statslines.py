"""Prints the stats lines and the summary of a crawl, and copies every number to Scrapy's stats.

A separate thread prints the lines. So they are printed on time even if the event loop is busy, and
a full pipe blocks nothing else. The thread only reads `Counters`. Scrapy's stats are a plain dict
that other components iterate over, so only the event loop writes them.
"""

from __future__ import annotations

import logging
import threading
from time import monotonic
from typing import Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.statscollectors import StatsCollector
from scrapy.utils.asyncio import create_looping_call

from webcrawl.config.build import leads_crawl
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.counters import Counters
from webcrawl.report.console import Say, console_from, is_full
from webcrawl.report.lines import (
    LEGEND,
    LEGEND_OF_WHOLE,
    OutageLines,
    held_lines,
    named_counts,
    named_rates,
    outcome_line,
    per_second,
    speed_line,
    stats_line,
    summary,
    whole_line,
    whole_summary,
)

logger = logging.getLogger(__name__)

SUMMARY_TIMEOUT_S = 2.0  # longest wait for the reader of a full pipe, at the end


class StatsLines:
    """Prints lines `interval_s`, 2 * `interval_s`... after its start; with 0 the summary only.

    The legend comes before the first line. A late line delays no other line. A line is skipped once
    the time of the next one has come.
    """

    def __init__(self, crawler: Crawler, interval_s: float, say: Say) -> None:
        self._crawler = crawler
        self._interval_s = interval_s
        self._say = say
        self._counters = Counters()  # the crawl's, once it has begun
        self._started_at = 0.0
        self._pages_per_s = self._mbps = 0.0  # in the last interval
        self._stopped = threading.Event()
        self._summary: tuple[str, ...] = ()
        self._thread: threading.Thread | None = None
        self._mirror = create_looping_call(self._update_stats)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not leads_crawl(crawler):
            raise NotConfigured
        extension = cls(crawler, read(settings, "STATS_INTERVAL", float), console_from(settings))
        crawler.signals.connect(extension.spider_opened, signals.spider_opened)
        crawler.signals.connect(extension.spider_closed, signals.spider_closed)
        return extension

    def spider_opened(self) -> None:
        crawl = crawl_of(self._crawler)
        if crawl.counters is None:
            if crawl.scheduler is None:
                logger.warning("No stats lines: SCHEDULER is not webcrawl.scheduler.Scheduler")
            return
        self._counters = crawl.counters
        self._started_at = monotonic()
        self._thread = threading.Thread(target=self._print, name="stats-lines", daemon=True)
        self._thread.start()
        if self._interval_s:
            self._mirror.start(self._interval_s, now=False)

    def spider_closed(self, spider: Spider) -> None:
        if self._thread is None:
            return
        if self._mirror.running:
            self._mirror.stop()
        counters, elapsed_s = self._counters, self._elapsed_s()
        whole = crawl_of(self._crawler).totals
        lines = whole_summary(whole) if whole is not None else []
        self._summary = ("", *summary(counters, elapsed_s), *lines)
        self._stopped.set()
        self._thread.join(SUMMARY_TIMEOUT_S)
        while self._thread.is_alive() and not is_full():  # a busy machine has not let it run
            self._thread.join(SUMMARY_TIMEOUT_S)
        self._update_stats()
        _set_all(self._crawler.stats, named_rates(counters, elapsed_s))
        logger.info("%s", outcome_line(counters, elapsed_s), extra={"spider": spider})
        if whole is not None:
            said = outcome_line(whole.counters, whole.elapsed_s)
            logger.info("The whole crawl: %s", said, extra={"spider": spider})

    def _elapsed_s(self) -> float:
        """Seconds of all runs."""
        return monotonic() - self._started_at + self._counters.earlier_s

    def _update_stats(self) -> None:
        stats = self._crawler.stats
        _set_all(stats, named_counts(self._counters))
        stats.set_value("webcrawl/elapsed_s", self._elapsed_s())
        stats.set_value("webcrawl/pages_per_s", self._pages_per_s)
        stats.set_value("webcrawl/mbps", self._mbps)

    def _print(self) -> None:
        """The thread's work."""
        counters, interval_s = self._counters, self._interval_s
        legend: tuple[str, ...] = LEGEND
        last_at, last_pages, last_bits = self._started_at, counters.crawled, 8 * counters.wire_bytes
        outage, held = OutageLines(counters.outage_s), ""
        tick = int(counters.earlier_s / interval_s) + 1 if interval_s else 1
        while not self._stopped.wait(tick * interval_s - self._elapsed_s() if interval_s else None):
            now, pages, bits = monotonic(), counters.crawled, 8 * counters.wire_bytes
            new_pages, new_bits, over_s = pages - last_pages, bits - last_bits, now - last_at
            whole = crawl_of(self._crawler).totals  # none before the hub's extension opens
            if legend:
                legend = (*legend, *([LEGEND_OF_WHOLE] if whole is not None else []), "")
            self._say(
                *legend,
                *outage.next(counters.outage_s, now),
                *held_lines(held, held := crawl_of(self._crawler).held),
                stats_line(now - self._started_at + counters.earlier_s, counters),
                speed_line(new_pages, new_bits, over_s),
                *([whole_line(whole)] if whole is not None else []),
            )
            legend = ()
            self._pages_per_s = per_second(new_pages, over_s)
            self._mbps = per_second(new_bits, over_s) / 1e6
            last_at, last_pages, last_bits = now, pages, bits
            tick = max(tick, int(self._elapsed_s() / interval_s)) + 1
        self._say(*self._summary)


def _set_all(stats: StatsCollector, values: dict[str, float]) -> None:
    for name, value in values.items():
        stats.set_value(f"webcrawl/{name}", value)
