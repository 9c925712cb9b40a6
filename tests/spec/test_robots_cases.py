"""robots.txt: the test cases of other projects, and the reason of each case that differs here.

Protego's cases, and Google's as Python in robotspy, come from source archives. test_rfc9309.py has
more cases, of projects without a package.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from inspect import isclass
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import patch

import protego
import pytest
from foreign import files, needs, target_of

from webcrawl.parse.robots import RobotsRules, product_token


class Case(NamedTuple):
    test: str
    robots: bytes
    agent: str
    url: str  # or a path
    allowed: bool

    def differs(self) -> bool:
        rules = RobotsRules.parse(self.robots, product_token(self.agent))
        return rules.allows(target_of(self.url)) is not self.allowed


# By test: how many answers differ.
PROTEGO_DIFFERENT = {
    # 2.2.1: an agent's name is one product token, not a list of words; '*' in it is no wildcard
    "test_generosity": 2,
    # 2.2.1: a product token has no letters outside of ASCII
    "test_unicode_url_and_useragent": 2,
    # 2.2.1: only a user-agent line with a name begins a group
    "test_empty_user_agent_line": 1,
    "test_grouping_unknown_keys": 3,
    # 2.2.1: product tokens match whole
    "test_user_agent_boundary_matching": 2,
    "test_user_agent_precedence": 5,
    # 2.2.2: a pattern is a path
    "test_with_absolute_urls": 1,
    # 2.2.3: '$' ends a pattern, it is not a literal
    "test_special_symbols_dual_behaviour": 2,
}


@needs("protego")
def test_protego() -> None:
    """Every answer that Protego's own tests get from Protego, asked of our parser."""
    cases = protego_cases()
    assert len(cases) > 400
    assert Counter(case.test for case in cases if case.differs()) == PROTEGO_DIFFERENT


def protego_cases() -> list[Case]:
    """Runs Protego's tests on a Protego that records the questions and its answers."""
    cases: list[Case] = []
    running = SimpleNamespace(test="")

    class Recorder:
        def __init__(self, content: str) -> None:
            self.content = content
            self.parsed = protego.Protego.parse(content)

        def can_fetch(self, url: str, agent: str) -> bool:
            allowed: bool = self.parsed.can_fetch(url, agent)
            cases.append(Case(running.test, self.content.encode(), agent, url, allowed))
            return allowed

        def __getattr__(self, name: str) -> Any:
            return getattr(self.parsed, name)

    for name in ("test_protego.py", "test_on_google_spec.py"):
        source = files("protego", f"tests/{name}")[name]
        for running.test, run in functions_of(source, Protego=SimpleNamespace(parse=Recorder)):
            run()
    return cases


def functions_of(source: bytes, **replaced: Any) -> list[tuple[str, Callable[[], None]]]:
    """The tests of a module, once per set of parameters. `replaced`: other values of its names."""
    scope: dict[str, Any] = {"__name__": "tests"}
    with patch.object(pytest, "mark", Marks()):
        exec(source, scope)
    scope |= replaced
    tests = dict(scope)
    for value in scope.values():
        if isclass(value) and value.__name__.startswith("Test"):
            tests |= {name: getattr(value(), name) for name in vars(value)}
    return [
        (name, partial(test, **parameters))
        for name, test in tests.items()
        if name.startswith("test_")
        for parameters in getattr(test, "parameters", [{}])
    ]


class Marks:
    """In place of pytest.mark, which refuses marks that only Protego's configuration declares."""

    def parametrize(self, names: Any, rows: Iterable[Any]) -> Any:
        names = names if isinstance(names, tuple) else (names,)

        def decorate(test: Any) -> Any:
            values = [row if len(names) > 1 else (row,) for row in rows]
            test.parameters = [dict(zip(names, value, strict=True)) for value in values]
            return test

        return decorate

    def __getattr__(self, name: str) -> Any:
        return lambda *arguments: lambda test: test


# By the name of robotspy's data, and agent and path.
GOOGLE_DIFFERENT = {
    # 2.2.1: an agent's name is one product token, not a list of words
    ("data_user_agent_name0", "Foo Bar", "/x/y"),
    # 2.2.1: a product token has no digits, so AB42bot is AB on both sides
    ("data_369883", "AB42bot", "/"),
    ("data_369883", "AB42bot", "/foo/bar"),
    # 2.2.2: /robots.txt itself is allowed
    ("data_327748", "asdfbot", "/robots.txt"),
    ("data_369883", "AB", "/robots.txt"),
    ("data_369883", "BarBot", "/robots.txt"),
    ("data_860237", "XYZ", "/robots.txt"),
}


@needs("robotspy")
def test_google() -> None:
    """google/robotstxt-spec-test."""
    cases = [
        Case(name, robots.encode(), agent, url, allowed)
        for source in files("robotspy", "tests/test_google_[cs]*.py").values()
        for name, rows in google_data(source.decode()).items()
        for robots, agent, url, allowed in rows
    ]
    assert len(cases) > 390
    different = {(case.test, case.agent, target_of(case.url)) for case in cases if case.differs()}
    assert different == GOOGLE_DIFFERENT


def google_data(source: str) -> dict[str, Any]:
    """The tables of a module of robotspy's tests, by name."""
    scope: dict[str, Any] = {"ALLOWED": True, "DISALLOWED": False}
    exec(source.replace("from .core import *", ""), scope)  # the archive has no core.py
    return {name: rows for name, rows in scope.items() if name.startswith("data_")}
