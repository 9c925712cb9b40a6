"""robots.txt: which paths of an origin we may ask for (RFC 9309).

Owns parsing and matching. Pure. Knows nothing of fetching, statuses and expiry:
`admission.robotspolicy` decides whether there are rules at all (2.3.1).

Keeps only the rules of our own group, as text, so that a crawl can hold those of a hundred thousand
origins. Input is hostile, so everything is bounded:
- the body is read up to MAX_BODY_BYTES, so there are at most 50,000 rules;
- a pattern longer than MAX_PATTERN_BYTES is dropped: no URL that we ask for is long enough for it;
- parsing is linear: 0.4 µs per octet at worst, so a body over LARGE_BODY_BYTES is better read on a
  thread than on the event loop;
- matching does not backtrack, and all literals are compared in one call. A check against wildcards
  that would take more than MAX_CHECK_STEPS is refused. One check takes 45 ms at worst: half of it
  for 21,000 literals, half for wildcards.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple, Self

from msgspec import Struct

MAX_BODY_BYTES: Final = 500 * 1024  # RFC 9309, 2.5: at least this much must be parsed
# A pattern with half as many literal octets matches no URL of 8 KiB. Google cuts lines at 16,664.
MAX_PATTERN_BYTES: Final = 16 * 1024
# Deviation: with more wildcards, all URLs are refused. No rule is broken; one odd origin is lost.
MAX_WILDCARDS: Final = 5_000
# Steps of half a nanosecond, see `check_steps`. 5,000 wildcards of 60 octets and a target of 150
# characters are within this limit. Deviation: beyond it the target is refused, which breaks no
# rule.
MAX_CHECK_STEPS: Final = 50_000_000
LARGE_BODY_BYTES: Final = 64 * 1024
MAX_SITEMAPS: Final = 100
MAX_SITEMAP_BYTES: Final = 2048

_NOTHING: Final = (b"", b"")
_BOMS: Final = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
_AGENT: Final = b"user-agent"
_ALLOW: Final = b"allow"
_DISALLOW: Final = b"disallow"
# Deviation: with the misspellings that Google's parser accepts.
_KEYS: Final = {
    b"user-agent": _AGENT,
    b"useragent": _AGENT,
    b"user agent": _AGENT,
    b"allow": _ALLOW,
    b"disallow": _DISALLOW,
    b"dissallow": _DISALLOW,
    b"dissalow": _DISALLOW,
    b"disalow": _DISALLOW,
    b"diasllow": _DISALLOW,
    b"disallaw": _DISALLOW,
    b"crawl-delay": b"crawl-delay",
    b"sitemap": b"sitemap",
    b"site-map": b"sitemap",
    b"content-usage": b"content-usage",
    b"content-signal": b"content-signal",
    b"license": b"license",
}
# Not rules of RFC 9309: lines about the use of pages (`parse.ownersignals`).
_SAID: Final = {b"content-usage": "Content-Usage", b"content-signal": "Content-Signal"}
_LICENSE: Final = b"license"  # RSL: for all agents, in or outside of a group
_SAID_MAX: Final = 100  # such lines of a group that are kept
# RFC 9309, 2.2.1: letters, "_" and "-" only. Deviation: our own name may have digits and dots.
_TOKEN: Final = re.compile(rb"[a-z_-]+")
_LONG_TOKEN: Final = re.compile(rb"[a-z0-9_.-]+")
# Deviation: a rule that allows the index page of a directory allows the directory, as in Google's
# matcher.
_INDEX: Final = re.compile(rb"(.*/)index\.htm[^/]*")
_SECONDS: Final = re.compile(rb"\d+(?:\.\d*)?|\.\d+")
_MAX_SECONDS: Final = 32  # octets of a number of seconds
# For `check_steps`: the cost of a segment of a wildcard, and of an octet of a literal.
_SEGMENT_STEPS: Final = 200
_LITERAL_STEPS: Final = 100

# RFC 9309, 2.2.2: unreserved octets are compared decoded, octets that are not valid in a URL are
# compared encoded, and a reserved octet equals its encoding. Reserved octets are compared decoded
# too, so that lengths stay as written; but not "*" and "$" (2.2.3), nor "/" and "?", which divide a
# path (see `_forms`).
_DECODED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:@!&'()+,;=[]"
)
_ENCODE: Final = re.compile(rb"%[0-9A-Fa-f]{2}|[^A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]")
_UNUSUAL: Final = re.compile(r"[^A-Za-z0-9\-._~:/?#\[\]@!&'()+,;=]")


def product_token(user_agent: str) -> str:
    """Our name in robots.txt: "webcrawl" for "webcrawl/1.0 (+https://...)".

    Deviation: also for "Mozilla/5.0 (compatible; webcrawl/1.0)". "" for a user agent without a
    product token: then only the groups of "*" apply.
    """
    octets = user_agent.strip().lower().encode("ascii", "replace")
    match = _LONG_TOKEN.match(octets.partition(b"(compatible;")[2].strip() or octets)
    return match[0].decode() if match else ""


class RobotsRules(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """The rules of one robots.txt that apply to us: immutable, comparable, picklable.

    Tagged, so that a message between processes says which class of rules it has (`AnyRules`).

    `literals` and `wildcards` are lines of "+" (allow) or "-" (disallow) and a normalised pattern,
    in the order of precedence. They are separate because all literals are compared in one call.
    """

    literals: str = ""
    wildcards: str = ""  # with a "*", or a "$" at the end
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()

    @classmethod
    def parse(cls, body: bytes, token: str) -> Self:
        """The rules for a product token: its own groups merged, else those of "*". Never fails.

        O(body), of which MAX_BODY_BYTES are read.
        """
        parser = RobotsParser(token)
        for line in readable(body).splitlines():
            parser.feed(line)
        group = parser.group(token)
        if group.has_too_many:
            return cls(DISALLOW_ALL.literals, "", group.crawl_delay_s)
        rules = group.rules()
        sitemaps = tuple(parser.sitemaps[:MAX_SITEMAPS])
        return cls(rules.literals, rules.wildcards, group.crawl_delay_s, sitemaps)

    @property
    def allows_all(self) -> bool:
        return not (self.literals or self.wildcards)

    def allows(self, target: str) -> bool:
        """Whether `target`, path and query of a canonical URL, may be asked for. 45 ms at worst."""
        return self.deciding(target)[:1] != "-"

    def deciding(self, target: str) -> str:
        """The rule that decides on `target`: "+" or "-" and a normalised pattern; "" without one.

        No rule decides on /robots.txt itself (2.2.2).
        """
        if target == "/robots.txt":
            return ""
        forms, winners = _forms(target), list[str]()
        if self.wildcards:
            if _wildcard_steps(self.wildcards, forms) > MAX_CHECK_STEPS:
                return DISALLOW_ALL.literals
            winners += _winning_wildcard(self.wildcards, forms)
        if self.literals:
            winners += _winning_literals(self.literals, forms)
        return max(winners, key=_precedence, default="")

    def wildcard_steps(self, target: str) -> int:
        """The part of `deciding` that MAX_CHECK_STEPS limits."""
        return _wildcard_steps(self.wildcards, _forms(target)) if self.wildcards else 0

    def check_steps(self, target: str) -> int:
        """The maximum time of `allows` for `target`, in steps of half a nanosecond."""
        steps = 3 * _wildcard_steps(self.wildcards, (target,)) if self.wildcards else 0
        return min(MAX_CHECK_STEPS, steps) + _LITERAL_STEPS * len(self.literals)

    def to_bytes(self) -> bytes:
        """The rules as a row of a store. `from_bytes` reads it."""
        head = ["" if self.crawl_delay_s is None else repr(self.crawl_delay_s), *self.sitemaps]
        return "\n\n".join(("\n".join(head), self.literals, self.wildcards)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The rules that `to_bytes` wrote."""
        head, literals, wildcards = data.decode().split("\n\n")
        delay, *sitemaps = head.split("\n")
        return cls(literals, wildcards, float(delay) if delay else None, tuple(sitemaps))


