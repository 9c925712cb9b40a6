"""The text of an HTML page, as resiliparse 2 reads it: all of it, and the main text.

Owns the bounds within which a page is read. Knows nothing of WARC files and of languages.

A tree may cost far more than its page: a formatting element that stays open is repeated in each
later paragraph (29 kB of `<p><b id=1>x`, `<p><b id=2>x` ... take 955 MB), the main text is sought
in each box, each line of a list is indented, and each attribute is compared with all others of its
tag. So the depth of a page times its length is estimated before it is parsed. If that is too much,
lists, boxes and formatting are taken out and their text stays. The estimate reads end tags as they
are written: a page can hide them in comments. So a process that reads strange pages sets
RLIMIT_DATA, and `read` then returns such a page without text.

Main text on 73 pages of five manuals (DocBook, Sphinx), of which 35 are Portuguese, against the
container of their content: word F1 0.934 in Portuguese and 0.924 in others (trafilatura 0.912 and
0.859), tables 0.999, program text 0.965. It leaves out boxes whose class is "sidebar", which are a
quarter of the Debian handbook: without them precision is 1.0 and recall 0.98 to 0.99.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from resiliparse.extract.html2text import extract_plain_text
from resiliparse.parse.html import HTMLParserException, HTMLTree

from webcrawl.parse.charset import decode, sniff
from webcrawl.parse.language import declared_language
from webcrawl.parse.links import TITLE_MAX

PAGE_MAX_BYTES: Final = 1 << 20  # what comes after is not read

# Tags and lines, times the depth. A page of 1 MB has some 30,000 and is 15 deep.
_FORMATTED_MAX = 1_000_000  # 120 MB
_BOXED_MAX = 16_000_000  # 0.2 s, or 32 MB of indentation
# The attributes of a shorter page take a second at most: 0.7 s for 200 kB in one tag.
_SHORT_BYTES = 200_000
_TAG_MAX_BYTES = 16_384  # of a longer page

# Targets of links as XHTML writes them. As HTML they are not closed, and what follows would be the
# text of a link, which is no main text: half of some pages of DocBook.
_close_targets = re.compile(rb"""(<a\s(?:id|name)="[^"<>]{0,200}"\s?)/>""").sub

_FORMATTING = (  # HTML, 13.2.4.3, without <a>, which ends the one before
    *(b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike"),
    *(b"strong", b"tt", b"u"),
)
_BOXES = (b"article", b"div", b"ol", b"ul")
_NESTING = rb"</?(?:%s)(?=[\s/>])" % b"|".join(_FORMATTING + _BOXES)
_nesting = re.compile(_NESTING).findall  # of lower case: IGNORECASE doubles the time
_replace_nesting = re.compile(_NESTING, re.IGNORECASE).sub
_STEPS = {
    each: step
    for name in _FORMATTING + _BOXES
    for each, step in ((b"<" + name, 1), (b"</" + name, -1))
}
_FORMATTING_TAGS = frozenset(end + name for name in _FORMATTING for end in (b"<", b"</"))
_RAW_STARTS = (b"<script", b"<style>", b"<style ")
_tag = re.compile(  # or a script, or a comment (HTML, 13.2.5)
    rb"""<!--.*?(?:-->|\Z)|<(?:script|style)\b.*?(?:</(?:script|style)|\Z)|<[a-z][^\s/>]*+"""
    rb"""(?:[\s/]++|[^\s/>][^\s/>=]*+"""
    rb"""(?:\s*+=\s*+(?:"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\s>"'][^\s>]*+|))?)*+""",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says. `all_text` has menus and footers, `main_text` has fewer of them."""

    title: str  # one line
    declared_language: str  # `lang` of its <html>: BCP 47, in lower case; "" without one
    all_text: str
    main_text: str


def read(html: bytes, charset: str | None, *, with_main: bool = True) -> PageText:
    """The texts of the first PAGE_MAX_BYTES of `html`. Raises nothing, for any bytes.

    `charset`: its WHATWG name, as `sniff` returns it with the HTTP header; None without a header.
    """
    html = html[:PAGE_MAX_BYTES]
    charset = charset or sniff(html)
    language = declared_language(html, charset)
    text = bounded(decode(html, charset).encode("utf-8", "replace"))
    try:
        tree = HTMLTree.parse(_close_targets(rb"\1></a>", text).decode())
    except HTMLParserException:  # no memory
        return PageText("", language, "", "")
    texts = [
        extract_plain_text(tree, main_content=is_main, list_bullets=False, alt_texts=False)
        for is_main in ((False, True) if with_main else (False,))
    ]
    title = " ".join((tree.title or "")[:TITLE_MAX].split())
    return PageText(title, language, texts[0], texts[1] if with_main else "")


def bounded(html: bytes) -> bytes:
    """`html`, in UTF-8, without the tags that make a tree cost too much. O(size): 2 µs per kB."""
    if len(html) > _SHORT_BYTES and max(map(len, _tag.findall(html)), default=0) > _TAG_MAX_BYTES:
        html = _tag.sub(_shortened, html)
    tags = html.count(b"<")
    size = tags + html.count(b"\n")
    if size * tags <= _FORMATTED_MAX:
        return html
    depths = {True: 0, False: 0}
    deepest = {True: 0, False: 0}
    for tag in _nesting(html.lower()):
        kind = tag in _FORMATTING_TAGS
        depth = depths[kind] = max(0, depths[kind] + _STEPS[tag])
        if depth > deepest[kind]:
            deepest[kind] = depth
    if size * deepest[True] <= _FORMATTED_MAX and size * deepest[False] <= _BOXED_MAX:
        return html
    return _replace_nesting(_neutral, html)


def _shortened(tag: re.Match[bytes]) -> bytes:
    """A tag of too many attributes loses them. Scripts and comments stay."""
    found = tag[0]
    if len(found) <= _TAG_MAX_BYTES or found[:2] == b"<!" or found[:7].lower() in _RAW_STARTS:
        return found
    return found[:64].split()[0].split(b"/")[0]


def _neutral(tag: re.Match[bytes]) -> bytes:
    """A line end in place of a box, nothing in place of formatting; attributes stay."""
    return b"<wbr" if tag[0].lower() in _FORMATTING_TAGS else b"<br"
