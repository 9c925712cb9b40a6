"""The ledger: judges every request, as the servers saw it.

Owns the rules of good behaviour and counts their violations. Pure: the time of a request is an
argument, and the world says which pages exist. That time is taken when the whole head was read, so
an interval here is never shorter than for a crawler that measures from the answer.

Memory: a few numbers for each host, address and page that was requested, and the latest requests.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from math import inf
from typing import Any

from simweb.changes import Freshness
from simweb.model import World
from simweb.options import option
from simweb.reach import reach
from simweb.reply import Reply, answer
from simweb.spec import ROBOTS_PAGE, SITEMAP_PAGE, Place, in_scope

EXAMPLES = 20
LATEST = 20_000
# What each page shows: its style sheet, and the image of that.
SHOWN = {
    "/s.css": answer(200, b"body { background: url(/s.png) }", content_type="text/css"),
    "/s.png": answer(200, b"\x89PNG\r\n\x1a\n", content_type="image/png"),
}
_MAY_BE_SHOWN = SHOWN.keys() | {"/fantasma/5.png"}  # which is not there

VIOLATIONS = {
    "early_host": "asked a host again before its delay was over",
    "early_ip": "asked an IP address again before its delay was over",
    "early_retry": "asked a host again before the time of its Retry-After",
    "disallowed": "asked for what robots.txt disallows",
    "before_robots": "asked for a page before the host's robots.txt",
    "twice": "fetched a page again that had been answered",
    "invented": "asked for a URL that no page links to",
    "nofollow": "asked for a URL that only nofollow pages link to",
    "out_of_scope": "asked a host that is out of scope",
    "unknown_host": "asked for a host that does not exist",
    "wrong_address": "asked a host at an address that is not its own",
}


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules that the crawler under test must keep; seconds."""

    host_delay_s: float = option(0.5, "S", "seconds between two requests to a host")
    ip_delay_s: float = option(0.0, "S", "seconds between two requests to an address")
    crawl_delay_max_s: float = option(inf, "S", "a longer Crawl-delay is cut to this")
    tolerance_s: float = option(0.0, "S", "accept requests this much too early")
    scope_suffix: str = option("", ".br", "suffix of the hosts in scope (all)")
    requisites: bool = option(False, "", "the crawl may ask for the files that pages show, too")
    partial: bool = option(False, "", "the crawl may stop anywhere: do not look for missing pages")


@dataclass(slots=True)
class Violation:
    count: int = 0
    examples: list[str] = field(default_factory=list)


