"""What an answer is made into, whether it is a page or a requisite: a `Page`, with what its headers
say about its use, and with its content-seen test.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging

from webcrawl.crawl.crawl import Crawl
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.http1 import transfer_codings
from webcrawl.frontier.lease import REQUISITE, Link, Text
from webcrawl.items import Page
from webcrawl.parse.body import Options
from webcrawl.parse.ownersignals import header_directives, header_signals
from webcrawl.parse.page import media_type_of
from webcrawl.warc.earlierlines import EarlierError
from webcrawl.warc.payload import without_chunks
from webcrawl.warc.records import LARGE_BYTES, Original, payload_digest, raw_digest, warc_date

logger = logging.getLogger(__name__)


async def page_of(exchange: Exchange, link: Link, content_type: str) -> Page:
    """The Page of an answer, without what its body says. `content_type`: that header."""
    if len(exchange.body) <= LARGE_BYTES:
        digested = payload_digest(exchange)
    else:
        digested = await asyncio.to_thread(payload_digest, exchange)
    page = Page(
        url=link.url,
        status=exchange.status,
        content_type=media_type_of(content_type),
        depth=link.depth,
        redirects=link.redirects,
        via=link.via,
        ip=exchange.ip,
        fetched_at=warc_date(exchange.started_time)[:-1] + "+00:00",
        fetch_s=round(exchange.total_s, 6),
        truncated=exchange.truncated,
        payload_digest=digested,
    )
    page.exchange = exchange
    if link.sitemap <= REQUISITE:
        page.embeds = REQUISITE + 1 - link.sitemap
    return page


def note_signals(page: Page, exchange: Exchange, options: Options) -> None:
    """What the owner says in the headers about the use of the page. `options` have our names."""
    page.signals = header_signals(exchange.headers)
    if page.signals:
        said = [value for name, value in exchange.headers if name == b"x-robots-tag"]
        agents = "robots", options.agent, *options.also
        directives = header_directives(b"\n".join(said).decode("latin-1"), agents)
        page.noarchive = "noarchive" in directives


async def compare(
    crawl: Crawl, page: Page, exchange: Exchange, body: bytes, text: Text | None = None
) -> None:
    """The content-seen test: set `page.original`, and `page.duplicate_of` for a duplicate.

    With `text` also `page.near_duplicate_of`.
    """
    if page.payload_digest and exchange.payload is exchange.body:
        digest = raw_digest(page.payload_digest)
    elif len(body) <= LARGE_BYTES:
        digest = hashlib.sha1(body, usedforsecurity=False).digest()
    else:
        sha1 = await asyncio.to_thread(hashlib.sha1, body, usedforsecurity=False)
        digest = sha1.digest()
    original = Original(exchange.url, exchange.started_time, page.payload_digest)
    assert crawl.frontier is not None
    seen = await crawl.frontier.content_seen(digest, original, text)
    page.original, page.near_duplicate_of = seen
    if page.original is not None and page.original.url != exchange.url:
        page.duplicate_of = page.original.url
    if crawl.earlier is not None and page.payload_digest:
        page.original = await capture_before(crawl, page, exchange) or page.original


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
