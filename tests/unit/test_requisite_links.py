"""Page requisites in the frontier: which are fetched, before what, and what does not count them."""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import inf

import pytest

from tests.cases import each_of
from tests.mailing import receive, unsent
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.core import CrawlState
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import (
    LAST_REQUISITE,
    REQUISITE,
    Failed,
    Fetched,
    Lane,
    Lease,
    Link,
    Outcome,
    Resolved,
    RobotsFetched,
    Step,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.requisites import _FIRST_MAX, name_of
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.hub.server import FrontierServer
from webcrawl.parse.robots import RobotsRules
from webcrawl.scope import Scope

PAGE = "http://site.test/"
ANSWERED = Fetched(200, 0.0, 0.0)


def hub_of(own: int, host: str) -> int | None:
    """Hosts whose name begins with "s" are of hub 0, all others of hub 1."""
    hub = int(not host.startswith("s"))
    return None if hub == own else hub


class Crawl:
    """A frontier whose hosts answer at once. `shows` and `links`: by URL."""

    def __init__(self, order: str = "level", *, hub: int | None = None, cap: int = 0) -> None:
        self.policy = Policy(politeness=Politeness(delay_s=0.0, ip_delay_s=0.0), retry_times=0)
        partition = partial(hub_of, hub) if hub is not None else None
        ordering, caps = ORDERINGS[order](), Caps(per_host=cap)
        self.state = CrawlState(
            Store(None), self.policy, ordering=ordering, caps=caps, partition=partition
        )
        scope = Scope(suffixes=["site.test"], deny=["re:/denied"])
        self.outlinks = Outlinks(scope, Counter(), url_cache=UrlCache(self.policy))
        self.links: dict[str, list[str]] = {}
        self.shows: dict[str, list[str]] = {}
        self.fetched: list[str] = []  # each requisite with its name

    def put(self, *urls: str) -> None:
        self.state.put(self.outlinks.of_seeds(urls), 0.0)

    def run(self, turns: int = 100, lanes: tuple[Lane, ...] = tuple(Lane)) -> None:
        for turn in range(turns):
            for lane in lanes:
                for lease in self.state.acquire(float(turn), 10, lane):
                    self.state.release([(lease, self.outcome(lease))], float(turn))
        self.state.audit()

    def outcome(self, lease: Lease) -> Outcome:
        if lease.step is Step.RESOLVE:
            return Resolved((f"ip of {lease.host}",), 1e9)
        if lease.step is Step.ROBOTS:
            return RobotsFetched(RobotsRules("-/private"), 1e9, 0.0, 0.0)
        link = lease.link
        assert link is not None
        is_page = lease.step is Step.PAGE
        self.fetched.append(link.url if is_page else name_of(link))
        if "broken" in link.url:
            return Failed("timeout", 0.0, 0.0)
        links = self.outlinks.of_page(self.links.get(link.url, []), link) if is_page else []
        shown = self.outlinks.of_requisites(self.shows.get(link.url, []), link)
        if self.outlinks.url_cache is not None:
            self.outlinks.url_cache.add(shown)
        return Fetched(200, 0.0, 0.0, tuple(links), requisites=tuple(shown))


def shown(*urls: str) -> list[str]:
    return [f"{url} requisite" for url in urls]


def test_a_requisite_may_be_on_any_host_unless_it_is_denied() -> None:
    crawl = Crawl()
    page = Link(PAGE, "site.test", depth=2)
    urls = [
        *("http://cdn.test/a", "https://cdn.test/denied", "http://cdn.test:25/", PAGE + "x"),
        "http://site.test/" + "y" * 3000,
    ]
    links = crawl.outlinks.of_requisites(urls, page)
    like = {"depth": 2, "via": PAGE, "sitemap": REQUISITE}
    assert links == [
        Link("http://cdn.test/a", "cdn.test", **like),  # type: ignore[arg-type]
        Link(PAGE + "x", "site.test", **like),  # type: ignore[arg-type]
    ]
    assert crawl.outlinks.requisites == {"scope_deny": 1, "scope_port": 1, "scope_length": 1}
    (moved,) = crawl.outlinks.of_moved_requisite("http://new.test/", links[0])
    assert (moved.redirects, moved.via, moved.sitemap) == (1, links[0].url, REQUISITE)


def test_a_chain_of_style_sheets_ends() -> None:
    crawl = Crawl()
    sheets = [f"http://cdn.test/{n}.css" for n in range(10)]
    crawl.shows = {PAGE: sheets[:1], **{sheets[n]: [sheets[n + 1]] for n in range(9)}}
    crawl.put(PAGE)
    crawl.run()
    assert crawl.fetched == [PAGE, *shown(*sheets[: REQUISITE - LAST_REQUISITE + 1])]


@each_of("order", ORDERINGS)
def test_requisites_go_before_pages_and_count_as_none(order: str) -> None:
    crawl = Crawl(order)
    files = [f"{PAGE}{n}.png" for n in range(3)]
    pages = [f"{PAGE}p{n}" for n in range(3)]
    crawl.shows, crawl.links = dict.fromkeys([PAGE, *pages], files), {PAGE: [*pages, files[0]]}
    crawl.put(PAGE)
    crawl.run()
    assert crawl.fetched[:4] == [PAGE, *shown(*files)], "each once"
    assert sorted(crawl.fetched[4:]) == sorted([*pages, files[0]]), "one is linked as a page too"
    counters = crawl.state.counters
    figures = counters.extracted, counters.ip_passed, counters.robots_passed, counters.crawled
    assert set(figures) == {5}
    assert counters.requisites == {"2xx": 3}
    assert sum(counters.levels.values()) == 2 * 5
    assert crawl.state.is_finished()


def test_requisites_of_other_hosts_never_keep_a_host_from_its_pages() -> None:
    crawl = Crawl()
    files = [f"http://www.site.test/{n}.png" for n in range(3 * _FIRST_MAX)]
    own = [f"http://www.site.test/own{n}" for n in range(4)]
    crawl.put(*own[:1])
    crawl.run()  # so the host has a page
    crawl.put(*own[1:])
    crawl.state.put(crawl.outlinks.of_requisites(files, Link(PAGE, "site.test")), 0.0)
    crawl.fetched.clear()
    crawl.run(400)
    places = [crawl.fetched.index(url) for url in own[1:]]
    assert places == [_FIRST_MAX, _FIRST_MAX + 1, _FIRST_MAX + 2]
    assert len(crawl.fetched) == 3 + len(files)


def test_robots_txt_and_the_caps_hold_for_requisites() -> None:
    crawl = Crawl(cap=3)
    crawl.shows = {PAGE: [*(f"http://cdn.test/{n}" for n in range(4)), "http://b.test/private"]}
    crawl.put(PAGE)
    crawl.run()
    assert crawl.state.counters.requisites == {"2xx": 3, "host_cap": 1, "robots": 1}
    assert not crawl.state.counters.dropped


def test_only_requisites_that_may_come_soon_are_waited_for() -> None:
    crawl = Crawl()
    crawl.shows = {PAGE: ["http://cdn.test/a", "http://cdn.test/broken"]}
    crawl.put(PAGE)
    while not crawl.state.counters.crawled:
        crawl.run(1, (Lane.PAGES, Lane.ADMISSIONS))
    assert crawl.state.with_requisites
    crawl.run(8)
    assert crawl.state.counters.kept == {"timeout": 1}
    assert not crawl.state.with_requisites


@pytest.mark.parametrize("comes", [True, False])
async def test_a_target_waits_for_requisites_but_not_for_ever(
    comes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    crawl, now = Crawl(), 0.0
    monkeypatch.setattr("webcrawl.hub.server.time.monotonic", lambda: now)
    frontier = LocalFrontier(None, crawl.policy, in_memory=True)
    server = FrontierServer(frontier, target=1)
    crawl.shows = {PAGE: ["http://cdn.test/a"]}
    await server.put([Link(PAGE, "site.test")], now)
    while not server.counters.crawled:
        assert not server.is_met
        leases = await server.acquire(now, 1, Lane.ADMISSIONS) + await server.acquire(now, 1)
        await server.release([(lease, crawl.outcome(lease)) for lease in leases], now)
    assert server.next_at(Lane.PAGES) == server.next_at(Lane.ADMISSIONS) == inf
    assert not server.is_met
    now = 3599.0
    assert not server.is_met
    while comes and server.has_requisites:
        for lease in await server.acquire(now, 1, Lane.REQUISITES):
            await server.release([(lease, crawl.outcome(lease))], now)
    now += 0.0 if comes else 2.0
    assert server.is_met
    await server.close()


def test_a_hub_sends_the_requisites_of_hosts_of_others() -> None:
    hubs = Crawl(hub=0), Crawl(hub=1)
    hubs[0].shows = {PAGE: ["http://cdn.test/a"]}
    hubs[0].put(PAGE)
    hubs[0].run()
    ((other, (first, _)),) = hubs[0].state.outbox.items()
    mail = unsent(hubs[0].state, other, first - 1, 1000)
    receive(hubs[other].state, 0, first, mail, 0.0)
    hubs[1].run()
    assert hubs[1].fetched == shown("http://cdn.test/a")
