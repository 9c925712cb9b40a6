"""The cost of a hostile PDF file, in bytes that go into zlib and may come out of it."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import pytest

from webcrawl.parse import pdf

HEAD = b"1 0 obj <</Type /ObjStm /Filter /FlateDecode>> stream\n"
LINK = b"<</URI (http://a/%d)>>"
BOMB = zlib.compress(b"x" * (4 << 20), 9)
# An empty stored block (RFC 1951, 3.2.4) makes nothing of its five bytes.
NOTHING = b"\x00\x00\x00\xff\xff" * 1000
BEGIN = zlib.compress(b"")[:2]


def stored(data: bytes) -> bytes:
    """A stored block of deflate with `data`."""
    size = len(data)
    return struct.pack("<BHH", 0, size, size ^ 0xFFFF) + data


@pytest.fixture
def cost(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each call of zlib: those that go in, and the most that may come out."""
    bytes_of_calls: list[int] = []
    new = zlib.decompressobj

    class Counting:
        def __init__(self) -> None:
            self._unpacker = new()

        def __getattr__(self, name: str) -> Any:
            return getattr(self._unpacker, name)

        def decompress(self, data: bytes, max_length: int) -> bytes:
            assert max_length > 0
            try:
                piece = self._unpacker.decompress(data, max_length)
            except zlib.error:
                bytes_of_calls.append(len(data) + max_length)
                raise
            rest = len(self._unpacker.unconsumed_tail) + len(self._unpacker.unused_data)
            bytes_of_calls.append(len(data) - rest + len(piece))
            return piece

    monkeypatch.setattr(pdf.zlib, "decompressobj", Counting)
    return bytes_of_calls


@pytest.mark.parametrize(
    "stream",
    [
        BOMB,
        BOMB[: len(BOMB) // 2] + b"\xff" * 20,
        zlib.compress(b"x" * 65_000)[:-8] + b"\xff\xff",
        b"no zlib",
        stored(HEAD + BEGIN) + NOTHING,
    ],
    ids=["bomb", "damaged late", "damaged in its first step", "not zlib", "stream in a stream"],
)
@pytest.mark.parametrize("size", [16 << 10, 1 << 20, 10 << 20])
def test_all_that_zlib_reads_and_makes_is_charged(
    stream: bytes, size: int, cost: list[int]
) -> None:
    unit = HEAD + stream + b"\nendstream\n"
    payload = (b"%PDF-1.5 " + HEAD + BEGIN + unit * (size // len(unit) + 1))[:size]
    pdf.read_pdf(payload, "")
    assert 0 < sum(cost) <= min(16 << 20, 32 * size) + (64 << 10)


def test_the_links_before_the_damage_are_found() -> None:
    content = b"".join(LINK % number for number in range(10_000))
    packed = zlib.compress(content, 1)
    damaged = HEAD + packed[: len(packed) // 2] + b"\xff" * 400
    after = b"\nendstream\n" + HEAD + zlib.compress(LINK % 99_999)
    links = pdf.read_pdf(damaged + after, "").hrefs
    assert links[-1] == "http://a/99999"
    assert len(links) > 3_000
