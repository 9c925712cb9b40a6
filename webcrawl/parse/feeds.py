"""The entries of feeds (RSS, Atom) and of sitemaps that are found as pages: they are links.

A feed is a page of the crawl: a link leads to it, and it may link to any host. `sitemaps` reads the
formats, for files about a site too.
"""

from __future__ import annotations

from typing import Final

from webcrawl.parse.links import Markup, read_xhtml
from webcrawl.parse.sitemaps import SitemapReader

_PIECE_BYTES: Final = 64 << 10


def read_xml(payload: bytes, charset: str, *, follow_rel_nofollow: bool = True) -> Markup:
    """Links of a feed, a sitemap, or an XHTML page. O(size).

    Any other XML gives no links. The character set is that of the XML declaration, or UTF-8;
    `charset` is for XHTML.
    """
    reader = SitemapReader()
    hrefs = []
    for at in range(0, len(payload), _PIECE_BYTES):
        hrefs += [entry.url for entry in reader.feed(payload[at : at + _PIECE_BYTES])]
        if reader.is_done:
            break
    hrefs += [entry.url for entry in reader.end()]
    if not reader.format:
        return read_xhtml(payload, charset, follow_rel_nofollow=follow_rel_nofollow)
    return Markup(hrefs=hrefs if reader.format != "text" else [])
