"""The title of an HTML page."""

from __future__ import annotations

import re

from webcrawl.parse.charset import decode, sniff
from webcrawl.parse.references import unescape

TITLE_MAX = 1_000  # characters

# Each alternative matches up to the end of a page in which it is not closed: O(size).
_title = re.compile(
    rb"<!--.*?(?:-->|\Z)|<(script|style|svg)\b.*?(?:</\1|\Z)"
    rb"|<title(?=[\s/>])[^>]*+(?:>|\Z)(.*?)(?:</title|\Z)",
    re.IGNORECASE | re.DOTALL,
)
_ASCII_SUPERSET_NOT = ("utf-16le", "utf-16be", "iso-2022-jp")


def title_of(payload: bytes, content_type: str) -> str:
    """The text of the first `<title>`, its white space collapsed; "" without one.

    `content_type` is the value of the HTTP header. Never raises.
    """
    charset = sniff(payload, content_type)
    if charset in _ASCII_SUPERSET_NOT:
        payload, charset = decode(payload, charset).encode("utf-8", "replace"), "utf-8"
    for found in _title.finditer(payload):
        if found[2] is not None:
            text = unescape(decode(found[2][: 8 * TITLE_MAX], charset))
            return " ".join(text.split())[:TITLE_MAX]
    return ""