ALLOW_ALL: Final = RobotsRules()
DISALLOW_ALL: Final = RobotsRules(literals="-/")


def _precedence(rule: str) -> tuple[int, bool, str]:
    """The longest pattern wins, and of equal ones allow (RFC 9309, 2.2.2)."""
    return len(rule), rule[0] == "+", rule


class _Group:
    """The merged groups of one agent."""

    __slots__ = ("crawl_delay_s", "literals", "said", "wildcards")

    def __init__(self) -> None:
        self.literals: set[str] = set()
        self.wildcards: set[str] = set()
        self.crawl_delay_s: float | None = None
        self.said: list[tuple[str, bytes]] = []  # names and values of lines of _SAID

    @property
    def has_too_many(self) -> bool:
        """Whether it has more than MAX_WILDCARDS."""
        return len(self.wildcards) > MAX_WILDCARDS

    def rules(self) -> RobotsRules:
        """Its rules, without Crawl-delay and sitemaps."""
        if self.has_too_many:
            return DISALLOW_ALL
        return RobotsRules(
            "\n".join(sorted(self.literals, key=_precedence, reverse=True)),
            "\n".join(sorted(self.wildcards, key=_precedence, reverse=True)),
        )


class RobotsParser:
    """Reads line by line. A group begins at the first user-agent line after a rule (2.2.1).

    `tokens` are the product tokens whose groups are kept, each by itself. `said` has the lines
    about the use of pages that are for all agents.
    """

    __slots__ = (
        *("_bound", "_has_groups", "_named", "_ours", "_with_rules"),
        *("everyone", "said", "sitemaps"),
    )

    def __init__(self, *tokens: str) -> None:
        self._ours = {token.lower().encode(): _Group() for token in tokens}
        self._bound: list[_Group] = []  # the agents of the current group, of those that matter
        self._with_rules = False  # the current group has a rule
        self._named: set[bytes] = set()  # tokens that a group names, perhaps without a rule
        self.everyone = _Group()
        self.sitemaps: list[str] = []
        self._has_groups = False
        self.said: list[tuple[str, bytes]] = []

    def names(self, token: str) -> bool:
        """Whether a group names `token`, one of `tokens`; else the groups of "*" apply to it."""
        return token.lower().encode() in self._named

    def own(self, token: str) -> _Group:
        """The groups that name `token`, merged."""
        return self._ours[token.lower().encode()]

    def group(self, token: str) -> _Group:
        """The group that applies to `token`."""
        return self.own(token) if self.names(token) else self.everyone

    def feed(self, line: bytes) -> None:
        key, value = _split(line) if line else _NOTHING
        if key is _AGENT:
            self._agent(value.lower())
        elif key is _ALLOW:
            self._rule("+", value)
            directory = _INDEX.fullmatch(value)
            if directory:
                self._rule("+", directory[1] + b"$")
        elif key is _DISALLOW:
            self._rule("-", value)
        elif key == b"crawl-delay":
            self._crawl_delay(value)
        elif key == b"sitemap" and 0 < len(value) <= MAX_SITEMAP_BYTES:
            self.sitemaps.append(value.split()[0].decode("utf-8", "replace"))
        elif key in _SAID:
            for said in [group.said for group in self._bound] if self._has_groups else [self.said]:
                if len(said) < _SAID_MAX:
                    said.append((_SAID[key], value))
        elif key == _LICENSE and len(self.said) < _SAID_MAX:
            self.said.append(("License", value))

    def _agent(self, value: bytes) -> None:
        self._has_groups = True
        if self._with_rules:
            self._bound = []
            self._with_rules = False
        if value.split(None, 1)[:1] == [b"*"]:
            self._bind(self.everyone)
        for token in (_TOKEN.match(value), _LONG_TOKEN.match(value)):
            if token and token[0] in self._ours:
                self._named.add(token[0])
                self._bind(self._ours[token[0]])

    def _bind(self, group: _Group) -> None:
        """Let the rules that follow apply to `group`. It is added once, even if thousands of lines
        name its agent.
        """
        if group not in self._bound:
            self._bound.append(group)

    def _rule(self, sign: str, value: bytes) -> None:
        self._with_rules = True
        if not value or len(value) > MAX_PATTERN_BYTES or not self._bound:
            return
        rule = sign + _normalise_pattern(value)
        wild = "*" in rule or rule[-1] == "$"
        for group in self._bound:
            (group.wildcards if wild else group.literals).add(rule)

    def _crawl_delay(self, value: bytes) -> None:
        """Deviation: no standard has Crawl-delay. Fractions count; of several, the largest."""
        is_number = len(value) <= _MAX_SECONDS and _SECONDS.fullmatch(value)
        delay_s = float(value) if is_number else math.nan
        if not math.isfinite(delay_s):
            return
        for group in self._bound:
            group.crawl_delay_s = max(delay_s, group.crawl_delay_s or 0.0)


