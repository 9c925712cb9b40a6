"""Scrapy's feeds, whose items are with the operating system before their page counts as done.

A feed in a local file, or on standard output, is flushed after each item: one write(2), no sync.
The first feed that fails ends the crawl as an archive that fails does: one line, `feed_error`, exit
code 1. From then on nothing is exported, and pages that yield items are fetched again by the next
run, which first cuts off what is left of a torn last record.

Not bound to their pages are feeds that are compressed (the compressor keeps what it has) and those
that are uploaded when the run ends. docs/durability.md says what a kill costs each.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import re
import sys
from collections.abc import Coroutine
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self

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

from webcrawl.crawl.crawl import set_fatal_error
from webcrawl.crawl.page_fetch import page_fetch_of

logger = logging.getLogger(__name__)

_LINES = ("jsonlines", "jsonl", "jl")
_BLOCK_BYTES = 1024 * 1024
_LINE_MAX_BYTES = 64 * 1024 * 1024  # beyond it a last line is not tried as JSON


class FeedExporter(feedexport.FeedExporter):
    """See the module. Stands in for Scrapy's in `EXTENSIONS`."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__(crawler)
        self._failed = False
        self._end_task: asyncio.Task[None] | None = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        try:
            return super().from_crawler(crawler)
        except NotConfigured:
            if crawler.settings["FEEDS"]:  # Scrapy has said why, and would crawl without any feed
                crawler.signals.connect(_refusal(crawler), signals.spider_opened, weak=False)
            raise

    def open_spider(self, spider: Spider) -> None:
        super().open_spider(spider)
        for slot in self.slots:
            if self.settings.get("JOBDIR") and (warning := _loss(slot)):
                logger.warning("FEEDS: %s %s", _name(slot), warning)
            try:
                _prepare(slot)
            except OSError as error:
                self.slots = []
                self._say(slot, error)
                raise CloseSpider("feed_error") from None

    def item_scraped(self, item: Any, spider: Spider, response: Response | None = None) -> None:
        """A signal handler. No page can end before all have heard of its item."""
        slots = self.slots
        exported: list[list[FeedSlot]] = []
        try:
            for slot in [] if self._failed else slots:
                self.slots = [slot]
                try:
                    super().item_scraped(item, spider)  # when a batch ends, with another slot
                    _flush(slot)
                except OSError as error:
                    self.slots = []
                    self._fail(slot, error)
                exported.append(self.slots)
        finally:
            self.slots = [*chain.from_iterable(exported), *slots[len(exported) :]]
        page_fetch = page_fetch_of(response.request) if isinstance(response, Response) else None
        if self._failed and page_fetch is not None:
            page_fetch.unarchived = True

    def _start_new_batch(self, batch_id: int, *args: Any, **kwargs: Any) -> FeedSlot:
        """The file of a later batch may be of an earlier run, as that of the first (above)."""
        slot = super()._start_new_batch(batch_id, *args, **kwargs)
        if batch_id > 1:
            try:
                _prepare(slot)
            except OSError as error:
                self._fail(slot, error)
        return slot

    def close_spider(self, spider: Spider) -> Coroutine[Any, Any, None]:
        """A signal handler. Local files end before it returns: the report, which hears the signal
        after it, can tell of their errors.
        """
        self.slots = [slot for slot in self.slots if self._is_ended(slot)]
        return self._store(spider)

    async def _store(self, spider: Spider) -> None:
        await super().close_spider(spider)
        stats = self.crawler.stats.get_stats()
        if any(name.startswith("feedexport/failed_count/") for name in stats):
            set_fatal_error(
                self.crawler, "FEEDS: a feed could not be stored"
            )  # Scrapy has said why

    async def _close_slot(self, slot: FeedSlot, spider: Spider) -> None:
        """Also of a batch that is full."""
        if self._is_ended(slot):
            await super()._close_slot(slot, spider)

    def _is_ended(self, slot: FeedSlot) -> bool:
        """End the document of a feed. False where that cannot be written."""
        try:
            if slot.file is not None and not slot.file.closed:
                slot.finish_exporting()
                if isinstance(slot.file, PostProcessingManager):
                    slot.file.close()  # of what compresses
                    slot.file = slot.file.file
                if not slot.file.closed:
                    slot.file.flush()
        except Exception as error:  # or of a user's exporter; the others are to be ended too
            if not self._failed:
                self._failed = True
                self._say(slot, error)
            _give_up(slot)
            return False
        return True

    def _fail(self, slot: FeedSlot, error: OSError) -> None:
        """End the crawl; the first error says why."""
        if not self._failed:
            self._failed = True
            self._say(slot, error)
            coro = self.crawler.engine.close_spider_async(reason="feed_error")
            self._end_task = asyncio.create_task(coro)
        _give_up(slot)

    def _say(self, slot: FeedSlot, error: Exception) -> None:
        fault = None if isinstance(error, OSError) else error  # of the code: told in full
        why = getattr(error, "strerror", None) or error
        problem = f"FEEDS: {_name(slot)} cannot be written: {why}"
        set_fatal_error(self.crawler, problem)
        logger.error("%s", problem, exc_info=fault)


