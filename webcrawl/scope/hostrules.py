"""Rules by host, domain and suffix: which values hold for a host in place of the settings.

Owns matching and precedence. Pure: `config.rulesfile` reads the file, the frontier and the fetch
ask `HostRules.of`. Knows nothing of what a value means.

A host rule is for one host; a domain rule for a name and all hosts below it; a suffix rule too, but
any domain rule wins over it. Each value, and each header, comes from the most specific rule that
has it: host, then the longest domain, then the longest suffix.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from msgspec import Struct

from webcrawl.parse.robots import product_token

CACHED_HOSTS = 10_000  # hosts whose values are kept at hand; about 1 KB each at most
_MAX_HOST = 253  # RFC 1035, 2.3.4

HEADER = "header "  # begins the name of a header among the values of a rule
Search = Callable[[str], re.Match[str] | None]


class Auth(Struct, frozen=True):
    """A login, for one host and one scheme. Its text has no secret."""

    header: str  # the value of Authorization
    scheme: str = "https"

    def __repr__(self) -> str:
        return f"a login for {self.scheme}"


class Values(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What rules set for a host. None: the setting holds."""

    delay_s: float | None = None  # DOWNLOAD_DELAY
    max_pages: int | None = None  # MAX_PAGES_PER_HOST; 0: no cap
    max_bytes: int | None = None  # MAX_BYTES_PER_HOST; 0: no cap
    max_depth: int | None = None  # DEPTH_LIMIT; 0: no limit
    timeout_s: float | None = None  # DOWNLOAD_TIMEOUT
    max_size_bytes: int | None = None  # DOWNLOAD_MAXSIZE; 0: no limit
    user_agent: str | None = None  # USER_AGENT
    headers: tuple[tuple[str, str], ...] | None = None  # added to DEFAULT_REQUEST_HEADERS
    auth: Auth | None = None  # only in rules for hosts
    robots_agent: str | None = None  # a product token: ROBOTSTXT_USER_AGENT
    obey_robots: bool | None = None  # ROBOTSTXT_OBEY
    deny: bool | tuple[str, ...] | None = None  # all URLs, or those that an expression matches
    priority: int | None = None  # higher is earlier

    @property
    def denies_all(self) -> bool:
        return self.deny is True

    def denies(self, url: str) -> bool:
        """Whether no request may be made for canonical `url`. One search per expression."""
        deny = self.deny
        if not deny or deny is True:
            return bool(deny)
        return any(search(url) for search in _searches(deny))


class HostRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rule: its targets (canonical names) and its values."""

    line: int  # in its file
    values: Values
    hosts: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()


class Source(NamedTuple):
    """The rule that sets a value: its line, and the target that matches ("domain x.org")."""

    line: int
    target: str


NO_VALUES = Values()


class HostRules:
    """The rules in force in one process. `of` is O(labels of the host), and cached.

    `replace` may be called while another thread calls `of`: a call sees all rules of one file.
    """

    of: Callable[[str], Values]  # by host, canonical; NO_VALUES if no rule matches

    def __init__(self, rules: Sequence[HostRule] = ()) -> None:
        self.rules: Sequence[HostRule] = ()
        self.replace(rules)

    def replace(self, rules: Sequence[HostRule]) -> None:
        """Follow `rules` in place of those before. 1 µs per target."""
        self._table = table = _Table(rules)
        self.rules = rules
        self.of = lru_cache(CACHED_HOSTS)(table.values)

    def change_since(self, before: Callable[[str], Values]) -> Callable[[str], bool]:
        """Whether the values of a host are others than `before`, which was `of`."""
        return lambda host: self.of(host) != before(host)

    def sources(self, host: str) -> dict[str, Source]:
        """For each value of `host` that a rule sets, by the names of `values_of`, that rule."""
        return self._table.sources(host)


class _Table:
    """The rules by target."""

    def __init__(self, rules: Sequence[HostRule]) -> None:
        self._hosts: _ByName = defaultdict(list)
        self._domains: _ByName = defaultdict(list)
        self._suffixes: _ByName = defaultdict(list)
        for rule in rules:
            for by_name, targets in (
                (self._hosts, rule.hosts),
                (self._domains, rule.domains),
                (self._suffixes, rule.suffixes),
            ):
                for target in targets:
                    by_name[target].append(rule)

    def values(self, host: str) -> Values:
        found: dict[str, Any] = {}
        for _, rule in self._matching(host):
            for name, value in values_of(rule):
                found.setdefault(name, value)
        if not found:
            return NO_VALUES
        headers = [name for name in found if name.startswith(HEADER)]
        if headers:
            found["headers"] = tuple(found.pop(name) for name in headers)
        if "user_agent" in found:  # a crawler is known in robots.txt by the name that it sends
            found.setdefault("robots_agent", product_token(found["user_agent"]))
        return Values(**found)

    def sources(self, host: str) -> dict[str, Source]:
        sources: dict[str, Source] = {}
        for target, rule in self._matching(host):
            for name, _ in values_of(rule):
                sources.setdefault(name, Source(rule.line, target))
        return sources

    def _matching(self, host: str) -> Iterator[tuple[str, HostRule]]:
        """(target, rule) of all rules for `host`, the most specific first."""
        for rule in self._hosts.get(host, ()):
            yield f"host {host}", rule
        for kind, by_name in (("domain", self._domains), ("suffix", self._suffixes)):
            if by_name:
                for name in names_above(host):
                    for rule in by_name.get(name, ()):
                        yield f"{kind} {name}", rule


_ByName = defaultdict[str, list[HostRule]]


def names_above(host: str) -> Iterator[str]:
    """`host`, then the names above it: a.b.c, b.c, c. 127 at most."""
    if len(host) > _MAX_HOST:
        host = host[-_MAX_HOST - 1 :].partition(".")[2]
    while host:
        yield host
        host = host.partition(".")[2]


def values_of(rule: HostRule) -> Iterator[tuple[str, Any]]:
    """The values that `rule` sets, by name. A header is one value: "header accept-language"."""
    values = rule.values
    for name in Values.__struct_fields__:
        value = getattr(values, name)
        if name == "headers":
            for header in value or ():
                yield HEADER + header[0].lower(), header
        elif value is not None:
            yield name, value


@lru_cache(1000)
def _searches(expressions: tuple[str, ...]) -> tuple[Search, ...]:
    return tuple(re.compile(each).search for each in expressions)
