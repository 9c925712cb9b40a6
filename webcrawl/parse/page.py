"""Reads one page: its links in canonical form, and whether it forbids following them.

Owns the choice of a parser by media type and the rules of meta robots and `X-Robots-Tag`. The
setting PARSERS adds parsers of other media types to `PARSERS` (docs/extending.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from webcrawl.parse.charset import sniff
from webcrawl.parse.feeds import read_xml
from webcrawl.parse.language import declared_language
from webcrawl.parse.links import Markup, read_html, read_xhtml
from webcrawl.parse.urls import MAX_PAGE_LENGTH, canonicalize, canonicalize_each

# Any payload within these takes less than 50 ms: a tag with its link takes up to 9 µs, and a byte
# inside a tag up to 0.35 µs.
QUICK_BYTES = 128 * 1024
QUICK_TAGS = 4_000
# The links of a page may have a megabyte of characters, plus three times the page's size. A page
# that has only links to its own folder reaches this limit if the URL of the folder has 1,000
# characters.
_LINKS_ROOM = 1024 * 1024


class Parser(Protocol):
    """Reads a payload in `charset` (a WHATWG name). Never raises, in time O(size)."""

    def __call__(
        self, payload: bytes, charset: str, *, follow_rel_nofollow: bool = True
    ) -> Markup: ...


# Of feeds; many servers send them as plain XML.
XML_TYPES = ("application/rss+xml", "application/atom+xml", "application/xml", "text/xml")
PARSERS: dict[str, Parser] = {
    "text/html": read_html,
    "application/xhtml+xml": read_xhtml,
    **dict.fromkeys(XML_TYPES, read_xml),
}

# X-Robots-Tag directives with a colon of their own. Any other word before a colon is an agent.
_WITH_VALUE = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
)
_AGENT = re.compile(r"[ \t]*([A-Za-z_-]+)[ \t]*:(.*)", re.DOTALL)


@dataclass(slots=True)
class ParsedPage:
    """The links of one page."""

    charset: str = ""  # WHATWG name; "" if there is no parser for the media type
    lang: str = ""  # of `<html>`, lower case; "" without one
    links: list[str] = field(default_factory=list)  # canonical http(s), each once, in order
    found: int = 0  # http(s) links before repeats were dropped
    nofollow: bool = False  # the page forbids following its links


def reads_quickly(payload: bytes) -> bool:
    """Whether `read_page` takes less than 50 ms for `payload`, so it may run on the event loop.
    20 µs for a page of 50 KB; no time below 32 KB.
    """
    size = len(payload)
    return size <= QUICK_BYTES and (size <= 8 * QUICK_TAGS or payload.count(b"<") <= QUICK_TAGS)


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def read_page(
    payload: bytes,
    content_type: str,
    url: str,
    *,
    x_robots_tag: str = "",
    follow_rel_nofollow: bool = True,
    obey_nofollow: bool = True,
    user_agent_token: str = "",
    follow_feeds: bool = True,
    parsers: Mapping[str, Parser] = PARSERS,
) -> ParsedPage:
    """Links of the page at `url` (canonical) with the Content-Type `content_type`.

    `x_robots_tag` is the value of that header; several headers are joined by newlines (or commas).
    A page with nofollow has `found` 0 and no links, not even the target of a meta refresh, unless
    `obey_nofollow` is off. `user_agent_token` is our name in robots rules. `follow_feeds`: the
    feeds of an HTML page are links too. O(size).
    """
    parser = parsers.get(_media_type(content_type))
    if parser is None:
        return ParsedPage()
    charset = sniff(payload, content_type)
    page = ParsedPage(charset, declared_language(payload, charset))
    agents = ("robots", user_agent_token.lower())
    page.nofollow = header_says_nofollow(x_robots_tag, agents[1])
    if page.nofollow and obey_nofollow:
        return page
    markup = parser(payload, page.charset, follow_rel_nofollow=follow_rel_nofollow)
    page.nofollow |= any(
        name in agents and _says_nofollow(content) for name, content in markup.robots
    )
    if page.nofollow and obey_nofollow:
        return page
    # A base that is not http(s) is ignored (HTML, 4.2.3: data: and javascript: are).
    base = (markup.base and canonicalize(markup.base, url)) or url
    room = min(MAX_PAGE_LENGTH, _LINKS_ROOM + 3 * len(payload))
    hrefs = markup.hrefs + markup.feeds if follow_feeds else markup.hrefs
    page.links, page.found = canonicalize_each(hrefs, base, page.charset, room)
    return page


def _says_nofollow(directives: str) -> bool:
    words = directives.lower().replace(",", " ").split()
    return "nofollow" in words or "none" in words


def header_says_nofollow(x_robots_tag: str, agent: str) -> bool:
    """Whether an X-Robots-Tag for all agents, or for `agent`, has nofollow.

    `[agent:] directive, directive`: a name applies up to the end of its line, or the next name.
    """
    for line in x_robots_tag.splitlines():
        for_us = True
        for directive in line.split(","):
            named = _AGENT.match(directive)
            if named and named[1].lower() not in _WITH_VALUE:
                for_us = named[1].lower() in ("robots", agent)
                directive = named[2]
            if for_us and directive.strip().lower() in ("nofollow", "none"):
                return True
    return False
