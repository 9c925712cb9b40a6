"""The files that a page shows: images, style sheets and what they name, scripts, icons, media.

Owns which elements, attributes and tokens of CSS name such a file, so that a replay of the page
finds it. Frames are not here: they are pages, and links (`links`). Nor are files that only scripts
name, or `/favicon.ico`, which no page names.

Hostile input: O(size), and REQUISITES_MAX references of a page or style sheet at most.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from webcrawl.parse.charset import decode, in_ascii_superset
from webcrawl.parse.markup import attributes_of, scan_shown, tags
from webcrawl.parse.references import unescape
from webcrawl.parse.urls import MAX_LENGTH

REQUISITES_MAX: Final = 1_000
CSS_TYPE: Final = "text/css"

# HTML, 4.2.4, 4.8 and 15.3; SVG 2, 5.6 and 9.1. `link` and `input` are tested by their values.
_NAMED_BY: Final[dict[bytes, tuple[bytes, ...]]] = {
    b"img": (b"src",),
    b"source": (b"src",),
    b"script": (b"src",),
    b"video": (b"src", b"poster"),
    b"audio": (b"src",),
    b"track": (b"src",),
    b"embed": (b"src",),
    b"object": (b"data",),
    b"image": (b"href", b"xlink:href"),
    b"use": (b"href", b"xlink:href"),
}
_LISTED_BY: Final = {b"img": b"srcset", b"source": b"srcset", b"link": b"imagesrcset"}
_ICONS: Final = ("icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon")
_SHOWN_RELS: Final = {"stylesheet", *_ICONS, "preload", "modulepreload", "manifest"}
_candidate = re.compile(  # HTML, 4.8.4.3.10: white space and commas, a URL
    r"[\t\n\f\r ,]*+([^\t\n\f\r ]++)"
).match
_descriptors = re.compile(r"(?:[^(,]++|\([^)]*+\)?)*+,?").match  # of a candidate, up to its comma


def shown_by_html(payload: bytes, charset: str, *, xml: bool = False) -> list[str]:
    """The references of a page, unresolved, each once, in their order. O(size)."""
    payload, charset = in_ascii_superset(payload, charset)
    found = tags(payload, xml=xml, scanner=scan_shown, texts=(b"style",))
    return _files(each for _, name, text in found for each in _of_tag(name, text, charset))


def shown_by_css(text: str) -> list[str]:
    """The references of a style sheet, unresolved, each once, in their order. O(length)."""
    return _files(urls_of_css(text))


def _files(references: Iterable[str]) -> list[str]:
    """Those that may name another file, which can be asked for: REQUISITES_MAX at most."""
    shown: dict[str, None] = {}
    for each in map(str.strip, references):
        if 0 < len(each) <= MAX_LENGTH and each[0] != "#" and each[:5].lower() != "data:":
            shown[each] = None
            if len(shown) == REQUISITES_MAX:
                break
    return [*shown]


def _of_tag(name: bytes, attributes: bytes, charset: str) -> Iterator[str]:
    if name == b"style":
        yield from urls_of_css(_text(attributes, charset, is_raw=True))
        return
    values = attributes_of(attributes)
    is_shown = True
    if name == b"link":
        rels = _text(values.get(b"rel", b""), charset).lower().split()
        is_shown = not _SHOWN_RELS.isdisjoint(rels)
        names: tuple[bytes, ...] = (b"href",)
    elif name == b"input":
        is_shown = values.get(b"type", b"").lower() == b"image"
        names = (b"src",)
    else:
        names = _NAMED_BY.get(name, ())
    if is_shown:
        yield from (_text(values[each], charset) for each in names if each in values)
        if (listed := values.get(_LISTED_BY.get(name, b""))) is not None:
            yield from urls_of_srcset(_text(listed, charset))
    if b"background" in values:
        yield _text(values[b"background"], charset)
    if b"style" in values:
        yield from urls_of_css(_text(values[b"style"], charset))


def _text(value: bytes, charset: str, *, is_raw: bool = False) -> str:
    text = decode(value, charset)
    return unescape(text) if "&" in text and not is_raw else text


def urls_of_srcset(text: str) -> Iterator[str]:
    """The URLs of an attribute `srcset` (HTML, 4.8.4.3.10). O(length)."""
    at = 0
    while found := _candidate(text, at):
        url, at = found[1], found.end()
        if not url.endswith(","):
            descriptors = _descriptors(text, at)
            at = descriptors.end() if descriptors else at
        if url := url.rstrip(","):
            yield url


# CSS Syntax Level 3, 4: tokens. A line break ends a string, except behind a backslash.
_BLANK = r"[ \t\r\n\f]"
_HEX_ESCAPE = rf"[0-9A-Fa-f]{{1,6}}+(?:\r\n|{_BLANK})?+"
_ESCAPE = rf"\\(?:{_HEX_ESCAPE}|\r\n|.)?"
_COMMENT = r"/\*[^*]*+(?:\*(?!/)[^*]*+)*+(?:\*/|\Z)"
_GAP = rf"(?:{_BLANK}++|{_COMMENT})*+"


def _string(group: bool) -> str:
    begin = "(" if group else "(?:"
    return "|".join(
        rf"""{mark}{begin}(?:[^{mark}\\\n\r\f]++|{_ESCAPE})*+){mark}?""" for mark in "\"'"
    )


def _name(name: str) -> str:
    """Pattern of `name`, each letter perhaps as an escape (4.3.7). None may be a hex digit."""
    return "".join(
        rf"(?:{each}|\\{each}|\\0{{0,4}}(?:{ord(each):x}|{ord(each.upper()):x}){_BLANK}?)"
        for each in name
    )


# 4.3.6: what is behind "(" is a string, or the URL itself up to ")". A bad URL ends at ")" too.
_URL = (
    rf"{_name('url')}\({_BLANK}*+(?:{_string(True)}"
    rf"|((?:[^ \t\r\n\f\"'()\\]++|{_ESCAPE})*+){_BLANK}*+(?:\)|\Z)|(?:[^)\\]++|{_ESCAPE})*+\)?)"
)
_css_token = re.compile(
    rf"{_COMMENT}"
    # CSS Namespaces, 3: a namespace is no file.
    rf"|@namespace(?:[^;{{}}\"'/\\]++|{_string(False)}|{_COMMENT}|/|{_ESCAPE})*+"
    rf"|@{_name('import')}{_GAP}(?:{_string(True)})"
    rf"|(?<![\w\\-]){_URL}"
    rf"|(?<![\w\\-])(?P<set>(?:-webkit-)?image-set\()"  # CSS Images 4, 2.4: its strings are URLs
    rf"|(?P<string>{_string(False)})|(?P<open>\()|(?P<close>\))|{_ESCAPE}",
    re.IGNORECASE | re.DOTALL,
)
_css_escape = re.compile(  # 4.3.7; a backslash before a line break of a string is left out (4.3.5)
    rf"\\(?:([0-9A-Fa-f]{{1,6}})(?:\r\n|{_BLANK})?|(\r\n|[\n\r\f])|(.)|\Z)", re.DOTALL
)


def urls_of_css(text: str) -> Iterator[str]:
    """The URLs of a style sheet, or of an attribute `style`: `url()`, `@import`, and the strings of
    `image-set()`. O(length).

    A url() in a place where CSS does not allow one counts too.
    """
    depth = 0  # of parentheses in an image-set(); 0 outside
    for token in _css_token.finditer(text):
        kind = token.lastgroup
        if kind == "set":
            depth = 1
        elif kind == "open":
            depth += depth > 0
        elif kind == "close":
            depth -= depth > 0
        elif kind == "string":
            if depth == 1:
                yield _unescaped(token[0][1:].removesuffix(token[0][0]))
        elif token.lastindex and (url := _unescaped(token[token.lastindex])):
            yield url


def _unescaped(text: str) -> str:
    return _css_escape.sub(_character, text) if "\\" in text else text


def _character(escape: re.Match[str]) -> str:
    digits, line_break, character = escape.groups()
    if digits:
        code = int(digits, 16)
        is_scalar = 0 < code < 0x110000 and not 0xD800 <= code < 0xE000
        return chr(code) if is_scalar else "\ufffd"
    return "" if line_break else character or "\ufffd"
