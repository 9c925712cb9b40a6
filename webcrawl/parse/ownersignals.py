"""Owners' signals: what owners say about the use of their pages, word for word.

Owns which headers, `<meta>` elements and lines of robots.txt are such signals, and which of their
words are read. Decides nothing. Pure.

| signal | where | source |
| --- | --- | --- |
| `X-Robots-Tag`, all headers with all their agents | header | search engines' documentation |
| meta robots, of `robots` and of the crawler's names | page | the same |
| `Content-Usage` | header, robots.txt | IETF aipref, drafts attach and vocab |
| `Content-Signal` | robots.txt | contentsignals.org |
| `tdm-reservation`, `tdm-policy` | header, meta | W3C TDMRep, 5 and 6 |
| `License` | robots.txt | RSL |
| `Link` with `rel="license"`, `<link rel=license>` | header, page | RSL; HTML, 4.6.7.10 |

A signal is one line, `NAME: VALUE`, of a meta element `meta NAME: VALUE`, of a link element `link
license: HREF`. White space in a value is one space, and characters that cannot be printed are
U+FFFD: it is shown in terminals and logs. The rest is as the owner wrote it, up to VALUE_MAX
characters. A page has SIGNALS_MAX lines at most, of TEXT_MAX characters together, and one that
counts those left out (of elements, and of a group of robots.txt, 100 are looked at); so has a
robots.txt.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Final

from webcrawl.parse.charset import utf8_or_latin1
from webcrawl.parse.robots import RobotsParser, readable

SIGNALS_MAX: Final = 16
VALUE_MAX: Final = 1_000
TEXT_MAX: Final = 4_000
ROBOTS_HEADER: Final = "X-Robots-Tag"

_HEADERS: Final = {
    b"x-robots-tag": ROBOTS_HEADER,
    b"content-usage": "Content-Usage",
    b"tdm-reservation": "tdm-reservation",
    b"tdm-policy": "tdm-policy",
    b"link": "Link",
}
# RFC 8288, 3: a link of the header Link, and its parameters. Linear: a "<" ends a failed try.
_LINK: Final = re.compile(rb'<[^<>]*+>(?:"[^"]*+"|[^",<])*+')
_PARAMETER: Final = re.compile(
    rb';[ \t]*+([\w*-]++)[ \t]*+(?:=[ \t]*+(?:"([^"]*+)"|([^;, \t]++)))?'
)
_METAS_MAX: Final = 100
METAS: Final = frozenset({"tdm-reservation", "tdm-policy"})
# Directives of robots that the crawl can obey, and noindex, a column of `scrapy corpus`. "none" is
# "noindex, nofollow".
_DIRECTIVES: Final = frozenset({"nofollow", "none", "noarchive", "noindex"})
# X-Robots-Tag directives with a colon of their own. Any other word before a colon is an agent.
_WITH_VALUE: Final = frozenset(
    ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
)
_AGENT: Final = re.compile(r"[ \t]*([A-Za-z_-]+)[ \t]*:(.*)", re.DOTALL)
_IN_ROBOTS: Final = (b"content-usage", b"content-signal", b"license")

Lines = list[str]
Meta = tuple[str, str]  # name in lower case, content


def bounded(lines: Iterable[str]) -> Lines:
    """The first of `lines`, within the bounds of the module's docstring."""
    kept: Lines = []
    room = TEXT_MAX
    every = list(lines)
    for number, line in enumerate(every):
        if number == SIGNALS_MAX or len(line) > room:
            kept.append(f"... {len(every) - number} more")
            break
        room -= len(line)
        kept.append(line)
    return kept


def header_signals(headers: Iterable[tuple[bytes, bytes]]) -> Lines:
    """The signals among the headers of an answer, in their order. 1 µs; O(headers).

    The names are in lower case.
    """
    return [
        f"{_HEADERS[name]}: {_printable(utf8_or_latin1(said))}"
        for name, value in headers
        if name in _HEADERS
        for said in ((value,) if name != b"link" else _licenses(value))
    ]


def _licenses(link: bytes) -> list[bytes]:
    """The links of a `Link` header that have the relation "license"."""
    if b"license" not in link.lower():
        return []
    return [each[0] for each in _LINK.finditer(link) if b"license" in _relations(each[0])]


def _relations(link: bytes) -> list[bytes]:
    """The relations of one link: its first `rel` (RFC 8288, 3.3), in lower case."""
    for name, quoted, plain in _PARAMETER.findall(link, link.index(b">")):
        if name.lower() == b"rel":
            relations: bytes = quoted or plain
            return relations.lower().split()
    return []


def license_signals(hrefs: Iterable[str]) -> Lines:
    """The signals of the `<link rel=license>` of a page."""
    return [f"link license: {_printable(href)}" for href in islice(hrefs, _METAS_MAX)]


def meta_signals(metas: Iterable[Meta]) -> Lines:
    """The signals of the `<meta>` that apply."""
    return [f"meta {name}: {_printable(text)}" for name, text in islice(metas, _METAS_MAX)]


def robots_signals(body: bytes, names: str) -> tuple[str, ...]:
    """The signals in a robots.txt for any of `names` (`jointrules.names_key`). O(body).

    Lines of a group count if it is the group of one of the names; `License`, and lines before the
    first group, always do. Nearly always there are none: then 1 ns an octet.
    """
    lower = body.lower()
    for word in _IN_ROBOTS:
        if word in lower:
            break
    else:
        return ()
    tokens = names.split(",")
    parser = RobotsParser(*tokens)
    for line in readable(body).splitlines():
        parser.feed(line)
    said = dict.fromkeys(parser.said)
    for token in tokens:
        said |= dict.fromkeys(parser.group(token).said)
    return tuple(bounded(f"{name}: {_printable(utf8_or_latin1(value))}" for name, value in said))


def meta_directives(metas: Iterable[Meta], agents: Collection[str]) -> set[str]:
    """The directives for `agents` that are read."""
    found: set[str] = set()
    for name, content in metas:
        if name in agents:
            found |= _DIRECTIVES.intersection(content.lower().replace(",", " ").split())
    return found


def header_directives(x_robots_tag: str, agents: Collection[str]) -> set[str]:
    """The directives of X-Robots-Tag, for all agents or for one of `agents`, that are read.

    `[agent:] directive, directive`: a name applies up to the end of its line, or the next name.
    Several headers are joined by newlines.
    """
    found: set[str] = set()
    for line in x_robots_tag.splitlines():
        for_us = True
        for directive in line.split(","):
            named = _AGENT.match(directive)
            if named and named[1].lower() not in _WITH_VALUE:
                for_us = named[1].lower() in agents
                directive = named[2]
            if for_us and (word := directive.strip().lower()) in _DIRECTIVES:
                found.add(word)
    return found


def _printable(text: str) -> str:
    """A value in one line."""
    text = " ".join(text[: 4 * VALUE_MAX].split())
    if not text.isprintable():
        text = "".join(each if each.isprintable() else "\ufffd" for each in text)
    return text if len(text) <= VALUE_MAX else text[: VALUE_MAX - 3] + "..."
