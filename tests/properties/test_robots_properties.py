"""The matcher compared with a simple one, which turns each rule into a regular expression."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

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
