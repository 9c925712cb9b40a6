"""RFC 9309, section by section. test_robots_cases.py has the cases of other projects."""

from __future__ import annotations

import pytest

from webcrawl.parse.robots import (
    MAX_BODY_BYTES,
    MAX_PATTERN_BYTES,
    MAX_WILDCARDS,
    RobotsRules,
)


def allows(body: str | bytes, target: str, agent: str = "webcrawl") -> bool:
    octets = body.encode() if isinstance(body, str) else body
    return RobotsRules.parse(octets, agent).allows(target)


class TestUserAgentLine:
    """2.2.1"""

    @pytest.mark.parametrize("name", ["webcrawl", "WebCrawl", "webcrawl/1.0", "webcrawl (bot)"])
    def test_token_is_matched_whole_and_without_case(self, name: str) -> None:
        assert not allows(f"User-agent: {name}\nDisallow: /", "/a")

    @pytest.mark.parametrize("name", ["web", "webcrawler", "xwebcrawl", "crawl", "", "-"])
    def test_other_tokens_do_not_bind(self, name: str) -> None:
        assert allows(f"User-agent: {name}\nDisallow: /", "/a")

    def test_groups_of_one_agent_are_merged(self) -> None:
        body = (
            "User-agent: webcrawl\nDisallow: /a\n\nUser-agent: x\nDisallow: /\n\n"
            "User-agent: webcrawl\nDisallow: /b"
        )
        assert [allows(body, target) for target in ("/a", "/b", "/c")] == [False, False, True]

    def test_group_of_several_agents(self) -> None:
        body = "User-agent: x\nUser-agent: webcrawl\nUser-agent: y\nDisallow: /a"
        assert not allows(body, "/a")

    def test_the_group_of_all_binds_only_agents_without_their_own(self) -> None:
        body = "User-agent: *\nDisallow: /a\nUser-agent: webcrawl\nDisallow: /b"
        assert allows(body, "/a")
        assert not allows(body, "/a", agent="other")

    def test_a_group_without_rules_allows_all(self) -> None:
        assert allows("User-agent: *\nDisallow: /\n\nUser-agent: webcrawl\nDisallow:\n", "/a")

    def test_no_group_allows_all(self) -> None:
        assert allows("User-agent: x\nDisallow: /", "/a")

    def test_rules_before_any_group_are_ignored(self) -> None:
        assert allows("Disallow: /", "/a")

    @pytest.mark.parametrize(
        "line", ["Crawl-delay: 1", "Sitemap: http://a/s", "Noindex: /x", "?", ""]
    )
    def test_other_lines_do_not_close_a_group(self, line: str) -> None:
        assert not allows(f"User-agent: webcrawl\n{line}\nUser-agent: x\nDisallow: /", "/a")


class TestMatching:
    """2.2.2"""

    @pytest.mark.parametrize(
        ("rules", "target", "allowed"),
        [
            ("Disallow: /a\nAllow: /a/b", "/a/b/c", True),
            ("Allow: /a/b\nDisallow: /a", "/a/c", False),
            ("Disallow: /a/b\nAllow: /a", "/a/b", False),
            ("Disallow: /a\nAllow: /a", "/a", True),  # a tie goes to allow
            ("Disallow: /*a\nAllow: /aa", "/aa", True),
            ("Disallow: /*.php\nAllow: /page", "/page.php", False),
            ("Disallow: /A", "/a", True),  # case matters
            ("Disallow:", "/a", True),
            ("Disallow: a", "/a", True),  # not a path
            ("Disallow: /", "/", False),
        ],
    )
    def test_longest_match_wins(self, rules: str, target: str, allowed: bool) -> None:
        assert allows(f"User-agent: *\n{rules}", target) is allowed

    def test_octets_count_not_characters(self) -> None:
        body = "User-agent: *\nDisallow: /ツ\nAllow: /*%83%84"
        assert not allows(body, "/%E3%83%84")  # 10 octets against 8

    def test_robots_txt_itself_is_allowed(self) -> None:
        assert allows("User-agent: *\nDisallow: /", "/robots.txt")
        assert not allows("User-agent: *\nDisallow: /", "/robots.txt?x")

    @pytest.mark.parametrize(
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
            # more such pairs
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

    @pytest.mark.parametrize(
        ("pattern", "target"),
        [("/a%2Fb", "/a/b"), ("/a/b", "/a%2Fb"), ("/a?b", "/a%3Fb"), ("/%41", "/%61")],
    )
    def test_different_paths(self, pattern: str, target: str) -> None:
        assert allows(f"User-agent: *\nDisallow: {pattern}", target)

    def test_deviation_an_index_page_allows_its_directory(self) -> None:
        body = "User-agent: *\nDisallow: /\nAllow: /a/index.html"
        assert allows(body, "/a/")
        assert not allows(body, "/a/b")


class TestSpecialCharacters:
    """2.2.3"""

    @pytest.mark.parametrize(
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
            ("/a$b", "/a$b", True),  # not at the end: a literal octet
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

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\n\n", "  \n"])
    def test_line_ends(self, end: str) -> None:
        assert not allows(f"User-agent: *{end}Disallow: /a{end}", "/a")

    @pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
    def test_byte_order_mark(self, encoding: str) -> None:
        assert not allows("User-agent: *\nDisallow: /a".encode(encoding), "/a")

    def test_white_space_and_comments(self) -> None:
        assert not allows("# hi\n \t User-agent : * # all\n\tDisallow :/a# b\n", "/a")

    @pytest.mark.parametrize("body", [b"", b"\0\xff\xfe", b"<html>", b":", b"user-agent:\n:::"])
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

    def test_deviation_too_many_wildcards_disallow_everything(self) -> None:
        rules = "\n".join(f"Allow: /*{number}" for number in range(MAX_WILDCARDS))
        assert allows(f"User-agent: *\n{rules}", "/a")
        assert not allows(f"User-agent: *\n{rules}\nAllow: /*x", "/a")
