"""robots.txt for several names at once: the strictest of them wins (ROBOTSTXT_USER_AGENT).

A URL is allowed only if the rules of each name allow it, and Crawl-delay is the largest. Each name
has its own group, or that of `*`, exactly as if it were the only one (`parse.robots`). Pure.

A list of names is one text with commas: "webcrawl,ccbot". Our own name is the first.

Bounds: NAMES_MAX names. Names with equal rules share them, and the rules of all names together have
RULES_MAX characters. Deviation: beyond it all URLs are refused, which breaks no rule. The checks of
all names together take MAX_CHECK_STEPS, as those of one name; so one check takes 75 ms at worst.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, Self

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.parse.robots import (
    DISALLOW_ALL,
    MAX_BODY_BYTES,
    MAX_CHECK_STEPS,
    MAX_SITEMAPS,
    RobotsParser,
    RobotsRules,
    readable,
)

NAMES_MAX: Final = 8
RULES_MAX: Final = 2 * MAX_BODY_BYTES  # characters
JOINT: Final = b"\1"  # begins a row of JointRules: a row of RobotsRules is text


def names_key(names: Iterable[str]) -> str:
    """The text of a list of names, each once."""
    return ",".join(dict.fromkeys(names))


class NamedRules(Struct, frozen=True, array_like=True, gc=False):
    """Rules, and the names that they are for."""

    names: tuple[str, ...]
    rules: RobotsRules


class Decision(NamedTuple):
    """The rule that decides on a URL (`RobotsRules.deciding`), and the names that it is for."""

    rule: str
    names: tuple[str, ...] = ()  # (): rules that are the same for all names


class JointRules(RobotsRules, frozen=True):
    """The rules of several names that differ. `literals` and `wildcards` are empty."""

    parts: tuple[NamedRules, ...] = ()

    @property
    def allows_all(self) -> bool:
        return all(part.rules.allows_all for part in self.parts)

    def deciding(self, target: str) -> str:
        return self.decision(target).rule

    def decision(self, target: str) -> Decision:
        """The first name's rule that refuses `target`; else the first name's rule for it."""
        if target == "/robots.txt":
            return Decision("", self.parts[0].names)
        if sum(part.rules.wildcard_steps(target) for part in self.parts) > MAX_CHECK_STEPS:
            return Decision(DISALLOW_ALL.literals)
        decisions = [Decision(part.rules.deciding(target), part.names) for part in self.parts]
        return next((each for each in decisions if each.rule[:1] == "-"), decisions[0])

    def check_steps(self, target: str) -> int:
        return sum(part.rules.check_steps(target) for part in self.parts)

    def to_bytes(self) -> bytes:
        return JOINT + _encode(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The rules that `to_bytes` wrote. ValueError for other bytes."""
        try:
            rules = Decoder(cls).decode(data[len(JOINT) :])
        except DecodeError as error:
            raise ValueError(str(error)) from None
        if not rules.parts:
            raise ValueError("no rules")
        return rules


_encode = Encoder().encode

# As a message between processes has them: one of these classes.
AnyRules = RobotsRules | JointRules


def reader(names: str) -> Callable[[bytes], RobotsRules]:
    """A function from the body of a robots.txt to its rules for `names`, one or several."""
    if "," in names:
        return partial(joint_rules, names=names)
    return partial(RobotsRules.parse, token=names)


def read_rules(row: bytes) -> RobotsRules:
    """The rules that `to_bytes` of any rules wrote. ValueError for other bytes."""
    return (JointRules if row.startswith(JOINT) else RobotsRules).from_bytes(row)


def decision(rules: RobotsRules, target: str) -> Decision:
    """The rule that decides on `target`, and the names that it is for (ROBOTSTXT_USER_AGENT)."""
    if isinstance(rules, JointRules):
        return rules.decision(target)
    return Decision(rules.deciding(target))


def joint_rules(body: bytes, names: str) -> RobotsRules:
    """The rules of `body` for each of `names`. Plain RobotsRules if all names have the same.

    O(body), read once. Never fails.
    """
    tokens = names.split(",")
    parser = RobotsParser(*tokens)
    for line in readable(body).splitlines():
        parser.feed(line)
    names_of: dict[RobotsRules, list[str]] = {}
    delays_s = []
    for token in tokens:
        group = parser.group(token)
        delays_s.append(group.crawl_delay_s)
        names_of.setdefault(group.rules(), []).append(token)
    delay_s = max((each for each in delays_s if each is not None), default=None)
    sitemaps = tuple(parser.sitemaps[:MAX_SITEMAPS])
    if sum(len(each.literals) + len(each.wildcards) for each in names_of) > RULES_MAX:
        return RobotsRules(DISALLOW_ALL.literals, "", delay_s, sitemaps)
    if len(names_of) == 1:
        (rules,) = names_of
        return RobotsRules(rules.literals, rules.wildcards, delay_s, sitemaps)
    parts = tuple(NamedRules(tuple(some), rules) for rules, some in names_of.items())
    return JointRules(crawl_delay_s=delay_s, sitemaps=sitemaps, parts=parts)
