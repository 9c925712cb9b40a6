"""Parsers of robots.txt other than our own: the setting ROBOTS_PARSER.

Owns the interface of such a parser and the form in which its rules are kept: the text itself, which
is parsed again for each check. So the rules fit into a row of the store and into a message between
processes, for any parser. Knows nothing of settings, stores and fetching.

`parse.robots` bounds the time of hostile input for our own parser. Another parser is only given at
most MAX_BODY_BYTES of text.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from typing import Final, Protocol, Self

from msgspec.structs import replace

from webcrawl.parse.jointrules import JOINT, Decision, JointRules, joint_rules
from webcrawl.parse.robots import MAX_SITEMAP_BYTES, MAX_SITEMAPS, RobotsRules, readable

logger = logging.getLogger(__name__)

OURS: Final = "webcrawl"
PROTEGO: Final = "protego"

_TEXT: Final = b"\0"  # begins a row of TextRules: a row of RobotsRules is text without NULs
# Steps of half a nanosecond for an octet of text: Protego reads 2 KB in 425 µs.
_STEPS_PER_OCTET: Final = 415


class Reading(Protocol):
    """A parser's result for one robots.txt and one product token. Raises nothing."""

    @property
    def allows_all(self) -> bool:
        """True if no target is disallowed. May be False where the parser cannot tell."""

    @property
    def crawl_delay_s(self) -> float | None: ...

    @property
    def sitemaps(self) -> Iterable[str]: ...

    def allows(self, target: str) -> bool:
        """Whether `target`, path and query of a canonical URL, may be asked for."""


# Called with the text of a robots.txt and the product token.
RobotsParser = Callable[[bytes, str], Reading]

_parsers: dict[str, RobotsParser] = {}  # in use in this process, by name
_failed: set[str] = set()  # names of parsers that raised in `allows`: logged once


def reader(
    name: str, token: str, parser: RobotsParser | None = None
) -> Callable[[bytes], RobotsRules]:
    """A function from the body of a robots.txt to its rules for the product token `token`.

    `token` may have several names with commas between them: the strictest wins (`jointrules`).
    `name` is OURS, PROTEGO or any name of `parser`, under which its rules are kept. ImportError
    where Protego is not installed.
    """
    if name == OURS and "," in token:
        return partial(joint_rules, names=token)
    if name == OURS:
        return partial(RobotsRules.parse, product_token=token)
    if parser is not None:
        _parsers[name] = parser
    elif _parser(name) is None:
        raise LookupError(name)
    return partial(_read_text, name, token)


def read_rules(row: bytes) -> RobotsRules:
    """The rules that `to_bytes` of any parser's rules wrote."""
    if row.startswith(_TEXT):
        return TextRules.from_bytes(row)
    return (JointRules if row.startswith(JOINT) else RobotsRules).from_bytes(row)


def decision(rules: RobotsRules, target: str) -> Decision:
    """The rule that decides on `target`, and the names that it is for (ROBOTSTXT_USER_AGENT)."""
    if isinstance(rules, JointRules | TextRules):
        return rules.decision(target)
    return Decision(rules.deciding(target))


class TextRules(RobotsRules, frozen=True):
    """The text of a robots.txt and the name of the parser that reads it for each check.

    `token` may have several names, with commas between them: each is read by itself.
    A parser that this process does not use is replaced by ours, which happens to commands that
    inspect a crawl: the row names the parser, but must not choose which code is imported.
    """

    parser: str = ""
    token: str = ""
    text: bytes = b""
    is_open: bool = False  # by the parser, all URLs are allowed

    @property
    def allows_all(self) -> bool:
        return self.is_open

    def allows(self, target: str) -> bool:
        """O(text), or more if the parser takes more. A parser that raises disallows `target`."""
        if target == "/robots.txt":
            return True
        try:
            return all(reading.allows(target) for reading in self._readings())
        except Exception:  # a user's own parser; one robots.txt must not end the crawl
            if self.parser not in _failed:
                _failed.add(self.parser)
                logger.exception("ROBOTS_PARSER %s failed: URLs are refused", self.parser)
            return False

    def deciding(self, target: str) -> str:
        """The rule that our parser finds, if both parsers agree. For `scrapy explain` only."""
        return self.decision(target).rule

    def decision(self, target: str) -> Decision:
        """As `deciding`, with the first name that may not ask for `target`."""
        tokens = self.token.split(",")
        each = (replace(self, token=token) for token in tokens)
        refused = next((one.token for one in each if not one.allows(target)), "")
        rule = RobotsRules.parse(self.text, refused or tokens[0]).deciding(target)
        sign = "-" if refused else "+"
        if (rule[:1] or "+") != sign:
            rule = f"{sign}(as {self.parser} reads it)"
        return Decision(rule, (refused or tokens[0],) if len(tokens) > 1 else ())

    def check_steps(self, target: str) -> int:
        return _STEPS_PER_OCTET * len(self.text) * (1 + self.token.count(","))

    def to_bytes(self) -> bytes:
        delay = "" if self.crawl_delay_s is None else repr(self.crawl_delay_s)
        head = (self.parser, self.token, delay, f"{self.is_open:d}", " ".join(self.sitemaps))
        return _TEXT + "\n".join(head).encode() + b"\n" + self.text

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        parser, token, delay, is_open, sitemaps, text = data[len(_TEXT) :].split(b"\n", 5)
        return cls(
            crawl_delay_s=float(delay) if delay else None,
            sitemaps=tuple(sitemaps.decode().split()),
            parser=parser.decode(),
            token=token.decode(),
            text=text,
            is_open=is_open == b"1",
        )

    def _readings(self) -> Iterator[Reading]:
        parser = _parser(self.parser) or RobotsRules.parse
        return (parser(self.text, token) for token in self.token.split(","))


# As a message between processes has them: one of these classes, and no other subclass.
AnyRules = RobotsRules | TextRules | JointRules


def _read_text(name: str, token: str, body: bytes) -> TextRules:
    text = readable(body)
    readings = [_parsers[name](text, each) for each in token.split(",")]
    is_open = all(reading.allows_all for reading in readings)
    delays_s = [_seconds(reading.crawl_delay_s) for reading in readings]
    sitemaps = (words[0] for each in readings[0].sitemaps if (words := each.split()))
    short = [each for each in sitemaps if len(each) <= MAX_SITEMAP_BYTES and _is_unicode(each)]
    return TextRules(
        crawl_delay_s=max((each for each in delays_s if each is not None), default=None),
        sitemaps=tuple(short[:MAX_SITEMAPS]),
        parser=name,
        token=token,
        text=b"" if is_open else text,
        is_open=is_open,
    )


def _is_unicode(text: str) -> bool:
    """Whether UTF-8 can hold `text`: a row of the store and a message are UTF-8."""
    return text.encode("utf-8", "ignore").decode() == text


def _seconds(delay: float | None) -> float | None:
    """`delay` as the frontier can hold it. None for one that is negative or not finite."""
    seconds = None if delay is None else float(delay)
    return seconds if seconds is not None and 0 <= seconds < math.inf else None


def _parser(name: str) -> RobotsParser | None:
    """The parser in use under `name`. Protego is imported when it is first used."""
    if name == PROTEGO and name not in _parsers:
        _parsers[name] = import_module("webcrawl.parse.protego_robots").ProtegoReading
    return _parsers.get(name)
