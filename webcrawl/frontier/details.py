"""What the crawl log says of an answer, taken from its exchange and its page."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from webcrawl.crawllog.line import milliseconds
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.lease import Details
from webcrawl.items import Page

_MEDIA_TYPE_MAX: Final = 255  # RFC 6838, 4.2: two names of 127 characters at most


def details_of(exchange: Exchange, page: Page | None = None) -> Details:
    """The details of an answer; `page` is what the spider made of it. 4 µs."""
    media_type = exchange.header(b"content-type").partition(b";")[0].strip().lower()
    details = Details(
        exchange.status,
        "content_type" if exchange.body_skipped else "",
        len(exchange.head) + len(exchange.body),
        len(exchange.payload),
        media_type[:_MEDIA_TYPE_MAX].decode("latin-1"),
        digest=exchange.digest,
        truncated=exchange.truncated,
        connect_ms=milliseconds(exchange.connect_s),
        first_byte_ms=milliseconds(exchange.first_byte_s),
        total_ms=milliseconds(exchange.total_s),
        ip=exchange.ip,
        warc=exchange.warc,
        offset=exchange.offset,
    )
    if page is None:
        return details
    # A user's code may have set other values, which could not be sent to another process.
    return replace(
        details,
        charset=str(page.charset or ""),
        lang=str(page.lang or ""),
        redirect_to=str(page.redirect_to or ""),
        digest=exchange.digest or str(page.payload_digest or ""),
        duplicate_of=str(page.duplicate_of or ""),
        links=int(page.links_found or 0),
    )
