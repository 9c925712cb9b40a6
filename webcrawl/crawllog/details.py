"""What the crawl log says of an answer, taken from its exchange and its page."""

from __future__ import annotations

from typing import Final

from webcrawl.crawllog.line import Details, milliseconds, to_bytes
from webcrawl.fetch.exchange import Exchange
from webcrawl.items import Page
from webcrawl.parse.ownersignals import bounded
from webcrawl.parse.page import media_type_of

_MEDIA_TYPE_MAX: Final = 255  # RFC 6838, 4.2: two names of 127 characters at most


def details_of(exchange: Exchange, page: Page | None = None) -> bytes:
    """The details of an answer, as JSON; `page` is what the spider made of it. 4 µs."""
    content_type = exchange.header(b"content-type").decode("latin-1")
    details = Details(
        exchange.status,
        "content_type" if exchange.body_skipped else "",
        exchange.size_bytes,
        len(exchange.payload),
        media_type_of(content_type)[:_MEDIA_TYPE_MAX],
        digest=exchange.digest,
        # Decoding cuts too (fetch.decode): then the body is not whole, although the record is.
        truncated="length" if "too large" in exchange.decode_problem else exchange.truncated,
        connect_ms=milliseconds(exchange.connect_s),
        first_byte_ms=milliseconds(exchange.first_byte_s),
        total_ms=milliseconds(exchange.total_s),
        ip=exchange.ip,
        warc=exchange.warc,
        offset=exchange.offset,
        signals=exchange.signals,
        wall=exchange.wall,
    )
    if page is not None:  # a user's code may have set values of other types
        details.charset = str(page.charset or "")
        details.lang = str(page.lang or "")
        details.detected_language = str(page.detected_language or "")
        details.redirect_to = str(page.redirect_to or "")
        details.digest = exchange.digest or str(page.payload_digest or "")
        details.duplicate_of = str(page.duplicate_of or "")
        details.near_duplicate_of = str(page.near_duplicate_of or "")
        details.unchanged = bool(page.unchanged)
        details.links = int(page.links_found or 0)
        if page.signals:
            details.signals = tuple(bounded(map(str, page.signals)))
    return to_bytes(details)
