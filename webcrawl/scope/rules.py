"""The crawl's scope: suffixes, hosts and patterns, schemes, length and ports.

Owns the decision for one URL. Knows nothing of the URL-seen test, caps and robots.txt. Reads
`@file` lists once, when a Scope is made or extended; decisions are pure.

A deny or allow entry is one of:

- a host name or an address: `example.com`, `192.0.2.7`. A name covers the hosts below it, and may
  be written `.example.com`, `*.example.com` or in Unicode.
- a regular expression, searched in the canonical URL: any other entry, and any entry behind `re:`
  (`re:login` is an expression, `login` a host).
- `@path`: a file with one entry per line. Blank lines and lines that begin with `#` are ignored.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from webcrawl.base.textfile import read_text
from webcrawl.base.wording import SettingError
from webcrawl.parse.urls import canonicalize, host_of, port_of

Rule = Callable[[str, str], str]  # (url, host) -> the reason of a refusal, or ""

_FILTERS = threading.Lock()  # of `warnings`, which threads share

_SCHEMES = ("http:", "https:")
_MAX_HOST = 253  # RFC 1035, 2.3.4: 255 octets on the wire
# With Unicode letters (IDN), "_" (real hosts have it) and colons (IPv6 addresses).
_HOST = re.compile(r"(?:\*?\.)?([\w-]+(?:\.[\w-]+)*|[0-9a-f:.]*:[0-9a-f:.]*)\.?", re.IGNORECASE)


# A page may link to any port of any host. Servers of mail, of databases and of other protocols made
# of lines take those of a request for commands, and their logs name the crawler as an attacker.
# WHATWG Fetch, 2.9, "port blocking".
_BAD_PORTS: Final = (
    *(0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101),
    *(102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389),
    *(427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636),
    *(989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665),
    *(6666, 6667, 6668, 6669, 6679, 6697, 10080),
)
# Deviation: MySQL, PostgreSQL, Redis, Memcached and MongoDB too. Browsers leave them to the server.
_DATABASES: Final = (3306, 5432, 6379, 11211, 27017)


def refused_ports(allowed: Iterable[int] = ()) -> frozenset[int]:
    """The ports that get no request; `allowed` is ALLOW_PORTS."""
    return frozenset((*_BAD_PORTS, *_DATABASES)).difference(allowed)


class Scope:
    """Decides which URLs belong to the crawl.

    A URL must be http or https, with at most `max_length` characters, none of `ports`, a host under
    one of `suffixes` (if any are given), no match in `deny`, a match in `allow` (if given), a host
    under one of `domains` (if given: the spider's `allowed_domains`), and must pass all `rules`.
    The first failed test is the reason of a refusal.

    `denied` may grow while the crawl runs, and so may `allowed_too`: a URL that it matches needs
    no suffix, no match in `allow` and no domain. Another thread may call `refuses` meanwhile.
    """

    def __init__(
        self,
        *,
        suffixes: Iterable[str] = (),
        deny: Iterable[str] = (),
        allow: Iterable[str] = (),
        domains: Iterable[str] = (),
        max_length: int = 2083,
        ports: frozenset[int] = refused_ports(),
        rules: Iterable[Rule] = (),
    ) -> None:
        self._max_length = max_length
        self._ports = ports
        self.denied = HostsAndPatterns(deny, "SCOPE_DENY")
        self.allowed_too = HostsAndPatterns()
        self._suffixes = frozenset(_suffix(suffix) for suffix in suffixes)
        self._allowed = HostsAndPatterns(allow := list(allow), "SCOPE_ALLOW")
        if allow and not self._allowed.has_any:  # otherwise an empty file would allow the whole web
            raise SettingError("SCOPE_ALLOW", ",".join(allow), "at least one host or expression")
        self.domains = list(domains)  # as the spider has them
        self._users_rules = list(rules)
        self._rules = self._rules_that_refuse()

    @property
    def has_limits(self) -> bool:
        """Whether suffixes, an allow list or domains limit the scope."""
        return bool(self._suffixes or self._allowed.has_any or self.domains)

    def extend(self, allow: Iterable[str] = (), deny: Iterable[str] = ()) -> None:
        """Add entries to `allowed_too` and to `denied`. SettingError; then nothing has changed."""
        allow, deny = list(allow), list(deny)
        HostsAndPatterns(deny, "deny")  # both are checked before one is changed
        self.allowed_too.add(allow, "allow")
        self.denied.add(deny, "deny")
        self._rules = self._rules_that_refuse()

    def _rules_that_refuse(self) -> list[Rule]:
        """The tests behind `refuses`, without those that refuse no URL."""
        suffixes, denied = self._suffixes, self.denied
        allowed, too = self._allowed, self.allowed_too
        domains = frozenset(map(domain_of, self.domains))  # never matched: the "" of no host
        rules: list[Rule] = []
        if suffixes:
            rules.append(
                lambda url, host: (
                    "" if _is_under(host, suffixes) or too.matches(url, host) else "suffix"
                )
            )
        if denied.has_any:
            rules.append(lambda url, host: "deny" if denied.matches(url, host) else "")
        if allowed.has_any:
            rules.append(
                lambda url, host: (
                    "" if allowed.matches(url, host) or too.matches(url, host) else "allow"
                )
            )
        if domains:
            rules.append(
                lambda url, host: (
                    "" if _is_under(host, domains) or too.matches(url, host) else "allowed_domains"
                )
            )
        return rules + self._users_rules

    def denies(self, url: str, host: str) -> str:
        """The reason for which no URL like canonical `url` on `host` is asked for, a page or not;
        "" without one. "scheme", "length", "port" or "deny".
        """
        if not url.startswith(_SCHEMES):
            return "scheme"
        if len(url) > self._max_length:
            return "length"
        if port_of(url) in self._ports:
            return "port"
        return "deny" if self.denied.matches(url, host) else ""

    def refuses(self, url: str, host: str) -> str:
        """The reason why canonical `url` on `host` is out of scope; "" if it is in scope.

        "scheme", "length", "port", "suffix", "deny", "allow", "allowed_domains", or the reason of
        one of `rules`. O(labels of the host) and one search per combined pattern; 0.3 µs without
        patterns.
        """
        if not url.startswith(_SCHEMES):
            return "scheme"
        if len(url) > self._max_length:
            return "length"
        # Nearly no URL has a colon behind that of its scheme: 0.06 µs then.
        if url.rfind(":") > 5 and port_of(url) in self._ports:
            return "port"
        for rule in self._rules:
            if reason := rule(url, host):
                return reason
        return ""


def entries_of(setting: str, entries: Iterable[str]) -> Iterator[str]:
    """`entries` with each `@path` replaced by the lines of that file."""
    for entry in map(str.strip, entries):
        if not entry.startswith("@"):
            lines = [entry]
        else:
            try:
                lines = read_text(Path(entry[1:])).splitlines()
            except (OSError, ValueError) as error:  # a NUL in the path, or not UTF-8
                raise SettingError(
                    setting, entry, f"@ and the path of a UTF-8 text file: {error}"
                ) from None
        yield from (line for line in map(str.strip, lines) if line and line[0] != "#")


def check_entry(setting: str, entry: str) -> None:
    """SettingError if `entry` cannot be used. One of another process: it may not name a file."""
    if entry.strip().startswith("@"):
        raise SettingError(setting, entry, "a host or expression, and no file")
    HostsAndPatterns([entry], setting)


class HostsAndPatterns:
    """A set of hosts, and regular expressions. `has_any`: it is not empty."""

    def __init__(self, entries: Iterable[str] = (), setting: str = "") -> None:
        self._hosts: frozenset[str] = frozenset()
        self._patterns: list[re.Pattern[str]] = []
        self._searches: list[Callable[[str], object]] = []
        self.add(entries, setting)

    def add(self, entries: Iterable[str], setting: str) -> None:
        """Add `entries` of `setting`. SettingError; then nothing has changed. O(all entries)."""
        hosts, patterns = set(self._hosts), list(self._patterns)
        for entry in entries_of(setting, entries):
            if host := named_host(entry):
                hosts.add(host)
            else:
                patterns.append(_pattern(setting, entry))
        searches: list[Callable[[str], object]] = []
        searches += [pattern.search for pattern in _combined(patterns)]
        self._hosts, self._patterns, self._searches = frozenset(hosts), patterns, searches
        self.has_any = bool(hosts or patterns)

    def has_host(self, host: str) -> bool:
        """Whether `host` is one of the hosts, or below one."""
        return _is_under(host, self._hosts)

    def matches(self, url: str, host: str) -> bool:
        return _is_under(host, self._hosts) or any(search(url) for search in self._searches)


def _is_under(host: str, hosts: frozenset[str]) -> bool:
    """Whether `host` is one of `hosts` or below one. O(labels of a name with a valid length)."""
    if len(host) > _MAX_HOST:
        host = host[-_MAX_HOST - 1 :].partition(".")[2]
    while host:
        if host in hosts:
            return True
        host = host.partition(".")[2]
    return False


def _suffix(suffix: str) -> str:
    host = named_host(suffix.strip())
    if not host:
        raise SettingError(
            "SCOPE_SUFFIXES", suffix, "the end of a host name, such as .br or gov.pt"
        )
    return host


def named_host(entry: str) -> str:
    """The canonical host that `entry` names; "" if it is no host."""
    named = _HOST.fullmatch(entry)
    if named is None:
        return ""
    literal = f"[{named[1]}]" if ":" in named[1] else named[1]
    url = canonicalize(f"http://{literal}/")
    return host_of(url) if url else ""


def domain_of(entry: str) -> str:
    """The canonical host of an entry of `allowed_domains`, also of a URL; "" if it names none."""
    entry = entry.strip()
    url = "" if named_host(entry) else canonicalize(entry if "//" in entry else f"http://{entry}")
    return host_of(url) if url else named_host(entry)


def _pattern(setting: str, entry: str) -> re.Pattern[str]:
    try:
        return _compiled(entry.removeprefix("re:"))
    except (re.error, RecursionError, OverflowError) as error:
        raise SettingError(
            setting, entry, f"not a host, and not a regular expression: {error}"
        ) from None


def _compiled(expression: str) -> re.Pattern[str]:
    """Without the warnings of an expression such as `[[`: its meaning here is that of Python."""
    with _FILTERS, warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(expression)


def _combined(patterns: list[re.Pattern[str]]) -> Iterator[re.Pattern[str]]:
    """Fewer patterns that match the same URLs: one for all patterns without groups and flags."""
    simple = []
    for pattern in patterns:
        if pattern.groups or pattern.pattern.startswith("(?"):
            yield pattern
        else:
            simple.append(f"(?:{pattern.pattern})")
    if simple:
        yield _compiled("|".join(simple))
