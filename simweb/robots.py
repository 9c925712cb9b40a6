"""The robots.txt files of the simulated web: their bytes and their rules (RFC 9309).

Each kind makes the rules together with the bytes, so that no robots.txt is parsed here: the ledger
knows the rules without a parser.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache
from itertools import repeat
from random import Random

from simweb.features import Feature
from simweb.reply import Reply, answer, head
from simweb.words import SECTIONS, WORDS

_COMMENT = (b"#" * 99 + b"\n") * 6144

Rule = tuple[bool, str]  # allow or disallow, pattern


@dataclass(slots=True)
class Request:
    """The values from which a robots.txt is made."""

    rng: Random
    token: str  # the crawler's product token
    delay_s: float  # the crawler's own delay per host; crawl delays are longer
    elsewhere: str  # a URL on another host that serves this host's rules
    sitemaps: Sequence[str] = ()  # that the file names
    more: Sequence[Rule] = ()  # rules that the sitemaps need


class Robots:
    """The rules of one host, and the answers with the file.

    `replies[0]` is the answer to `/robots.txt`, the next ones are those to its redirects.
    `reachable` is False if the file is unreachable (RFC 9309, 2.3.1.4): all is disallowed.
    """

    __slots__ = ("_longest", "delay_s", "reachable", "replies", "rules")

    def __init__(
        self,
        *replies: Reply,
        rules: Sequence[Rule] = (),
        delay_s: float = 0.0,
        reachable: bool = True,
    ) -> None:
        self.replies = replies
        self.rules = tuple(rules)
        self.delay_s = delay_s
        self.reachable = reachable
        # 2.2.2: the longest pattern wins, allow wins a tie.
        ordered = sorted(rules, key=lambda rule: (-len(rule[1]), not rule[0]))
        self._longest = [(allow, _matcher(pattern)) for allow, pattern in ordered]

    def allows(self, target: str) -> bool:
        """Whether `target`, path and query, is allowed. O(rules)."""
        for allow, matches in self._longest:
            if matches(target):
                return allow
        return self.reachable


def _matcher(pattern: str) -> Callable[[str], re.Match[str] | None]:
    """`*` matches any octets, `$` at the end of a pattern the end (RFC 9309, 2.2.3)."""
    body = re.escape(pattern.removesuffix("$")).replace(r"\*", ".*")
    return re.compile(body + ("$" if pattern.endswith("$") else ""), re.DOTALL).match


@dataclass(frozen=True)
class RobotsKind(Feature):
    family = "robots"
    make: Callable[[Request], Robots]
    _: KW_ONLY
    same: Robots | None = None  # the result of `make`, if it is the same for all hosts


def text(rules: Sequence[Rule], agent: str = "*", *lines: str) -> str:
    """The text of one group."""
    told = [f"{'Allow' if allow else 'Disallow'}: {pattern}" for allow, pattern in rules]
    return "\n".join([f"User-agent: {agent}", *told, *lines]) + "\n"


def _plain(content: str | bytes) -> Reply:
    data = content.encode() if isinstance(content, str) else content
    return answer(200, data, content_type="text/plain")


def _some(rng: Random) -> list[Rule]:
    """Disallows two sections, and allows a part of the first."""
    first, second = rng.sample(SECTIONS, 2)
    return [(False, f"/{first}/"), (True, f"/{first}/{rng.choice(WORDS)}"), (False, f"/{second}/")]


def _some_rules(*replies: Callable[[str], Reply]) -> Callable[[Request], Robots]:
    """Disallows two sections, and allows a part of one: `replies` answer with the text."""

    def make(request: Request) -> Robots:
        rules = _some(request.rng)
        return Robots(*(reply(text(rules)) for reply in replies), rules=rules)

    return make


def _status(status: int, reachable: bool = True) -> Robots:
    return Robots(answer(status, b"<h1>no rules here</h1>"), reachable=reachable)


def with_sitemaps(request: Request) -> Robots:
    """The robots.txt of a host with sitemaps: rules, and the lines that name them."""
    rules = [*_some(request.rng), *request.more]
    lines = "".join(f"SiteMap : {url}\n" for url in request.sitemaps)
    return Robots(_plain(f"{lines}{text(rules)}"), rules=rules)


def _wildcards(request: Request) -> Robots:
    digit = request.rng.randrange(10)
    word = request.rng.choice(WORDS)
    rules = [(False, f"/*{digit}$"), (False, f"/*/{word}-"), (True, f"/*/{word}-*1$")]
    return Robots(_plain(text(rules)), rules=rules)


def _crawl_delay(request: Request) -> Robots:
    delay_s = request.delay_s * request.rng.choice((2, 3))
    lines = _plain(text([(False, "/fechado/")], "*", f"Crawl-delay: {delay_s:g}"))
    return Robots(lines, rules=[(False, "/fechado/")], delay_s=delay_s)


def _our_token(request: Request) -> Robots:
    rules = _some(request.rng)
    ours = text(rules, request.token.upper())
    return Robots(_plain(text([(False, "/")]) + "\n" + ours), rules=rules)


def _other_token(request: Request) -> Robots:
    return Robots(_plain(text([(False, "/")], "otherbot") + "\n" + text([], "*", "Disallow:")))


def _split_groups(request: Request) -> Robots:
    """Two groups of one agent are one (2.2.1), and a user-agent line may follow another."""
    rules = _some(request.rng)
    told = text(rules[:1], f"otherbot\nUser-agent: {request.token}/2.1") + "\n"
    told += text([(False, "/")]) + "\n" + text(rules[1:], request.token)
    return Robots(_plain(told), rules=rules)


def _old_lines(told: str) -> Reply:
    return _plain(told.upper().replace("\n", "\r").lower())


def _large(told: str) -> Reply:
    """Rules, then 600 KiB of comment. No limit that RFC 9309, 2.5 allows cuts a rule off."""
    length = f"Content-Length: {len(told) + len(_COMMENT)}"
    return Reply(200, head(200, "Content-Type: text/plain", length), (told.encode(), _COMMENT))


def _garbage(request: Request) -> Robots:
    """Random bytes; no line is a rule."""
    return Robots(_plain(request.rng.randbytes(3000).replace(b":", b"")))


def _moved_elsewhere(request: Request) -> Robots:
    rules = _some(request.rng)
    return Robots(_to(302, request.elsewhere), _plain(text(rules)), rules=rules)


def _to(status: int, location: str) -> Reply:
    return answer(status, b"moved", f"Location: {location}")


def _endless(told: str) -> Reply:
    """Rules, then 100 MiB of comment."""
    start = head(200, "Content-Type: text/plain")
    return Reply(200, start, (told.encode(), *repeat(_COMMENT, 170)), end="close")


def _thicket(told: str) -> Reply:
    """Patterns that cost a naive matcher exponential time and match nothing."""
    never = "".join(f"Disallow: /{'*a' * 50}*{number}z9q$\n" for number in range(2000))
    return _plain(told + never)


def _bomb(told: str) -> Reply:
    """Rules, then 1 GiB of comment in 1 MiB of gzip."""
    data = gzip.compress(told.encode(), 1, mtime=0) + comment_gzip() * 64
    return answer(200, data, "Content-Encoding: gzip", content_type="")


@cache
def comment_gzip() -> bytes:
    return gzip.compress(b"#" * (16 << 20), 9, mtime=0)


def _chunked(told: str) -> Reply:
    start = head(200, "Content-Type: text/plain", "Transfer-Encoding: chunked")
    return Reply(200, start, (b"%x\r\n%b\r\n0\r\n\r\n" % (len(told), told.encode()),))


_row = RobotsKind


def _same(short: str, weight: float, about: str, robots: Robots, **more: bool) -> RobotsKind:
    return RobotsKind(short, weight, about, lambda request: robots, same=robots, **more)


def _unreachable(reply: Reply) -> Robots:
    return Robots(reply, reachable=False)


_HTML = b"<!doctype html><title>Oi</title><p>User-agents: todos</p>"
_HOPS = (lambda told: _to(301, "/robots-1.txt"), lambda told: _to(302, "/robots-2.txt"))
# More than five redirects are unavailable, so everything is allowed (2.3.1.2, 2.3.1.3): "loop".
_LATER = answer(503, b"later", "Retry-After: 2")
_SILENT = Reply(0, end="hang", again=True)
_RESET = Reply(0, end="reset", again=True)
_SSH = Reply(0, b"\x16\x03SSH-2.0-nope", end="close", again=True)
_ALLOW_ALL = Robots(_plain("# welcome\nUser-agent: *\nDisallow:\n"))
_DISALLOW_ALL = Robots(_plain(text([(False, "/")])), rules=[(False, "/")])

ROBOTS = (
    _same("allow-all", 25, "200, an empty Disallow", _ALLOW_ALL),
    _same("none", 30, "404: all is allowed", _status(404)),
    _same("forbidden", 2, "403: all is allowed (RFC 9309, 2.3.1.3)", _status(403)),
    _row("some", 12, "two sections disallowed, a part of one allowed", _some_rules(_plain)),
    _row("wildcards", 4, "rules with * and $, the longest wins", _wildcards),
    _row("crawl-delay", 4, "Crawl-delay of 2 or 3 times the host delay", _crawl_delay),
    _row("token", 3, "all disallowed, except for the crawler: it has its own group", _our_token),
    _row("other-token", 2, "all disallowed for another crawler", _other_token),
    _row("split", 2, "two groups for one crawler, token with a version", _split_groups),
    _row("bom", 1, "a byte order mark first", _some_rules(lambda told: _plain("\ufeff" + told))),
    _row("line-ends", 1, "lower case, lines end in CR", _some_rules(_old_lines)),
    _row("large", 1, "600 KiB, the rules first", _some_rules(_large)),
    _row("garbage", 1, "200, random bytes", _garbage),
    _same("html", 2, "200, an HTML page", Robots(answer(200, _HTML))),
    _row("chunked", 2, "chunked", _some_rules(_chunked)),
    _row("moved", 2, "two redirects on the same host", _some_rules(*_HOPS, _plain)),
    _row("elsewhere", 1, "a redirect to another host", _moved_elsewhere),
    _same("loop", 0.5, "redirects to itself", Robots(_to(301, "/robots.txt"))),
    _row("endless", 0.5, "100 MiB, the rules first", _some_rules(_endless), default=False),
    _row("thicket", 0.5, "2,000 patterns of 50 wildcards", _some_rules(_thicket), default=False),
    _row("bomb", 0.5, "1 GiB in 1 MiB of gzip, the rules first", _some_rules(_bomb), default=False),
    _same("later", 0.5, "503 with Retry-After", _unreachable(_LATER), sound=False, default=False),
    _same("disallow-all", 3, "all is disallowed", _DISALLOW_ALL, sound=False),
    _same("error", 1.5, "503: all is disallowed", _status(503, reachable=False), sound=False),
    _same("silent", 0.5, "accepted and never answered", _unreachable(_SILENT), sound=False),
    _same("reset", 0.5, "reset", _unreachable(_RESET), sound=False),
    _same("not-http", 0.5, "an answer that is not HTTP", _unreachable(_SSH), sound=False),
)
