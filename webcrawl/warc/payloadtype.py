"""WARC-Identified-Payload-Type (WARC 1.1, 5.16): the media type of a payload by its first bytes.

By the signatures of the WHATWG's MIME Sniffing Standard, 7.1 (the rules for a resource of unknown
type, scriptable types too), in its order. What the server says does not count.

Deviation: "" where the standard falls back to text/plain or application/octet-stream: no type is
identified then. So it is for a byte order mark, text/plain in the standard: most pages with one are
HTML. The rule for MP3 without ID3 is left out: as written, no frame is short enough for it.
"""

from __future__ import annotations

import re
from typing import Final

HEADER_BYTES: Final = 1445  # the resource header (5.2)

_SPACE = rb"[\t\n\f\r ]*+"
_VINT = b"|".join(  # of EBML: the zeros before the first one count the bytes that follow
    rb"[\x%02x-\x%02x].{%d}" % (0x80 >> more, 0xFF >> more, more) for more in range(8)
)
_MP4 = "video/mp4"
_SIGNATURES = (
    (
        "text/html",
        _SPACE + rb"<(?:!--|(?i:!DOCTYPE HTML|HTML|HEAD|SCRIPT|IFRAME|H1|DIV|FONT|TABLE|A|STYLE"
        rb"|TITLE|B|BODY|BR|P))[ >]",
    ),
    ("text/xml", _SPACE + rb"<\?xml"),
    ("application/pdf", rb"%PDF-"),
    ("application/postscript", rb"%!PS-Adobe-"),
    ("image/x-icon", rb"\0\0[\x01\x02]\0"),
    ("image/bmp", rb"BM"),
    ("image/gif", rb"GIF8[79]a"),
    ("image/webp", rb"RIFF.{4}WEBPVP"),
    ("image/png", rb"\x89PNG\r\n\x1a\n"),
    ("image/jpeg", rb"\xff\xd8\xff"),
    ("audio/aiff", rb"FORM.{4}AIFF"),
    ("audio/mpeg", rb"ID3"),
    ("application/ogg", rb"OggS\0"),
    ("audio/midi", rb"MThd\0\0\0\x06"),
    ("video/avi", rb"RIFF.{4}AVI "),
    ("audio/wave", rb"RIFF.{4}WAVE"),
    (_MP4, rb"\0\0.{2}ftyp"),  # the rest: _is_mp4
    ("video/webm", rb"\x1a\x45\xdf\xa3.{0,33}?\x42\x82(?:%b)\0*+webm" % _VINT),
    ("application/x-gzip", rb"\x1f\x8b\x08"),
    ("application/zip", rb"PK\x03\x04"),
    ("application/x-rar-compressed", rb"Rar!\x1a\x07\0"),
)
_TYPES = ("", *(name for name, _ in _SIGNATURES))
# find_signature(payload, 0, HEADER_BYTES): of a payload without chunk framing and content codings.
# 0.5 µs; of hostile input, HEADER_BYTES once for each of 34 places at most.
find_signature = re.compile(
    b"|".join(b"(%b)" % pattern for _, pattern in _SIGNATURES), re.DOTALL
).match


def type_of(found: re.Match[bytes]) -> str:
    """The type of what `find_signature` has found; "": it is none after all."""
    name = _TYPES[found.lastindex or 0]
    return name if name != _MP4 or _is_mp4(found.string[:HEADER_BYTES]) else ""


def _is_mp4(header: bytes) -> bool:
    """6.2.1: whether one of the brands in the first box is mp4."""
    size = int.from_bytes(header[:4])
    brands = (header[at : at + 3] for at in (8, *range(16, min(size, len(header)), 4)))
    return 12 <= len(header) >= size and size % 4 == 0 and b"mp4" in brands
