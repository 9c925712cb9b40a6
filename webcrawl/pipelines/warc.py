"""Writes exchanges into WARC files: pages come as items, all others by signals.

Pipelines after this one run only once the records of a page are written, so a page that the
frontier counts as done is archived. If the archive cannot be written, the crawl ends with one line
of the log, and the pages in progress raise NotArchived: they are fetched again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from time import monotonic
from typing import Any, Self

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from webcrawl.base.wording import SettingError
from webcrawl.config.build import is_debugging, leads_machine, warc_folder
from webcrawl.config.earlier import open_earlier_of
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of, end_crawl, refuse, report_error
from webcrawl.crawl.outcomes import NotArchived
from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.counters import Counters
from webcrawl.items import Page
from webcrawl.pipelines.metadata import page_metadata, signal_lines, unarchived_metadata
from webcrawl.pipelines.provenance import settings_lines, warcinfo
from webcrawl.pipelines.recovery import Recovery
from webcrawl.signals import exchange_recorded, requisite_fetched
from webcrawl.warc.files import About, Position, WarcError, WarcFiles
from webcrawl.warc.omission import omitter
from webcrawl.warc.records import Capture, payload_digest, recorded_digest
from webcrawl.warc.writer import WarcWriter

logger = logging.getLogger(__name__)

# Limits of the work done in the event loop; a thread does larger pieces.
# Each link is a line of the metadata record: 750,000 links of usual length take 0.2 s.
_LINKS_MAX = 20_000
_LINKS_LENGTH_MAX = 4_000_000  # characters
_UNCHUNK_MAX_BYTES = 64 << 10
_DIGEST_MAX_BYTES = 10 << 20  # 8 ms


class WarcPipeline:
    """Item pipeline. Archives `Page` items that have an exchange; other items pass unchanged."""

    def __init__(
        self,
        crawler: Crawler,
        files: WarcFiles,
        digest_over: str = "wire",
        *,
        obeys_noarchive: bool = False,
        omit: Callable[[Exchange], None] | None = None,
    ) -> None:
        """`digest_over` is WARC_PAYLOAD_DIGEST, `obeys_noarchive` OBEY_NOARCHIVE.

        `omit` removes the headers of WARC_OMIT_HEADERS from an exchange.
        """
        self._crawler = crawler
        self._files = files
        self._digest_over = digest_over
        self._obeys_noarchive = obeys_noarchive
        self._omit = omit
        self._unarchived = 0  # pages without a record of the answer
        self._writer: WarcWriter | None = None
        self._failed = False
        self._recovery = Recovery(crawler, files.folder, self._fail)
        self._counters = Counters()  # the crawl's, if it has a frontier
        self._counted_bytes = 0  # this process's part of `counters.warc_bytes`

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        settings = crawler.settings
        if not settings.getbool("WARC_ENABLED", True) or is_debugging(crawler):
            raise NotConfigured
        files = WarcFiles(
            warc_folder(settings),
            settings.get("WARC_PREFIX") or "webcrawl",
            read(settings, "WARC_MAX_SIZE", int) or 1_000_000_000,
            # Containers and copied machines may have one host name, and the same process IDs.
            mark=os.urandom(4).hex() if settings.get("CLUSTER") else "",
        )
        pipeline = cls(
            crawler,
            files,
            settings.get("WARC_PAYLOAD_DIGEST") or "wire",
            obeys_noarchive=settings.getbool("OBEY_NOARCHIVE"),
            omit=omitter(settings.getlist("WARC_OMIT_HEADERS")),
        )
        crawler.signals.connect(pipeline.exchange_recorded, exchange_recorded)
        crawler.signals.connect(pipeline.requisite_fetched, requisite_fetched)
        crawler.signals.connect(pipeline.response_received, signals.response_received)
        return pipeline

    async def open_spider(self) -> None:
        """Open the index of DEDUP_INDEX, recover files of dead runs, and begin one. CloseSpider.

        A worker begins its file with its first page: before it has a lease, the first process may
        kill it at any time.
        """
        crawl, writer = crawl_of(self._crawler), WarcWriter(self._files)
        try:
            crawl.earlier = open_earlier_of(crawl, self._crawler.settings)
        except SettingError as error:
            refuse(self._crawler, "settings_error", error)
        await self._describe()
        try:
            await self._recovery.begin()
            if leads_machine(self._crawler):
                await writer.open()
        except (WarcError, OSError) as error:
            refuse(self._crawler, "warc_error", error)
        self._writer = writer
        self._counters = crawl.counters or self._counters

    async def _describe(self) -> None:
        """Set what the files say of the crawl. Of the seeds only the first process knows."""
        crawler, crawl = self._crawler, crawl_of(self._crawler)
        spider, settings = crawler.spider, crawler.settings
        if crawl.assignment is not None:
            crawl.seeds = crawl.assignment.seeds
        elif crawl.describe_seeds is not None:
            crawl.seeds = await asyncio.to_thread(crawl.describe_seeds)
        self._files.info = warcinfo(settings, crawl.crawl_id, crawl.seeds)
        if crawl.crawl_id and spider is not None:  # else the crawl is plain Scrapy's
            lines = settings_lines(settings, crawl.crawl_id, str(spider.name), crawl.seeds)
            self._files.about = About(f"urn:webcrawl:{crawl.crawl_id}:settings", lines)

    async def process_item(self, item: Any) -> Any:
        """Return `item` once its records are written. NotArchived if that fails."""
        if not isinstance(item, Page) or self._writer is None:
            return item
        exchange = item.exchange
        if exchange is None or exchange.body_skipped or exchange.warc:  # a capture has one line
            return item
        if self._omit is not None:
            self._omit(exchange)
        try:
            links = item.links
            if item.noarchive and self._obeys_noarchive:
                lines = unarchived_metadata(item, exchange)
                capture = Capture(exchange, "", metadata=lines, has_answer=False)
            elif len(links) <= _LINKS_MAX and sum(map(len, links)) <= _LINKS_LENGTH_MAX:
                capture = _page_capture(item, exchange)
            else:
                capture = await asyncio.to_thread(_page_capture, item, exchange)
            capture = await self._archive(capture, self._writer)
            item.payload_digest = capture.recorded_digest or item.payload_digest
            item.warc_filename, item.warc_record_offset = exchange.warc, exchange.offset
            self._count()
            exchange.archived = capture.has_answer
            self._unarchived += not capture.has_answer
        except WarcError as error:
            self._fail(error)
            raise NotArchived(str(error)) from None
        return item

    async def _archive(self, capture: Capture, writer: WarcWriter) -> Capture:
        """Write the records of a page, and count the time. WarcError."""
        if self._digest_over != "wire" and capture.has_answer:
            capture = await self._digested(capture)
        counters, began_at = self._counters, monotonic()
        counters.stage_under_way["archive"] += 1
        try:
            _note_position(capture, await writer.write(capture))
        finally:
            counters.stage_under_way["archive"] -= 1
            counters.count_stage("archive", monotonic() - began_at)
        return capture

    async def close_spider(self) -> None:
        """Finish the last file, and set the stats of the archive.

        The engine has waited for the pages, but not for robots.txt, sitemaps and requisites.
        """
        if (scheduler := crawl_of(self._crawler).scheduler) is not None:
            await scheduler.end_admissions()
        if (earlier := crawl_of(self._crawler).earlier) is not None:
            crawl_of(self._crawler).earlier = None
            earlier.close()
        writer, self._writer = self._writer, None
        if writer is None:
            return
        try:
            await writer.close()
            self._count()
            await self._recovery.end()
        except (WarcError, OSError) as error:
            if not self._failed:  # a full disk has its line in the log already
                report_error(self._crawler, error)
        written = writer.written
        for name, value in (
            ("files", written.files),
            ("records", written.records),
            ("revisits", written.revisits),
            ("noarchive", self._unarchived),
            ("bytes", written.size_bytes),
        ):
            self._crawler.stats.set_value(f"webcrawl/warc/{name}", value)
        logger.info(
            "%d WARC files with %d records (%.2f MB) in %s",
            *(written.files, written.records, written.size_bytes / 1e6, self._files.folder),
        )

    async def requisite_fetched(self, page: Page) -> None:
        """A signal handler: archive a page requisite. NotArchived."""
        await self.process_item(page)

    def exchange_recorded(self, exchange: Exchange) -> Awaitable[None] | None:
        """A signal handler: archive a robots.txt or a sitemap. The sender awaits the result."""
        if self._writer is None or exchange.body_skipped:
            return None
        if self._omit is not None:
            self._omit(exchange)
        if self._digest_over != "wire" or len(exchange.body) > _DIGEST_MAX_BYTES:
            return self._end_on_error(self._record(exchange))
        lines = tuple(signal_lines(exchange.signals))
        capture = Capture(exchange, payload_digest(exchange), metadata=lines)
        written = self._writer.write(capture)
        if written.done() and not written.exception():  # mostly
            _note_position(capture, written.result())
            return None

        def note(done: asyncio.Future[Position]) -> None:
            # The sender may be cancelled before it awaits: no "exception was never retrieved" then.
            if not done.cancelled() and not done.exception():
                _note_position(capture, done.result())

        written.add_done_callback(note)
        return self._end_on_error(written)

    def _count(self) -> None:
        """Update the counter of bytes written. Those of a robots.txt count with the next page."""
        size = self._files.size_bytes
        self._counters.warc_bytes += size - self._counted_bytes
        self._counted_bytes = size

    async def _record(self, exchange: Exchange) -> None:
        """Archive a large sitemap, or one with another digest than that of the wire. WarcError."""
        digest = await asyncio.to_thread(payload_digest, exchange)
        capture = Capture(exchange, digest, metadata=tuple(signal_lines(exchange.signals)))
        if self._digest_over != "wire":
            capture = await self._digested(capture)
        if self._writer is not None:
            _note_position(capture, await self._writer.write(capture))

    async def _digested(self, capture: Capture) -> Capture:
        """`capture` with the payload digest that WARC_PAYLOAD_DIGEST selects.

        A revisit of an earlier archive keeps the digest by which it was found there (6.7.2).
        """
        if capture.recorded_digest is not None:
            return capture
        if len(capture.exchange.body) <= _UNCHUNK_MAX_BYTES:
            recorded = recorded_digest(capture, self._digest_over)
        else:
            recorded = await asyncio.to_thread(recorded_digest, capture, self._digest_over)
        return replace(capture, recorded_digest=recorded)

    async def _end_on_error(self, written: Awaitable[Any]) -> None:
        """Await a write; end the crawl if it fails."""
        try:
            await written
        except WarcError as error:
            self._fail(error)

    def response_received(self, response: Response) -> None:
        """A signal handler: give each answer an exchange, whichever handler downloaded it."""
        exchange_of(response)

    def _fail(self, error: Exception) -> None:
        """End the crawl. The first error is its reason."""
        if not self._failed:
            self._failed = True
            report_error(self._crawler, error)
            end_crawl(self._crawler, "warc_error")


def _note_position(capture: Capture, position: Position) -> None:
    """Note for the crawl log where the answer is."""
    if not capture.has_answer:
        return
    exchange, recorded = capture.exchange, capture.recorded_digest
    exchange.warc, exchange.offset = position.filename, position.offset
    exchange.digest = capture.payload_digest if recorded is None else recorded


def _page_capture(page: Page, exchange: Exchange) -> Capture:
    digest = page.payload_digest or payload_digest(exchange)
    original, recorded = page.original, None
    if original is not None and original.date:  # of an earlier archive, which has this digest
        recorded = original.payload_digest
    return Capture(exchange, digest, original, page_metadata(page, exchange), recorded)
