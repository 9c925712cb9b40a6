"""Sketches of texts, by which `likeness` compares them.

Owns which text of a page is compared. Loads rensa, which is an extra: no module that each crawl
needs imports this one when it is loaded. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from rensa import RMinHash  # type: ignore[import-untyped]  # it ships no types

from webcrawl.parse.likeness import HASHES
from webcrawl.parse.maintext import CUTS, Blocks

_SEED: Final = 28  # another one makes other sketches
# Of letters and digits. Shorter texts say that a page has moved, needs JavaScript or a login, or
# that a folder is empty: the same words lead to other links.
_PAGE_MIN: Final = 200
_NO_LETTERS: Final = bytes(byte for byte in range(128) if not chr(byte).isalnum())
# A text without a cut for so long is cut nevertheless: all of a long list, such as one of dates,
# must not be one piece.
_pieces = re.compile(rb"[^ ]{1,24}").findall


def sketch(pieces: Collection[bytes]) -> bytes:
    """The sketch of a text with these pieces, at least one: HASHES bytes. 0.02 µs per piece."""
    hashes = RMinHash(HASHES, _SEED)
    hashes.update([*pieces])  # in any order, repeats included: a MinHash is a least value
    return bytes(each & 0xFF for each in hashes.digest())


def page_sketch(blocks: Blocks) -> bytes:
    """The sketch of an HTML page whose links may be left out; b"" for a text that is too short.

    Links count more here than dates: all text that is not beside the text is compared, with the
    texts of links and with numbers. Else the pages of a list, or of an archive by date, below the
    same introduction would be the same. O(size).

    On the mirrors of `scrapy corpus` (webcrawl.tools.corpus.neardup): precision 1.0, recall 0.98.
    """
    long, others, _ = blocks
    text = b"".join(long + others).translate(CUTS, _NO_LETTERS)
    return sketch(_pieces(text)) if len(text) >= _PAGE_MIN else b""
