"""The module in C finds what the Python code finds: tags, and blocks of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.parse.maintext import _ACTIONS, _is_beside, text_blocks_in_python
from webcrawl.parse.markup import scan_by_regex

webcrawl_scan = pytest.importorskip("webcrawl_scan", reason="there was no C compiler")
in_c, text_blocks_in_c = webcrawl_scan.scan, webcrawl_scan.text_blocks

# Pieces on which the two scanners could differ, and any byte.
PIECES = (
    *(b"<", b"</", b">", b"/>", b"<!--", b"-->", b"--!>", b"--", b"-", b"!", b"<!", b"<?", b"\n"),
    *(b"<a ", b"<A ", b"<a\n", b"</a>", b"<a/", b"<area ", b"<ab ", b"<p>", b'<li class="x">'),
    *(b"<link ", b"<svg>", b"</SVG>", b"<!-->", b"<textarea>", b"<noframes>", b"<plaintext"),
    *(b"<embed ", b"<EMB", b"<Object\n", b"<obj>", b"<emb=", b"</object>"),
    *(b"</template>", b"<templates", b"<!DOCTYPE html>", b"<style", b"<1", b"<\xe9>", b"<p\0>"),
    *(b' href="', b" href='", b" href=", b"href", b' HREF="', b' hreflang="', b' rel="', b' id="'),
    *(b'"', b"'", b"=", b" = ", b" ", b"\t", b"\f", b"\v", b"x", b"Z", b"9", b"\0", b"\xff", b"/"),
)
pages = st.lists(st.sampled_from(PIECES) | st.binary(max_size=2), max_size=30).map(b"".join)
Scan = Callable[[bytes, int], tuple[list[bytes], bytes, bytes, int]]


def found(scan: Scan, page: bytes) -> Iterator[tuple[list[bytes], bytes, bytes, int]]:
    at = 0
    while at < len(page):
        *_, at = one = scan(page, at)
        yield one


@given(pages)
def test_both_scanners_find_the_same_tags(page: bytes) -> None:
    assert list(found(in_c, page)) == list(found(scan_by_regex, page))


@given(pages, st.data())
def test_both_scanners_agree_from_any_offset(page: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(page)))
    assert in_c(page, at) == scan_by_regex(page, at)


def test_a_call_ends_after_its_limit_of_tags() -> None:
    page = b'<a href="x"><p>' * 15_000 + b"<base>"
    hrefs, name, attributes, at = in_c(page, 0)
    assert (len(hrefs), name, attributes) == (10_000, b"", b"")
    hrefs, name, attributes, at = in_c(page, at)
    assert (len(hrefs), name, attributes, at) == (5_000, b"base", b"", len(page))


@each_of(
    ("arguments", "error"),
    [
        ((), TypeError),
        ((b"",), TypeError),
        (("", 0), TypeError),
        ((bytearray(b""), 0), TypeError),
        ((b"", "0"), TypeError),
        ((b"x", -1), ValueError),
        ((b"x", 2), ValueError),
        ((b"x", 1 << 80), OverflowError),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[object, ...], error: type[Exception]) -> None:
    with pytest.raises(error):
        in_c(*arguments)


TEXT_PIECES = (
    *(b"<", b"</", b">", b"/>", b"<!--", b"-->", b" ", b"\n", b"\0", b"\xff", b"=", b"'", b'"'),
    *(b"x", b"a b ", b"of ten words and more, which are no link of it "),
    *(b"<a>", b"<a href=x>", b"<A>", b"</a>", b"</A >", b"<b>", b"</b >", b"<br/>", b"<SPAN id=a>"),
    *(
        b"<script>",
        b"</script>",
        b"</SCRIPT>",
        b"<SCRIPT",
        b"<Script>",
        b"</scripT ",
        b"</s\x03ript>",
    ),
    *(b"<nav>", b"</nav>", b"<ASIDE>", b"</aside>", b"<head>", b"</head>", b"<p>", b"</p>"),
    *(b"<div ", b"<div>", b"</div>", b"</Div>", b"</DIV>", b"<DIV", b"<ul class=menu>", b"</ul>"),
    *(b" class=ad", b' id="nav"', b"class='x", b"x" * 500, b"<div class=ad>", b"<div  id=ads>"),
)
texts = st.lists(st.sampled_from(TEXT_PIECES) | st.binary(max_size=2), max_size=40).map(b"".join)


@given(texts)
def test_both_readers_find_the_same_blocks_of_text(page: bytes) -> None:
    expected = text_blocks_in_python(page, _ACTIONS, _is_beside)
    assert text_blocks_in_c(page, _ACTIONS, _is_beside) == expected


def _failing(attributes: bytes) -> bool:
    raise LookupError(attributes)


@each_of(
    ("arguments", "error"),
    [
        ((b"", {}), TypeError),
        ((b"", [], _is_beside), TypeError),
        (("", {}, _is_beside), TypeError),
        ((b"<p>", {b"p": "x"}, _is_beside), TypeError),
        ((b"<div id=a>", _ACTIONS, None), TypeError),
        ((b"x>y<p>z<div id=a>", _ACTIONS, _failing), LookupError),
    ],
)
def test_errors_of_reading_blocks_are_raised(
    arguments: tuple[object, ...], error: type[Exception]
) -> None:
    with pytest.raises(error):
        text_blocks_in_c(*arguments)
