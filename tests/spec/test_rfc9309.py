"""RFC 9309, section by section, and the cases of other projects' test suites."""

from __future__ import annotations

import json
from typing import Any

from foreign import SHARED, check_all, needs_shared, target_of

from tests.cases import each_of
from webcrawl.parse.robots import (
    MAX_BODY_BYTES,
    MAX_PATTERN_BYTES,
    MAX_WILDCARDS,
    RobotsRules,
    product_token,
)

CASES = SHARED / "robots_cases.json"

# Cases outside of `core` that RFC 9309, or a deviation of ours, decides otherwise than their
# authors, by id.
DIFFERENT = {
    "an agent's name is one product token, not a list of words": [
        *(40, 275, 278, 287, 296, 322, 324, 326, 330, 332, 344, 346, 352, 364, 401, 402, 403),
        *(410, 411, 414, 415, 999),
    ],
    "2.2.2: octets are compared percent-encoded, in whichever form they were written": [63, 65, 66],
    "Deviation: a line that is too long is dropped, not cut": [83, 85, 86],
    "Deviation: HTML tags are not robots.txt": [451, 1264],
    "Deviation: no more misspellings than Google's parser takes": [516, 519],
    "Deviation: a long crawl delay is the frontier's to judge": [587],
    "2.2.1: a product token has no letters outside of ASCII": [843, 847],
    "Deviation: a missing colon is forgiven": [1239],
    "2.2.1: only a user-agent line with a name begins a group": [909, 990, 991, 992, 1187, 1266],
    "2.2.1: product tokens match whole": [1089, 1095, 1096, 1098, 1099, 1103, 1104],
    "2.2.1: '*' in a name is no wildcard": [1002],
    "2.2.3: '$' ends a pattern, it is no literal": [1067, 1068],
    "2.2.2: a pattern is a path": [1070],
    "2.2: a rule before any user-agent line applies to no agent": [1193],
}


@needs_shared("robots_cases.json", "several crawlers")
def test_cases() -> None:
    check_all(check_case, zip(json.loads(CASES.read_text()), strict=True))


def check_case(case: dict[str, Any]) -> None:
    body = bytes.fromhex(case["robots_hex"]) if "robots_hex" in case else case["robots"].encode()
    rules = RobotsRules.parse(body, product_token(case["agent"]))
    target = target_of(case["url"])
    different = any(case["id"] in ids for ids in DIFFERENT.values())
    assert not (case["core"] and different)
    assert rules.allows(target) == (case["allowed"] is not different)


def allows(body: str | bytes, target: str, agent: str = "webcrawl") -> bool:
    octets = body.encode() if isinstance(body, str) else body
    return RobotsRules.parse(octets, agent).allows(target)


class TestUserAgentLine:
    """2.2.1"""

    def test_token_is_matched_whole_and_without_case(self) -> None:
        ours = ["webcrawl", "WebCrawl", "webcrawl/1.0", "webcrawl (bot)"]
        others = ["web", "webcrawler", "xwebcrawl", "crawl", "", "-"]
        for name in ours + others:
            assert allows(f"User-agent: {name}\nDisallow: /", "/a") is (name in others), name

    @each_of("line", ["Crawl-delay: 1", "Sitemap: http://a/s", "Noindex: /x", "?", ""])
    def test_other_lines_do_not_close_a_group(self, line: str) -> None:
        assert not allows(f"User-agent: webcrawl\n{line}\nUser-agent: x\nDisallow: /", "/a")