class Ledger:
    """Call `asked` for each request, `answered` at the end of its answer, `report` at any time."""

    def __init__(self, world: World, rules: Rules) -> None:
        self.world = world
        self.rules = rules
        self.violations = {name: Violation() for name in VIOLATIONS}
        self.totals: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        # The latest requests: when (monotonic), method, host, target.
        self.latest: deque[tuple[float, str, str, str]] = deque(maxlen=LATEST)
        self.extra: dict[str, Any] = {}  # the servers' part of the report
        self._last_host: dict[str, float] = {}
        self._last_ip: dict[str, float] = {}
        self._retry_after_s: dict[str, float] = {}  # in the last answer of a host
        # Hosts that have sent their robots.txt, so that a crawl delay counts.
        self._told: set[int] = set()
        self._robots_asked: set[tuple[int, bool]] = set()
        self._gets: defaultdict[Place, int] = defaultdict(int)
        self._heads: set[Place] = set()
        self._showing: set[int] = set()  # hosts that have sent a page
        self._shown: set[tuple[int, str]] = set()  # host and target of files that pages show
        self._served_by: dict[Place, int] = {}  # hosts that serve another host's sitemap
        self._again: set[Place] = set()  # a retry of these is no violation
        self._asked_at = 0.0
        self._freshness = Freshness(world.changes) if world.changes is not None else None

    def asked(
        self,
        now: float,
        name: str,
        ip: str,
        method: str,
        target: str,
        secure: bool = False,
    ) -> tuple[int | None, Place | None, int]:
        """Judges one request. Returns the host's number, the place, and the number of the attempt.

        `now` is monotonic seconds, `name` in lower case without a port. About 6 µs.
        """
        self._asked_at = now
        self.totals["requests"] += 1
        self.latest.append((now, method, name, target))
        self._judge_ip(now, ip, name, target)
        host = self.world.find(name)
        if host is None:
            self._blame("unknown_host", name, ip, target)
            return None, None, 1
        if ip not in self.world.host(host).dns.addresses:
            self._blame("wrong_address", name, ip, target)
        if not in_scope(name, self.rules.scope_suffix):
            self._blame("out_of_scope", name, target)
        self._judge_host(now, host, name, target)
        place = self.world.resolve(host, target, secure)
        if place is None and self.rules.requisites and target in _MAY_BE_SHOWN:
            self._judge_requisite(host, name, target)
        elif place is None:
            self._blame("invented", name, target)
        elif place.page == ROBOTS_PAGE:
            self.totals["robots"] += 1
            self._robots_asked.add((place.host, place.plain))
        elif place.page == SITEMAP_PAGE:
            self._judge_sitemap(place, host, name, target)
        else:
            self._judge_page(place, name, method, target)
        return host, place, self._gets.get(place, 1) if place else 1

    def _blame(self, violation: str, *words: str) -> None:
        found = self.violations[violation]
        found.count += 1
        if found.count <= EXAMPLES:
            found.examples.append(" ".join(words))

    def _judge_ip(self, now: float, ip: str, name: str, target: str) -> None:
        last = self._last_ip.get(ip)
        self._last_ip[ip] = now
        if last is not None and now - last < self.rules.ip_delay_s - self.rules.tolerance_s:
            self._blame(
                "early_ip", f"{now - last:.3f} s of {self.rules.ip_delay_s:g}", ip, name, target
            )

    def _judge_host(self, now: float, host: int, name: str, target: str) -> None:
        last = self._last_host.get(name)
        self._last_host[name] = now
        if last is None:
            return
        delay_s = self._delay_s(host)
        if now - last < delay_s - self.rules.tolerance_s:
            self._blame("early_host", f"{now - last:.3f} s of {delay_s:g}", name, target)
        later_s = self._retry_after_s.pop(name, 0.0)
        if now - last < later_s - self.rules.tolerance_s:
            self._blame("early_retry", f"{now - last:.3f} s of {later_s:g}", name, target)

    def _delay_s(self, host: int) -> float:
        """The least delay of a host, after its answers so far."""
        rules = self.rules
        if host not in self._told:
            return rules.host_delay_s
        asked_for = min(self.world.host(host).robots.delay_s, rules.crawl_delay_max_s)
        return max(rules.host_delay_s, asked_for)

    def _judge_sitemap(self, place: Place, host: int, name: str, target: str) -> None:
        """`host` is asked for a sitemap of the host of `place`."""
        self.totals["sitemaps"] += 1
        if host != place.host:
            self._served_by[place] = host
        if (host, place.plain) not in self._robots_asked:
            self._blame("before_robots", name, target)
        if not self.world.host(host).robots.allows(target):
            self._blame("disallowed", name, target)
        self._judge_repeat(place, name, target)

    def _judge_requisite(self, host: int, name: str, target: str) -> None:
        self.totals["requisites"] += 1
        self._shown.add((host, target))
        if not any((host, plain) in self._robots_asked for plain in (False, True)):
            self._blame("before_robots", name, target)
        if not self.world.host(host).robots.allows(target):
            self._blame("disallowed", name, target)

    def _judge_page(self, place: Place, name: str, method: str, target: str) -> None:
        self.totals["pages"] += 1
        if (place.host, place.plain) not in self._robots_asked:
            self._blame("before_robots", name, target)
        host = self.world.host(place.host)
        own = self.world.target(place)
        if not host.serves or not host.robots.allows(own):
            self._blame("disallowed", name, target)
        kind = self.world.kind(place)
        if place.step and kind.shut:
            self._blame("nofollow", name, target)
        if place.step and kind.trap:
            self.totals["trapped"] += 1
            self.totals[f"trapped/{kind.name}"] += 1
        if method == "HEAD":
            self.totals["heads"] += 1
            self._heads.add(place)
            return
        self._judge_repeat(place, name, target)

    def _judge_repeat(self, place: Place, name: str, target: str) -> None:
        self._gets[place] += 1
        if self._freshness is not None:  # the crawler is to visit pages again
            self._freshness.got(place, self._asked_at)
        elif self._gets[place] > 1:
            if place in self._again:
                self.totals["retries"] += 1
            else:
                self._blame("twice", name, target)
        self._again.discard(place)

    def answered(
        self, place: Place | None, method: str, reply: Reply, sent: int, whole: bool
    ) -> None:
        """Counts one answer. `whole` is False if the client disconnected before its end."""
        self.statuses[reply.status] += 1
        self.totals["bytes"] += sent
        if place and reply.retry_after_s:
            host = self._served_by.get(place, place.host)
            self._retry_after_s[self.world.names()[host]] = reply.retry_after_s
        if place and place.page == ROBOTS_PAGE and not place.plain:
            self._told.add(place.host)
        if place is None or place.page == ROBOTS_PAGE:
            self.totals["bytes_robots"] += sent if place else 0
            return
        if place.page == SITEMAP_PAGE:
            self.totals["bytes_sitemaps"] += sent
        else:
            self.totals[f"pages_{reply.status // 100}xx"] += 1
        if reply.again or not whole:
            self._again.add(place)
        if method == "GET" and reply.status == 200:
            self.totals["links"] += reply.links
            if whole and self.world.kind(place).name == "page-plain":
                self._showing.add(place.host)

    def report(self, now: float | None = None) -> dict[str, Any]:
        """The whole report, for JSON. `now`: None is the time of the last request."""
        now = self._asked_at if now is None else now
        got = [place for place in self._gets if place.page != SITEMAP_PAGE]
        return {
            "totals": dict(sorted(self.totals.items())),
            "statuses": {str(status): count for status, count in sorted(self.statuses.items())},
            "violations": {
                name: {"count": found.count, "examples": found.examples}
                for name, found in self.violations.items()
            },
            "fetched": {
                "pages": len(got),
                "hosts": len({place.host for place in got}),
                "addresses": len(self._last_ip),
                "languages": Counter(self.world.tongue(place).text for place in got),
            },
            **({"changes": self._freshness.report(now)} if self._freshness else {}),
            **({} if self.rules.partial else self._completeness()),
            **self.extra,
        }

    def _completeness(self) -> dict[str, Any]:
        """The pages that had to be reached but were not. Walks the world: some 25 µs per page."""
        must = reach(self.world, self.rules.scope_suffix)
        got = self._gets.keys()
        missing = sorted((must.documents - got) | (must.pages - got - self._heads))
        unseen = self._unseen() if self.rules.requisites else []
        return {
            "missing": {
                "count": len(missing) + len(unseen),
                "examples": [*map(self.world.url, missing[:EXAMPLES]), *unseen[:EXAMPLES]],
            },
            "truth": {
                "pages": len(must.pages),
                "documents": len(must.documents),
                "hosts": len(must.hosts),
                "hosts_in_dns": sum(self.world.host(host).in_dns for host in must.hosts),
            },
        }

    def _unseen(self) -> list[str]:
        """The files that pages show, and that were not asked for though robots.txt allows them."""
        return [
            self.world.origin(host) + target
            for host in sorted(self._showing)
            for target in SHOWN
            if (host, target) not in self._shown and self.world.host(host).robots.allows(target)
        ]


def faults(report: dict[str, Any]) -> list[str]:
    """The faults of a report, one line each. Empty for a good crawl."""
    lines = [
        f"{found['count']} x {name}: {VIOLATIONS[name]}, e.g. {found['examples'][0]}"
        for name, found in report["violations"].items()
        if found["count"]
    ]
    missing = report.get("missing")
    if missing and missing["count"]:
        lines.append(f"{missing['count']} pages missing, e.g. {missing['examples'][0]}")
    return lines
