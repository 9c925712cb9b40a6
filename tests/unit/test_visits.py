"""Visits of known pages (RECRAWL), on a store on disk and in a time of its own."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from itertools import pairwise, product
from pathlib import Path
from shutil import copytree

import msgspec
import pytest
from msgspec import structs

from webcrawl.fetch.conditions import Validators
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk import rows
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    LISTED,
    Capture,
    Dropped,
    Failed,
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    Step,
    Visited,
)
from webcrawl.frontier.orderings import ORDERINGS, Opic
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.revisit import Rate, Recrawl
from webcrawl.frontier.store import UrlStatus
from webcrawl.frontier.visitstate import VisitState
from webcrawl.live.frontierexplanation import explain
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.urls import host_of

OPENED: list[Store] = []
UTC_S = 1.7e9
CYCLE_S = 1_000.0
POLITE = Politeness(delay_s=1.0, ip_delay_s=0.0)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def link(url: str, lastmod: int = 0) -> Link:
    return Link(url, host_of(url), lastmod=lastmod)


@dataclass
class Crawl:
    """A crawl of one run after the other, in which requests take no time.

    address -- of all hosts; "": each has its own
    answer -- makes the outcome of a page
    visits -- when each URL was answered
    asked -- by host: when it was last asked
    """

    folder: Path
    mode: str = "fixed"
    order: str = "level"
    share: float = 0.5
    now: float = 100.0
    caps: Caps = field(default_factory=Caps)
    polite: Politeness = POLITE
    address: str = ""
    answer: Callable[[Lease, float], Outcome] = lambda lease, now: page(now)
    visits: dict[str, list[float]] = field(default_factory=dict)
    leases: list[Lease] = field(default_factory=list)
    asked: dict[str, float] = field(default_factory=dict)
    on_commit: Callable[[], None] = lambda: None
    _waits: int = 0

    def __post_init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        recrawl = Recrawl(self.mode, CYCLE_S, self.share) if self.mode != "off" else None
        policy = Policy(politeness=self.polite, recrawl=recrawl, failures_max=1_000)
        now = self.now
        self.store = Store(self.folder, now=now, utc_s=UTC_S, has_visits=self.mode != "off")
        OPENED.append(self.store)
        ordering = ORDERINGS[self.order]()
        self.state = CrawlState(
            *(self.store, policy), ordering=ordering, caps=self.caps, now=now, utc_s=UTC_S
        )
        commit = self.store._db.commit

        def noted() -> None:
            commit()
            self.on_commit()

        self.store._db.commit = noted  # type: ignore[method-assign]

    def kill(self, mode: str = "") -> None:
        """End the run without a last commit, and begin the next one."""
        self.close()
        self.mode = mode or self.mode
        self.begin()

    def close(self) -> None:
        OPENED.remove(self.store)
        self.store.close()

    def put(self, *links: Link) -> None:
        self.state.put(links, self.now)

    def run(self, until: float) -> None:
        """Answer all leases up to the time `until`."""
        while True:
            done: list[tuple[Lease, Outcome]] = []
            for lane in Lane:
                leases = self.state.acquire(self.now, 100, lane)
                done.extend((lease, self._outcome(lease)) for lease in leases)
            if done:
                self.state.release(done, self.now)
                continue
            self._waits += 1
            at = min(self.state.next_at())
            is_over = at > until or self.state.is_finished()
            if is_over or self._waits % 10 == 0:
                self.audit()
            if is_over:
                self.now = max(self.now, until)
                return
            self.now = max(at, self.now + 1e-3)

    def audit(self) -> None:
        """Each page of the cycle is on disk, or queued, and no page is both."""
        self.state.audit()
        visits = self.state._visits
        if visits is not None:
            db = self.store._db
            waiting = dict(rows.read_visit(row) for _, row in db.rows(rows.VISIT))
            links = (rows.read_link(row) for _, row in db.rows(rows.QUEUE))
            queued = {link.url: link.visit for link in links if link.visit}
            assert len(queued) == visits.queued
            assert len(waiting | queued) == len(waiting) + len(queued)
            assert len(waiting) + len(queued) == self.state.counters.in_cycle
            states = list(map(VisitState.of_row, (*waiting.values(), *queued.values())))
            planned = sum(1 / state.planned_s for state in states if state.planned_s)
            assert visits._marginal.planned_per_s == pytest.approx(planned, rel=1e-3, abs=1e-9)
            weights = sum(state.weight for state in states)
            assert visits._weights == pytest.approx(weights, rel=0.01, abs=1e-9)
            visit_rows = self.store.visits
            assert visit_rows is not None
            line = visit_rows._line
            known = [row for row in db.rows(rows.VISIT) if row[0] <= line._known_to]
            assert line._head == known, "no page is forgotten until the next run"

    def rate(self, url: str) -> Rate:
        """What was learned of a page between two visits."""
        found = self.store.visits.find(url) if self.store.visits is not None else None
        assert found is not None
        return VisitState.of_row(found[1]).rate

    def _outcome(self, lease: Lease) -> Outcome:
        if lease.step is Step.RESOLVE:
            return Resolved((self.address or f"ip of {lease.host}",), self.now + 1e9)
        assert self.now >= self.asked.get(lease.host, -1e9) + POLITE.delay_s - 1e-6
        self.asked[lease.host] = self.now
        if lease.step is Step.ROBOTS:
            return RobotsFetched(RobotsRules(), self.now + 1e9, self.now, self.now)
        self.leases.append(lease)
        outcome = self.answer(lease, self.now)
        if isinstance(outcome, Fetched):
            self.visits.setdefault(lease.url, []).append(self.now)
        return outcome

    def explained(self, url: str) -> str:
        """What `scrapy explain` says of a page between two runs: the crawl is closed."""
        self.close()
        frontier = Inspection(self.folder)
        said = " ".join(explain(frontier, url, UTC_S + self.now))
        frontier.close()
        return said

    @property
    def counted(self) -> Counter[str]:
        return self.state.counters.visits


def page(
    now: float,
    status: int = 200,
    *,
    unchanged: bool | None = None,
    etag: str = "",
    changed: str = "",
    simhash: int = 0,
    validators_held: bool | None = None,
) -> Fetched:
    capture = Capture(Validators(etag, changed), simhash, now + UTC_S)
    visited = Visited(capture, is_unchanged=unchanged, validators_held=validators_held)
    return Fetched(status, now, now, visited=visited)


@pytest.mark.parametrize("order", sorted(ORDERINGS))
def test_each_page_once_a_cycle(tmp_path: Path, order: str) -> None:
    crawl = Crawl(tmp_path, order=order)
    crawl.put(*(link(f"http://h{n % 3}/{n}") for n in range(12)))
    crawl.run(100.0 + 5 * CYCLE_S)
    assert len(crawl.visits) == 12
    for times in crawl.visits.values():
        gaps = [b - a for a, b in pairwise(times)]
        assert len(gaps) == 4 or len(gaps) == 5
        assert all(CYCLE_S - 1e-6 <= gap < CYCLE_S + 30 for gap in gaps), gaps
    assert not crawl.state.is_finished()
    counters = crawl.state.counters
    assert counters.in_cycle == 12
    assert counters.crawled == sum(map(len, crawl.visits.values()))
    assert counters.extracted >= counters.host_passed >= counters.robots_passed >= counters.crawled
    assert counters.pending == 0


@pytest.mark.parametrize("order", ["level", "opic"])
def test_a_page_that_is_forced_is_in_the_cycle_once(tmp_path: Path, order: str) -> None:
    """`dont_filter`, also while the page is queued for a visit, and in a run without RECRAWL."""
    crawl = Crawl(tmp_path, order=order)
    page_ = link("http://h/")
    crawl.put(page_)
    for mode in ("fixed", "off", "fixed"):
        crawl.kill(mode)
        crawl.run(crawl.now + 50.0)
        crawl.state.put([page_], crawl.now, force=True)
        crawl.state.put([page_], crawl.now, force=True)
    crawl.visits.clear()
    crawl.run(crawl.now + 3.5 * CYCLE_S)
    assert crawl.state.counters.in_cycle == 1
    assert len(crawl.visits[page_.url]) in (4, 5)


def test_caps_count_a_page_once(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, caps=Caps(per_host=4, per_domain=4, per_ip=4))
    crawl.put(*(link(f"http://h/{n}") for n in range(9)))
    crawl.run(100.0 + 3.5 * CYCLE_S)
    assert len(crawl.visits) == 4
    assert {len(times) for times in crawl.visits.values()} == {4}


def test_a_kill_at_any_commit_loses_and_repeats_no_visit(tmp_path: Path) -> None:
    """Each commit's folder is resumed: every page is visited in the next cycle, and once."""
    crawl = Crawl(tmp_path / "job")
    copies: list[tuple[Path, float, dict[str, float]]] = []

    def copy() -> None:
        if crawl.now > 100 + CYCLE_S - 20 and len(copies) < 40:
            to = tmp_path / str(len(copies))
            copytree(crawl.folder, to)
            last = {url: times[-1] for url, times in crawl.visits.items()}
            copies.append((to, crawl.now, last))

    crawl.put(*(link(f"http://h{n % 2}/{n}") for n in range(8)))
    crawl.on_commit = copy
    crawl.run(100 + 1.5 * CYCLE_S)
    crawl.close()
    assert len(copies) >= 6
    for folder, now, last in copies:
        again = Crawl(folder, now=now + 1)
        again.run(now + 1.4 * CYCLE_S)
        assert again.visits.keys() == last.keys()
        for times in again.visits.values():
            gaps = [b - a for a, b in pairwise(times)]
            assert all(gap >= CYCLE_S - 1e-6 for gap in gaps), gaps
        assert again.state.counters.in_cycle == 8
        again.close()


