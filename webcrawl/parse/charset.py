"""The character set of a page, as browsers find it.

Owns the choice. Names and labels are those of the WHATWG Encoding Standard, from webencodings.
Pure. Nothing here raises for any bytes: an unreadable byte becomes U+FFFD.
"""

from __future__ import annotations

import codecs
import re
from functools import lru_cache

import webencodings  # type: ignore[import-untyped]  # it ships no types

from webcrawl.parse.markup import attributes_of, metas

# A browser prescans 1024 bytes, and starts over if a later <meta> names another charset (WHATWG
# HTML, 13.2.3.2 and 13.2.6.4.4). Deviation: one prescan of as many bytes as nearly any head has,
# its scripts included.
PRESCAN_BYTES = 16_384
FALLBACK = "windows-1252"  # 13.2.3.2: the default suggested for most locales

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xfe\xff", "utf-16be"), (b"\xff\xfe", "utf-16le"))
_CHARSET = re.compile(  # 2.4.6: extracting a character encoding from a meta element
    r"""charset[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ;"'][^\t\n\f\r ;]*))""",
    re.IGNORECASE,
)
# 13.2.3.2, prescan: if the <meta> can be read as ASCII, the page is not in these encodings.
_NOT_IN_META = {"utf-16le": "utf-8", "utf-16be": "utf-8", "x-user-defined": "windows-1252"}

_CSS_CHARSET = re.compile(rb'@charset "([\x20\x21\x23-\x7e]{0,1013})";')

_encoding = lru_cache(64)(webencodings.lookup)  # most pages have one of a few labels


def sniff(payload: bytes, content_type: str = "") -> str:
    """WHATWG name of the encoding of `payload`; `content_type` is the value of the HTTP header.

    In order: byte order mark, HTTP header, `<meta>`, UTF-8 if valid, FALLBACK. 10 µs for a usual
    page; O(PRESCAN_BYTES), and O(size) for a page that names no charset.
    """
    for mark, charset in _BOMS if payload[:1] > b"\x7f" else ():
        if payload.startswith(mark):
            return charset
    return (
        _declared(content_type)
        or _prescan(payload[:PRESCAN_BYTES])
        or ("utf-8" if _is_utf8(payload) else FALLBACK)
    )


def decode_css(payload: bytes, content_type: str = "") -> str:
    """Text of a style sheet (CSS Syntax Level 3, 3.2). Without any name of an encoding, UTF-8."""
    charset = next((name for mark, name in _BOMS if payload.startswith(mark)), "")
    if not charset and not (charset := _declared(content_type)):
        rule = _CSS_CHARSET.match(payload)
        named = _named(rule[1].decode("ascii")) if rule else ""
        charset = _NOT_IN_META.get(named, named) or "utf-8"
    return decode(payload, charset)


def decode(payload: bytes, charset: str) -> str:
    """Text of `payload`, without its byte order mark. For an unknown `charset`, by FALLBACK."""
    encoding = _encoding(charset) or _encoding(FALLBACK)
    text: str = encoding.codec_info.decode(payload, "replace")[0]
    return text.removeprefix("\ufeff")


def utf8_or_latin1(text: bytes) -> str:
    """A text without a name of its encoding, as in a header."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def in_ascii_superset(payload: bytes, charset: str) -> tuple[bytes, str]:
    """`payload` and its charset so that markup can be found as bytes: in UTF-8 if need be."""
    if charset in ("utf-16le", "utf-16be", "iso-2022-jp"):
        return decode(payload, charset).encode("utf-8", "replace"), "utf-8"
    return payload, charset


def encode_query(query: str, charset: str) -> bytes:
    """`query` in the encoding in which a browser sends it from a page in `charset`.

    A character that `charset` lacks becomes an escaped `&#NNNN;` (WHATWG URL, 1.3: percent-encode
    after encoding). UTF-16 and unknown encodings give UTF-8 (Encoding, 4.3: get an output
    encoding).
    """
    encoding = None if charset.startswith("utf-16") else _encoding(charset)
    if encoding is None or encoding.name == "replacement":
        return query.encode("utf-8", "replace")
    encoded: bytes = encoding.codec_info.encode(query, "webcrawl.query")[0]
    return encoded


def _escaped_reference(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end]
    return "".join(f"%26%23{ord(character)}%3B" for character in lacking), error.end


codecs.register_error("webcrawl.query", _escaped_reference)


def _declared(text: str) -> str:
    """WHATWG name for the label after "charset=" in `text`; "" without a known label."""
    found = _CHARSET.search(text)
    return _named(found[1] or found[2] or found[3] or "") if found else ""


def _named(label: str) -> str:
    encoding = _encoding(label) if label.isascii() else None
    return encoding.name if encoding else ""


def _prescan(head: bytes) -> str:
    """WHATWG name of the encoding of the first `<meta>` with a known one; "" if there is none."""
    for tag in metas(head):
        attributes = attributes_of(tag)
        if b"charset" in attributes:
            charset = _named(attributes[b"charset"].decode("latin-1"))
        elif attributes.get(b"http-equiv", b"").lower() == b"content-type":
            charset = _declared(attributes.get(b"content", b"").decode("latin-1"))
        else:
            charset = ""
        if charset:
            return _NOT_IN_META.get(charset, charset)
    return ""


def _is_utf8(payload: bytes) -> bool:
    """Whether `payload` is UTF-8 and not only ASCII. It may end within a character."""
    if payload.isascii():
        return False  # no evidence: FALLBACK, as in browsers
    try:
        codecs.utf_8_decode(payload, "strict", False)
    except UnicodeDecodeError:
        return False
    return True
