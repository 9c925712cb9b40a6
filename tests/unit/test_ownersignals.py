"""What owners say about the use of their pages: word for word, and bounded."""

from __future__ import annotations

from tests.cases import each_of
from webcrawl.parse.ownersignals import (
    SIGNALS_MAX,
    TEXT_MAX,
    VALUE_MAX,
    bounded,
    header_directives,
    header_signals,
    robots_signals,
)
from webcrawl.parse.page import read_page

URL = "http://h/"
AGENTS = ("robots", "ourbot", "gptbot")


def test_headers_in_their_order_all_of_them() -> None:
    headers = [
        (b"x-robots-tag", b"noindex, noai"),
        (b"content-type", b"text/html"),
        (b"x-robots-tag", b"OtherBot: noarchive, max-snippet: 5"),
        (b"content-usage", b"train-ai=n, search=y"),
        (b"tdm-reservation", b"1"),
        (b"tdm-policy", b"https://h/policy.json"),
    ]
    assert header_signals(headers) == [
        "X-Robots-Tag: noindex, noai",
        "X-Robots-Tag: OtherBot: noarchive, max-snippet: 5",
        "Content-Usage: train-ai=n, search=y",
        "tdm-reservation: 1",
        "tdm-policy: https://h/policy.json",
    ]


def test_the_meta_elements_that_apply_and_their_directives() -> None:
    page = (
        b"<META Name=Robots Content='noindex,  NoAI'><meta name=GPTBot content=noarchive>"
        b"<meta name=googlebot content=nofollow><meta name=tdm-reservation content=1>"
        b"<meta name='tdm-policy' content='https://h/p'><meta name=description content=nofollow>"
        b"<meta name=robots content=noimageai><a href=/a>a</a>"
    )
    read = read_page(page, "text/html", URL, user_agent_token="OurBot", robots_also=("gptbot",))
    assert read.signals == [
        "meta robots: noindex, NoAI",
        "meta gptbot: noarchive",
        "meta tdm-reservation: 1",
        "meta tdm-policy: https://h/p",
        "meta robots: noimageai",
    ]
    assert (read.noarchive, read.nofollow, read.links) == (True, False, ["http://h/a"])
    assert not read_page(page, "text/html", URL, user_agent_token="OurBot").noarchive


@each_of(
    ("value", "kept"),
    [
        ('</l.xml>; rel="license"; type="application/rsl+xml"', ...),
        ("<https://h/l>;REL=License", ...),
        ('</l>; rel="cc LICENSE"', ...),
        ('</a>; rel=preload, </l>; rel=license, </b>; rel="next"', "</l>; rel=license"),
        ('</a,b>; title=", rel=license"; rel=next', None),
        ("</l>; rel=next; rel=license", None),  # RFC 8288, 3.3: the first counts
        ("</license>; rel=next", None),
        ('<</l>; rel="license', None),
    ],
)
def test_the_link_header_of_a_license(value: str, kept: object) -> None:
    want = [] if kept is None else [f"Link: {value if kept is ... else kept}"]
    assert header_signals([(b"link", value.encode())]) == want


def test_link_elements_of_a_license() -> None:
    page = b"<link rel='License' href='/l.xml'><link rel=license><link rel=icon href=/license>"
    assert read_page(page * 150, "text/html", URL).signals == ["link license: /l.xml"] * 100


def test_signals_are_read_of_a_page_whose_header_has_nofollow() -> None:
    page = b"<meta name=robots content=noarchive><a href=/a>a</a>"
    read = read_page(page, "text/html", URL, x_robots_tag="nofollow")
    assert (read.nofollow, read.noarchive, read.links) == (True, True, [])
    assert read.signals == ["meta robots: noarchive"]


@each_of(
    ("header", "expected"),
    [
        ("noarchive", {"noarchive"}),
        ("noindex, NOARCHIVE , nofollow", {"noindex", "noarchive", "nofollow"}),
        ("none", {"none"}),
        ("otherbot: noarchive", set()),
        ("otherbot: noindex, noarchive, gptbot: noarchive", {"noarchive"}),
        ("otherbot: noindex\nnoarchive", {"noarchive"}),
        ("unavailable_after: 25 Jun 2030, noarchive", {"noarchive"}),
        ("noarchived, no archive", set()),
    ],
)
def test_directives_of_a_header(header: str, expected: set[str]) -> None:
    assert header_directives(header, AGENTS) == expected
    read = read_page(b"<p>", "application/pdf", URL, x_robots_tag=header, robots_also=AGENTS[1:])
    assert read.noarchive == ("noarchive" in expected)


ROBOTS = b"""\xef\xbb\xbfLicense: https://h/license.xml
User-agent: *
Content-Signal: search=yes, ai-train=no
Content-Usage: train-ai=n
Disallow: /x

User-agent: GPTBot
User-agent: CCBot
Content-usage: /public train-ai=y # a comment
Allow: /
"""


@each_of(
    ("names", "expected"),
    [
        ("ourbot", ["Content-Signal: search=yes, ai-train=no", "Content-Usage: train-ai=n"]),
        ("gptbot", ["Content-Usage: /public train-ai=y"]),
        (
            "ourbot,gptbot,ccbot",
            [
                "Content-Signal: search=yes, ai-train=no",
                "Content-Usage: train-ai=n",
                "Content-Usage: /public train-ai=y",
            ],
        ),
    ],
)
def test_lines_of_robots_txt_that_apply(names: str, expected: list[str]) -> None:
    assert list(robots_signals(ROBOTS, names)) == ["License: https://h/license.xml", *expected]
    assert robots_signals(b"User-agent: *\nDisallow: /", names) == ()


def test_values_are_one_printable_line() -> None:
    value = "  no\x1b[31m\r\n\tai \u202e é \x85 x ".encode()
    assert header_signals([(b"x-robots-tag", value)]) == [
        "X-Robots-Tag: no\ufffd[31m ai \ufffd é x"
    ]
    assert header_signals([(b"x-robots-tag", b"caf\xe9")]) == ["X-Robots-Tag: café"]


def test_signals_are_bounded() -> None:
    many = [f"a: {number}" for number in range(1000)]
    assert bounded(many) == [*many[:SIGNALS_MAX], f"... {1000 - SIGNALS_MAX} more"]
    (long,) = header_signals([(b"content-usage", b"x" * 100_000)])
    assert len(long) == len("Content-Usage: ") + VALUE_MAX
    assert long.endswith("x...")
    assert sum(map(len, bounded([long] * 10))) <= TEXT_MAX + 20
    robots = b"Content-Usage: a\n" * 20_000 + b"License: " + b"y" * 400_000
    assert len(robots_signals(robots, "ourbot")) == 1, "repeats count once"
    page = b"<meta name=robots content='%s'>" % (b"noai " * 500) * 2000
    signals = read_page(page, "text/html", URL).signals
    assert sum(map(len, bounded(signals))) <= TEXT_MAX + 20
