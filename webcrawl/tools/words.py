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

from webcrawl.parse.charset import decode, in_ascii_superset, sniff
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
# Characters, one after the other: each reads the text once. A usual page has 20.
_REPLACED_MAX = 64


def visible_text(payload: bytes, content_type: str = "") -> str:
    """The text of an HTML page; `content_type` is the value of the HTTP header."""
    payload, charset = in_ascii_superset(payload, sniff(payload, content_type))
    text = decode(_hidden.sub(b" ", _inline.sub(b"", payload)), charset)
    return unescape(text) if "&" in text else text


def count_tokens(payload: bytes, content_type: str = "") -> int:
    """Tokens of an HTML page. 0.4 ms for 25 KB of text."""
    text = visible_text(payload, content_type)
    separators = [each for each in set(text) - {"_"} if unicodedata.category(each)[0] not in "LMN"]
    if len(separators) <= _REPLACED_MAX:
        for each in separators:
            text = text.replace(each, " ")
    else:
        text = text.translate(dict.fromkeys(map(ord, separators), " "))
    return len(text.split())
