"""What an answer is made into, whether it is a page or a requisite: a `Page`, with what its headers
say about its use, and with its content-seen test.
"""

from __future__ import annotations

import asyncio
import hashlib

from webcrawl.crawl.crawl import Crawl
from webcrawl.crawl.earlier import capture_before
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import REQUISITE, Link, Text
from webcrawl.items import Page
from webcrawl.parse.body import Options
from webcrawl.parse.ownersignals import header_directives, header_signals
from webcrawl.parse.page import media_type_of
from webcrawl.warc.records import LARGE_BYTES, Original, payload_digest, raw_digest, warc_date


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
