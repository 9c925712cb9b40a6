"""The keys of our index are those of the library `surt`, under which pywb looks captures up."""

from __future__ import annotations

import socket
import warnings

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import each_of
from webcrawl.parse.urls import canonicalize
from webcrawl.warc.surt import surt

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its syntax, and of its regular expressions
    import surt as library

SESSION = "0123456789abcdefABCDEF0123456789"
PIECES = (
    *("http://", "https://", "HTTP:", "www.", "www2.", "a", "B", "Example", ".com", "_", "-", "~"),
    *(".", "..", "/", "//", "/./", "/../", "?", "&", "=", "#", "@", ":", "\\", "|", "+", "(", ")"),
    *("%", "%25", "%41", "41", "2f", "%2F", "%2e", "%00", "%E9", "é", "日本", "ß", "\u3000"),
    *(":80", ":443", ":8080", ":99999", ":0", "[::1]", "127.0.0.1", "1.2", "09", "017", "0x7f"),
    *(f"jsessionid={SESSION}", f"PHPSESSID={SESSION}", f"sid={SESSION}", f"sid={SESSION}0"),
    *("cfid=1&cftoken=2", "cfid=", "&cftoken=x", f"ASPSESSIONIDABCDEFGH={'x' * 24}"),
    *(f"/(S({SESSION[:24]}))/", f"/({SESSION[:24]})/", "x.aspx", "ftp:", "dns:", "data:,", "urn:x"),
)


def without_dns(host: bytes) -> tuple[str, list[str], list[str]]:
    """In place of `gethostbyname_ex`, which `surt` calls for hosts of digits."""
    try:
        return "", [], [socket.inet_ntoa(socket.inet_aton(host.decode()))]
    except (OSError, ValueError):
        raise socket.gaierror from None


@pytest.fixture(autouse=True, scope="module")
def no_dns() -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "gethostbyname_ex", without_dns)
        yield


def expected(url: str) -> str:
    """The key as cdxj-indexer makes it."""
    try:
        key: str = library.surt(url)
    except Exception:
        return url
    return key


@each_of(
    ("url", "key"),
    [
        ("http://www.example.com/Path/?b=2&a=1", "com,example)/path?a=1&b=2"),
        ("https://example.com/path", "com,example)/path"),
        ("http://example.com", "com,example)/"),
        ("http://example.com:8080/", "com,example:8080)/"),
        ("https://example.com:443/", "com,example)/"),
        ("http://xn--mnchen-3ya.de/", "de,xn--mnchen-3ya)/"),
        ("http://www12.münchen.de/%C3%A9", "de,xn--mnchen-3ya)/%c3%a9"),
        ("http://192.0.2.1/a", "1,2,0,192)/a"),
        ("http://[2001:db8::1]:81/a", "2001:db8::1:81)/a"),
        ("http://a.test/x//y/../z/./", "test,a)/x/z"),
        ("http://a.test/..", "test,a)/.."),
        ("http://a.test/%2541%2e", "test,a)/a."),
        (f"http://a.test/?jsessionid={SESSION}&a=1", "test,a)/?a=1"),
        (f"http://a.test/(S({SESSION[:24]}))/x.aspx", "test,a)/x.aspx"),
        ("http://a.test:99999/", "http://a.test:99999/"),
    ],
)
def test_a_key(url: str, key: str) -> None:
    assert surt(url) == key == expected(url)


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=9).map("".join), st.booleans())
def test_keys_are_those_of_the_library(text: str, has_host: bool) -> None:
    url = f"http://h.test/{text}" if has_host else text
    assert surt(url) == expected(url)


@given(st.text(max_size=40))
def test_any_text_has_the_key_of_the_library(text: str) -> None:
    url = f"http://h.test/{text}"
    assert surt(url) == expected(url)


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=20), st.text(max_size=30))
def test_urls_of_a_crawl_have_the_key_of_the_library(host: str, rest: str) -> None:
    url = canonicalize(f"http://{host}/{rest}")
    if url is not None:
        assert surt(url) == expected(url)


@each_of("kind", ["%25", "%2525", "cfid=", "cfid=x&", "sid=", "/", "&", "(", "."])
def test_a_hostile_url_has_the_key_of_the_library(kind: str) -> None:
    for start in ("http://a.test/", "http://a.test/?"):
        url = (start + kind * 1000)[:2083]
        assert surt(url) == expected(url)
