"""The tokens of an HTML page: how many words its text has.

The text is what stands outside of tags, comments, scripts, style sheets, templates and other
elements that are not shown; the title counts. A token is a longest run of letters, marks, numbers
(Unicode categories L, M and N) and underscores. So a run of Chinese characters is one token.

Linear in the size of the page: repeats are possessive, and an unclosed tag extends to the end of
the page, as in `parse.markup`. Nothing here raises for any bytes.
"""

from __future__ import annotations

import re
import unicodedata

from webcrawl.parse.charset import decode, sniff
from webcrawl.parse.references import unescape

_NOT_SHOWN = ("script", "style", "template", "noframes", "noembed", "iframe", "svg", "math")
_ELEMENTS = "|".join(_NOT_SHOWN)
# Inline elements end no word: "<b>w</b>ord" is one token.
_INLINE = "a|abbr|b|bdi|bdo|big|cite|code|dfn|em|font|i|ins|kbd|mark|q|s|samp|small|span|strike"
_INLINE += "|strong|sub|sup|tt|u|var|wbr"
_REST = r"""(?:[^>"']|"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z))*+(?:>|\Z)"""
_inline = re.compile(rf"</?(?:{_INLINE})(?=[\s/>]){_REST}".encode(), re.IGNORECASE)
_hidden = re.compile(
    (
        rf"<({_ELEMENTS})(?=[\s/>]){_REST}(?:[^<]|<(?!/\1))*+"
        rf"|<!--(?:[^-]|-(?!-!?>))*+(?:--!?>|\Z)|<[A-Za-z/!?]{_REST}"
    ).encode(),
    re.IGNORECASE,
)
_ASCII_SUPERSET_NOT = ("utf-16le", "utf-16be", "iso-2022-jp")


def visible_text(payload: bytes, content_type: str = "") -> str:
    """The text of an HTML page; `content_type` is the value of the HTTP header."""
    charset = sniff(payload, content_type)
    if charset in _ASCII_SUPERSET_NOT:
        payload, charset = decode(payload, charset).encode("utf-8", "replace"), "utf-8"
    text = decode(_hidden.sub(b" ", _inline.sub(b"", payload)), charset)
    return unescape(text) if "&" in text else text


class _Separators(dict[int, str]):
    """For `str.translate`: a space for each character that is not part of a token."""

    def __missing__(self, code: int) -> str:
        is_part = chr(code) == "_" or unicodedata.category(chr(code))[0] in "LMN"
        self[code] = chr(code) if is_part else " "
        return self[code]


_separators = _Separators()


def count_tokens(payload: bytes, content_type: str = "") -> int:
    """Tokens of an HTML page."""
    return len(visible_text(payload, content_type).translate(_separators).split())
