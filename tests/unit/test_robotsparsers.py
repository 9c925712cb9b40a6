"""Another parser of robots.txt: its rules as text, in the store and between processes."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
from scrapy.settings import Settings

from webcrawl.config.build import robots_reader
from webcrawl.parse.robots import MAX_BODY_BYTES, MAX_SITEMAPS, RobotsRules
from webcrawl.parse.robotsparsers import OURS, PROTEGO, TextRules, read_rules, reader

BODY = b"""User-agent: webcrawl
Disallow: /a
Crawl-delay: 2.5

Sitemap: https://a.br/1.xml
Sitemap: https://a.br/2.xml
"""


class Lexical:
    """A parser of a user's own: it allows the targets that are shorter than the text."""

    def __init__(self, text: bytes, token: str) -> None:
        self.allows_all = not text
        self.crawl_delay_s = None
        self.sitemaps = (token,)
        self.longest = len(text)

    def allows(self, target: str) -> bool:
        return len(target) < self.longest


def protego(token: str = "webcrawl") -> Callable[[bytes], RobotsRules]:
    return reader(PROTEGO, token)


def test_our_own_parser_keeps_rules_and_no_text() -> None:
    assert reader(OURS, "webcrawl")(BODY) == RobotsRules.parse(BODY, "webcrawl")


def test_protego_reads_the_text() -> None:
    rules = protego()(BODY)
    assert [rules.allows(target) for target in ("/a", "/b", "/robots.txt")] == [False, True, True]
    assert rules.crawl_delay_s == 2.5
    assert rules.sitemaps == ("https://a.br/1.xml", "https://a.br/2.xml")
    assert not rules.allows_all


@pytest.mark.parametrize("body", [b"", b"User-agent: *\nAllow: /", b"<html>"])
def test_a_text_that_disallows_nothing_is_not_kept(body: bytes) -> None:
    rules = protego()(body)
    assert rules.allows_all
    assert rules.allows("/a")
    assert len(rules.to_bytes()) < 30


@pytest.mark.parametrize("token", ["webcrawl", ""])
@pytest.mark.parametrize("body", [BODY, b"", b"User-agent: *\r\n\r\n\r\nDisallow: /\xff\n"])
def test_storage_and_wire(body: bytes, token: str) -> None:
    rules = protego(token)(body)
    assert read_rules(rules.to_bytes()) == rules
    assert pickle.loads(pickle.dumps(rules)) == rules


def test_input_is_bounded() -> None:
    late = b"User-agent: *\n" + b"#" * MAX_BODY_BYTES + b"\nDisallow: /\n"
    assert protego()(late).allows("/a")
    many = b"Disallow: /\n" + b"Sitemap: x\n" * 100 + b"Sitemap: " + b"y" * 3000
    assert protego()(many).sitemaps == ("x",) * MAX_SITEMAPS


@pytest.mark.parametrize(("target", "rule"), [("/a", "-/a"), ("/b", "")])
def test_the_deciding_rule_is_told(target: str, rule: str) -> None:
    assert protego()(BODY).deciding(target) == rule


def test_the_deciding_rule_is_not_guessed_where_the_parsers_differ() -> None:
    rules = reader("lexical", "webcrawl", Lexical)(b"User-agent: *\nDisallow: /\n")
    assert rules.deciding("/a") == "+(as lexical reads it)"


def test_a_parser_of_a_users_own() -> None:
    path = f"{__name__}.{Lexical.__name__}"
    for value in (path, Lexical):
        settings = Settings({"ROBOTS_PARSER": value, "ROBOTSTXT_USER_AGENT": "tester"})
        rules = read_rules(robots_reader(settings)(b"123").to_bytes())
        assert (rules.allows("/1"), rules.allows("/12")) == (True, False)
        assert rules.sitemaps == ("tester",)


class Faulty:
    """A parser of a user's own that breaks its interface."""

    allows_all = None
    sitemaps = ("http://a/\ud800", "http://a/1.xml")

    def __init__(self, text: bytes, token: str) -> None:
        self.crawl_delay_s = text.decode()

    def allows(self, target: str) -> bool:
        raise ValueError(target)


def test_a_faulty_parser_does_not_break_the_frontier(caplog: pytest.LogCaptureFixture) -> None:
    read = reader("faulty", "a", Faulty)  # type: ignore[arg-type]
    delays = [read(text).crawl_delay_s for text in (b"5", b"nan", b"inf", b"-1")]
    assert delays == [5.0, None, None, None]
    rules = read_rules(read(b"5").to_bytes())
    assert rules.sitemaps == ("http://a/1.xml",)
    assert not rules.allows("/1")
    assert not rules.allows("/2")
    assert rules.allows("/robots.txt")
    (line,) = caplog.messages
    assert line == "ROBOTS_PARSER faulty failed: URLs are refused"


def test_a_project_without_the_setting_has_our_parser() -> None:
    assert robots_reader(Settings({"USER_AGENT": "webcrawl"}))(BODY).literals == "-/a"


def test_a_row_cannot_choose_what_is_imported() -> None:
    """A parser that this process does not use is replaced by ours."""
    row = TextRules(parser="os.system", token="webcrawl", text=BODY).to_bytes()
    assert not read_rules(row).allows("/a")
    with pytest.raises(LookupError):
        reader("os.system", "webcrawl")
