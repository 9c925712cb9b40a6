"""Any bytes can be read as a page; tests/unit/test_linear_time.py has the time that it takes."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from webcrawl.parse.charset import decode, sniff
from webcrawl.parse.detection import Detector
from webcrawl.parse.page import read_page
from webcrawl.parse.urls import canonicalize

SIZE = 1_000_000
TYPES = [
    "text/html", "text/html; charset=iso-2022-jp", "application/xhtml+xml; charset=utf-16",
    "application/rss+xml",
]  # fmt: skip

PIECES = [
    b"<", b">", b'"', b"'", b"=", b"/", b" ", b"-", b"&", b"x", b"\0", b"\xe9", b"\n",
    b"<!--", b"-->", b"--!>", b"<!", b"</", b"<?", b"<a ", b"<a href=", b"<a href='x'>", b"href",
    b"<script>", b"</script>", b"<title>", b"<title/>", b"<svg>", b"</svg>", b"<template>",
    b"</template>", b"<iframe src=x>", b"<meta ", b"<meta charset=", b"<base href=y>", b"&#1;",
    b"<meta http-equiv=refresh content='0;url=x'>", b"<link rel=next href=", b'<div a ="',
    b"<option>", b"<div>", b'<b x="" ',
    b"<rss>", b"<feed>", b"<item>", b"<link>http://a/", b"</link>", b"<![CDATA[", b"]]>",
    b'<b x="y"', b'<a href="x" b="c"', b' b="c"',
]  # fmt: skip


DETECTOR = Detector()


def check(payload: bytes, content_type: str) -> None:
    DETECTOR.detect_page(payload, sniff(payload, content_type))
    page = read_page(payload, content_type, "http://h.example/a/b")
    assert page.found >= len(page.links) == len(set(page.links))
    assert all(canonicalize(link) == link for link in page.links[:100])


@given(
    st.one_of(st.binary(), st.lists(st.sampled_from(PIECES)).map(b"".join)), st.sampled_from(TYPES)
)
def test_read_page_takes_any_bytes(payload: bytes, content_type: str) -> None:
    check(payload, content_type)


@given(st.text(), st.text())
def test_read_page_takes_any_headers(content_type: str, x_robots_tag: str) -> None:
    assert isinstance("".encode(sniff(b"<a>", content_type)), bytes), "Python has the charset"
    how = {"x_robots_tag": x_robots_tag, "refresh": "0;" + x_robots_tag}
    page = read_page(b"<a href=x>", f"text/html;{content_type}", "http://h/", **how)
    assert page.found in (1, 2), "that of the page, and that of the header"


@given(st.binary(), st.sampled_from(["utf-8", "utf-16le", "big5", "gb18030", "replacement", "x"]))
def test_decode_never_raises(payload: bytes, charset: str) -> None:
    assert len(decode(payload, charset)) <= len(payload)


@pytest.mark.parametrize("seed", range(2))
def test_a_large_page_of_random_pieces_is_read(seed: int) -> None:
    chosen = random.Random(seed)
    payload = b"".join(chosen.choices(PIECES, k=SIZE // 6))
    for content_type in TYPES:
        check(payload, content_type)
