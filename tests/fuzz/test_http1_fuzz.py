"""Any bytes of a server give a response within the bounds, or the peer's fault."""

from __future__ import annotations

import gzip

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.http1 import ResponseReader

HEADER_LIMIT = 300
BODY_LIMIT = 500

# Tokens that lead far into the reader, with any bytes between them.
TOKENS = [
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 100 Continue\r\n\r\n",
    b"HTTP/1.0 404\n",
    b"HTTP/",
    b"\r\n",
    b"\n",
    b"\r",
    b"Content-Length: 7\r\n",
    b"Content-Length: 8, 8\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Content-Encoding: gzip, deflate\r\n",
    b"Content-Encoding: br\r\n",
    b"\r\n\r\n",
    b"4\r\nabcd\r\n",
    b"0\r\n",
    b"ffffffffffffffff\r\n",
    b"400;x=y\r\n",
    b" folded\r\n",
    b": \x00\xff\r\n",
    b"x" * 400,
    gzip.compress(b"<html>" * 20, mtime=0),
]
wire = st.lists(st.sampled_from(TOKENS) | st.binary(max_size=20), max_size=20).map(b"".join)
starts = st.sampled_from([b"", TOKENS[0], TOKENS[0] + TOKENS[9] + b"\r\n", TOKENS[1] + TOKENS[0]])
methods = st.sampled_from(["GET", "HEAD"])
ends = st.sampled_from(["eof", "disconnect", "time"])


def outcome(method: str, pieces: list[bytes], end: str) -> tuple[object, ...]:
    reader = ResponseReader(method, HEADER_LIMIT, BODY_LIMIT)
    try:
        for piece in pieces:
            reader.feed(piece)
    except FetchFailed as failure:
        if failure.reason not in ("bad_response", "header_too_large"):
            raise
        return (failure.reason,)
    reader.end(end)
    assert reader.truncated in ("", "length", "disconnect", "time")
    assert len(reader.head) <= HEADER_LIMIT
    assert len(reader.body) <= BODY_LIMIT
    assert len(reader.content) <= len(reader.body)
    assert reader.done == bool(reader.status)
    return (
        reader.status,
        reader.head,
        reader.headers,
        reader.body,
        reader.content,
        reader.truncated,
        reader.problem,
    )


@given(starts, wire, methods, ends)
def test_the_reader_takes_any_bytes(start: bytes, data: bytes, method: str, end: str) -> None:
    outcome(method, [start + data], end)


@given(starts, wire, methods, ends, st.lists(st.integers(1, 60), max_size=30))
def test_the_sizes_of_reads_change_nothing(
    start: bytes, data: bytes, method: str, end: str, sizes: list[int]
) -> None:
    data = start + data
    pieces, at = [], 0
    for size in sizes:
        pieces.append(data[at : at + size])
        at += size
    pieces.append(data[at:])
    whole = outcome(method, [data], end)
    in_pieces = outcome(method, pieces, end)
    # A head that is too large and garbage may fail for either reason.
    if whole[0] == in_pieces[0] or isinstance(whole[0], int) or isinstance(in_pieces[0], int):
        assert in_pieces == whole
