"""The response reader. Every case runs whole, byte by byte, and with trailing data."""

from __future__ import annotations

import random
from itertools import product
from typing import NamedTuple

import pytest

from tests.cases import each_of
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.http1 import (
    MAX_FRAMING,
    MAX_INTERIM,
    MAX_LINE,
    MAX_TRAILERS,
    ResponseReader,
    parse_headers,
)

HEADER_LIMIT = 2000
BODY_LIMIT = 5000


class Case(NamedTuple):
    id: str
    head: bytes
    body: bytes = b""
    content: bytes | None = None  # None: the same as the body
    to_eof: bool = False  # only the end of the connection ends it
    method: str = "GET"
    status: int = 200
    truncated: str = ""
    problem: str = ""


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"

CASES = [
    Case("content-length", OK + b"Content-Length: 5\r\n\r\n", b"hello"),
    Case("content-length 0", OK + b"Content-Length: 0\r\n\r\n"),
    Case("to eof", OK + b"\r\n", b"hello", to_eof=True),
    Case("to eof, empty", OK + b"\r\n", b"", to_eof=True),
    Case("LF line ends", b"HTTP/1.1 200 OK\nContent-Length: 2\n\n", b"hi"),
    Case("mixed line ends", b"HTTP/1.1 200 OK\nContent-Length: 2\r\n\n", b"hi"),
    Case("no reason", b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("no reason, space", b"HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("no headers", b"HTTP/1.0 200 OK\r\n\r\n", b"hi", to_eof=True),
    Case("HTTP/1.0", b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("HTTP/2", b"HTTP/2 200\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("lower case", b"http/1.1 200 ok\r\ncontent-length: 2\r\n\r\n", b"hi"),
    Case("status 999", b"HTTP/1.1 999 No\r\nContent-Length: 2\r\n\r\n", b"hi", status=999),
    Case("no colon", OK + b"garbage\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("no name", OK + b": garbage\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("space before the colon", OK + b"Content-Length : 2\r\n\r\n", b"hi"),
    Case("folded", OK + b"Content-Length:\r\n  2\r\n\r\n", b"hi"),
    Case("length repeated", OK + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case("length as a list", OK + b"Content-Length: 2, 2\r\n\r\n", b"hi"),
    Case(
        "Deviation: lengths disagree",
        OK + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n",
        b"hello",
        to_eof=True,
    ),
    Case(
        "Deviation: length is no number", OK + b"Content-Length: +2\r\n\r\n", b"hello", to_eof=True
    ),
    Case("Deviation: negative", OK + b"Content-Length: -2\r\n\r\n", b"hello", to_eof=True),
    Case(
        "Deviation: huge", OK + b"Content-Length: " + b"9" * 900 + b"\r\n\r\n", b"hi", to_eof=True
    ),
    Case("HEAD", OK + b"Content-Length: 5\r\n\r\n", method="HEAD"),
    Case("HEAD, chunked", CHUNKED, method="HEAD"),
    Case("204", b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", status=204),
    Case("304", b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", status=304),
    Case("chunked", CHUNKED, b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", b"abcde"),
    Case("chunked, empty", CHUNKED, b"0\r\n\r\n", b""),
    Case("chunk extension", CHUNKED, b'3;a="b"\r\nabc\r\n0;x\r\n\r\n', b"abc"),
    Case(
        "chunk size in capitals, padded",
        CHUNKED,
        b"00A  \r\n0123456789\r\n0\r\n\r\n",
        b"0123456789",
    ),
    Case("chunked, LF", CHUNKED, b"3\nabc\n0\n\n", b"abc"),
    Case("trailers", CHUNKED, b"3\r\nabc\r\n0\r\nA: b\r\nC: d\r\n\r\n", b"abc"),
    Case(
        "chunked wins over length",
        OK + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"abc",
    ),
    Case(
        "gzip, chunked",
        OK + b"Transfer-Encoding: gzip, Chunked\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        b"abc",
    ),
    Case(
        "chunked is not last",
        OK + b"Transfer-Encoding: chunked, gzip\r\n\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
        to_eof=True,
    ),
    Case("identity", OK + b"Transfer-Encoding: identity\r\nContent-Length: 2\r\n\r\n", b"hi"),
    Case(
        "Deviation: chunked by an HTTP/1.0 server",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"1\r\na\r\n0\r\n\r\n",
        b"a",
    ),
    Case("Deviation: not chunked", CHUNKED, b"<html>\r\n\r\n", to_eof=True, problem="not chunked"),
    Case(
        "Deviation: breaks off",
        CHUNKED,
        b"3\r\nabc\r\nzz\r\n",
        b"abc",
        to_eof=True,
        problem="bad chunk framing",
    ),
    Case(
        "Deviation: no line end after the data",
        CHUNKED,
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"abc",
        to_eof=True,
        problem="bad chunk framing",
    ),
    Case(
        "Deviation: extension too long",
        CHUNKED,
        b"3;" + b"x" * MAX_LINE + b"\r\nabc\r\n0\r\n\r\n",
        to_eof=True,
        problem="not chunked",
    ),
]


def read(method: str, pieces: list[bytes]) -> ResponseReader:
    reader = ResponseReader(method, HEADER_LIMIT, BODY_LIMIT)
    for piece in pieces:
        reader.feed(piece)
    return reader


def single_bytes(data: bytes) -> list[bytes]:
    return [data[at : at + 1] for at in range(len(data))]


def check(case: Case, reader: ResponseReader, body: bytes) -> None:
    assert reader.head == case.head
    assert reader.status == case.status
    assert reader.body == body
    assert reader.content == (body if case.content is None else case.content)
    assert reader.truncated == case.truncated
    assert reader.problem == case.problem


by_id = each_of("case", CASES, [case.id for case in CASES])
by_cut = each_of("cut", [lambda data: [data], single_bytes], ids=["whole", "bytes"])


@by_id
def test_whole_and_byte_by_byte(case: Case) -> None:
    for pieces in ([case.head + case.body], single_bytes(case.head + case.body)):
        reader = read(case.method, pieces)
        assert reader.done is not case.to_eof
        reader.end("eof")
        check(case, reader, case.body)


@by_id
def test_trailing_data_is_not_part_of_the_response(case: Case) -> None:
    if not case.to_eof:  # else all that comes is the body
        reader = read(case.method, [case.head + case.body + b"HTTP/1.1 500 trailing", b"more"])
        assert reader.done
        check(case, reader, case.body)


@by_id
def test_after_blank_lines_and_interim_responses(case: Case) -> None:
    for blank, interim in product((b"\r\n", b"\n\r\n\n"), (0, 1, MAX_INTERIM)):
        before = blank + b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" * interim + blank
        reader = read(case.method, [*single_bytes(before), case.head + case.body])
        reader.end("eof")
        check(case, reader, case.body)


@each_of(
    ("status_line", "version"),
    [
        (b"HTTP/1.1 200 OK", "1.1"),
        (b"HTTP/1.0 200 OK", "1.0"),
        (b"HTTP/0.9 200 OK", "1.0"),
        (b"HTTP/1 200 OK", "1.0"),
        (b"HTTP/1.2 200 OK", "1.1"),
        (b"HTTP/2.0 200 OK", "1.1"),
    ],
)
def test_version(status_line: bytes, version: str) -> None:
    assert read("GET", [status_line + b"\r\n\r\n"]).http_version == version


def test_headers_keep_order_and_repeats_and_their_names_are_lower_case() -> None:
    head = OK + b"x-B: 1\r\nX-a:2 \r\nx-b:\t3\r\nX-Colons: a:b\r\nX-Empty:\r\n"
    head += b"\vX c\f:\v4\v\n\v:5\nX-d: \r\n\r\n"
    assert parse_headers(head) == [
        (b"x-b", b"1"),
        (b"x-a", b"2"),
        (b"x-b", b"3"),
        (b"x-colons", b"a:b"),
        (b"x-empty", b""),
        (b"x c", b"4"),
        (b"x-d", b""),
    ]


def test_folded_lines_are_joined_with_a_space() -> None:
    head = OK + b" orphan\r\nA: one\r\n  two\r\n\tthree\r\nB: 4\r\n\r\n"
    assert parse_headers(head) == [(b"a", b"one two three"), (b"b", b"4")]


@each_of(
    "garbage",
    [
        b"<",  # detected at its first byte
        b"<html>HTTP/0.9 has no status line</html>",
        b"\x15\x03\x01\x00\x02\x02\x46",
        b"ICY 200 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTPS/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 000 OK\r\n\r\n",
        b"HTTP 200 OK\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\n\r\n<html>",
        b"HTTP/1.1 100 Continue\r\n\r\n" * (MAX_INTERIM + 1),
    ],
)
@by_cut
def test_garbage_is_the_peers_fault(garbage: bytes, cut) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FetchFailed) as caught:
        read("GET", cut(garbage))
    assert caught.value.reason == "bad_response"


@each_of(
    "flood",
    [
        OK + b"A: " + b"b" * HEADER_LIMIT,
        OK + b"A: b\r\n" * HEADER_LIMIT + b"\r\n",
        b"\r\n" * HEADER_LIMIT,
        (b"HTTP/1.1 100 Continue\r\nA: " + b"b" * 900 + b"\r\n\r\n") * 3,
        b"HTTP/1.1 200 " + b"x" * HEADER_LIMIT + b"\r\n\r\n",
    ],
    ids=["line", "lines", "blank lines", "interim", "reason"],
)
@by_cut
def test_headers_are_bounded(flood: bytes, cut) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(FetchFailed) as caught:
        read("GET", cut(flood))
    assert caught.value.reason == "header_too_large"


def test_a_head_of_exactly_the_limit_passes() -> None:
    head = OK + b"A: " + b"b" * (HEADER_LIMIT - len(OK) - 7) + b"\r\n\r\n"
    assert len(head) == HEADER_LIMIT
    assert read("GET", [head + b"body"]).head == head


@by_cut
@each_of("head", [OK + b"\r\n", OK + b"Content-Length: 9000\r\n\r\n"], ids=["eof", "length"])
def test_a_body_is_cut_exactly(head: bytes, cut) -> None:  # type: ignore[no-untyped-def]
    body = bytes(range(256)) * 30
    reader = read("GET", cut(head + body))
    assert reader.done
    assert reader.truncated == "length"
    assert reader.body == reader.content == body[:BODY_LIMIT]


@by_cut
def test_a_chunked_body_is_cut_exactly(cut) -> None:  # type: ignore[no-untyped-def]
    body = b"64\r\n" + b"x" * 100 + b"\r\n"
    reader = read("GET", cut(CHUNKED + body * 100))
    assert reader.truncated == "length"
    assert reader.body == (body * 100)[:BODY_LIMIT]
    whole, rest = divmod(BODY_LIMIT, len(body))
    assert reader.content == b"x" * (100 * whole + rest - 4)


@each_of(
    ("head", "body", "why", "truncated"),
    [
        (OK + b"Content-Length: 5\r\n\r\n", b"hell", "eof", "disconnect"),
        (OK + b"Content-Length: 5\r\n\r\n", b"hell", "disconnect", "disconnect"),
        (OK + b"Content-Length: 5\r\n\r\n", b"", "time", "time"),
        (OK + b"\r\n", b"hell", "eof", ""),
        (OK + b"\r\n", b"hell", "disconnect", "disconnect"),
        (OK + b"\r\n", b"hell", "time", "time"),
        (CHUNKED, b"5\r\nhell", "eof", "disconnect"),
        (CHUNKED, b"4\r\nhell\r\n", "eof", "disconnect"),
        (CHUNKED, b"", "eof", "disconnect"),
        (CHUNKED, b"4\r\nhell\r\n0\r\n", "eof", ""),
        (CHUNKED, b"4\r\nhell\r\n0\r\n", "time", ""),
    ],
)
def test_an_early_end(head: bytes, body: bytes, why: str, truncated: str) -> None:
    reader = read("GET", [head, body])
    assert not reader.done
    reader.end(why)
    assert reader.done
    assert reader.truncated == truncated
    assert reader.body == body
    assert reader.content == (b"hell" if b"hell" in body else b"")


def test_the_end_before_the_head_leaves_no_status() -> None:
    reader = read("GET", [b"HTTP/1.1 200 OK\r\nContent-"])
    reader.end("eof")
    assert reader.status == 0
    assert reader.body == b""


def test_content_from_returns_the_new_part() -> None:
    reader = read("GET", [CHUNKED + b"3\r\nabc\r\n"])
    assert reader.content_from(0) == b"abc"
    reader.feed(b"2\r\nde\r\n")
    assert reader.content_from(3) == b"de"
    reader = read("GET", [OK + b"\r\nabc"])
    reader.feed(b"de")
    assert reader.content_from(3) == b"de"


@each_of("seed", range(20))
def test_chunks_of_all_sizes_and_styles(seed: int) -> None:
    """Chunks of up to 15 bytes are read many at a time."""
    rng = random.Random(seed)
    content, body = b"", b""
    for _ in range(100):
        data = rng.randbytes(rng.choice((1, 2, 9, 10, 15, 16, 17, 40)))
        size = rng.choice((b"%x", b"%X", b"00%x", b" %x", b"%x ", b"\t%x;a=b", b"%x;" + b"e" * 90))
        first, second = rng.choices((b"\r\n", b"\n"), k=2)
        body += size % len(data) + first + data + second
        content += data
    body += b"0\r\n\r\n"
    cuts = sorted(rng.choices(range(len(body)), k=rng.choice((0, 3, 200))))
    pieces = [body[start:end] for start, end in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    reader = ResponseReader("GET", HEADER_LIMIT, 1 << 20)
    for piece in (CHUNKED, *pieces):
        reader.feed(piece)
    assert reader.done
    assert (reader.body, reader.content) == (body, content)
    assert (reader.truncated, reader.problem) == ("", "")


@by_cut
def test_endless_trailers_are_cut(cut) -> None:  # type: ignore[no-untyped-def]
    line = b"Name: " + b"x" * 92 + b"\r\n"
    reader = ResponseReader("GET", HEADER_LIMIT, 1 << 20)
    body = b"3\r\nabc\r\n0\r\n"
    for piece in cut(CHUNKED + body + line * (MAX_TRAILERS // len(line) + 9)):
        reader.feed(piece)
    assert reader.done
    assert (reader.content, reader.truncated, reader.idle_s) == (b"abc", "length", 0.0)
    assert reader.body == body + line * (MAX_TRAILERS // len(line))


def test_trailers_up_to_the_bound_are_complete() -> None:
    reader = ResponseReader("GET", HEADER_LIMIT, 1 << 20)
    reader.feed(CHUNKED + b"0\r\n" + b"a\n" * (MAX_TRAILERS // 2) + b"\r\n")
    assert reader.done
    assert reader.truncated == ""


@each_of(("size", "cut"), [(1, True), (5, False)])
def test_a_body_that_is_mostly_framing_is_cut(size: int, cut: bool) -> None:
    chunk = b"%d\n" % size + b"a" * size + b"\n"
    body = chunk * (2 * MAX_FRAMING // len(chunk))
    reader = ResponseReader("GET", HEADER_LIMIT, 9 * MAX_FRAMING)
    for at in range(0, len(body), 1000):
        reader.feed((CHUNKED if not at else b"") + body[at : at + 1000])
    reader.end("eof")
    assert reader.truncated == ("length" if cut else "disconnect")
    assert body.startswith(reader.body)
    assert len(reader.body) == pytest.approx(MAX_FRAMING if cut else len(body), rel=0.01)
    assert len(reader.content) == pytest.approx(len(reader.body) * size / len(chunk), rel=0.01)


def test_a_body_of_exactly_the_limit_is_complete() -> None:
    reader = read("GET", [OK + b"\r\n", b"x" * BODY_LIMIT])
    assert not reader.done
    reader.end("eof")
    assert reader.truncated == ""
