"""The web of a simulated crawl, and its judge, who sees every request as the servers do.

One seed decides the web and each fault of a server. `BrokenPromiseError` names a request that must
not be made, or pages that are missing at the end, or came twice without a kill that excuses it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Container
from random import Random

from tests.contracts.frontier import link
from tests.unit.virtualtime import now
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lease,
    Outcome,
    Resolved,
    RobotsFetched,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.parse.robots import RobotsRules

DELAY_S, IP_DELAY_S, CRAWL_DELAY_S = 10.0, 1.0, 17.0
FOREVER_S, UTC_S = 1e9, 1e9
LONGEST_FETCH_S = 5.0
_RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 17", "x")
_ROUNDING_S = 2e-6  # of a clock on disk


class BrokenPromiseError(AssertionError):
    """The crawl has broken a promise."""


class Web:
    """Hosts with pages that link to one another; some host's robots.txt has rules.

    A page is found by a link of another host, so that most links are mail between several hubs.
    """

    def __init__(self, seed: int, hosts: int, pages: int, *, hang: float = 0.0) -> None:
        """`hang`: the part of the requests for pages that get no answer."""
        random = self._random = Random(f"web {seed}")
        self.hosts = [f"h{number}.example" for number in range(hosts)]
        self.ruled = self.hosts[0]
        self._addresses = max(1, hosts // 3)
        self.links: dict[str, list[str]] = {}
        for index, host in enumerate(self.hosts):
            paths = [*map(str, range(pages)), "private"]
            for number, path in enumerate(paths):
                next_paths = paths[number + 1 : number + 2]
                near = [f"http://{self.hosts[index - 1]}/{each}" for each in next_paths]
                far = [f"http://{random.choice(self.hosts)}/{random.randrange(pages)}"] * 2
                self.links[f"http://{host}/{path}"] = near + far
        self.seeds = [f"http://{host}/0" for host in self.hosts]
        self.wanted = {url for url in self.links if not self.is_disallowed(url)}
        self._faults: Counter[str] = Counter()
        self._hang = hang

    def is_disallowed(self, url: str) -> bool:
        return url == f"http://{self.ruled}/private"

    def address(self, host: str) -> str:
        return f"10.0.0.{self.hosts.index(host) % self._addresses}"

    def hangs(self, lease: Lease, random: Random) -> bool:
        return bool(self._hang) and lease.step is Step.PAGE and random.random() < self._hang

    def answer(self, lease: Lease, asked_at: float, random: Random) -> Outcome:
        """A server fails now and then, and never more than twice in a row."""
        name = f"{lease.step} {lease.url or lease.host}"
        if random.random() < 0.08 and self._faults[name] < 2:
            self._faults[name] += 1
            match lease.step:
                case Step.RESOLVE:
                    return Unresolved("dns", again=True)
                case Step.ROBOTS:
                    return RobotsUnreachable("5xx", asked_at, now(), status=503)
                case _ if random.random() < 0.5:
                    return Fetched(503, asked_at, now())
            return Failed("timeout", asked_at, now())
        self._faults[name] = 0
        if lease.step is Step.RESOLVE:
            return Resolved((self.address(lease.host),), FOREVER_S)
        if lease.step is Step.ROBOTS:
            rules = _RULES if lease.host == self.ruled else RobotsRules.parse(b"", "x")
            return RobotsFetched(rules, FOREVER_S, asked_at, now())
        links = tuple(link(url, via=lease.url) for url in self.links[lease.url])
        return Fetched(200, asked_at, now(), links)


class Judge:
    """Sees each request when it is sent, and each answer.

    target -- the crawl ends after exactly so many pages; 0: when no URL is left
    delay_s -- between two requests to one host
    """

    def __init__(self, web: Web, target: int = 0, delay_s: float = DELAY_S) -> None:
        self.target = target
        self._delay_s = delay_s
        self.answers: Counter[str] = Counter()  # 200s of pages
        self.excused: Counter[str] = Counter()  # answers that a killed process had not released
        self.fault: BrokenPromiseError | None = None  # the first
        self._web = web
        self._asked: dict[str, float] = {}  # hosts and addresses
        self._ruled: set[str] = set()  # hosts whose robots.txt was answered
        self._known: set[str] = set()  # of these, the crawl has kept the answer
        # Hosts and addresses with a request that is not answered: a server needs LONGEST_FETCH_S.
        self._busy: dict[str, tuple[Lease, float]] = {}
        self._trace = hashlib.sha256()

    def note(self, *what: object) -> None:
        self._trace.update(repr((round(now(), 6), *what)).encode())

    @property
    def trace(self) -> str:
        return self._trace.hexdigest()

    def asked_at(self, host: str) -> float:
        return self._asked[host]

    def asks(self, lease: Lease) -> None:
        host = lease.host
        is_ruled = host == self._web.ruled and host in self._known
        self._early(host, CRAWL_DELAY_S if is_ruled else self._delay_s, lease.url)
        self._early(self._web.address(host), IP_DELAY_S, lease.url)
        for place in (host, self._web.address(host)):
            if place in self._busy and now() < self._busy[place][1]:
                self._blame(f"{lease.url}: {place} still answers {self._busy[place][0].url}")
            self._busy[place] = lease, now() + LONGEST_FETCH_S
        if lease.step is Step.PAGE:
            if host not in self._ruled:
                self._blame(f"{lease.url} before its robots.txt")
            if self._web.is_disallowed(lease.url):
                self._blame(f"{lease.url} is disallowed")

    def answered(self, lease: Lease, outcome: Outcome) -> None:
        self.note(lease.step, lease.url or lease.host, type(outcome).__name__)
        self.disconnected([lease])
        if isinstance(outcome, RobotsFetched):
            self._ruled.add(lease.host)
        if isinstance(outcome, Fetched) and outcome.status == 200:
            self.answers[lease.url] += 1
            repeated = self.excused.total()  # they count only if they were committed
            if self.target and self.answers.total() - repeated > self.target:
                self._blame(f"{lease.url} is beyond the target")

    def disconnected(self, leases: Container[Lease]) -> None:
        """No answer to these is on its way any more."""
        self._busy = {place: one for place, one in self._busy.items() if one[0] not in leases}

    def released(self, lease: Lease, outcome: Outcome) -> None:
        if isinstance(outcome, RobotsFetched):
            self._known.add(lease.host)

    def ends(self, *frontiers: LocalFrontier) -> None:
        """The crawl is over: by the frontiers of all hubs."""
        missing = self._web.wanted - self.answers.keys() if not self.target else set()
        twice = {u: n for u, n in self.answers.items() if n > 1 + self.excused[u]}
        if self.fault is not None:
            raise self.fault
        if missing:
            raise BrokenPromiseError(f"{len(missing)} pages are missing: {sorted(missing)[:3]}")
        if twice:
            raise BrokenPromiseError(f"twice without a kill: {twice}")
        for frontier in frontiers:
            frontier.audit()
        codes = sum(frontier.counters.codes["2xx"] for frontier in frontiers)
        if codes != (self.target or len(self._web.wanted)):
            raise BrokenPromiseError(f"{codes} pages counted, of {len(self._web.wanted)}")

    def _early(self, place: str, delay_s: float, url: str) -> None:
        before, self._asked[place] = self._asked.get(place, -FOREVER_S), now()
        if now() - before < delay_s - _ROUNDING_S:
            self._blame(f"{url}: {place} asked after {now() - before:.3f} s")

    def _blame(self, what: str) -> None:
        self.fault = self.fault or BrokenPromiseError(what)
