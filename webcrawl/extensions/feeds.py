"""Scrapy's feeds, with each item written before its page counts as done.

A feed in a local file or on standard output is flushed after each item: one write(2), no fsync. The
first feed that fails ends the crawl, as a failing archive does: one line of the log, `feed_error`,
exit code 1. From then on no item is exported, and the next run fetches the pages of these items
again. That run first cuts off a torn last record (`feedrepair`).

Two kinds of feed can lack the items of pages that are done: compressed feeds (the compressor
buffers items) and feeds that are uploaded at the end of the run. docs/durability.md lists the loss
of each kind after a kill.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, NotConfigured
from scrapy.extensions import feedexport
from scrapy.extensions.feedexport import (
    BlockingFeedStorage,
    FeedSlot,
    FileFeedStorage,
    StdoutFeedStorage,
)
from scrapy.extensions.postprocessing import PostProcessingManager
from scrapy.http import Response

from webcrawl.crawl.crawl import end_crawl, report_error, set_fatal_error
from webcrawl.crawl.page_fetch import page_fetch_of
from webcrawl.extensions.feedrepair import LINE_FORMATS, repair
from webcrawl.report.console import discard_output

logger = logging.getLogger(__name__)

# Of a CSV in `item_export_kwargs`: what ends a row or a text.
_DIALECT = frozenset({"dialect", "escapechar", "lineterminator", "quotechar"})


class FeedExporter(feedexport.FeedExporter):
    """Scrapy's FeedExporter that flushes each item and ends the crawl when a feed fails."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._failed = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        try:
            return super().from_crawler(crawler)
        except NotConfigured:
            if crawler.settings["FEEDS"]:  # Scrapy logs why, and would crawl without feeds
                crawler.signals.connect(_refusal(crawler), signals.spider_opened, weak=False)
            raise

    def open_spider(self, spider: Spider) -> None:
        """A signal handler. Opens each feed, so that one that cannot be written is refused now."""
        super().open_spider(spider)
        for slot in self.slots:
            if self.settings.get("JOBDIR") and (warning := _loss(slot)):
                logger.warning("FEEDS: %s %s", _name(slot), warning)
            try:
                _repair(slot)
                if slot.store_empty:
                    slot.start_exporting()
            except OSError as error:
                self.slots = []
                self._report(slot, error)
                raise CloseSpider("feed_error") from None

    def item_scraped(self, item: Any, spider: Spider, response: Response | None = None) -> None:
        """A signal handler. A page cannot be done before all handlers of its item have run."""
        if not self._failed:
            self._export(item, spider)
        page_fetch = page_fetch_of(response.request) if isinstance(response, Response) else None
        if self._failed and page_fetch is not None:
            page_fetch.unarchived = True

    def _export(self, item: Any, spider: Spider) -> None:
        before = self.slots
        counts = [slot.itemcount for slot in before]
        try:
            super().item_scraped(item, spider)  # replaces the slot of a full batch
        except OSError as error:
            lacking = (slot for slot, count in zip(before, counts, strict=True)
                       if slot.itemcount == count and slot.filter.accepts(item))  # fmt: skip
            self._fail(next(lacking, before[-1]), error)
            return
        for slot in dict.fromkeys((*before, *self.slots)):
            try:
                if slot not in before:  # an earlier run may have left its file
                    _repair(slot)
                if slot not in self.slots:  # its batch is full, and Scrapy stores it next
                    slot.finish_exporting()
                _flush(slot)
            except OSError as error:
                self._fail(slot, error)
                return

    def close_spider(self, spider: Spider) -> Coroutine[Any, Any, None]:
        """A signal handler. Finishes local files before it returns.

        The report handles this signal next, and so has their errors.
        """
        for slot in self.slots:
            self._finish(slot)
        return self._store(spider)

    async def _store(self, spider: Spider) -> None:
        await super().close_spider(spider)
        stats = self.crawler.stats.get_stats()
        if any(name.startswith("feedexport/failed_count/") for name in stats):
            # Scrapy has logged the reason.
            set_fatal_error(self.crawler, "FEEDS: a feed could not be stored")

    def _finish(self, slot: FeedSlot) -> None:
        """Write the end of a feed's document. Scrapy writes that of a feed without items."""
        try:
            if slot.itemcount and slot.file is not None and not slot.file.closed:
                slot.finish_exporting()
                if isinstance(slot.file, PostProcessingManager):
                    slot.file.close()  # writes what the compressor has buffered
                    slot.file = slot.file.file
                if not slot.file.closed:
                    slot.file.flush()
        except Exception as error:  # also of a user's exporter: the other feeds must be finished
            if not self._failed:
                self._failed = True
                self._report(slot, error)
            _give_up(slot)

    def _fail(self, slot: FeedSlot, error: OSError) -> None:
        """End the crawl."""
        self._failed = True
        self._report(slot, error)
        end_crawl(self.crawler, "feed_error")
        _give_up(slot)

    def _report(self, slot: FeedSlot, error: Exception) -> None:
        """Make `error` the reason of exit code 1, and log it."""
        fault = None if isinstance(error, OSError) else error  # a bug: logged with its traceback
        why = getattr(error, "strerror", None) or error
        report_error(self.crawler, f"FEEDS: {_name(slot)} cannot be written: {why}", fault)


