"""The matcher compared with a simple one, which turns each rule into a regular expression."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from webcrawl.parse.jointrules import (
    JointRules,
    decision,
    joint_rules,
    names_key,
    read_rules,
    reader,
)
from webcrawl.parse.robots import RobotsRules

PATTERNS = st.text("ab/*", min_size=1, max_size=6).map("/{}".format)
RULES = st.lists(
    st.tuples(st.booleans(), PATTERNS, st.sampled_from(["", "$"])).map(
        lambda rule: (rule[0], rule[1] + rule[2])
    ),
    max_size=6,
)
TARGETS = st.text("ab/", max_size=8).map("/{}".format)


def parsed(rules: list[tuple[bool, str]]) -> RobotsRules:
    lines = [f"{'Allow' if allow else 'Disallow'}: {pattern}" for allow, pattern in rules]
    return RobotsRules.parse("\n".join(["User-agent: *", *lines]).encode(), "x")


def plainly_allows(rules: list[tuple[bool, str]], target: str) -> bool:
    verdicts = [(0, True)]
    for allow, pattern in rules:
        expression = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
        if re.match(expression + (r"\Z" if pattern.endswith("$") else ""), target):
            verdicts.append((len(pattern), allow))
    return max(verdicts)[1]


@given(RULES, TARGETS)
def test_matches_as_regular_expressions_do(rules: list[tuple[bool, str]], target: str) -> None:
    assert parsed(rules).allows(target) == plainly_allows(rules, target)


@given(RULES)
def test_order_of_rules_does_not_matter(rules: list[tuple[bool, str]]) -> None:
    assert parsed(rules) == parsed(rules[::-1])


NAMES = ["webcrawl", "ccbot", "gptbot"]
LINES = st.one_of(
    st.sampled_from(["*", *NAMES, "GPTBot/1.2", "other"]).map("User-agent: {}".format),
    st.tuples(st.sampled_from(["Allow", "Disallow"]), PATTERNS).map(": ".join),
    st.sampled_from(["Crawl-delay: 3", "Crawl-delay: 20", "Disallow:", "Sitemap: /s.xml", "x"]),
)
BODIES = st.lists(LINES, max_size=14).map(lambda lines: "\n".join(lines).encode())


@given(BODIES, TARGETS)
def test_several_names_are_the_strictest_of_each_by_itself(body: bytes, target: str) -> None:
    each = {name: reader(name)(body) for name in NAMES}
    joint = reader(names_key(NAMES))(body)
    assert joint.allows(target) == all(rules.allows(target) for rules in each.values())
    delays_s = [rules.crawl_delay_s for rules in each.values() if rules.crawl_delay_s is not None]
    assert joint.crawl_delay_s == max(delays_s, default=None)
    assert joint.sitemaps == each["webcrawl"].sitemaps
    assert joint.allows("/robots.txt")
    assert joint.allows(target) or not joint.allows_all
    assert read_rules(joint.to_bytes()) == joint
    rule, names = decision(joint, target)
    assert (rule[:1] != "-") == joint.allows(target)
    for name in names or NAMES:
        assert decision(each[name], target).rule == rule


@given(BODIES)
def test_names_in_another_order_have_the_same_rules(body: bytes) -> None:
    def parts(names: list[str]) -> object:
        rules = joint_rules(body, names_key(names))
        if not isinstance(rules, JointRules):
            return rules
        return {(frozenset(part.names), part.rules) for part in rules.parts}

    assert parts(NAMES) == parts(NAMES[::-1])
