"""The entries of feeds (RSS, Atom): they are links.

A feed is a page of the crawl: a link leads to it, and it may link to any host. A sitemap may not:
one that is found as a page gives no links, since nobody has named it. `sitemaps` reads the formats.
"""

from __future__ import annotations

from typing import Final

from webcrawl.parse.links import Markup, read_xhtml
from webcrawl.parse.sitemaps import SitemapReader

_FEEDS: Final = ("rss", "atom")
_PIECE_BYTES: Final = 64 << 10


def read_xml(payload: bytes, charset: str) -> Markup:
    """Links of a feed, or of an XHTML page. O(size).

    Any other XML gives no links. The character set is that of the XML declaration, or UTF-8;
    `charset` is for XHTML.
    """
    reader = SitemapReader()
    hrefs = []
    for at in range(0, len(payload), _PIECE_BYTES):
        hrefs += [entry.url for entry in reader.feed(payload[at : at + _PIECE_BYTES])]
        if reader.is_done or reader.format not in ("", *_FEEDS):
            break
    hrefs += [entry.url for entry in reader.end()]
    if not reader.format:
        return read_xhtml(payload, charset)
    return Markup(hrefs=hrefs if reader.format in _FEEDS else [])
