"""Gzip members (RFC 1952): a record is written as one, so that each can be read by itself.

Owns compression. Measured over HTML of 34 KB on average, us and size: isal level 1 50, 27.6 %;
level 2 51, 27.5 %; level 3 93, 26.7 %; zlib level 3 246, 26.7 %; zlib level 6 444, 24.8 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from isal import isal_zlib
from isal.igzip_lib import IsalError

GZIP = 31  # window bits of 15, with a gzip header and trailer
LEVEL = 2
_PIECE = 1 << 20


def member(data: bytes) -> bytes:
    """`data` as one gzip member. Runs without the interpreter's lock."""
    return isal_zlib.compress(data, LEVEL, GZIP)


def member_ends(file: BinaryIO) -> Iterator[int]:
    """Offset after each whole member of `file`, up to the first that is torn or no gzip at all.

    The checksums are verified. One MiB of memory, whatever the members hold.
    """
    at = 0  # where `piece` begins
    piece = b""
    unpacker = isal_zlib.decompressobj(GZIP)
    while piece or (piece := file.read(_PIECE)):
        try:
            unpacker.decompress(piece, _PIECE)
            while unpacker.unconsumed_tail and not unpacker.eof:
                unpacker.decompress(unpacker.unconsumed_tail, _PIECE)
        except IsalError:  # type: ignore[misc]  # in its stub it is a number
            return
        at += len(piece)
        piece = b""
        if unpacker.eof:
            piece = unpacker.unused_data
            at -= len(piece)
            yield at
            unpacker = isal_zlib.decompressobj(GZIP)
