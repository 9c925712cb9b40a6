"""Reads one page: its links in canonical form, and whether it forbids following them.

The entries of a feed (RSS, Atom) are links: a feed is a page of the crawl, to which a link leads,
and it may link to any host. A sitemap may not: one that is found as a page gives no links, since
nobody has named it. `sitemaps` reads the formats.

Owns the choice of a parser by media type. The setting PARSERS adds parsers of other media types to
`PARSERS` (docs/extending.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Protocol

from msgspec import Struct

from webcrawl.parse.charset import decode_css, sniff
from webcrawl.parse.language import declared_language
from webcrawl.parse.links import Markup, read_html, refresh_target
from webcrawl.parse.ownersignals import (
    METAS,
    header_directives,
    license_signals,
    meta_directives,
    meta_signals,
)
from webcrawl.parse.requisites import CSS_TYPE, shown_by_css, shown_by_html
from webcrawl.parse.sitemaps import SitemapReader
from webcrawl.parse.urls import MAX_PAGE_LENGTH, canonicalize, canonicalize_each, redirect_target

# Any payload within these takes less than 50 ms: a tag with its link takes up to 9 µs, and a byte
# inside a tag up to 0.35 µs.
QUICK_BYTES = 128 * 1024
QUICK_TAGS = 4_000
# The links of a page may have a megabyte of characters, plus three times the page's size. A page
# that has only links to its own folder reaches this limit if the URL of the folder has 1,000
# characters.
_LINKS_ROOM = 1024 * 1024
_FEEDS = ("rss", "atom")
_PIECE_BYTES = 64 << 10  # of a feed
_NO_MARKUP = Markup()  # of a media type without a parser


class Parser(Protocol):
    """Reads a payload in `charset` (a WHATWG name). Never raises, in time O(size)."""

    def __call__(self, payload: bytes, charset: str) -> Markup: ...


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
        return read_html(payload, charset, xml=True)
    return Markup(hrefs=hrefs if reader.format in _FEEDS else [])


# Of feeds; many servers send them as plain XML.
XML_TYPES = ("application/rss+xml", "application/atom+xml", "application/xml", "text/xml")
HTML_TYPES = ("text/html", "application/xhtml+xml")
PARSERS: dict[str, Parser] = {
    "text/html": read_html,
    "application/xhtml+xml": partial(read_html, xml=True),
    **dict.fromkeys(XML_TYPES, read_xml),
}


class ParsedPage(Struct):
    """The links of one page."""

    charset: str = ""  # WHATWG name; "" if there is no parser for the media type
    lang: str = ""  # that it declares (`language`), lower case; "" without one
    links: list[str] = []  # canonical http(s), each once, in order
    found: int = 0  # http(s) links before repeats were dropped
    nofollow: bool = False  # the page forbids following its links
    moves: bool = False  # it leads to another page by itself: a refresh
    noarchive: bool = False  # the page forbids keeping a copy
    signals: list[str] = []  # of its markup (`ownersignals`)
    title: str = ""  # of an HTML page
    requisites: list[str] = []  # files that it shows: canonical http(s), each once, in order


@lru_cache(64)  # most answers of a crawl have one of a few
def media_type_of(content_type: str) -> str:
    """The media type of a Content-Type, without parameters, lower case."""
    return content_type.partition(";")[0].strip().lower()


def read_page(
    payload: bytes,
    content_type: str,
    url: str,
    *,
    x_robots_tag: str = "",
    refresh: str = "",
    content_language: str = "",
    obey_nofollow: bool = True,
    user_agent_token: str = "",
    robots_also: tuple[str, ...] = (),
    follow_feeds: bool = True,
    parsers: Mapping[str, Parser] = PARSERS,
    finds_requisites: bool = False,
) -> ParsedPage:
    """Links of the page at `url` (canonical) with the Content-Type `content_type`.

    `x_robots_tag` is the value of that header; several headers are joined by newlines (or commas).
    `refresh` is the value of `Refresh`, in Latin-1: as in browsers it means what a meta refresh
    does, whatever the media type. `content_language` is the value of that header. A page with
    nofollow has `found` 0 and no links, not even the target of a refresh, unless `obey_nofollow` is
    off. `user_agent_token` is our name in robots rules, `robots_also` has other names whose rules
    hold too. `follow_feeds`: the feeds of an HTML page are links too. `finds_requisites`: of HTML
    and CSS; nofollow is not about them. O(size).
    """
    agents = ("robots", user_agent_token.lower(), *robots_also)
    said = header_directives(x_robots_tag, agents) if x_robots_tag else set()
    parser = parsers.get(media_type_of(content_type))
    page, markup = ParsedPage(), _NO_MARKUP
    if parser is not None:
        page.charset = sniff(payload, content_type)
        page.lang = declared_language(payload, page.charset, content_language, url)
        markup = parser(payload, page.charset)
        page.title = markup.title
    if metas := [each for each in markup.robots if each[0] in agents or each[0] in METAS]:
        page.signals = meta_signals(metas)
        said |= meta_directives(metas, agents)
    if markup.licenses:
        page.signals += license_signals(markup.licenses)
    if said:
        page.nofollow = not said.isdisjoint(("nofollow", "none"))
        page.noarchive = "noarchive" in said
    if page.nofollow and obey_nofollow and not finds_requisites:
        return page
    # A base that is not http(s) is ignored (HTML, 4.2.3: data: and javascript: are).
    base = (markup.base and canonicalize(markup.base, url)) or url
    if finds_requisites:
        shown = _requisites(payload, content_type, page.charset, base)
        page.requisites = [each for each in shown if each != url]
        if page.nofollow and obey_nofollow:
            return page
    room = min(MAX_PAGE_LENGTH, _LINKS_ROOM + 3 * len(payload))
    hrefs = markup.hrefs + markup.feeds if follow_feeds else markup.hrefs
    page.links, page.found = canonicalize_each(hrefs, base, page.charset, room)
    page.moves = bool(markup.moves or refresh)
    if refresh:
        _add_refresh(page, refresh, url)
    return page


def _requisites(payload: bytes, content_type: str, charset: str, base: str) -> list[str]:
    media_type = media_type_of(content_type)
    if media_type in HTML_TYPES:
        shown = shown_by_html(payload, charset, xml=media_type != HTML_TYPES[0])
    elif media_type == CSS_TYPE:
        shown, charset = shown_by_css(decode_css(payload, content_type)), "utf-8"
    else:
        return []
    return canonicalize_each(shown, base, charset, _LINKS_ROOM)[0]


def _add_refresh(page: ParsedPage, refresh: str, url: str) -> None:
    target = redirect_target(refresh_target(refresh).encode("latin-1", "replace"), url)
    if target is not None:
        page.found += 1
        if target not in page.links:
            page.links.append(target)
