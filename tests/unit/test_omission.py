"""omission: secrets are taken out of the head of a request, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

from tests.cases import each_of
from tests.exchanges import exchange as made
from webcrawl.warc.omission import omitter


@each_of(
    ("request_", "left", "names"),
    [
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nauthorization: Basic x\r\nConnection: close\r\n\r\n",
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
            ("authorization",),
        ),
        (
            b"POST / HTTP/1.1\r\nCookie: a=b\r\nCookie: c\r\n\r\nx\r\nCookie: body\r\n",
            b"POST / HTTP/1.1\r\n\r\nx\r\nCookie: body\r\n",
            ("cookie",),
        ),
        (
            b"POST / HTTP/1.1\r\nX-Cookie: a\r\n\r\nx\r\nCookie: body\r\n",
            b"POST / HTTP/1.1\r\nX-Cookie: a\r\n\r\nx\r\nCookie: body\r\n",
            (),
        ),
        (b"", b"", ()),
    ],
)
def test_only_named_headers_of_the_head_go(
    request_: bytes, left: bytes, names: tuple[str, ...]
) -> None:
    omit = omitter(["Authorization", "Cookie"])
    assert omit is not None
    exchange = replace(made(), request=request_)
    omit(exchange)
    omit(exchange)
    assert (exchange.request, exchange.headers_omitted) == (left, names)


def test_no_names_no_function() -> None:
    assert omitter([]) is None