def test_a_returned_visit_comes_again_at_once(tmp_path: Path) -> None:
    returned: list[str] = []

    def answer(lease: Lease, now: float) -> Outcome:
        if lease.visit and len(returned) < 3:
            returned.append(lease.url)
            return Returned(now, now)
        return page(now)

    crawl = Crawl(tmp_path, answer=answer)
    crawl.put(link("http://h/"))
    crawl.run(100 + 1.5 * CYCLE_S)
    assert len(returned) == 3
    assert len(crawl.visits["http://h/"]) == 2


def test_what_the_last_visit_saw_is_in_the_lease(tmp_path: Path) -> None:
    validators = Validators('"tag"', "Mon, 23 Nov 2026 14:00:00 GMT")
    saw = Capture(validators, 1 << 63, UTC_S + 7, "sha1:" + "A" * 32)
    crawl = Crawl(tmp_path, answer=lambda lease, now: Fetched(200, now, now, visited=Visited(saw)))
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    crawl.kill()
    crawl.run(100 + 1.2 * CYCLE_S)
    first, second = (lease.visit for lease in crawl.leases)
    assert first is None
    assert second is not None
    assert second.capture == saw
    assert crawl.leases[1].link is not None
    assert len(crawl.leases[1].link.visit) < 180


def test_gone_twice_leaves_the_cycle(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    crawl.put(link("http://h/gone"), link("http://h/back"), link("http://h/"))
    crawl.run(150.0)
    missed = [0]

    def answer(lease: Lease, now: float) -> Outcome:
        missed[0] += lease.url.endswith("back")
        is_gone = lease.url.endswith("gone") or (lease.url.endswith("back") and missed[0] % 2)
        return page(now, 410 if is_gone else 200)

    crawl.answer = answer
    crawl.run(100 + 6.5 * CYCLE_S)
    counts = {url: len(times) for url, times in crawl.visits.items()}
    assert counts == {"http://h/gone": 3, "http://h/back": 7, "http://h/": 7}
    assert crawl.state.counters.in_cycle == 2
    assert crawl.counted["gone"] == 1


def test_a_bot_wall_says_nothing_of_the_page_behind_it(tmp_path: Path) -> None:
    walls = [False]

    def answer(lease: Lease, now: float) -> Outcome:
        if walls[0]:
            return Fetched(404, now, now, wall="incapsula")
        visit = lease.visit
        unchanged = visit.capture.simhash == 7 if visit is not None else None
        return page(now, simhash=7, unchanged=unchanged)

    crawl = Crawl(tmp_path, mode="adaptive", answer=answer)
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    before = crawl.rate("http://h/")
    walls[0] = True
    crawl.run(100 + 3.5 * CYCLE_S)
    assert crawl.counted["wall"] == crawl.state.counters.walls["incapsula"] > 1
    assert crawl.rate("http://h/") == before
    assert crawl.state.counters.in_cycle == 1, "a wall with the status 404 is not a page gone"
    walls[0] = False
    crawl.run(100 + 6.5 * CYCLE_S)
    assert crawl.counted["unchanged"] == crawl.counted.total() - crawl.counted["wall"] > 0


def test_failed_visits_come_again_and_cost_no_page(tmp_path: Path) -> None:
    down = [True]

    def answer(lease: Lease, now: float) -> Outcome:
        if lease.visit and down[0]:
            return Failed("timeout", now, now)
        return page(now)

    crawl = Crawl(tmp_path, answer=answer)
    crawl.put(link("http://h/"), link("http://h/2"))
    crawl.run(100 + 2 * CYCLE_S)
    assert {len(times) for times in crawl.visits.values()} == {1}
    assert crawl.counted["unanswered"] > 2
    assert crawl.state.counters.in_cycle == 2
    down[0] = False
    crawl.run(100 + 9 * CYCLE_S)
    assert min(len(times) for times in crawl.visits.values()) >= 2


def test_a_refused_visit_waits_for_the_next_cycle(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    crawl.answer = lambda lease, now: Dropped("middleware", now, now)
    crawl.run(100 + 1.5 * CYCLE_S)
    crawl.answer = lambda lease, now: page(now)
    crawl.run(100 + 2.5 * CYCLE_S)
    assert len(crawl.leases) == 3
    assert crawl.state.counters.dropped.total() == 0


def test_a_users_own_request_leaves_the_page_in_the_cycle(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    page_ = link("http://h/")
    crawl.put(page_)
    crawl.run(crawl.now + 50.0)
    for again in (structs.replace(page_, payload=b"x"), page_):
        crawl.state.put([again], crawl.now, force=True)
        crawl.run(crawl.now + 50.0)
    assert crawl.state.counters.in_cycle == 1
    crawl.visits.clear()
    crawl.run(crawl.now + 3.5 * CYCLE_S)
    assert len(crawl.visits[page_.url]) == 3


@dataclass
class Servers:
    """Servers that answer conditional requests, each in its own way. Judges their 304s.

    tags -- the entity tag of a page, by host: "honest", "constant", or "fresh" on each 200
    lying -- hosts that answer every conditional request with 304
    changes -- when pages change
    """

    lying: tuple[str, ...] = ()
    tags: dict[str, str] = field(default_factory=dict)
    changes: Callable[[str, float], int] = lambda url, now: 0
    bodies: Counter[str] = field(default_factory=Counter)
    true_304s: Counter[str] = field(default_factory=Counter)
    false_304s: Counter[str] = field(default_factory=Counter)
    sent: int = 0

    def answer(self, lease: Lease, now: float) -> Outcome:
        version, host, last = 1 + self.changes(lease.url, now), lease.host, lease.visit
        before = last.capture if last is not None else Capture()
        is_same = before.simhash == version
        if last is not None and last.is_conditional and (is_same or host in self.lying):
            (self.true_304s if is_same else self.false_304s)[host] += 1
            seen = Visited(before, is_unchanged=True, is_304=True)
            return Fetched(304, now, now, visited=seen)
        self.bodies[host] += 1
        self.sent += 1
        tag = {"fresh": f'"{self.sent}"', "constant": '"x"'}.get(self.tags.get(host, ""), "")
        tag = tag or f'"{version}"'
        etag = before.validators.etag
        held = etag == tag if last is not None and etag and not last.is_conditional else None
        unchanged = is_same if last is not None else None
        return page(now, unchanged=unchanged, etag=tag, simhash=version, validators_held=held)


def each_cycle(url: str, now: float) -> int:
    return int(now / CYCLE_S)


@pytest.mark.parametrize(
    ("mode", "pages", "tag", "most"),
    [("fixed", 1, "fresh", 2), ("fixed", 30, "constant", 1), ("adaptive", 30, "fresh", 2)],
)
def test_a_host_that_answers_304_to_everything_is_found_out(
    tmp_path: Path, mode: str, pages: int, tag: str, most: int
) -> None:
    """Its first two checks find a change, and no conditional request has found one."""
    servers = Servers(lying=("h",), tags={"h": tag}, changes=each_cycle)
    crawl = Crawl(tmp_path, mode=mode, answer=servers.answer)
    crawl.put(*(link(f"http://h/{n}") for n in range(pages)))
    crawl.run(100 + 4.5 * CYCLE_S)
    assert 1 <= servers.false_304s["h"] <= most * (1 if pages == 1 else 2)
    assert crawl.counted["lie"] == 1
    found = servers.false_304s["h"]
    crawl.kill()
    crawl.run(100 + 8 * CYCLE_S)
    assert servers.false_304s["h"] == found
    assert servers.bodies["h"] > 4 * pages


def test_a_host_that_answers_304_even_to_a_check_is_found_out(tmp_path: Path) -> None:
    def answer(lease: Lease, now: float) -> Outcome:
        if lease.visit and not lease.visit.is_conditional:
            return Fetched(304, now, now)
        return servers.answer(lease, now)

    servers = Servers(lying=("h",), changes=each_cycle)
    crawl = Crawl(tmp_path, answer=answer)
    crawl.put(*(link(f"http://h/{n}") for n in range(10)))
    crawl.run(100 + 3.5 * CYCLE_S)
    assert servers.false_304s["h"] <= 2
    assert crawl.counted["lie"] == 1


def test_an_honest_host_keeps_most_of_its_304s(tmp_path: Path) -> None:
    """Of ten pages one changes each cycle. The others give 20 bodies in 450 visits."""
    servers = Servers(changes=lambda url, now: each_cycle(url, now) * url.endswith("0"))
    crawl = Crawl(tmp_path, answer=servers.answer)
    crawl.put(*(link(f"http://h/{n}") for n in range(10)))
    crawl.run(100 + 50.5 * CYCLE_S)
    assert not crawl.counted["lie"]
    assert servers.true_304s["h"] >= 450
    first, changed = 10, 50
    assert servers.bodies["h"] - first - changed <= 0.08 * servers.true_304s["h"]


def test_a_host_that_begins_to_lie_is_found_out(tmp_path: Path) -> None:
    servers = Servers(tags={"h": "fresh"}, changes=each_cycle)
    crawl = Crawl(tmp_path, answer=servers.answer)
    crawl.put(*(link(f"http://h/{n}") for n in range(30)))
    crawl.run(100 + 4.5 * CYCLE_S)
    servers.lying = ("h",)
    crawl.run(100 + 14.5 * CYCLE_S)
    assert crawl.counted["lie"] == 1
    assert servers.false_304s["h"] <= 60, "of 300"


def test_a_change_between_a_304_and_its_check_is_no_lie(tmp_path: Path) -> None:
    """Honest, and by chance the page changes each time just after its 304."""
    last_304s: dict[str, float] = {}
    servers = Servers(changes=lambda url, now: int(last_304s.get(url, now) < now))
    crawl = Crawl(tmp_path, answer=servers.answer)
    crawl.put(link("http://h/"))
    crawl.run(100 + 0.5 * CYCLE_S)
    last_304s["http://h/"] = 100 + 1.0 * CYCLE_S + 0.5
    crawl.run(100 + 20 * CYCLE_S)
    assert not crawl.counted["lie"]
    assert servers.true_304s["h"] > 15


def test_a_host_without_conditional_requests_is_explained(tmp_path: Path) -> None:
    servers = Servers(("h",), {"h": "fresh"}, lambda url, now: int(now))
    crawl = Crawl(tmp_path, answer=servers.answer)
    crawl.put(link("http://h/"))
    crawl.run(crawl.now + 6.5 * CYCLE_S)
    said = crawl.explained("http://h/")
    assert "h gets no conditional requests: it answered 304 for pages that had changed." in said
    assert re.search(r"It seems to change each \d{3} s or more often \(", said)


class DatedSite:
    """One host whose pages change at given times, and whose sitemap says when."""

    def __init__(self, folder: Path, pages: int, mode: str = "adaptive") -> None:
        self.changes: dict[str, list[float]] = {f"http://h/{n}": [] for n in range(pages)}
        self.crawl = Crawl(folder, mode=mode, answer=self._answer)
        self.crawl.put(*map(link, self.changes))
        self.crawl.run(200.0)
        for _ in range(4):  # its dates prove right
            for changes in self.changes.values():
                changes.append(self.crawl.now + 1)
            self.crawl.run(self.crawl.now + 10)
            self.read()
            self.crawl.run(self.crawl.now + CYCLE_S)
        self.began_at = self.crawl.now

    def _answer(self, lease: Lease, now: float) -> Outcome:
        last_at = self.crawl.visits.get(lease.url, [0.0])[-1]
        is_unchanged = not any(last_at < at <= now for at in self.changes[lease.url])
        return page(now, unchanged=is_unchanged)

    def read(self, *without: str) -> None:
        """Read the sitemap: its dates, but not of the changes of the pages `without`."""
        self.crawl.put(
            *(
                link(url, lastmod=int(UTC_S + changes[-1 if url not in without else 0]))
                for url, changes in self.changes.items()
            )
        )

    def cycles(self, cycles: int, changing: Callable[[str, int], bool]) -> None:
        """Four times a cycle the sitemap is read; `changing`: pages that changed before."""
        for quarter in range(4 * cycles):
            for url, changes in self.changes.items():
                if changing(url, quarter):
                    changes.append(self.crawl.now + 10)
            self.crawl.run(self.crawl.now + CYCLE_S / 4)
            self.read()
        self.crawl.run(self.crawl.now + 50)

    def visits(self, url: str) -> list[float]:
        return [at for at in self.crawl.visits[url] if at >= self.began_at]


def test_a_date_that_is_believed_is_as_good_as_a_visit(tmp_path: Path) -> None:
    """Of ten pages two change once in two cycles, eight never: only changes are worth visits."""
    site = DatedSite(tmp_path, 10)
    two = ("http://h/3", "http://h/7")
    site.cycles(12, lambda url, quarter: url in two and quarter % 8 == 0)
    for url in two:
        assert 4 <= len(site.visits(url)) <= 8, "six changes; the order of pages is random"
    others = [len(site.visits(url)) for url in site.changes if url not in two]
    assert min(others) >= 1, "each page is looked at each 6.5 cycles"
    assert sorted(others)[4] <= 2
    still, moving = site.crawl.rate("http://h/1"), site.crawl.rate("http://h/3")
    assert still.per_s < 0.7 * moving.per_s
    assert still.seconds > 12 * CYCLE_S


def test_a_host_that_dates_only_some_changes_loses_its_belief(tmp_path: Path) -> None:
    """Half of the pages change without a date: pages that are visited in spite of it show it."""
    site = DatedSite(tmp_path, 60)
    hidden = tuple(url for url in site.changes if int(url[9:]) % 2)
    for quarter in range(80):
        for changes in site.changes.values():
            if quarter % 4 == 0:
                changes.append(site.crawl.now + 10)
        site.crawl.run(site.crawl.now + CYCLE_S / 4)
        site.read(*hidden)
    visits = site.crawl.state._visits
    assert visits is not None
    assert not visits._hints.trusts("h")


@pytest.mark.parametrize("kind", ["says new, is not", "says old, is new"])
def test_a_host_whose_dates_are_wrong_more_than_once_in_five_is_not_trusted(
    tmp_path: Path, kind: str
) -> None:
    """Three dates prove right, three prove wrong."""
    says_new = kind.startswith("says new")
    wrong = ("http://h/3", "http://h/4", "http://h/5")
    crawl = Crawl(
        tmp_path,
        answer=lambda lease, now: page(now, unchanged=says_new and lease.url in wrong),
    )
    right = ("http://h/0", "http://h/1", "http://h/2")
    crawl.put(*map(link, (*right, *wrong)))
    crawl.run(150.0)
    crawl.put(*(link(url, lastmod=int(UTC_S + 160)) for url in right))
    crawl.put(*(link(url, lastmod=int(UTC_S + (160 if says_new else 50))) for url in wrong))
    crawl.run(100 + 1.5 * CYCLE_S)
    assert {len(times) for times in crawl.visits.values()} == {2}
    crawl.put(*(link(url, lastmod=int(UTC_S + crawl.now)) for url in (*right, *wrong)))
    crawl.run(crawl.now + 50)
    assert {len(times) for times in crawl.visits.values()} == {2}
    assert not crawl.counted["brought_forward"]


def test_a_last_modified_that_is_the_time_of_the_answer_tells_nothing(tmp_path: Path) -> None:
    """Servers of pages that are computed send it. An older one tells when the change was."""
    ages = {"computed": 0.0, "old": 600.0}

    def answer(lease: Lease, now: float) -> Outcome:
        age_s = ages.get(lease.host)
        date = formatdate(UTC_S + now - age_s, usegmt=True) if age_s is not None else ""
        return page(now, unchanged=False, changed=date)

    crawl = Crawl(tmp_path, answer=answer)
    hosts = ("computed", "old", "silent")
    crawl.put(*(link(f"http://{host}/") for host in hosts))
    crawl.run(100 + 4.5 * CYCLE_S)
    computed, old, silent = (crawl.rate(f"http://{host}/").changes for host in hosts)
    assert computed == pytest.approx(silent, rel=0.01)
    assert old < 0.95 * silent


def test_visits_to_one_address_are_queued_one_after_the_other(tmp_path: Path) -> None:
    """Else they would stand before the new pages of all hosts there."""
    crawl = Crawl(tmp_path, polite=replace(POLITE, ip_delay_s=5.0), address="192.0.2.1")
    crawl.put(*(link(f"http://h{n}/") for n in range(20)))
    crawl.run(100 + 0.9 * CYCLE_S)
    crawl.now = 100 + 1.2 * CYCLE_S  # all are due
    visits = crawl.state._visits
    assert visits is not None
    queued = []
    while crawl.now < 100 + 1.5 * CYCLE_S:
        crawl.run(crawl.now + 1)
        queued.append(visits.queued)
    assert max(queued) <= 2
    assert {len(times) for times in crawl.visits.values()} == {2}


def test_a_page_without_a_server_twice_leaves_the_cycle(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path)
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    crawl.answer = lambda lease, now: Dropped("blocked_address", 0.0, now)
    crawl.run(100 + 1.5 * CYCLE_S)
    assert crawl.state.counters.in_cycle == 1
    crawl.run(100 + 5.5 * CYCLE_S)
    assert crawl.state.counters.in_cycle == 0
    assert crawl.counted == {"refused": 2, "gone": 1}
    assert len(crawl.leases) == 3
    assert crawl.state.is_finished()


def test_from_the_seventh_failure_on_a_page_is_tried_once_a_cycle(tmp_path: Path) -> None:
    polite = replace(POLITE, deferral_max_s=20.0)
    crawl = Crawl(
        tmp_path,
        polite=polite,
        answer=lambda lease, now: Failed("timeout", now, now) if lease.visit else page(now),
    )
    crawl.put(link("http://h/"))
    crawl.run(100 + 1.9 * CYCLE_S)
    assert crawl.counted["unanswered"] == 7
    crawl.run(100 + 4.9 * CYCLE_S)
    assert crawl.counted["unanswered"] == 10


def test_adaptive_visits_that_are_due_at_once_are_spread(tmp_path: Path) -> None:
    """100 visits a cycle are allowed: one in ten seconds, and at first a burst of five."""
    crawl = Crawl(tmp_path, mode="adaptive")
    crawl.put(*(link(f"http://h{n}/") for n in range(100)))
    while crawl.now < 100 + CYCLE_S + 100:
        crawl.run(crawl.now + 10)
    again = sum(len(times) - 1 for times in crawl.visits.values())
    assert 10 <= again <= 20
    crawl.kill()
    crawl.audit()


def test_with_opic_a_visit_gives_its_links_new_cash(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, order="opic")
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    crawl.answer = lambda lease, now: Fetched(200, now, now, links=(link("http://g/"),))
    ordering = crawl.state._state.ordering
    assert isinstance(ordering, Opic)
    made = ordering._made
    crawl.run(100 + 1.1 * CYCLE_S)
    assert len(crawl.visits["http://h/"]) == 2
    assert ordering._made > made
    ordering.audit()


SITEMAP = Link("http://h/map.xml", "h", via="http://h/robots.txt", sitemap=1)


def test_a_sitemap_is_read_again_and_its_dates_bring_visits_forward(tmp_path: Path) -> None:
    """It is due four times a cycle. All pages change at 400 and at 1,500."""

    def answer(lease: Lease, now: float) -> Outcome:
        changed_at = 1_500 if now >= 1_500 else 400 if now >= 400 else 50
        if lease.step is not Step.SITEMAP:
            return page(now, unchanged=crawl.visits.get(lease.url, [now])[-1] > changed_at)
        assert lease.visit is None
        dated = int(UTC_S + changed_at)
        pages = [
            Link(f"http://h/{n}", "h", 1, via=lease.url, sitemap=LISTED, lastmod=dated)
            for n in range(4)
        ]
        return Fetched(200, now, now, tuple(pages))

    crawl = Crawl(tmp_path, answer=answer, caps=Caps(per_host=4))
    crawl.put(SITEMAP)
    crawl.run(100 + 2 * CYCLE_S)
    sitemap = crawl.visits.pop(SITEMAP.url)
    assert len(sitemap) == 8
    assert all(250 <= b - a < 265 for a, b in pairwise(sitemap)), sitemap
    assert len(crawl.visits) == 4
    for first, second, third in crawl.visits.values():
        assert first < 110
        assert second - first >= CYCLE_S, "the host is not trusted yet"
        assert 1_600 < third < 1_650
    assert crawl.counted["brought_forward"] == 4
    assert crawl.counted["sitemap"] == 7
    counters = crawl.state.counters
    assert counters.in_cycle == 5
    assert counters.sitemaps == Counter({"2xx": 8, "found": 4, "only": 4})
    assert counters.crawled == 12, "a sitemap is no page"
    assert counters.pending == 0


def test_indexes_that_name_each_other_with_new_dates_are_read_twice_as_often(
    tmp_path: Path,
) -> None:
    """Else each reading of one would bring the other forward, without an end."""
    urls = ("http://h/a.xml", "http://h/b.xml")

    def answer(lease: Lease, now: float) -> Outcome:
        if lease.step is not Step.SITEMAP:
            return page(now, unchanged=False)
        [other] = set(urls) - {lease.url}
        dated = int(UTC_S + now) + 10**8
        index = Link(other, "h", via="http://h/robots.txt", sitemap=2, lastmod=dated)
        return Fetched(200, now, now, (index, *(link(f"http://h/{n}", dated) for n in range(4))))

    crawl = Crawl(tmp_path, mode="adaptive", answer=answer)
    crawl.put(Link(urls[0], "h", via="http://h/robots.txt", sitemap=1))
    crawl.put(*(link(f"http://other{n}/") for n in range(20)))
    crawl.run(100 + 2 * CYCLE_S)
    before = sum(len(crawl.visits[url]) for url in urls)
    crawl.run(100 + 6 * CYCLE_S)
    assert crawl.state._visits is not None
    assert crawl.state._visits._hints.trusts("h")
    assert sum(len(crawl.visits[url]) for url in urls) - before <= 2 * 8 * 4


def test_a_date_brings_no_visit_before_its_slot(tmp_path: Path) -> None:
    """Else all pages of a host that are overdue would be queued at once, before those of others."""
    crawl = Crawl(tmp_path, answer=lambda lease, now: page(now, unchanged=False))
    crawl.put(*(link(f"http://h/{n}") for n in range(60)))
    crawl.run(200.0)
    crawl.put(*(link(f"http://h/{n}", int(UTC_S + 300)) for n in range(3)))
    crawl.run(100 + 1.5 * CYCLE_S)
    crawl.now = 100 + 3.5 * CYCLE_S  # all are overdue
    crawl.run(crawl.now + 20)
    crawl.put(*(link(f"http://h/{n}", int(UTC_S + crawl.now)) for n in range(60)))
    assert crawl.state._visits is not None
    assert crawl.state._visits._hints.trusts("h")
    queued = []
    while len(queued) < 60:
        crawl.run(crawl.now + 1)
        queued.append(crawl.state._visits.queued)
    assert max(queued) <= 2


def test_not_changed_is_not_believed_of_a_page_whose_last_answer_was_an_error(
    tmp_path: Path,
) -> None:
    """Ten pages change at 4,500, and their host is out of order until 5,200."""

    def answer(lease: Lease, now: float) -> Outcome:
        changed_at = 4_500 if now >= 4_500 else 50
        if lease.step is Step.SITEMAP:
            dated = int(UTC_S + changed_at)
            return Fetched(200, now, now, tuple(link(f"http://h/{n}", dated) for n in range(10)))
        if lease.host == "h" and 4_500 <= now < 5_200:
            return page(now, 503)
        return page(now, unchanged=crawl.visits.get(lease.url, [now])[-1] > changed_at)

    crawl = Crawl(tmp_path, mode="adaptive", answer=answer)
    crawl.put(SITEMAP, *(link(f"http://other{n}/") for n in range(50)))
    crawl.run(300.0)
    assert crawl.state._visits is not None
    crawl.state._visits._hints._hosts["right h"] = 10
    crawl.run(4_900 + 2.5 * CYCLE_S)
    for url in (f"http://h/{n}" for n in range(10)):
        assert crawl.visits[url][-1] > 5_200


def test_a_sitemap_of_a_run_without_recrawl_joins_when_it_is_named_again(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, mode="off")
    crawl.put(SITEMAP, link("http://h/"))
    crawl.run(200.0)
    assert {len(times) for times in crawl.visits.values()} == {1}
    crawl.kill("fixed")
    assert crawl.state.undated == 1, "the page"
    crawl.put(SITEMAP, link("http://other/"))
    crawl.run(100 + CYCLE_S)
    assert len(crawl.visits[SITEMAP.url]) == 4
    crawl.answer = lambda lease, now: page(now, 404)
    crawl.run(100 + 2 * CYCLE_S)
    asked = len(crawl.visits[SITEMAP.url])
    crawl.run(100 + 5 * CYCLE_S)
    assert len(crawl.visits[SITEMAP.url]) == asked + 1, "gone twice"
    crawl.put(SITEMAP)
    crawl.run(100 + 8 * CYCLE_S)
    assert len(crawl.visits[SITEMAP.url]) == asked + 1


def test_new_pages_and_visits_share_a_host(tmp_path: Path) -> None:
    """20 pages are due at once while 2,000 new ones wait, each a second."""
    crawl = Crawl(tmp_path, share=0.25)
    crawl.put(*(link(f"http://h/{n}") for n in range(20)))
    crawl.run(100 + 0.9 * CYCLE_S)
    crawl.put(*(link(f"http://h/new/{n}") for n in range(2_000)))
    crawl.run(100 + CYCLE_S + 100)
    late = [lease for lease in crawl.leases if lease.link and lease.link.visit]
    new = [at for url, times in crawl.visits.items() if "new" in url for at in times]
    assert 15 <= len(late) <= 20
    since = crawl.visits["http://h/0"][1]
    assert sum(since <= at < since + 40 for at in new) == pytest.approx(30, abs=3)


def test_a_crawl_without_recrawl_is_continued_with_it(tmp_path: Path) -> None:
    """The pages of its seeds and links join when they are found again."""
    links = {"http://h/": ("http://h/a", "http://h/b"), "http://h/a": ("http://h/c",)}

    def answer(lease: Lease, now: float) -> Outcome:
        found = tuple(map(link, links.get(lease.url, ())))
        return Fetched(200, now, now, links=found)

    crawl = Crawl(tmp_path, mode="off", answer=answer)
    crawl.put(link("http://h/"))
    crawl.run(150.0)
    assert crawl.state.is_finished()
    assert not list(crawl.store._db.rows(rows.VISIT))
    crawl.kill("fixed")
    assert crawl.state.is_finished()
    crawl.put(link("http://h/"))
    assert not crawl.state.is_finished()
    crawl.run(100 + 3 * CYCLE_S)
    assert {url: len(times) for url, times in crawl.visits.items()} == {
        url: pytest.approx(3, abs=1)
        for url in ("http://h/", "http://h/a", "http://h/b", "http://h/c")
    }
    assert crawl.state.counters.in_cycle == 4
    count = sum(map(len, crawl.visits.values()))
    crawl.kill("off")
    crawl.run(100 + 9 * CYCLE_S)
    assert sum(map(len, crawl.visits.values())) <= count + 4, "what was queued is still visited"
    crawl.kill("fixed")
    crawl.run(crawl.now + 50)
    assert sum(map(len, crawl.visits.values())) >= count + 4


def test_adaptive_visits_what_changes(tmp_path: Path) -> None:
    """As many visits as fixed, and more of them to pages that change."""

    def answer(lease: Lease, now: float) -> Outcome:
        return page(now, unchanged="still" in lease.url)

    crawl = Crawl(tmp_path, mode="adaptive", answer=answer)
    for n in range(10):
        crawl.put(link(f"http://h{n}/still"), link(f"http://g{n}/moves"))
    crawl.run(100 + 20 * CYCLE_S)
    crawl.close()
    count = sum(map(len, crawl.visits.values()))
    assert 0.8 < count / (20 * 20) < 1.1
    still = sum(len(times) for url, times in crawl.visits.items() if "still" in url)
    assert still < count / 3


def test_sitemaps_take_no_visits_from_pages(tmp_path: Path) -> None:
    """Eight hosts of a page each, with a sitemap that is read four times a cycle."""

    def answer(lease: Lease, now: float) -> Outcome:
        return Fetched(200, now, now) if lease.step is Step.SITEMAP else page(now, unchanged=True)

    crawl = Crawl(tmp_path, mode="adaptive", answer=answer)
    for n in range(8):
        crawl.put(Link(f"http://h{n}/map.xml", f"h{n}", sitemap=1), link(f"http://h{n}/"))
    crawl.run(100 + 10 * CYCLE_S)
    crawl.kill()
    crawl.run(100 + 20 * CYCLE_S)
    crawl.close()
    pages = sum(len(times) for url, times in crawl.visits.items() if url.endswith("/"))
    assert 0.8 < pages / (8 * 20) < 1.1


def test_explained(tmp_path: Path) -> None:
    def said(url: str) -> str:
        lines = crawl.explained(url)
        crawl.begin()
        return lines

    crawl = Crawl(tmp_path, answer=lambda lease, now: page(now, 404 if "no" in lease.url else 200))
    crawl.put(link("http://h/"), link("http://h/no"))
    crawl.run(150.0)
    assert "The next visit (RECRAWL) is at 2023-11-14 22:31:41 UTC; the last" in said("http://h/")
    assert "It seems to change each 1e+03 s (0.5 changes in 500 s)" in said("http://h/")
    crawl.answer = lambda lease, now: Failed("timeout", now, now)
    crawl.run(90 + CYCLE_S)
    crawl.now += 11
    crawl.state.acquire(crawl.now, 1)
    assert "Queued for another visit (RECRAWL), before the new URLs" in said("http://h/")
    crawl.run(110 + CYCLE_S)
    assert "The last 1 visit got no answer." in said("http://h/")
    crawl.answer = lambda lease, now: page(now, 404 if "no" in lease.url else 200)
    crawl.run(200 + 2 * CYCLE_S)
    assert "Not visited again: it was gone, twice." in said("http://h/no")


def test_a_page_that_has_not_joined_the_cycle_is_explained(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path, mode="off")
    crawl.put(link("http://h/"), link("http://h/a"))
    crawl.run(150.0)
    crawl.kill("fixed")
    crawl.put(link("http://h/"))
    crawl.run(200.0)
    assert "The next visit (RECRAWL) is at" in crawl.explained("http://h/")
    crawl.begin()
    assert "Not visited again (RECRAWL) so far: fetched by a run without it" in crawl.explained(
        "http://h/a"
    )


def test_rows(tmp_path: Path) -> None:
    capture = Capture(Validators("W/é", "gestern"), 1 << 63, UTC_S, "sha1:A")
    state = VisitState(
        UTC_S, Rate(0.5, 3600.0), 7200.0, 0.25, 3, True, True, -1, capture, 2, 1800.0
    )
    for kept, sitemap, lastmod in product(("", "timeout"), (0, 2, -1), (0, 1_700_000_000)):
        link_ = Link(
            "http://h/",
            "h",
            3,
            2,
            "http://b/",
            1,
            kept=kept,
            sitemap=sitemap,
            lastmod=lastmod,
            sequence=7,
            head_done=True,
            payload=b"\n\npickle\n",
        )
        for each in (link_, structs.replace(link_, visit=state.to_row())):
            assert rows.read_link(rows.encode(each)) == each
    assert VisitState.of_row(state.to_row()) == state
    status = UrlStatus("200", UTC_S, 1, 0, "", "", 1_700_000_000_123)
    assert rows.read_status(rows.encode(status)) == status


@pytest.mark.parametrize("order", ["level", "opic"])
def test_a_page_that_is_named_as_a_sitemap_is_in_the_cycle_once(tmp_path: Path, order: str) -> None:
    crawl = Crawl(tmp_path, order=order)
    crawl.put(link("http://h/"))
    crawl.run(crawl.now + 50.0)
    crawl.put(Link("http://h/", "h", via="http://h/robots.txt", sitemap=1))
    crawl.run(crawl.now + 3 * CYCLE_S)
    assert crawl.state.counters.in_cycle == 1


def test_a_304_that_a_sitemap_or_its_own_validators_contradict_is_checked(tmp_path: Path) -> None:
    def answer(lease: Lease, now: float) -> Outcome:
        outcome = servers.answer(lease, now)
        assert isinstance(outcome, Fetched)
        seen = outcome.visited
        if seen is not None and seen.is_304 and lease.url.endswith("2"):
            capture = msgspec.structs.replace(seen.capture, validators=Validators('"new"'))
            visited = msgspec.structs.replace(seen, capture=capture)
            return Fetched(304, now, now, visited=visited)
        return outcome

    servers = Servers()
    crawl = Crawl(tmp_path, answer=answer)
    crawl.put(*(link(f"http://h/{n}") for n in range(8)))
    crawl.run(200.0)
    crawl.put(link("http://h/4", int(UTC_S + 300)))
    crawl.run(100 + 1.5 * CYCLE_S)
    plain = [lease.url for lease in crawl.leases if lease.visit and not lease.visit.is_conditional]
    assert plain == [f"http://h/{n}" for n in (0, 1, 2, 3, 4, 7)], "1, 2, 4 and 8, and 2 and 4"


def test_a_304_to_be_checked_is_so_after_a_kill(tmp_path: Path) -> None:
    servers = Servers(lying=("h",), tags={"h": "fresh"}, changes=each_cycle)
    crawl = Crawl(tmp_path, answer=servers.answer)
    crawl.put(link("http://h/"))

    def kill() -> None:
        if crawl.now > 100 + 2 * CYCLE_S:
            crawl.on_commit = lambda: None
            raise KilledError

    crawl.on_commit = kill
    crawl.run(100 + 0.5 * CYCLE_S)
    for _ in range(12):
        with suppress(KilledError):
            crawl.run(crawl.now + 0.5 * CYCLE_S)
        crawl.kill()
    assert servers.false_304s["h"] == 2
    assert crawl.counted["lie"] == 1


class KilledError(Exception): ...


def test_false_304s_do_not_spoil_the_rate(tmp_path: Path) -> None:
    """Pages that begin to change never seem calmer than those of an honest host."""
    rates = []
    for lying in ((), ("h",)):
        servers = Servers(
            lying, {"h": "fresh"}, lambda url, now: each_cycle(url, now) * (now > 10_000)
        )
        crawl = Crawl(tmp_path / str(len(lying)), answer=servers.answer)
        crawl.put(*(link(f"http://h/{n}") for n in range(20)))
        crawl.run(20_000.0)
        rates.append([crawl.rate(f"http://h/{n}").per_s for n in range(20)])
        assert crawl.counted["lie"] == len(lying)
        crawl.close()
    honest, liar = rates
    assert sum(liar) > sum(honest)
    assert min(liar) > 0.8 * min(honest)


def test_a_page_that_changes_too_often_gets_no_visit_for_each_date(tmp_path: Path) -> None:
    """One page of 40 is new whenever the sitemap is read, and the others change each cycle."""
    site = DatedSite(tmp_path, 40)
    always = "http://h/0"

    def changing(url: str, quarter: int) -> bool:
        for n in range(20 * (url == always)):
            site.changes[url].append(site.crawl.now + 10 + n)
        return url != always and quarter % 4 == 0

    site.cycles(16, changing)
    assert len(site.visits(always)) < 16
    assert sum(len(site.visits(url)) for url in site.changes) <= 16 * 40 * 1.1


def test_new_pages_and_visits_of_different_hosts_share_the_leases(tmp_path: Path) -> None:
    """Visits may be ten turns behind, since at first there were none."""
    crawl = Crawl(tmp_path, share=0.25)
    crawl.put(*(link(f"http://visited{n}/") for n in range(150)))
    crawl.run(100 + 0.9 * CYCLE_S)
    crawl.put(*(link(f"http://new{n}/") for n in range(150)))
    while admitted := crawl.state.acquire(crawl.now, 100, Lane.ADMISSIONS):
        crawl.state.release([(lease, crawl._outcome(lease)) for lease in admitted], crawl.now)
        crawl.now += 2.0
    leases = crawl.state.acquire(100 + 1.1 * CYCLE_S, 120)
    assert len(leases) == 120
    assert 30 <= sum(lease.visit is not None for lease in leases) <= 30 + 15