class RulePlace(NamedTuple):
    """Where a rule stands in a robots.txt: for people."""

    number: int  # of the line, from 1
    line: str
    agent: str  # of the group: our product token, or "*"


def place_of(rule: str, body: bytes, token: str) -> RulePlace | None:
    """The first line of `body` that gives `rule`, a value of `RobotsRules.deciding`.

    None for a rule that stands on no line: that of a robots.txt with too many wildcards. O(body).
    """
    lines = readable(body).splitlines()
    whole, parser = RobotsParser(token), RobotsParser(token)
    for line in lines:
        whole.feed(line)
    is_named = whole.names(token)
    agent = token if is_named else "*"
    for number, line in enumerate(lines, 1):
        parser.feed(line)
        group = parser.own(token) if is_named else parser.everyone
        if rule in group.literals or rule in group.wildcards:
            return RulePlace(number, line.decode("utf-8", "backslashreplace").strip(), agent)
    return None


def readable(body: bytes) -> bytes:
    """The text that a parser reads: whole lines within MAX_BODY_BYTES, no byte order mark, no NULs.

    A line that the limit cuts in two is left out: its first half is another rule.
    """
    if len(body) >= MAX_BODY_BYTES:
        body = body[:MAX_BODY_BYTES]
        body = body[: max(body.rfind(b"\n"), body.rfind(b"\r")) + 1]
    for bom in _BOMS if body.startswith(_BOMS) else ():
        body = body.removeprefix(bom)
    # Deviation: RFC 9309, 2.3 says UTF-8. ASCII that an editor saved as UTF-16 is read too.
    return body.replace(b"\0", b"")