def _refusal(crawler: Crawler) -> Any:
    def refuse() -> None:
        set_fatal_error(crawler, "FEEDS: a feed cannot be used")
        raise CloseSpider("feed_error")

    return refuse


def _name(slot: FeedSlot) -> str:
    """Where `slot` goes, without a password."""
    if isinstance(slot.storage, FileFeedStorage):
        return slot.storage.path
    return re.sub(r"//[^/@]*@", "//", slot.uri)


def _loss(slot: FeedSlot) -> str:
    """What of the feed a kill costs a crawl that goes on; "" for nothing."""
    if isinstance(slot.storage, BlockingFeedStorage):
        return "is stored when a run ends: a kill loses the items of its run"
    if not isinstance(slot.storage, FileFeedStorage):
        return ""
    if slot.storage.write_mode == "wb":
        return "is begun anew by each run: the items of earlier runs are lost"
    if "postprocessing" in slot.feed_options:
        return "is compressed: a kill loses its last items, and the file is torn there"
    if slot.format not in (*_LINES, "csv"):
        return f"is one document of {slot.format} for each run, and torn by a kill; use jsonlines"
    return ""


def _prepare(slot: FeedSlot) -> None:
    """See that a local file can be written, and mend its end. Nothing is created. OSError."""
    if not isinstance(slot.storage, FileFeedStorage):
        return
    path = Path(slot.storage.path).absolute()
    if path.is_file():
        os.close(os.open(path, os.O_WRONLY))
        options = slot.feed_options
        if slot.storage.write_mode == "wb" or "postprocessing" in options:
            return
        if '\n"{'.encode(options["encoding"] or "utf-8") != b'\n"{':
            return
        if cut := mend(path, slot.format):
            logger.warning("FEEDS: %s: %d bytes of a torn last record were cut off", path, cut)
    elif not path.exists():
        folder = path.parent
        while not folder.exists():
            folder = folder.parent
        if not folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    elif path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))


def _flush(slot: FeedSlot) -> None:
    """Hand what was exported to the operating system. OSError."""
    if slot.file is None or isinstance(slot.file, PostProcessingManager):
        return
    if not isinstance(slot.storage, BlockingFeedStorage):
        slot.file.flush()


def _give_up(slot: FeedSlot) -> None:
    """Close the file of a feed that cannot be written, and leave whole records in it."""
    if isinstance(slot.storage, StdoutFeedStorage):
        # What is in its buffer would be tried again when Python ends (docs of the module signal).
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    elif slot.file is not None:
        with suppress(OSError):
            slot.file.close()
        with suppress(OSError):
            _prepare(slot)


def mend(path: Path, format_: str) -> int:
    """Cut a torn last record off a feed of lines, or of csv; how many bytes that were.

    A whole line that only lacks its end gets it. Of lines the end of the file is read, of csv all:
    a line break may be in quotes. Memory: a block, and a last line of 64 MiB at most. OSError.
    """
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        if format_ in _LINES:
            end = _end_of_lines(file, size)
            file.seek(end)
            if size > end and not _is_torn(file.read(_LINE_MAX_BYTES + 1)):
                file.write(b"\n")
                return 0
        elif format_ == "csv":
            end = _end_of_rows(file)
        else:
            return 0
        file.truncate(end)
        return size - end


def _end_of_lines(file: IO[bytes], size: int) -> int:
    """The place behind the last line break."""
    start = size
    while start:
        length = min(_BLOCK_BYTES, start)
        start -= length
        file.seek(start)
        at = file.read(length).rfind(b"\n")
        if at >= 0:
            return start + at + 1
    return 0


def _is_torn(line: bytes) -> bool:
    """Whether a last line is the beginning of an object of JSON, or blank as after loss of power.

    All else is nothing that a feed has left.
    """
    if not line.startswith((b"{", b"\0")):
        return False
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _end_of_rows(file: IO[bytes]) -> int:
    """The place behind the last line break that is not in quotes."""
    end, start, quoted = 0, 0, False
    file.seek(0)
    while block := file.read(_BLOCK_BYTES):
        at = start
        for piece in block.split(b'"'):
            if not quoted and (found := piece.rfind(b"\n")) >= 0:
                end = at + found + 1
            at += len(piece) + 1
            quoted = not quoted
        quoted = not quoted  # between the last piece and the next block is no quote
        start += len(block)
    return end
