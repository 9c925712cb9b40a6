"""ruled: the header and the limits of a request to a host with rules."""

from __future__ import annotations

import sys

from webcrawl.admission.ruled import login_problem, ruled_headers, ruled_limits
from webcrawl.fetch.request import Limits
from webcrawl.scope.hostrules import NO_VALUES, Auth, Values

URL = "http://www.example.com/"
DEFAULT = [(b"User-Agent", b"webcrawl/1"), (b"Accept", b"text/html"), (b"Accept", b"*/*")]


def test_without_rules_nothing_changes() -> None:
    assert ruled_headers(DEFAULT, NO_VALUES, URL) is DEFAULT
    limits = Limits()
    assert ruled_limits(limits, NO_VALUES, of_page=True) is limits


def test_headers_replace_the_crawls_and_an_empty_one_removes_them() -> None:
    values = Values(user_agent="other/2", headers=(("accept", "x/y"), ("Authorization", "secret")))
    assert ruled_headers(DEFAULT, values, URL) == [
        (b"User-Agent", b"other/2"),
        (b"accept", b"x/y"),
        (b"Authorization", b"secret"),
    ]
    assert ruled_headers(DEFAULT, Values(headers=(("Accept", ""),)), URL) == DEFAULT[:1]
    assert DEFAULT[0] == (b"User-Agent", b"webcrawl/1"), "the crawl's own are as before"


def test_a_login_is_for_one_scheme_and_replaces_the_header_of_a_rule() -> None:
    values = Values(auth=Auth("Basic abc"), headers=(("authorization", "old"),))
    https = URL.replace("http", "HTTPS")
    assert ruled_headers(DEFAULT, values, https) == [*DEFAULT, (b"Authorization", b"Basic abc")]
    assert ruled_headers(DEFAULT, values, URL) == [*DEFAULT, (b"authorization", b"old")]
    assert ruled_headers(DEFAULT, Values(auth=Auth("Basic abc")), URL) == DEFAULT
    assert "abc" not in repr(values)


def test_the_size_of_a_robots_txt_keeps_its_own_limit() -> None:
    values = Values(timeout_s=2.0, max_size_bytes=0)
    page = ruled_limits(Limits(), values, of_page=True)
    robots = ruled_limits(Limits(), values, of_page=False)
    assert (page.timeout_s, page.max_size_bytes) == (2.0, sys.maxsize)
    assert (robots.timeout_s, robots.max_size_bytes) == (2.0, Limits().max_size_bytes)


def test_a_login_that_did_not_help_has_a_reason() -> None:
    values = Values(auth=Auth("Bearer 0123"))
    assert login_problem(values, "https://a/") == "the login of its rule is refused"
    assert "for https alone, so it was not sent" in login_problem(values, "http://a/")
    assert login_problem(NO_VALUES, "http://a/") == ""