def _split(line: bytes) -> tuple[bytes, bytes]:
    """Key and value of a line. The key is one of the values of _KEYS, or b""."""
    if b"#" in line:
        line = line[: line.index(b"#")]
    key, colon, value = line.partition(b":")
    if not colon:
        # Deviation: two words without a colon are a key and its value, as in Google's parser.
        words = line.split(None, 2)
        if len(words) != 2:
            return _NOTHING
        key, value = words
    return _KEYS.get(key.strip().lower(), b""), value.strip()


def _normalise(octets: bytes) -> str:
    """`octets` with the percent-encoding for a comparison (RFC 9309, 2.2.2); "*" and "$" stay."""
    return _ENCODE.sub(_recode, octets).decode("ascii")


def _recode(match: re.Match[bytes]) -> bytes:
    octets = match[0]
    if len(octets) == 1:
        return b"%%%02X" % octets[0]
    octet = int(octets[1:], 16)
    return bytes((octet,)) if octet in _DECODED else octets.upper()


def _normalise_pattern(pattern: bytes) -> str:
    """As `_normalise`. A "$" that does not end the pattern is an ordinary octet (2.2.3)."""
    normal = _normalise(pattern)
    return normal[:-1].replace("$", "%24") + normal[-1]


def _forms(target: str) -> tuple[str, ...]:
    """The spellings of `target` that a pattern may match: one, or three for "/" or "?" in a query.

    RFC 9309, 2.2.2 compares "?u=http://a" and "?u=http%3A%2F%2Fa" as equal. Still, a pattern such
    as "/*/a" or "/*%2Fa", which may mean path or query, must match its own spelling.
    """
    if _UNUSUAL.search(target):
        normal = _normalise(target.encode("utf-8", "surrogatepass"))
        target = normal.replace("*", "%2A").replace("$", "%24")
    if "?" not in target:
        return (target,)
    path, mark, query = target.partition("?")
    raw = query.replace("%2F", "/").replace("%3F", "?")
    encoded = query.replace("/", "%2F").replace("?", "%3F")
    if raw == encoded:
        return (target,)
    return (target, path + mark + raw, path + mark + encoded)


def _winning_literals(rules: str, forms: tuple[str, ...]) -> Iterator[str]:
    """For each form, the first allow and the first disallow that match it."""
    literals = tuple(rules.split("\n"))
    for form in forms:
        for signed in ("+" + form, "-" + form):
            if signed.startswith(literals):
                yield next(filter(signed.startswith, literals))


def _wildcard_steps(rules: str, forms: tuple[str, ...]) -> int:
    """The maximum of steps of `_winning_wildcard`: `str.find` may compare each octet of a segment
    with each character.
    """
    segments = rules.count("*") + rules.count("\n")
    return len(rules) * sum(map(len, forms)) + _SEGMENT_STEPS * segments * len(forms)


def _winning_wildcard(rules: str, forms: tuple[str, ...]) -> list[str]:
    """The first rule that matches any form, if there is one."""
    for rule in rules.split("\n"):
        pattern = rule[1:]
        for form in forms:
            if _matches(pattern, form):
                return [rule]
    return []


def _matches(pattern: str, target: str) -> bool:
    """Whether `pattern`, a wildcard without its sign, matches `target` from its start.

    Each segment between "*" is matched at its leftmost position, which finds a match if there is
    one. Linear; a regular expression would try every combination.
    """
    head, star, rest = pattern.partition("*")
    if not star:  # so it ends with "$"
        return target == head[:-1]
    if not target.startswith(head):
        return False
    at = len(head)
    *segments, last = rest.split("*")
    for segment in segments:
        at = target.find(segment, at)
        if at < 0:
            return False
        at += len(segment)
    if last[-1:] == "$":
        return target.endswith(last[:-1], at)
    return target.find(last, at) >= 0
