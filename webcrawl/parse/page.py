"""What is read from one page: its links in canonical form, and whether it lets them be followed.

Owns the choice of a parser by media type (`PARSERS`) and the rules of meta robots and
`X-Robots-Tag`. A media type is added by putting a parser into `PARSERS`; nothing else changes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

from webcrawl.parse.charset import sniff
from webcrawl.parse.links import Markup, read_html, read_xhtml
from webcrawl.parse.urls import MAX_PAGE_LENGTH, canonicalize, canonicalize_each

# What takes less than 50 ms whatever it holds: a tag takes up to 9 us with its link, and a byte of
# what is in tags up to 0.35.
QUICK_BYTES = 128 * 1024
QUICK_TAGS = 4_000
# Characters of the links of a page: a megabyte, and three times its size. A page that holds nothing
# but links to its own folder reaches it where that folder's URL has 1,000.
_LINKS_ROOM = 1024 * 1024


class Parser(Protocol):
    """Reads a payload in `charset` (a WHATWG name). Never raises, in time O(size)."""

    def __call__(
        self, payload: bytes, charset: str, *, follow_rel_nofollow: bool = True
    ) -> Markup: ...


PARSERS: dict[str, Parser] = {
    "text/html": read_html,
    "application/xhtml+xml": read_xhtml,
}

# X-Robots-Tag directives that hold a colon of their own; any other word before one is an agent.
_WITH_VALUE = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
)
_AGENT = re.compile(r"[ \t]*([A-Za-z_-]+)[ \t]*:(.*)", re.DOTALL)


@dataclass(slots=True)
class ParsedPage:
    """What was read from one page."""

    charset: str = ""  # WHATWG name; "" where there is no parser for the media type
    links: list[str] = field(default_factory=list)  # canonical http(s), each once, in order
    found: int = 0  # http(s) links before repeats were dropped
    nofollow: bool = False  # the page asks for its links not to be followed


def reads_quickly(payload: bytes) -> bool:
    """Whether `read_page` takes less than 50 ms for `payload`, so that an event loop may wait for
    it. 20 us for a page of 50 KB, and none below 32 KB.
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
) -> ParsedPage:
    """Links of the page at `url` (canonical), whose headers said `content_type`.

    `x_robots_tag` is the header's value; several headers are joined by newlines (or commas).
    A page that asks for nofollow has `found` 0 and no links, a meta refresh's target included,
    unless `obey_nofollow` is off. `user_agent_token` is our name in robots rules. O(size).
    """
    parser = PARSERS.get(_media_type(content_type))
    if parser is None:
        return ParsedPage()
    page = ParsedPage(sniff(payload, content_type))
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
    # A base that is not http(s) counts for nothing (HTML, 4.2.3: data: and javascript: do not).
    base = (markup.base and canonicalize(markup.base, url)) or url
    room = min(MAX_PAGE_LENGTH, _LINKS_ROOM + 3 * len(payload))
    page.links, page.found = canonicalize_each(markup.hrefs, base, page.charset, room)
    return page


def _says_nofollow(directives: str) -> bool:
    words = directives.lower().replace(",", " ").split()
    return "nofollow" in words or "none" in words


def header_says_nofollow(x_robots_tag: str, agent: str) -> bool:
    """Whether an X-Robots-Tag that is for all, or for `agent`, says nofollow.

    `[agent:] directive, directive`: an agent's name holds to the end of its line, or the next name.
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
