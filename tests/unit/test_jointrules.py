"""robots.txt for several names: bounds, rows and the name that decides."""

from __future__ import annotations

import pytest

from tests.cases import each_of
from webcrawl.parse.jointrules import (
    JOINT,
    NAMES_MAX,
    JointRules,
    decision,
    joint_rules,
    names_key,
    read_rules,
)
from webcrawl.parse.robots import RobotsRules

NAMES = "webcrawl,ccbot,gptbot"
BODY = b"""User-agent: *
Disallow: /private
Crawl-delay: 2

User-agent: GPTBot
Disallow: /

User-agent: CCBot
Allow: /open
Crawl-delay: 9
"""


def test_the_decision_has_the_rule_and_the_name() -> None:
    rules = joint_rules(BODY, NAMES)
    assert decision(rules, "/open") == ("-/", ("gptbot",))
    assert decision(rules, "/private/1") == ("-/private", ("webcrawl",))
    assert rules.crawl_delay_s == 9.0
    two = joint_rules(BODY, "webcrawl,ccbot")
    assert decision(two, "/a") == ("", ("webcrawl",))
    assert two.allows("/a")
    assert not two.allows("/private")


def test_names_with_the_same_rules_share_them() -> None:
    assert joint_rules(BODY, "webcrawl,other") == RobotsRules.parse(BODY, "webcrawl")
    some = joint_rules(BODY, "webcrawl,gptbot,other")
    assert isinstance(some, JointRules)
    assert [part.names for part in some.parts] == [("webcrawl", "other"), ("gptbot",)]
    assert names_key(["a", "b", "a"]) == "a,b"


def test_rules_of_many_names_are_bounded() -> None:
    names = [f"bot{number}" for number in range(NAMES_MAX)]
    shared = b"".join(b"User-agent: %s\n" % name.encode() for name in names)
    shared += b"".join(b"Disallow: /%d\n" % number for number in range(20_000))
    own = b"".join(b"User-agent: %s\nDisallow: /%s\n" % ((n.encode(),) * 2) for n in names)
    rules = joint_rules(shared + own, names_key(names))
    assert not rules.allows("/anything")
    assert len(rules.to_bytes()) < 100
    wild = b"".join(b"Disallow: /*%d*a*b*c*d*e*f*g\n" % number for number in range(4_000))
    each = b"".join(b"User-agent: %s\n%s" % (n.encode(), wild) for n in names[:2])
    rules = joint_rules(each + own, names_key(names[:2]))
    assert not rules.allows("/" + "a" * 2_000)
    assert rules.allows("/robots.txt")


@each_of("row", [b"", b"\x90", b"\xff", b"\x92\xaaJointRules\x01"])
def test_a_damaged_row_is_a_value_error(row: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_rules(JOINT + row)
