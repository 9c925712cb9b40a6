"""The links of a PDF file: the URI actions of its annotations (ISO 32000-2, 12.6.4.8).

Not a PDF reader. A scan of the bytes for `/URI (...)`, and of the object streams in which PDF 1.5
and later keep annotations: O(size), in bounded memory, whatever the file. Links that are only text
are not found, and none of an encrypted file, whose strings are encrypted.

Off unless PARSERS and CONTENT_TYPES name it (docs/extending.md).
"""

from __future__ import annotations

import re
import zlib
from typing import Final

from webcrawl.parse.links import Markup

# Of all object streams together: 60 ms at most, and for a small file, which is read on the event
# loop, less. A usual stream expands 3 to 8 times.
_EXPANDED_MAX: Final = 16 << 20
_EXPANDED_TIMES: Final = 32
_STREAMS_MAX: Final = 20_000
_HEAD: Final = 1024  # of the dictionary before a stream

# A string (7.3.4.2), with at most one level of parentheses in it, or in hexadecimal.
_STRING = rb"\(((?:[^()\\]|\\.|\([^()\\]{0,500}\)){1,8192})\)"
_HEXADECIMAL = rb"<([0-9A-Fa-f\s]{1,16384})>"
_uris = re.compile(rb"/URI\s{0,9}(?:%b|%b)" % (_STRING, _HEXADECIMAL), re.DOTALL).finditer
_streams = re.compile(rb"(?<!end)stream\r?\n").finditer
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|\r|\n)|(.))", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def read_pdf(payload: bytes, charset: str, *, follow_rel_nofollow: bool = True) -> Markup:
    """Links of a PDF file. Never raises."""
    page = Markup()
    if b"/Encrypt" in payload:
        return page
    page.hrefs += _found_in(payload)
    room = min(_EXPANDED_MAX, _EXPANDED_TIMES * len(payload))
    for number, stream in enumerate(_streams(payload)):
        if room <= 0 or number == _STREAMS_MAX:
            break
        head = payload[max(0, stream.start() - _HEAD) : stream.start()].rpartition(b"obj")[2]
        if b"/ObjStm" in head and b"/FlateDecode" in head:
            expanded = _inflated(memoryview(payload)[stream.end() :], room)
            room -= len(expanded)
            page.hrefs += _found_in(expanded)
    return page


def _inflated(data: memoryview, room: int) -> bytes:
    """The zlib stream that `data` begins with, as far as it is sound, `room` bytes at most."""
    unpacker = zlib.decompressobj()
    parts = []
    at, step = 0, 64 << 10
    while at < len(data) and room > 0 and not unpacker.eof:
        try:
            part = unpacker.decompress(data[at : at + step], room)
        except zlib.error:
            break
        parts.append(part)
        room -= len(part)
        at += step
    return b"".join(parts)


def _found_in(data: bytes) -> list[str]:
    hrefs = []
    for match in _uris(data):
        if match[1] is not None:
            text = _ESCAPE.sub(_unescaped, match[1]) if b"\\" in match[1] else match[1]
        else:
            digits = re.sub(rb"\s", b"", match[2])
            text = bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
        href = text.decode("latin-1") if not _is_utf8(text) else text.decode()
        if href[:8].lower().startswith(("http://", "https://")):  # others need the file's base
            hrefs.append(href)
    return hrefs


def _unescaped(escape: re.Match[bytes]) -> bytes:
    """7.3.4.2: an octal number, a line end that is none, or a character."""
    octal, line_end, character = escape.groups()
    if octal:
        return bytes((int(octal, 8) & 0xFF,))
    return b"" if line_end else _NAMED.get(character, character)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True
