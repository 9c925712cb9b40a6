"""Finds a page in the earlier archives of DEDUP_INDEX."""

from __future__ import annotations

import asyncio
import hashlib
import logging

from webcrawl.crawl.crawl import Crawl
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.http1 import transfer_codings
from webcrawl.items import Page
from webcrawl.warc.earlierlines import EarlierError
from webcrawl.warc.payload import without_chunks
from webcrawl.warc.records import Original, raw_digest

logger = logging.getLogger(__name__)


async def capture_before(crawl: Crawl, page: Page, exchange: Exchange) -> Original | None:
    """The capture of an earlier archive with the same bytes on the wire, if `crawl` has any.

    It goes before the first page of this crawl, which is then a revisit of it itself. Of an answer
    in chunks also one with the same bytes without framing: a replay of the head of this answer
    finds them in either form.
    """
    earlier, counters = crawl.earlier, crawl.counters
    if earlier is None or counters is None:
        return None
    try:
        found = await earlier.look_up(raw_digest(page.payload_digest))
        if found is None and b"chunked" in transfer_codings(exchange.headers):
            found = await earlier.look_up(await asyncio.to_thread(_unframed_digest, exchange))
    except EarlierError as error:  # a page that is stored once more does no harm
        if crawl.earlier is not None:
            logger.error("DEDUP_INDEX is not used from now on: %s", error)
        crawl.earlier = None
        counters.dedup["failed"] += 1
        return None
    if found is not None:
        counters.dedup["found"] += 1
    return found


def _unframed_digest(exchange: Exchange) -> bytes:
    return hashlib.sha1(without_chunks(exchange), usedforsecurity=False).digest()
