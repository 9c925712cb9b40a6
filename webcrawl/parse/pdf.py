"""The links of a PDF file: the URI actions of its annotations (ISO 32000-2, 12.6.4.8).

Not a PDF reader. A scan of the bytes for `/URI (...)`, and of the object streams in which PDF 1.5
and later keep annotations: O(size), in bounded memory, whatever the file. Links that are only text
are not found, and none of an encrypted file, whose strings are encrypted.

Off unless PARSERS and CONTENT_TYPES name it (docs/extending.md).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from typing import Final

from webcrawl.parse.charset import utf8_or_latin1
from webcrawl.parse.links import Markup

# Bytes that go into zlib and come out of it, of all object streams together: 60 ms at most, and for
# a small file less. A usual stream expands 3 to 8 times.
_UNPACKED_MAX: Final = 16 << 20
_UNPACKED_TIMES: Final = 32
# Of one call of zlib. A call that meets damage does not say what it has made: it counts in full.
_STEP_BYTES: Final = 16 << 10
_STREAMS_MAX: Final = 20_000
_HEAD: Final = 1024  # of the dictionary before a stream

# A string (7.3.4.2), with at most one level of parentheses in it, or in hexadecimal.
_STRING = rb"\(((?:[^()\\]|\\.|\([^()\\]{0,500}\)){1,8192})\)"
_HEXADECIMAL = rb"<([0-9A-Fa-f\s]{1,16384})>"
_uris = re.compile(rb"/URI\s{0,9}(?:%b|%b)" % (_STRING, _HEXADECIMAL), re.DOTALL).finditer
_streams = re.compile(rb"(?<!end)stream\r?\n").finditer
_ESCAPE = re.compile(rb"\\(?:([0-7]{1,3})|(\r\n|\r|\n)|(.))", re.DOTALL)
_NAMED = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"f": b"\f"}


def read_pdf(payload: bytes, charset: str) -> Markup:
    """Links of a PDF file. Never raises."""
    page = Markup()
    if b"/Encrypt" in payload:
        return page
    page.hrefs += _found_in(payload)
    room = min(_UNPACKED_MAX, _UNPACKED_TIMES * len(payload))
    for number, stream in enumerate(_streams(payload)):
        if room <= 0 or number == _STREAMS_MAX:
            break
        head = payload[max(0, stream.start() - _HEAD) : stream.start()].rpartition(b"obj")[2]
        if b"/ObjStm" in head and b"/FlateDecode" in head:
            unpacked = _Unpacked(memoryview(payload)[stream.end() :], room)
            page.hrefs += _found_in(b"".join(unpacked))
            room -= unpacked.cost
    return page


class _Unpacked:
    """The pieces of the zlib stream that `data` begins with, as far as it is sound.

    cost -- the bytes that went into zlib and came out of it: little more than `room`
    """

    def __init__(self, data: memoryview, room: int) -> None:
        self.cost = 0
        self._data = data
        self._room = room

    def __iter__(self) -> Iterator[bytes]:
        unpacker = zlib.decompressobj()
        at = 0
        while at < len(self._data) and self.cost < self._room and not unpacker.eof:
            step = self._data[at : at + _STEP_BYTES]
            try:
                piece = unpacker.decompress(step, _STEP_BYTES)
            except zlib.error:
                self.cost += 2 * _STEP_BYTES
                return
            used = len(step) - len(unpacker.unconsumed_tail) - len(unpacker.unused_data)
            at += used
            self.cost += used + len(piece)
            yield piece


def _found_in(data: bytes) -> list[str]:
    hrefs = []
    for match in _uris(data):
        if match[1] is not None:
            text = _ESCAPE.sub(_unescaped, match[1]) if b"\\" in match[1] else match[1]
        else:
            digits = re.sub(rb"\s", b"", match[2])
            text = bytes.fromhex((digits + b"0" * (len(digits) % 2)).decode())
        href = utf8_or_latin1(text)
        if href[:8].lower().startswith(("http://", "https://")):  # others need the file's base
            hrefs.append(href)
    return hrefs


def _unescaped(escape: re.Match[bytes]) -> bytes:
    """7.3.4.2: an octal number, a line end that is none, or a character."""
    octal, line_end, character = escape.groups()
    if octal:
        return bytes((int(octal, 8) & 0xFF,))
    return b"" if line_end else _NAMED.get(character, character)
