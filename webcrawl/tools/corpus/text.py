"""The text of an HTML page, as resiliparse 2 reads it: all of it, and the main text.

Owns the bounds within which a page is read. Knows nothing of WARC files and of languages.

A tree may cost far more than its page: a formatting element that stays open is repeated in each
later paragraph (29 kB of `<p><b id=1>x`, `<p><b id=2>x` ... take 955 MB), the main text is sought
in each box, each line of a list is indented, and each attribute is compared with all others of its
tag (1 MB in one tag takes 100 s). So a tag of too many attributes becomes text, and the depth of a
page times its length is estimated before it is parsed. If that is too much, lists, boxes and
formatting are taken out and their text stays. The estimate reads end tags as they are written: a
page can hide them in comments. So a process that reads strange pages sets RLIMIT_DATA, and `read`
then returns such a page without text.

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
from webcrawl.parse.links import TITLE_MAX
from webcrawl.parse.markup import crowded_by_regex

PAGE_MAX_BYTES: Final = 1 << 20  # what comes after is not read

# Tags and lines, times the depth. A page of 1 MB has some 30,000 and is 15 deep.
_FORMATTED_MAX = 1_000_000  # 120 MB
_BOXED_MAX = 16_000_000  # 0.2 s, or 32 MB of indentation
_ATTRIBUTES_MAX = 500  # of a tag: 1 MB of such tags takes half a second
_AGAIN_MAX = 16  # times the size, which is read of tags that begin within tags

# Targets of links as XHTML writes them. As HTML they are not closed, and what follows would be the
# text of a link, which is no main text: half of some pages of DocBook.
_close_targets = re.compile(rb"""(<a\s(?:id|name)="[^"<>]{0,200}"\s?)/>""").sub

_FORMATTING = (  # HTML, 13.2.4.3, without <a>, which ends the one before
    *(b"b", b"big", b"code", b"em", b"font", b"i", b"nobr", b"s", b"small", b"strike"),
    *(b"strong", b"tt", b"u"),
)
_BOXES = (b"article", b"div", b"ol", b"ul")
_nesting = re.compile(
    rb"<(/?)(%s)(?=[\t\n\f\r />])" % b"|".join(_FORMATTING + _BOXES), re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says. `all_text` has menus and footers, `main_text` has fewer of them."""

    title: str  # one line
    all_text: str
    main_text: str

    @property
    def best_text(self) -> str:
        """The main text; all of it if there is none, or none was read."""
        return self.main_text or self.all_text


def read(html: bytes, charset: str | None, *, with_main: bool = True) -> PageText:
    """The texts of the first PAGE_MAX_BYTES of `html`, of as many characters at most. Raises
    nothing, for any bytes.

    `charset`: its WHATWG name, as `sniff` returns it with the HTTP header; None without a header.
    """
    html = html[:PAGE_MAX_BYTES]
    charset = charset or sniff(html)
    text = decode(html, charset)
    is_whole = charset == "utf-8" and "\ufffd" not in text and html[:1] != b"\xef"  # of a BOM
    encoded = html if is_whole else text.encode("utf-8", "replace")
    kept = _close_targets(rb"\1></a>", bounded(encoded))
    try:
        tree = HTMLTree.parse(text if kept is encoded else kept.decode())
    except HTMLParserException:  # no memory
        return PageText("", "", "")
    texts = [
        extract_plain_text(tree, main_content=is_main, list_bullets=False, alt_texts=False)[
            :PAGE_MAX_BYTES  # a few kB of nested lists would have 32 MB of indentation
        ]
        for is_main in ((False, True) if with_main else (False,))
    ]
    title = " ".join((tree.title or "")[:TITLE_MAX].split())
    return PageText(title, texts[0], texts[1] if with_main else "")


def bounded(html: bytes) -> bytes:
    """`html`, in UTF-8, without the tags that make a tree cost too much; the same object if there
    are none. O(size): 2 µs per kB, 30 without the C module.
    """
    if places := crowded(html, _ATTRIBUTES_MAX, _AGAIN_MAX):
        page = bytearray(html)
        for place in places:
            page[place] = ord("_")
        html = bytes(page)
    formatting, boxes = depths(html)
    if _fits(len(html), formatting, boxes):  # counting tags takes three times as long
        return html
    tags = html.count(b"<")
    size = tags + html.count(b"\n")
    if size * tags <= _FORMATTED_MAX or _fits(size, formatting, boxes):
        return html
    return _nesting.sub(_neutral, html)


def _fits(size: int, formatting: int, boxes: int) -> bool:
    return size * formatting <= _FORMATTED_MAX and size * boxes <= _BOXED_MAX


def _neutral(tag: re.Match[bytes]) -> bytes:
    """A line end in place of a box, nothing in place of formatting; attributes stay."""
    return b"<wbr" if tag[2].lower() in _FORMATTING else b"<br"


def depths_by_regex(html: bytes) -> tuple[int, int]:
    """How many formatting elements are open at once at most, and how many boxes and lists."""
    depth, deepest = {True: 0, False: 0}, {True: 0, False: 0}
    for end, name in _nesting.findall(html):
        kind = name.lower() in _FORMATTING
        depth[kind] = max(0, depth[kind] + (-1 if end else 1))
        deepest[kind] = max(deepest[kind], depth[kind])
    return deepest[True], deepest[False]


try:
    from webcrawl_scan import crowded, depths
except ImportError:  # the C module was not built: no compiler
    crowded, depths = crowded_by_regex, depths_by_regex
