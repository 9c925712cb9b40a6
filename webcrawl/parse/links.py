"""The links of an HTML page, its meta elements for robots and its licences, as they are written.

Owns which elements and attributes are links. Resolving, canonical form and scope are elsewhere.
Images, scripts, style sheets, forms and media are not links: this crawl collects pages. `<embed>`
and `<object>` are, since they may hold a page.

The content of `<noscript>` is read, as the Standard says for a client that runs no scripts.
"""

from __future__ import annotations

import re

from msgspec import Struct

from webcrawl.parse.charset import decode, in_ascii_superset
from webcrawl.parse.markup import attributes_of, tags, value_finder
from webcrawl.parse.references import unescape

TITLE_MAX = 500  # characters
_TITLE_BYTES = 8_000  # of which it is made: a character may be written as &#x1F600;
_LINKED_PAGES = frozenset(("canonical", "next", "prev"))
_FEEDS = frozenset(("application/rss+xml", "application/atom+xml", "application/rdf+xml"))
_link_target = {
    b"a": value_finder("href"),
    b"area": value_finder("href"),
    b"embed": value_finder("src"),
    b"frame": value_finder("src"),
    b"iframe": value_finder("src"),
    b"object": value_finder("data"),
}
# WHATWG HTML, 4.2.5.3, shared declarative refresh steps: a time, a separator, perhaps "url=".
_REFRESH = re.compile(
    r"[\t\n\f\r ]*(?:[0-9][0-9.]*|\.[0-9.]*)(?=[\t\n\f\r ;,])[\t\n\f\r ]*[;,]?[\t\n\f\r ]*"
    r"(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?(?:\"([^\"]*)|'([^']*)|(.*))",
    re.IGNORECASE | re.DOTALL,
)


class Markup(Struct):
    """The links and robots directives of a page, unresolved. All text is decoded."""

    hrefs: list[str] = []  # in document order, repeats kept
    feeds: list[str] = []  # of <link rel=alternate type=...>
    base: str = ""  # the first <base href>
    robots: list[tuple[str, str]] = []  # <meta>: name in lower case, content
    licenses: list[str] = []  # of <link rel=license>
    moves: bool = False  # a `<meta http-equiv=refresh>` names a URL, which is one of `hrefs`
    title: str = ""  # of the first <title> with text, white space as one space; TITLE_MAX at most


def read_html(payload: bytes, charset: str, *, xml: bool = False) -> Markup:
    """Links of an HTML page. O(size) for any page.

    `xml`: it is XHTML. Deviation: read as HTML, except that `<script/>` has no content. So the
    links of an ill-formed page are found too.
    """
    payload, charset = in_ascii_superset(payload, charset)
    page = Markup()
    base = None
    for hrefs, name, attributes in tags(payload, xml=xml):
        if hrefs:
            page.hrefs += _texts(hrefs, charset)
        if find := _link_target.get(name):
            found = find(attributes)
            if found and found.lastindex:
                page.hrefs.append(_text(found[found.lastindex], charset))
        elif name == b"link":
            values = attributes_of(attributes)
            _read_link(page, values, charset)
        elif name == b"meta":
            _read_meta(page, attributes_of(attributes), charset)
        elif name == b"title" and not page.title:
            page.title = _title(attributes, charset)
        elif name == b"base" and base is None:
            base = attributes_of(attributes).get(b"href")
    page.base = _text(base, charset) if base else ""
    return page


def title_of(payload: bytes, charset: str) -> str:
    """`Markup.title` of an HTML page; what comes after is not read. O(size)."""
    payload, charset = in_ascii_superset(payload, charset)
    titles = (_title(text, charset) for _, name, text in tags(payload) if name == b"title")
    return next(filter(None, titles), "")


def _title(raw: bytes, charset: str) -> str:
    return " ".join(_text(raw[:_TITLE_BYTES], charset).split())[:TITLE_MAX]


def _read_link(page: Markup, values: dict[bytes, bytes], charset: str) -> None:
    """<link>: a page, the same page in another language (hreflang), a feed, or a licence."""
    if b"href" not in values:
        return
    rel = _text(values.get(b"rel", b""), charset).lower().split()
    is_alternate = "alternate" in rel and "stylesheet" not in rel
    if "license" in rel:
        page.licenses.append(_text(values[b"href"], charset))
    if not _LINKED_PAGES.isdisjoint(rel) or (is_alternate and b"hreflang" in values):
        page.hrefs.append(_text(values[b"href"], charset))
    elif is_alternate:
        media_type = _text(values.get(b"type", b""), charset).partition(";")[0].strip().lower()
        if media_type in _FEEDS:
            page.feeds.append(_text(values[b"href"], charset))


def _read_meta(page: Markup, values: dict[bytes, bytes], charset: str) -> None:
    content = values.get(b"content", b"")
    if b"http-equiv" in values and _text(values[b"http-equiv"], charset).lower() == "refresh":
        if target := refresh_target(_text(content, charset)):
            page.hrefs.append(target)
            page.moves = True
    elif b"name" in values:
        name = _text(values[b"name"], charset).strip().lower()
        page.robots.append((name, _text(content, charset)))


def refresh_target(content: str) -> str:
    """The URL in a refresh, of a `<meta>` or of the header `Refresh`; "" without one. O(length)."""
    refresh = _REFRESH.match(content)
    return str(refresh[refresh.lastindex or 0]) if refresh else ""


def _texts(hrefs: list[bytes], charset: str) -> list[str]:
    """The text of each href. Plain hrefs are decoded together, joined by `"`: the scanner found
    each of them between quotation marks, so they contain no such mark.
    """
    together = b'"'.join(hrefs)
    if b"&" in together or b"\0" in together or not together.isascii():
        return [_text(href, charset) for href in hrefs]
    return together.decode("ascii").split('"')


def _text(value: bytes, charset: str) -> str:
    """The raw `value` of an attribute as text."""
    text = value.decode("ascii") if value.isascii() else decode(value, charset)
    if "&" in text:
        text = unescape(text)
    return text.replace("\0", "\ufffd") if "\0" in text else text
