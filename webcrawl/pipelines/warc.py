"""Item pipeline: pages into WARC files, and the exchanges of robots.txt beside them."""

from __future__ import annotations

import asyncio
import logging
import platform
from pathlib import Path
from typing import Any, Self

from scrapy import __version__ as scrapy_version
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DropItem, NotConfigured
from scrapy.settings import BaseSettings

from webcrawl import __version__
from webcrawl.components import robots_token, whole_number
from webcrawl.fetch.exchange import Exchange
from webcrawl.items import Page
from webcrawl.signals import exchange_recorded
from webcrawl.warc.records import Capture, Fields
from webcrawl.warc.recovery import recover
from webcrawl.warc.writer import Naming, WarcError, WarcWriter

logger = logging.getLogger(__name__)


def naming_from(settings: BaseSettings) -> Naming:
    """Where the files go, and what their warcinfo says, from the WARC_* settings."""
    about = {
        "software": f"webcrawl/{__version__} Scrapy/{scrapy_version}"
        f" Python/{platform.python_version()}",
        "isPartOf": settings.get("WARC_COLLECTION"),
        "operator": settings.get("WARC_OPERATOR"),
        "description": settings.get("WARC_DESCRIPTION"),
        "robots": "obey" if settings.getbool("ROBOTSTXT_OBEY") else "ignore",
        "http-header-user-agent": settings.get("USER_AGENT"),
        "robots-product-token": robots_token(settings),
    }
    return Naming(
        Path(settings.get("WARC_DIR")),
        settings.get("WARC_PREFIX"),
        whole_number(settings, "WARC_MAX_SIZE"),
        tuple((name, str(value)) for name, value in about.items() if value),
    )


class WarcPipeline:
    """Writes a response or revisit, request and metadata record for each Page."""

    def __init__(self, crawler: Crawler, naming: Naming) -> None:
        self._crawler = crawler
        self._naming = naming
        self._writer: WarcWriter | None = None
        self._robots: set[asyncio.Task[None]] = set()  # at most CONCURRENT_ADMISSIONS
        self._closing: asyncio.Task[None] | None = None  # after a failure

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not crawler.settings.getbool("WARC_ENABLED"):
            raise NotConfigured("WARC_ENABLED is off")
        pipeline = cls(crawler, naming_from(crawler.settings))
        crawler.signals.connect(pipeline.exchange_recorded, exchange_recorded)
        return pipeline

    def open_spider(self) -> None:
        folder = self._naming.folder
        try:
            self._writer = WarcWriter(self._naming)
            for path, cut_bytes in recover(folder):
                logger.info("Finished %s of an earlier crawl, %d bytes cut", path, cut_bytes)
        except OSError as error:
            logger.error("WARC_DIR = %r cannot be used: %s", str(folder), error)
            raise CloseSpider("warc_error") from None

    async def process_item(self, item: Any) -> Any:
        if isinstance(item, Page) and item.exchange is not None and self._writer is not None:
            metadata = page_metadata(item, item.exchange)
            await self._write(Capture(item.exchange, item.original, item.payload_digest, metadata))
            if item.original is not None:
                self._crawler.stats.inc_value("webcrawl/warc/revisits")
        return item

    def exchange_recorded(self, exchange: Exchange) -> None:
        """A signal handler: an exchange that did not pass through the engine."""
        if self._writer is not None:
            task = asyncio.ensure_future(self._write_quietly(Capture(exchange)))
            self._robots.add(task)
            task.add_done_callback(self._robots.discard)

    async def close_spider(self) -> None:
        writer = self._writer
        if writer is None:
            return
        await asyncio.gather(*self._robots)
        try:
            await writer.close()
        except WarcError as error:
            logger.error("%s", error)
        stats = self._crawler.stats
        stats.set_value("webcrawl/warc/records", writer.records)
        stats.set_value("webcrawl/warc/bytes", writer.bytes)
        stats.set_value("webcrawl/warc/files", len(writer.files))
        logger.info(
            "WARC: %d records in %d files in %s", writer.records, len(writer.files),
            self._naming.folder,
        )  # fmt: skip

    async def _write_quietly(self, capture: Capture) -> None:
        try:
            await self._write(capture)
        except DropItem:
            pass  # said in _write

    async def _write(self, capture: Capture) -> None:
        """Write, or close the crawl: one line, whatever the number of pages under way."""
        assert self._writer is not None
        try:
            await self._writer.write(capture)
        except WarcError as error:
            if self._closing is None:
                logger.error("%s", error)
                coro = self._crawler.engine.close_spider_async(reason="warc_error")
                self._closing = asyncio.ensure_future(coro)
            raise DropItem(str(error)) from None


def page_metadata(page: Page, exchange: Exchange) -> Fields:
    """What the metadata record says, in Heritrix's names where it has them."""
    fields = [("hopsFromSeed", "L" * page.depth + "R" * page.redirects)]
    if page.via:
        fields.append(("via", page.via))
    fields += [
        ("fetchTimeMs", str(round(exchange.total_s * 1000))),
        ("connectTimeMs", str(round(exchange.connect_s * 1000))),
        ("firstByteTimeMs", str(round(exchange.first_byte_s * 1000))),
    ]
    if page.charset:
        fields.append(("charsetForLinkExtraction", page.charset))
    if exchange.tls is not None:
        tls = exchange.tls
        fields += [
            ("tlsVersion", tls.version),
            ("tlsCipher", tls.cipher),
            ("tlsCertificateSha256", tls.fingerprint),
            ("tlsCertificateProblem", tls.problem or "none"),
        ]
    if exchange.decode_problem:
        fields.append(("decodeProblem", exchange.decode_problem))
    if page.redirect_to:
        fields.append(("outlink", page.redirect_to))
    fields += [("outlink", url) for url in page.links]
    return fields
