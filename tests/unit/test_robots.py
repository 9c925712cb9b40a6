"""robots.txt beyond RFC 9309: names, delays, sitemaps, storage, hostile patterns."""

from __future__ import annotations

import pickle

from tests.cases import each_of
from webcrawl.parse.robots import (
    ALLOW_ALL,
    DISALLOW_ALL,
    MAX_CHECK_STEPS,
    MAX_SITEMAPS,
    RobotsRules,
    RulePlace,
    place_of,
    product_token,
)


@each_of(
    ("user_agent", "token"),
    [
        ("webcrawl/1.0 (+https://example.org/)", "webcrawl"),
        ("WebCrawl", "webcrawl"),
        (" my-crawl_2.0 x", "my-crawl_2.0"),
        ("Mozilla/5.0 (compatible; WebCrawl/1.0; +https://example.org/)", "webcrawl"),
        ("Mozilla/5.0 (X11; Linux)", "mozilla"),
        ("", ""),
        ("ツ", ""),
        ("*", ""),
    ],
)
def test_product_token(user_agent: str, token: str) -> None:
    assert product_token(user_agent) == token


def test_without_a_token_only_the_group_of_all_agents_applies() -> None:
    body = b"User-agent:\nUser-agent: /\nDisallow: /a\n\nUser-agent: *\nDisallow: /b"
    rules = RobotsRules.parse(body, product_token(""))
    assert (rules.allows("/a"), rules.allows("/b")) == (True, False)


@each_of(
    ("lines", "delay_s"),
    [
        ("Crawl-delay: 10", 10.0),
        ("crawl-delay:0.5", 0.5),
        ("Crawl-delay: .5", 0.5),
        ("Crawl-delay: 0", 0.0),
        ("Crawl-delay: 2\nCrawl-delay: 7\nCrawl-delay: 3", 7.0),
        ("Crawl-delay: 2\nCrawl-delay: -7", 2.0),
        ("Crawl-delay:", None),
        ("Crawl-delay: -1", None),
        ("Crawl-delay: ten", None),
        ("Crawl-delay: 1e9", None),
        ("Crawl-delay: nan", None),
        ("Crawl-delay: 2.", 2.0),
        ("Crawl-delay: .", None),
        ("Crawl-delay: 1" + "1" * 31, float("1" * 32)),
        ("Crawl-delay: 1" + "1" * 32, None),
        ("Crawl-delay: " + "1" * 60_000 + "x", None),
        ("Crawl-delay: " + "9" * 400, None),  # infinite as a float
    ],
)
def test_crawl_delay(lines: str, delay_s: float | None) -> None:
    body = f"User-agent: webcrawl\n{lines}\n"
    assert RobotsRules.parse(body.encode(), "webcrawl").crawl_delay_s == delay_s


def test_crawl_delay_is_that_of_our_group() -> None:
    body = b"User-agent: *\nCrawl-delay: 9\nDisallow: /\n\nUser-agent: webcrawl\nDisallow:\n"
    assert RobotsRules.parse(body, "webcrawl").crawl_delay_s is None
    assert RobotsRules.parse(body, "other").crawl_delay_s == 9.0


def test_sitemaps_belong_to_no_group_and_are_bounded() -> None:
    lines = [f"Sitemap: https://a.br/{number}.xml" for number in range(MAX_SITEMAPS + 5)]
    body = "\n".join(["Sitemap:", "Sitemap: " + "x" * 3000, "User-agent: x", *lines])
    sitemaps = RobotsRules.parse(body.encode(), "webcrawl").sitemaps
    assert sitemaps == tuple(f"https://a.br/{number}.xml" for number in range(MAX_SITEMAPS))


def test_allow_all_and_disallow_all() -> None:
    assert ALLOW_ALL.allows("/a")
    assert not DISALLOW_ALL.allows("/")
    assert DISALLOW_ALL.allows("/robots.txt")


@each_of(
    "rules",
    [
        ALLOW_ALL,
        DISALLOW_ALL,
        RobotsRules("+/a\n-/", "-/*b\n-/c$", 1.5, ("https://a.br/1", "https://a.br/ツ")),
        RobotsRules(wildcards="-/*"),
        RobotsRules(sitemaps=("x",)),
        RobotsRules(crawl_delay_s=0.0),
    ],
)
def test_storage(rules: RobotsRules) -> None:
    assert RobotsRules.from_bytes(rules.to_bytes()) == rules
    assert pickle.loads(pickle.dumps(rules)) == rules


def test_only_the_rules_for_us_are_kept() -> None:
    body = b"User-agent: webcrawl\nDisallow: /a\n\nUser-agent: *\n" + b"Disallow: /x\n" * 1000
    assert len(RobotsRules.parse(body, "webcrawl").to_bytes()) < 20


def test_a_check_that_would_take_long_is_refused() -> None:
    """Deviation: a URL of 8,000 characters against 3,000 wildcards. A usual URL is checked."""
    lines = (b"Allow: *" + b"a" * 80 + b"%daaa\n" % number for number in range(3000))
    rules = RobotsRules.parse(b"User-agent: *\n" + b"".join(lines), "webcrawl")
    target = "/" + "a" * 8000
    assert rules.deciding(target) == "-/"
    assert rules.check_steps(target) <= MAX_CHECK_STEPS
    assert rules.allows("/" + "a" * 150)


def test_an_agent_may_be_named_thousands_of_times() -> None:
    body = b"User-agent: webcrawl\nUser-agent: *\n" * 1000 + b"Disallow: /a\nCrawl-delay: 2\n"
    for token in ("webcrawl", "other"):
        rules = RobotsRules.parse(body, token)
        assert (rules.literals, rules.crawl_delay_s) == ("-/a", 2.0)


def test_the_place_of_a_rule_is_its_line_in_our_group() -> None:
    body = (
        b"\xef\xbb\xbfUser-agent: *\rDisallow: /a\r\n\nUser-agent: WebCrawl\nDisallow: /a # \xff\n"
    )
    assert place_of("-/a", body, "webcrawl") == RulePlace(5, "Disallow: /a # \\xff", "webcrawl")
    assert place_of("-/a", body, "another") == RulePlace(2, "Disallow: /a", "*")
    assert place_of("-/b", body, "webcrawl") is None