class TestMatching:
    """2.2.2"""

    def test_robots_txt_itself_is_allowed(self) -> None:
        assert allows("User-agent: *\nDisallow: /", "/robots.txt")
        assert not allows("User-agent: *\nDisallow: /", "/robots.txt?x")

    @each_of(
        ("pattern", "target"),
        [
            # the examples of the section's table
            ("/foo/bar?baz=quz", "/foo/bar?baz=quz"),
            ("/foo/bar?baz=https://foo.bar", "/foo/bar?baz=https%3A%2F%2Ffoo.bar"),
            ("/foo/bar?baz=https%3A%2F%2Ffoo.bar", "/foo/bar?baz=https://foo.bar"),
            ("/foo/bar/ツ", "/foo/bar/%E3%83%84"),
            ("/foo/bar/%E3%83%84", "/foo/bar/ツ"),
            ("/foo/bar/%62%61%7A", "/foo/bar/baz"),
            ("/foo/bar/baz", "/foo/bar/%62%61%7A"),
            # and more of their kind
            ("/%e3%83%84", "/%E3%83%84"),
            ("/%7Ejoe", "/~joe"),
            ("/a%3Db", "/a=b"),
            ("/a(b)", "/a%28b%29"),
            ("/a b", "/a%20b"),
            ("/a|b", "/a%7Cb"),
            ("/*/private", "/login?next=/private"),
            ("/*%2Fprivate", "/login?next=%2Fprivate"),
            ("/?a=/x&b=%2Fy", "/?a=/x&b=%2Fy"),
        ],
    )
    def test_equal_spellings(self, pattern: str, target: str) -> None:
        assert not allows(f"User-agent: *\nDisallow: {pattern}", target)

    @each_of(
        ("pattern", "target"),
        [("/a%2Fb", "/a/b"), ("/a/b", "/a%2Fb"), ("/a?b", "/a%3Fb"), ("/%41", "/%61")],
    )
    def test_different_paths(self, pattern: str, target: str) -> None:
        assert allows(f"User-agent: *\nDisallow: {pattern}", target)

    def test_deviation_index_page_allows_its_directory(self) -> None:
        body = "User-agent: *\nDisallow: /\nAllow: /a/index.html"
        assert allows(body, "/a/")
        assert not allows(body, "/a/b")


class TestSpecialCharacters:
    """2.2.3"""

    @each_of(
        ("pattern", "target", "matches"),
        [
            ("/*.gif$", "/a/b.gif", True),
            ("/*.gif$", "/a.gif?b", False),
            ("/a$", "/a", True),
            ("/a$", "/ab", False),
            ("/a*", "/a", True),
            ("/a*b*c", "/a-b-b-c-d", True),
            ("/a*b*c$", "/abcbc", True),
            ("/ab*b$", "/ab", False),
            ("/*", "/", True),
            ("*/x", "/a/x", True),
            ("/**x", "/ax", True),
            ("/a$b", "/a$b", True),  # inside a pattern it is an ordinary octet
            ("/a$b", "/a", False),
            ("/a%2A", "/a*", True),
            ("/a%2A", "/ab", False),
            ("/a%24", "/a$b", True),
            ("/a%24", "/a", False),
            ("/a#b", "/a", True),  # the rest is a comment
        ],
    )
    def test_pattern(self, pattern: str, target: str, matches: bool) -> None:
        assert allows(f"User-agent: *\nDisallow: {pattern}", target) is not matches


class TestFile:
    """2.2 and 2.3"""

    @each_of("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_byte_order_mark(self, encoding: str) -> None:
        assert not allows("User-agent: *\nDisallow: /a".encode(encoding), "/a")

    @each_of("body", [b"", b"\0\xff\xfe", b"<html>", b":", b"user-agent:\n:::"])
    def test_garbage_allows_all(self, body: bytes) -> None:
        assert RobotsRules.parse(body, "webcrawl") == RobotsRules()


class TestLimits:
    """2.5"""

    def test_first_500_kib_are_read(self) -> None:
        head = "User-agent: *\n"
        rule = "\nDisallow: /late\n"
        filler = "#" * (500 * 1024 - len(head) - len(rule))
        assert not allows(head + filler + rule + "Disallow: /later\n", "/late")

    def test_a_line_cut_by_the_limit_is_not_read(self) -> None:
        head = "User-agent: *\nAllow: /x\n"
        filler = "#" * (MAX_BODY_BYTES - len(head) - len("\nDisallow: /"))
        assert allows(head + filler + "\nDisallow: /late\n", "/a")

    def test_deviation_patterns_longer_than_any_url_are_dropped(self) -> None:
        longest = "/" + "a" * (MAX_PATTERN_BYTES - 1)
        assert not allows(f"User-agent: *\nDisallow: {longest}", longest)
        assert allows(f"User-agent: *\nDisallow: {longest}a", longest + "a")

    def test_deviation_too_many_wildcards_refuse_everything(self) -> None:
        rules = "\n".join(f"Allow: /*{number}" for number in range(MAX_WILDCARDS))
        assert allows(f"User-agent: *\n{rules}", "/a")
        assert not allows(f"User-agent: *\n{rules}\nAllow: /*x", "/a")
