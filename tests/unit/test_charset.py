"""parse.charset: the character set of a page, and its text."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.parse.charset import PRESCAN_BYTES, decode, encode_query, sniff

E_ACUTE = "é".encode()


@each_of(
    ("payload", "content_type", "charset"),
    [
        (b"\xef\xbb\xbfx", "text/html; charset=koi8-r", "utf-8"),
        (b"\xff\xfex\0", "", "utf-16le"),
        (b"\xfe\xff\0x", "", "utf-16be"),
        (b"<meta charset=koi8-r>", 'text/html; Charset="UTF8"', "utf-8"),
        (b"<meta charset=koi8-r>", "text/html; charset=nonsense", "koi8-r"),
        (b"<meta charset=nonsense><meta charset=koi8-r>", "", "koi8-r"),
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b'<a title="<meta charset=koi8-r>', "", "windows-1252"),  # in an unclosed tag
        (b"<meta charset=latin1>" + E_ACUTE, "text/html", "windows-1252"),
        (E_ACUTE, "text/html", "utf-8"),
        (E_ACUTE[:1], "", "utf-8"),  # cut in the middle of a character
        (b"caf\xe9 au lait", "", "windows-1252"),
        (b"plain", "", "windows-1252"),
        (b"", "text/html; charset=\udce9", "windows-1252"),
    ],
)
def test_order_of_precedence(payload: bytes, content_type: str, charset: str) -> None:
    assert sniff(payload, content_type) == charset


def test_prescan_is_bounded() -> None:
    meta = b"<meta charset=koi8-r>"
    assert sniff(b" " * (PRESCAN_BYTES - len(meta)) + meta) == "koi8-r"
    assert sniff(b" " * PRESCAN_BYTES + meta) == "windows-1252"


@each_of(
    ("payload", "charset", "text"),
    [
        (b"\xef\xbb\xbfx", "utf-8", "x"),
        (b"\xff\xfex\0", "utf-16le", "x"),
        (b"\xff", "utf-8", "\ufffd"),
        (b"\x80", "windows-1252", "€"),
        (b"\x80", "no such name", "€"),
        (b"\xa4\xa2", "euc-jp", "あ"),
        (b"a", "replacement", "\ufffd"),
    ],
)
def test_decode(payload: bytes, charset: str, text: str) -> None:
    assert decode(payload, charset) == text


@each_of(
    ("charset", "encoded"),
    [("utf-8", E_ACUTE), ("windows-1252", b"\xe9"), ("utf-16be", E_ACUTE), ("x", E_ACUTE)],
)
def test_encoding_of_a_query(charset: str, encoded: bytes) -> None:
    assert encode_query("é", charset) == encoded
    assert encode_query("a&b=\ud800", charset).startswith(b"a&b=")
