"""parse.urls: the canonical form, and slices of it.

The cases of WHATWG's own tests, for the parts of a URL and for relative ones, are in
tests/spec/test_wpt_urls.py.
"""

from __future__ import annotations

import pytest

from tests.cases import each_of
from webcrawl.parse import urls
from webcrawl.parse.urls import (
    MAX_LENGTH,
    canonicalize,
    canonicalize_each,
    host_of,
    origin_of,
    redirect_target,
    target_of,
)

SID = "0123456789abcdefghijklemopqrstuv"


@each_of(
    ("url", "form"),
    [
        ("https://example.com:443/a#b", "https://example.com/a"),
        ("http://user:pass@example.com/@home", "http://example.com/@home"),
        ("http://h/%7euser?%5f=%e4", "http://h/~user?_=%E4"),
        ("http://h/%2f%3F%25", "http://h/%2F%3F%25"),
        ("http://h/a^b?a^b", "http://h/a%5Eb?a^b"),
        ("http://h/#" + "a" * MAX_LENGTH, "http://h/"),  # a long fragment does not count
        # Decoding makes no new escape: "%41" is "A" for a server.
        ("http://h/%%34%31", "http://h/%%341"),
        ("http://h/%4%31", "http://h/%4%31"),
        ("http://h/%2561", "http://h/%2561"),
        ("http://h/100%", "http://h/100%"),
        # Deviation: session ids are removed.
        (f"http://h/a;jsessionid={SID}", "http://h/a"),
        ("http://h/a;JSESSIONID=1A.node1?x=1", "http://h/a?x=1"),
        ("http://h/a;jsessionid=1/b;x=2", "http://h/a/b;x=2"),
        ("http://h/a/..;jsessionid=1/b", "http://h/b"),
        (f"http://h/?a=1&PHPSESSID={SID}&b=2", "http://h/?a=1&b=2"),
        (f"http://h/?sid={SID}", "http://h/"),
        ("http://h/?sid=12", "http://h/?sid=12"),
        (f"http://h/?asid={SID}", f"http://h/?asid={SID}"),
        ("http://h/?a=;jsessionid=1", "http://h/?a=;jsessionid=1"),
        ("http://h/(S(abcdefghijklmnopqrstuvwx))/a", "http://h/(S(abcdefghijklmnopqrstuvwx))/a"),
        # Deviation: only an empty query is removed.
        ("http://h/?", "http://h/"),
        ("http://h/a?&x=1&", "http://h/a?x=1"),
        ("http://h/a?x=1&&y=2", "http://h/a?x=1&&y=2"),
        ("http://h/?b=2&a=1", "http://h/?b=2&a=1"),
        ("http://h//a//b", "http://h//a//b"),
        # Without a canonical form.
        ("http://./", None),
        ("http://a../", None),
        ("http://\udc80/", None),
        ("mailto:a@example.com", None),
        ("http://h/" + "a" * MAX_LENGTH, None),
        ("http://h/" + "é" * (MAX_LENGTH // 2), None),
    ],
)
def test_canonical_form(url: str, form: str | None) -> None:
    assert canonicalize(url) == form
    assert form is None or canonicalize(form) == form


def test_no_base_no_links() -> None:
    assert canonicalize("a", "nonsense") is None
    assert canonicalize_each(["a", "http://h/"], "http://") == ([], 0)


def test_each_link_once_in_order() -> None:
    hrefs = ["b", "a", "mailto:x@h", "./b#1", "http://h/a", "b"]
    assert canonicalize_each(hrefs, "http://h/") == (["http://h/b", "http://h/a"], 5)


@pytest.mark.parametrize("together", [1, 2, 1000])
@pytest.mark.parametrize("length", [0, 10, 1000])
def test_plain_links_are_the_same_as_from_the_parser(
    monkeypatch: pytest.MonkeyPatch, together: int, length: int
) -> None:
    monkeypatch.setattr(urls, "_TOGETHER", together)
    monkeypatch.setattr(urls, "_TOGETHER_MAX_LENGTH", length)
    hrefs = ["/a/b.html", "c_d~", "/e\nf", "", "/g//h", "/i/.j", ".k", "l/../m", "n:o", "/p/"]
    forms = ["a/b.html", "x/c_d~", "ef", "x/y?z", "g//h", "i/.j", "x/.k", "x/m", "p/"]
    expected = [f"http://h/{form}" for form in forms]
    assert canonicalize_each(hrefs, "http://h/x/y?z") == (expected, len(expected))


@each_of(
    ("charset", "form"),
    [
        ("utf-8", "http://h/%C3%A9?%C3%A9"),
        ("windows-1252", "http://h/%C3%A9?%E9"),
        ("utf-16le", "http://h/%C3%A9?%C3%A9"),
        ("koi8-r", "http://h/%C3%A9?%26%23233%3B"),
    ],
)
def test_the_query_is_in_the_page_charset(charset: str, form: str) -> None:
    """WHATWG URL, 4.4: the path is UTF-8, the query in the encoding of the document."""
    assert canonicalize_each(["é?é"], "http://h/", charset) == ([form], 1)


def test_a_query_of_two_byte_characters() -> None:
    assert canonicalize_each(["?q=日本&x"], "http://h/", "shift_jis")[0] == [
        "http://h/?q=%93%FA%96{&x"  # "{" is the second byte of a character
    ]


def test_the_links_of_a_page_are_bounded() -> None:
    room = 10 * len("http://h/1")
    assert canonicalize_each([*map(str, range(10, 100))], "http://h/", room=room)[1] == 9


def test_links_beyond_the_bound_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a long base, each takes 0.2 ms."""
    joined = urls._joined
    made = []
    monkeypatch.setattr(urls, "_joined", lambda *a: made.append(a) or joined(*a))
    hrefs = [f"?{number}" for number in range(1000)]
    _, found = canonicalize_each(hrefs, f"http://h/{'x' * 8000}", room=5 * 8100)
    assert (found, len(made)) == (5, 7)  # one of the base, one beyond the bound


@each_of(
    ("location", "target"),
    [
        (b"", None),
        (b"/c", "http://h.test/c"),
        ("/c/café".encode(), "http://h.test/c/caf%C3%A9"),
        ("/c/café".encode("latin-1"), "http://h.test/c/caf%E9"),
        ("?q=é&x=日".encode(), "http://h.test/a/b?q=%C3%A9&x=%E6%97%A5"),
        (b"?q=\xe9", "http://h.test/a/b?q=%E9"),
        ("x;é=1#é".encode(), "http://h.test/a/x;%C3%A9=1"),
        ("x;jsessionid=é?y".encode(), "http://h.test/a/x?y"),
        (b" /a b\tc\x01\xff ", "http://h.test/a%20bc%01%FF"),
        (b"/a%\xc3\xa9", "http://h.test/a%%C3%A9"),
        ("http://bücher.test/ü".encode(), "http://xn--bcher-kva.test/%C3%BC"),
        ("//日本語.jp".encode(), "http://xn--wgv71a119e.jp/"),
        ("http://bücher.test/".encode("latin-1"), None),
        ("http://ü:ü@u.test/".encode(), "http://u.test/"),
        ("http://h.test:8ü/".encode(), None),
        (b"/" + b"\xe9" * (MAX_LENGTH // 2), None),  # three times as long with its escapes
    ],
)
def test_the_octets_of_a_location_are_kept(location: bytes, target: str | None) -> None:
    """WPT, redirect-location-escape; Chromium and Scrapy do the same."""
    assert redirect_target(location, "http://h.test/a/b?q=1") == target
    if target is not None:
        assert canonicalize(target) == target


@each_of(
    ("url", "host", "origin", "target"),
    [
        ("http://h/", "h", "http://h", "/"),
        ("https://h.example/a?b", "h.example", "https://h.example", "/a?b"),
        ("http://h:8080/a:1", "h", "http://h:8080", "/a:1"),
        ("http://[::1]/", "::1", "http://[::1]", "/"),
        (
            "https://[2001:db8::1]:81/x",
            "2001:db8::1",
            "https://[2001:db8::1]:81",
            "/x",
        ),
    ],
)
def test_slices(url: str, host: str, origin: str, target: str) -> None:
    assert canonicalize(url) == url
    assert host_of(url) == host
    assert (origin_of(url), target_of(url)) == (origin, target)
