"""Any body with any codings gives a payload within the bound, and nothing is raised.

A page is encoded by some of the codings of its label, and may be damaged between two of them. So
each decoder gets what another one made: nothing, a cut stream, plain text, several members.
"""

from __future__ import annotations

import gzip
import sys
import zlib
from collections.abc import Callable
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.fetch.decode import QUICK_OUTPUT_BYTES, brotli, decode, decode_quickly, zstd
from webcrawl.parse.sitemapfile import read_sitemap

Change = Callable[[bytes], bytes]
gzipped = partial(gzip.compress, mtime=0)  # the same bytes in the next second, too
ENCODERS: dict[bytes, list[Change]] = {
    b"gzip": [gzipped],
    b"x-gzip": [gzipped],
    b"deflate": [zlib.compress, lambda data: zlib.compress(data)[2:-4]],  # raw too
    b"br": [brotli.compress],
    b"zstd": [zstd.compress],
    b"identity": [lambda data: data],
    b"sdch": [lambda data: data],  # unknown
}
MAGIC = [b"\x1f\x8b", b"\x78\x9c", b"\x28\xb5\x2f\xfd", b"\x00"]
contents = st.just(b"") | st.sampled_from(MAGIC) | st.just(b"<p>" * 2000) | st.binary(max_size=100)


@st.composite
def labelled(draw: st.DrawFn) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """(body, headers)"""
    body, names = draw(contents), []
    for _ in range(draw(st.integers(1, 5))):
        name = draw(st.sampled_from(sorted(ENCODERS)))
        names.append(name)
        encode = draw(st.sampled_from(ENCODERS[name]))
        match draw(st.sampled_from(("once", "once", "once", "not", "twice", "cut", "changed"))):
            case "not":  # the label is wrong
                continue
            case "twice":
                body = encode(body) + encode(body)
            case "cut":
                body = encode(body)
                body = body[: draw(st.integers(0, len(body)))]
            case "changed":
                body = encode(body) or b"x"
                at = draw(st.integers(0, len(body) - 1))
                body = body[:at] + bytes([draw(st.integers(0, 255))]) + body[at + 1 :]
            case _:
                body = encode(body)
    if draw(st.booleans()):
        return body, [(b"Transfer-Encoding", b", ".join([*names, b"chunked"]))]
    return body, [(b"Content-Encoding", b", ".join(names))]


limits = st.sampled_from((0, 1, 100, 1000, 1 << 20, 1 << 32, sys.maxsize))


@given(labelled(), limits)
def test_any_chain_of_codings(
    labelled: tuple[bytes, list[tuple[bytes, bytes]]], limit: int
) -> None:
    body, headers = labelled
    decoded = decode(body, headers, limit)
    assert len(decoded.payload) <= max(limit, len(body))
    assert not decoded.left or decoded.problem
    quickly = decode_quickly(body, headers, limit)
    assert quickly is None or quickly == decoded or limit > QUICK_OUTPUT_BYTES


@given(labelled())
def test_any_chain_of_codings_of_a_sitemap(
    labelled: tuple[bytes, list[tuple[bytes, bytes]]],
) -> None:
    body, headers = labelled
    file = read_sitemap(body, headers, "http://a.test/s.xml", False)
    assert file.format or file.problem
