"""Any robots.txt gives rules in bounded space, never an exception."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.parse.jointrules import joint_rules, read_rules
from webcrawl.parse.ownersignals import TEXT_MAX, robots_signals
from webcrawl.parse.robots import RobotsRules

KEYS = st.sampled_from(
    [
        b"User-agent",
        b"License",
        b"Content-Usage",
        b"Disallow",
        b"Allow",
        b"Crawl-delay",
        b"Sitemap",
        b"useragent",
        b"",
        b"\xff",
    ]
)
VALUES = st.one_of(
    st.sampled_from([b"*", b"webcrawl", b"/", b"$", b"%", b"%4", b"%zz", b"/*$", b"/%2a%24", b"1"]),
    st.binary(max_size=30),
    st.text("/*$%aA02?#= \t", max_size=12).map(str.encode),
)
LINES = st.builds(
    lambda key, separator, value, end: key + separator + value + end,
    KEYS,
    st.sampled_from([b":", b" ", b": ", b" : ", b"::"]),
    VALUES,
    st.sampled_from([b"\n", b"\r", b"\r\n", b"\0", b""]),
)
BODIES = st.one_of(st.binary(max_size=300), st.lists(LINES, max_size=12).map(b"".join))
TARGETS = st.one_of(st.text(max_size=20), st.text("/*$%aA02?#=ツ", max_size=20)).map("/{}".format)


@given(BODIES, TARGETS)
def test_any_body(body: bytes, target: str) -> None:
    rules = RobotsRules.parse(body, "webcrawl")
    assert rules.allows(target) in (True, False)
    assert rules.allows("/robots.txt")
    assert rules.crawl_delay_s is None or 0 <= rules.crawl_delay_s < float("inf")
    assert len(rules.literals) + len(rules.wildcards) <= 5 * len(body)
    assert RobotsRules.from_bytes(rules.to_bytes()) == rules
    joint = joint_rules(body, "webcrawl,ccbot,other")
    assert joint.allows(target) <= rules.allows(target)
    assert read_rules(joint.to_bytes()) == joint
    said = robots_signals(body, "webcrawl,ccbot")
    assert all(line.isprintable() for line in said)
    assert sum(map(len, said)) <= TEXT_MAX + 20
