"""Bodies without chunk framing, and the digests of WARC_PAYLOAD_DIGEST."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from tests.cases import each_of
from tests.exchanges import CHUNKED, EXCHANGES, GZIPPED, HTML, TEXT, chunked, exchange, head
from webcrawl.warc.payload import unchunked, without_chunks
from webcrawl.warc.records import Capture, Original, digest, payload_digest, recorded_digest


@each_of(
    ("body", "data", "is_whole"),
    [
        (chunked(b"ab", b"c"), b"abc", True),
        (chunked(), b"", True),
        (b"2;x=y\r\nab\r\n0\r\nExpires: 0\r\n\r\n", b"ab", True),
        (b"2\nab\n0\n\n", b"ab", True),
        (b"5\r\nab", b"ab", False),
        (b"2\r\nab\r\n", b"ab", False),
        (b"f" * 40 + b"\r\nab", b"ab", False),
        (b"plain", b"", False),
        (b"", b"", False),
    ],
)
def test_unchunked_decodes_chunks(body: bytes, data: bytes, is_whole: bool) -> None:
    assert unchunked(body) == (data, is_whole)


def test_a_revisit_has_the_digest_of_the_wire() -> None:
    body, other = chunked(TEXT), chunked(TEXT[:7], TEXT[7:])
    each = exchange(head(HTML, CHUNKED), body, payload=TEXT)
    for original, is_revisit in ((body, True), (other, False)):
        first = Original("http://b.test/", 0.0, digest(original))
        capture = Capture(each, payload_digest(each), first)
        assert capture.is_revisit is is_revisit
        assert recorded_digest(capture, "payload") == digest(TEXT)
        assert recorded_digest(capture, "none") == (digest(body) if is_revisit else "")


def test_tiny_chunks_take_no_more_memory_than_the_body() -> None:
    body = b"2\r\nab\r\n" * 50_000
    tracemalloc.start()
    unchunked(body)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < len(body)


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("plain", TEXT),
        ("chunked", TEXT),
        ("chunked with a trailer", TEXT),
        ("gzip", GZIPPED),
        ("gzip, chunked", GZIPPED),
    ],
)
def test_without_chunks_gives_the_payload_of_jwarc(name: str, payload: bytes) -> None:
    each = EXCHANGES[name]
    if "gzip" not in name:  # the fetcher's payload
        each = exchange(each.head, each.body, payload=TEXT)
    assert without_chunks(each) == payload


def test_an_odd_head_gets_no_payload_digest() -> None:
    each = exchange(head(HTML, end=b"\n"), gzip.compress(TEXT))
    for over in ("wire", "payload", "none"):
        assert recorded_digest(Capture(each, payload_digest(each)), over) == ""
