"""A frontier on disk, killed before and after every single commit of a crawl.

At each commit the test copies the files, as a kill would leave them, and the state of the web. From
each copy the crawl resumes, is killed once more, resumes again and ends. Then no URL may be lost,
only leased URLs may be asked for again, and caps and delays must hold.
"""

from __future__ import annotations

import asyncio
import shutil
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from zlib import crc32

import pytest

from tests.contracts.frontier import FOREVER, link
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.database import Database
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.lease import (
    Failed,
    Fetched,
    Lane,
    Lease,
    Outcome,
    Resolved,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.politeness import Politeness
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules
from webcrawl.parse.urls import host_of

DELAY_S, IP_DELAY_S, CRAWL_DELAY_S = 2.0, 2.5, 7.0
UTC_S = 1e9
HOSTS = [f"h{n}.example.com" for n in range(6)]
GONE = HOSTS[5]  # has no address
RULES = RobotsRules.parse(b"user-agent: *\ndisallow: /private\ncrawl-delay: 7", "x")
PATHS = ["/", "/a", "/b/c", "/private", "/flaky", "/reset"]
SEEDS = [f"http://{host}/" for host in HOSTS[:2]]


def links_of(url: str) -> list[str]:
    """Always the same: a page links to three others, a home page also to all of its host."""
    host, number = host_of(url), crc32(url.encode())
    near = PATHS if url.endswith("/") else []
    far = [(HOSTS[number // 7**n % 6], PATHS[number // 5**n % 6]) for n in range(3)]
    return [f"http://{h}{path}" for h, path in [(host, path) for path in near] + far]


def reachable() -> set[str]:
    found, todo = set(SEEDS), list(SEEDS)
    while todo:
        url = todo.pop()
        if host_of(url) == GONE or is_disallowed(url):
            continue
        new = set(links_of(url)) - found
        found |= new
        todo += new
    return found


def is_disallowed(url: str) -> bool:
    return host_of(url) == HOSTS[1] and "/private" in url


@dataclass
class Web:
    """The requests that the servers saw, and their answers. Checks each lease."""

    now: float = 1.0
    out: dict[Lease, float] = field(default_factory=dict)  # leases not released, their ends
    asked: dict[str, float] = field(default_factory=dict)  # hosts and addresses, when last
    known: set[str] = field(default_factory=set)  # hosts whose rules the crawl has
    tries: Counter[str] = field(default_factory=Counter)
    done: set[str] = field(default_factory=set)
    may_come_again: set[str] = field(default_factory=set)

    def begin(self, lease: Lease) -> None:
        if lease.step is not Step.RESOLVE:
            delay_s = CRAWL_DELAY_S if lease.host == HOSTS[1] in self.known else DELAY_S
            assert self.now >= self.asked.get(lease.host, -FOREVER) + delay_s, "host too early"
            assert self.now >= self.asked.get(lease.address, -FOREVER) + IP_DELAY_S, "IP too early"
        if lease.step is Step.PAGE:
            assert lease.url not in self.done or lease.url in self.may_come_again, "fetched twice"
            assert not is_disallowed(lease.url)
        self.out[lease] = self.now + 0.3 + crc32(lease.url.encode()) % 30 / 10

    def answer(self, lease: Lease) -> Outcome:
        now, name = self.now, lease.url or lease.host
        self.tries[name] += 1
        if lease.step is Step.RESOLVE:
            if lease.host == GONE:
                return Unresolved("dns", again=False)
            return Resolved((f"ip{HOSTS.index(lease.host) % 3}",), FOREVER)
        self.asked[lease.host] = self.asked[lease.address] = now
        first = self.tries[name] == 1
        if lease.step is Step.ROBOTS:
            return self._robots(lease, first)
        if first and name.endswith("/reset"):
            return Failed("reset", now, now)
        if first and name.endswith("/flaky"):
            return Fetched(503, now, now)
        self.done.add(name)
        return Fetched(200, now, now, tuple(link(url, via=name) for url in links_of(name)))

    def _robots(self, lease: Lease, first: bool) -> Outcome:
        assert lease.robots_task is not None
        now, home = self.now, lease.robots_task.home
        if home == HOSTS[2] and lease.host == home:
            return RobotsMoved(f"http://{HOSTS[3]}/robots", HOSTS[3], now, now)
        if home == HOSTS[4] and first:
            return RobotsUnreachable("5xx", now, now)
        return RobotsFetched(RULES if home == HOSTS[1] else ALLOW_ALL, FOREVER, now, now)

    def released(self, lease: Lease) -> None:
        del self.out[lease]
        if lease.step is Step.ROBOTS:
            self.known.add(lease.host)

    def killed(self) -> None:
        """A leased request may have reached its server until now, and may come again."""
        for lease in self.out:
            if lease.step is not Step.RESOLVE:
                self.asked[lease.host] = self.asked[lease.address] = self.now
            self.may_come_again.add(lease.url)
        self.out.clear()


class Killed(Exception):  # noqa: N818  (it is no error)
    """Raised in a commit in place of a kill: the frontier is not used afterwards."""


@dataclass(frozen=True)
class Chosen:
    """Settings of a crawl."""

    order: str
    cap: int  # of a host; 0 is none


def resume(
    folder: Path,
    web: Web,
    chosen: Chosen,
    at_commit: Callable[[Callable[[], None]], None] | None = None,
) -> None:
    """Run the crawl in `folder` until it ends, or until `at_commit` raises Killed.

    `at_commit` is called in place of each commit.
    """
    with pytest.MonkeyPatch.context() as patch:
        if at_commit is not None:
            real = Database.commit
            patch.setattr(Database, "commit", lambda db: at_commit(lambda: real(db)))
        try:
            asyncio.run(_crawl(folder, web, chosen))
        except Killed:
            web.killed()


async def _crawl(folder: Path, web: Web, chosen: Chosen) -> None:
    frontier = LocalFrontier(
        folder,
        Policy(politeness=Politeness(DELAY_S, IP_DELAY_S)),
        ordering=ORDERINGS[chosen.order](),
        caps=Caps(per_host=chosen.cap),
        active_max=3,
        now=web.now,
        utc_s=UTC_S,
    )
    try:
        frontier.audit()
        await frontier.put([link(url) for url in SEEDS], web.now)
        for _ in range(2000):
            if frontier.is_finished():
                break
            for lane in reversed(Lane):
                for lease in await frontier.acquire(web.now, 2, lane):
                    web.begin(lease)
            ready_at = min(frontier.next_at(), frontier.next_at(Lane.ADMISSIONS))
            lease = min(web.out, key=web.out.__getitem__, default=None)
            if lease is None or ready_at < web.out[lease]:
                assert ready_at < FOREVER, f"the crawl is stuck: {frontier!r}"
                web.now = max(web.now + 1e-3, ready_at)
                continue
            web.now = max(web.now, web.out[lease])
            await frontier.release([(lease, web.answer(lease))], web.now)
            web.released(lease)
        frontier.audit()
    finally:
        await frontier.close()


def judge(folder: Path, web: Web, cap: int) -> None:
    found = Inspection(folder / FOLDER)
    counters = found.counters
    assert counters.pending == 0
    assert counters.crawled == len(web.done)
    assert counters.extracted == counters.crawled + counters.dropped.total()
    statuses = {url: found.status(url) for url in reachable()} if not cap else {}
    found.close()
    per_host = Counter(map(host_of, web.done))
    if cap:
        assert max(per_host.values()) == cap
        assert counters.dropped["host_cap"]
        return
    outcomes = {url: status.outcome for url, status in statuses.items() if status}
    assert {url for url, outcome in outcomes.items() if outcome == "200"} == web.done
    assert {url: outcome for url, outcome in outcomes.items() if outcome != "200"} == {
        url: "robots" if is_disallowed(url) else "dns" for url in reachable() - web.done
    }
    assert all(is_disallowed(url) or host_of(url) == GONE for url in reachable() - web.done)


def kill_at(number: int, *, before: bool) -> Callable[[Callable[[], None]], None]:
    """A kill at the `number`-th commit."""
    commits = count(1)

    def at_commit(commit: Callable[[], None]) -> None:
        now = next(commits)
        if now < number or not before:
            commit()
        if now == number:
            raise Killed

    return at_commit


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [Chosen("level", 3), Chosen("opic", 0)], ids=str)
def test_a_kill_at_any_commit_repeats_only_leased_urls(tmp_path: Path, chosen: Chosen) -> None:
    web = Web()
    kills: list[tuple[Path, Web]] = []

    def copy_state() -> None:
        copy = tmp_path / str(len(kills))
        shutil.copytree(tmp_path / "whole" / FOLDER, copy / FOLDER)
        kills.append((copy, deepcopy(web)))

    def at_commit(commit: Callable[[], None]) -> None:
        copy_state()
        commit()
        copy_state()

    resume(tmp_path / "whole", web, chosen, at_commit)
    judge(tmp_path / "whole", web, chosen.cap)
    assert len(kills) > 60

    for number, (folder, then) in enumerate(kills):
        then.killed()
        resume(folder, then, chosen, kill_at(1 + number % 9, before=number % 2 == 0))
        resume(folder, then, chosen)
        judge(folder, then, chosen.cap)
        shutil.rmtree(folder)
