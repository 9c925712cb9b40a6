"""No part of a user's Request can begin a second request on the wire."""

from __future__ import annotations

import pytest

from tests.cases import each_of
from webcrawl.fetch.requesthead import UnsendableError, build_request, split_url

TARGET = split_url("http://a.example/x")
SMUGGLED = "a\r\nX-I: 1\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: h\r\n"


@each_of("end", [b"\r\n", b"\n", b"\r", b"\0", b"\r\n\t "])
@each_of("name", [b"X-A", b"Host", b"Cookie"])
@each_of("long", [b"", b"x" * 1000])
def test_rfc9110_5_5_line_ends_in_a_value_become_a_space(
    name: bytes, end: bytes, long: bytes
) -> None:
    request = build_request("GET", TARGET, [(name, b"a" + end + b"B: b" + long + end)], b"")
    head, _, body = request.partition(b"\r\n\r\n")
    assert not body
    own = [line for line in head.split(b"\r\n") if line.startswith(name + b":")]
    assert len(own) == 1
    assert not set(own[0]) & set(b"\r\n\0")
    assert own[0].startswith(name + b": a ")


@each_of(
    "name",
    [b"", b"X A", b"X-A:", b"X\r\nY", b"X\n", b"Content-Length ", b"X\0", b"\xc3\xa9", b" X"],
)
def test_rfc9110_5_1_a_name_that_is_no_token_is_refused(name: bytes) -> None:
    with pytest.raises(UnsendableError):
        build_request("GET", TARGET, [(name, b"1")], b"")


@each_of("method", ["", "GET /x", "GET\r\n", SMUGGLED, "G\0T", "G\u00c9T", "GE:T"])
def test_rfc9110_9_1_a_method_that_is_no_token_is_refused(method: str) -> None:
    with pytest.raises(UnsendableError):
        build_request(method, TARGET, [], b"")


@each_of(
    "url",
    [
        "http://a.example/a b",
        "http://a.example/" + SMUGGLED,
        "http://a.example/a\nb",
        "http://a.example/\u00e9",
        "http://a.example/?q=\0",
        "http://a.exa mple/",
        "http://a.example\r\nX-I: 1/",
    ],
)
def test_rfc9112_3_2_a_target_that_was_not_escaped_is_refused(url: str) -> None:
    with pytest.raises(UnsendableError):
        build_request("GET", split_url(url), [], b"")


def test_a_usual_request_passes() -> None:
    headers = [(b"X-Odd!#$%&'*+.^_`|~", "caf\u00e9 \u20ac".encode()), (b"X-Empty", b"")]
    request = build_request("M-SEARCH", split_url("http://a.example/%20?a=[b]&c=|"), headers, b"")
    assert request == (
        b"M-SEARCH /%20?a=[b]&c=| HTTP/1.1\r\nHost: a.example\r\n"
        b"X-Odd!#$%&'*+.^_`|~: caf\xc3\xa9 \xe2\x82\xac\r\nX-Empty: \r\nConnection: close\r\n\r\n"
    )