def _refusal(crawler: Crawler) -> Any:
    """A signal handler that ends the crawl."""

    def refuse() -> None:
        set_fatal_error(crawler, "FEEDS: a feed cannot be used")
        raise CloseSpider("feed_error")

    return refuse


def _name(slot: FeedSlot) -> str:
    """The path or URI of a feed, without a password."""
    if isinstance(slot.storage, FileFeedStorage):
        return slot.storage.path
    return re.sub(r"//[^/@]*@", "//", slot.uri)


def _loss(slot: FeedSlot) -> str:
    """The loss of a feed after a kill and a resume, as a warning; "" if it loses no item."""
    if isinstance(slot.storage, BlockingFeedStorage):
        return "is uploaded when a run ends: a kill loses the items of its run"
    if not isinstance(slot.storage, FileFeedStorage):
        return ""
    if slot.storage.write_mode == "wb":
        return "is overwritten by each run: the items of earlier runs are lost"
    if "postprocessing" in slot.feed_options:
        return "is compressed: a kill loses its last items, and the file cannot be read beyond them"
    if slot.format not in (*LINE_FORMATS, "csv"):
        return f"is one {slot.format} document per run, and a kill tears it; use jsonlines"
    return ""


def _repair(slot: FeedSlot) -> None:
    """Cut off a torn last record that an earlier run has left in a local file. OSError."""
    storage, options = slot.storage, slot.feed_options
    if not isinstance(storage, FileFeedStorage) or storage.write_mode == "wb":
        return
    path = Path(storage.path).absolute()
    if not path.is_file() or "postprocessing" in options:
        return
    if '\n"{'.encode(options["encoding"] or "utf-8") != b'\n"{':
        return  # UTF-16 and the like: line breaks and quotes are not single bytes
    if slot.format == "csv" and not _DIALECT.isdisjoint(options["item_export_kwargs"]):
        return  # rows may end in another way, and quotes may be text
    if cut := repair(path, slot.format):
        logger.warning("FEEDS: %s: %d bytes of a torn last record were cut off", path, cut)


def _flush(slot: FeedSlot) -> None:
    """Write the exported items to the operating system. OSError."""
    if slot.file is None or isinstance(slot.file, PostProcessingManager):
        return
    if not isinstance(slot.storage, BlockingFeedStorage):
        slot.file.flush()


def _give_up(slot: FeedSlot) -> None:
    """Close the file of a feed that cannot be written, and leave only whole records in it.

    Scrapy stores no feed without items.
    """
    slot.itemcount, slot.store_empty = 0, False
    if isinstance(slot.storage, StdoutFeedStorage):
        with suppress(OSError, ValueError):
            discard_output()
    elif slot.file is not None:
        with suppress(OSError):
            slot.file.close()
        with suppress(OSError):
            _repair(slot)
