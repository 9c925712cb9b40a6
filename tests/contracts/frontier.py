"""The frontier's interface in executable form: every implementation runs this mixin.

Time is a number that the tests pass in. `answer` gives a lease the outcome of a healthy world: the
host resolves to an address of its own, robots.txt allows all, pages are 200.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest

from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import (
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
    RobotsMoved,
    RobotsUnreachable,
    Step,
    Text,
    Unresolved,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.overview import Overview
from webcrawl.frontier.politeness import Politeness
from webcrawl.hub.client import ClientFrontier, RemoteFrontier
from webcrawl.hub.server import FrontierServer
from webcrawl.parse.robots import ALLOW_ALL, RobotsRules
from webcrawl.parse.sketch import sketch
from webcrawl.parse.urls import host_of
from webcrawl.scope import HostsAndPatterns
from webcrawl.warc.records import Original

FOREVER = 1e9
STATES = (
    *("idle", "ready", "parked", "snoozed", "waiting", "deferred", "leased"),
    "retired",  # beside its state
)
POLITE = Politeness(delay_s=10.0, ip_delay_s=1.0)

Close = Callable[[], Coroutine[Any, Any, None]]


def link(url: str, **fields: Any) -> Link:
    return Link(url, host_of(url), **fields)


def answer(lease: Lease, now: float, **overrides: Any) -> Outcome:
    """The outcome in a healthy world; `overrides` are fields of a page's outcome."""
    match lease.step:
        case Step.RESOLVE:
            return Resolved((f"ip of {lease.host}",), FOREVER)
        case Step.ROBOTS:
            return RobotsFetched(ALLOW_ALL, FOREVER, now, now)
        case _:
            return Fetched(**{"status": 200, "asked_at": now, "ended_at": now} | overrides)


async def near_duplicate_of(
    frontier: Frontier, name: str, pieces: range, *, is_leaf: bool = False
) -> str:
    """Ask for the page of a host, as its text has been read."""
    text = Text(sketch([b"piece %d" % n for n in pieces]), is_leaf)
    original = Original(f"http://{name}/", 1.0, "")
    return (await frontier.content_seen(name.encode(), original, text))[1]


class Driver:
    """Runs a frontier step by step, or to its end."""

    def __init__(self, frontier: Frontier) -> None:
        self.frontier = frontier
        self.now = 100.0
        self.asked: list[tuple[float, str]] = []  # when which URL was leased as HEAD or PAGE

    async def put(self, *urls: str, **fields: Any) -> int:
        return await self.frontier.put([link(url, **fields) for url in urls], self.now)

    async def leases(self, limit: int = 1000) -> list[Lease]:
        admissions = await self.frontier.acquire(self.now, limit, Lane.ADMISSIONS)
        return admissions + await self.frontier.acquire(self.now, limit)

    async def give_back(self, lease: Lease, outcome: Outcome) -> None:
        await self.frontier.release([(lease, outcome)], self.now)
        if isinstance(self.frontier, ClientFrontier):
            await self.frontier.close()  # waits until the release is carried out

    def wait(self) -> bool:
        """Let time pass until a host may be ready; False if no host ever will."""
        at = min(self.frontier.next_at(), self.frontier.next_at(Lane.ADMISSIONS))
        if at >= FOREVER:
            return False
        self.now = max(self.now, at)
        return True

    async def until(self, step: Step) -> Lease:
        """Answer as a healthy world until a lease of `step` comes; the lease."""
        for _ in range(1000):
            for lease in await self.leases(1):
                if lease.step is step:
                    return lease
                await self.give_back(lease, answer(lease, self.now))
            self.wait()
        raise AssertionError(f"no lease for {step}")

    async def fetch(self) -> Lease:
        """Go on until a page is answered; its lease."""
        lease = await self.until(Step.PAGE)
        await self.give_back(lease, answer(lease, self.now))
        return lease

    async def answer_all(self) -> None:
        """Answer what can be leased now, as a healthy world."""
        for lease in await self.leases():
            await self.give_back(lease, answer(lease, self.now))

    async def drain(
        self, of: Callable[[Lease], Outcome | None] = lambda lease: None
    ) -> list[Lease]:
        """Crawl to the end; all leases in their order. What has no outcome `of` is healthy."""
        leases = []
        while not self.frontier.is_finished():
            for lease in await self.leases():
                leases.append(lease)
                await self.give_back(lease, of(lease) or answer(lease, self.now))
            self.wait()
        return leases

    async def run(self, outcomes: dict[str, list[Outcome]] | None = None) -> list[str]:
        """Crawl to the end; the URLs of the pages in the order of their leases.

        `outcomes` has, by URL or host, its first outcomes; then it is healthy.
        """
        pages: list[str] = []
        for _ in range(10_000):
            if self.frontier.is_finished():
                return pages
            for lease in await self.leases(1):
                key = lease.url or lease.host
                planned = (outcomes or {}).get(key)
                outcome = planned.pop(0) if planned else answer(lease, self.now)
                if lease.step in (Step.PAGE, Step.HEAD):
                    pages.append(lease.url)
                    self.asked.append((self.now, lease.url))
                await self.give_back(lease, outcome)
            assert self.wait() or self.frontier.is_finished()
        raise AssertionError("it does not end")


def memory_frontier(policy: Policy | None = None, **more: Any) -> LocalFrontier:
    """A frontier without files."""
    return LocalFrontier(None, policy, in_memory=True, **more)


class FrontierContract:
    """Subclasses define `make`. `order` is the FRONTIER_ORDER of a test that names none."""

    order = "level"

    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        raise NotImplementedError

    def driver(self, *, order: str = "", **policy: Any) -> Driver:
        return Driver(self.make(Policy(**{"politeness": POLITE} | policy), order=order))

    # The way of one URL

    def test_a_new_frontier_is_finished_and_waits_for_ever(self) -> None:
        frontier = self.make()
        assert frontier.is_finished()
        assert frontier.next_at() == float("inf")

    async def test_answers_are_logged_when_their_leases_are_back(self) -> None:
        driver = self.driver(obey_robots=False)
        await driver.put("http://a/", "http://b/")
        first = await driver.until(Step.PAGE)
        leased_at, driver.now = driver.now, driver.now + 5.0
        second = await driver.until(Step.PAGE)
        assert await driver.frontier.logged_until(driver.now + 9.0) == leased_at
        await driver.give_back(first, answer(first, driver.now))
        assert leased_at < await driver.frontier.logged_until(driver.now + 9.0) <= driver.now
        await driver.give_back(second, Returned())
        assert await driver.frontier.logged_until(driver.now + 9.0) == driver.now + 9.0

    async def test_head_comes_before_get_each_on_the_hosts_clock(self) -> None:
        driver = self.driver(head_first=True)
        await driver.put("http://a/")
        await driver.run()
        (head_at, head), (get_at, get) = driver.asked
        assert head == get
        assert get_at - head_at >= 10

    async def test_a_head_that_is_not_wanted_ends_the_url(self) -> None:
        driver = self.driver(head_first=True)
        await driver.put("http://a/x.pdf")
        unwanted = Fetched(200, 100.0, 100.0, wanted=False)
        pages = await driver.run({"http://a/x.pdf": [unwanted]})
        assert (pages, driver.frontier.counters.crawled) == (["http://a/x.pdf"], 1)

    # Seen, caps, limits

    async def test_a_url_is_put_once(self) -> None:
        driver = self.driver()
        puts = [await driver.put("http://a/"), await driver.put("http://a/", "http://a/1")]
        assert (puts, await driver.run()) == ([1, 1], ["http://a/", "http://a/1"])

    async def test_force_puts_a_known_url_again(self) -> None:
        driver = self.driver()
        await driver.put("http://a/")
        await driver.frontier.put([link("http://a/")], driver.now, force=True)
        assert await driver.run() == ["http://a/", "http://a/"]

    @pytest.mark.parametrize(
        ("caps", "expected", "reason"),
        [
            (Caps(per_host=2), 4, "host_cap"),
            (Caps(per_domain=1), 1, "domain_cap"),
            (Caps(per_host=1, per_domain=2), 2, "host_cap"),
        ],
    )
    async def test_caps_count_urls(self, caps: Caps, expected: int, reason: str) -> None:
        driver = Driver(self.make(Policy(politeness=POLITE), caps=caps))
        for host in ("www.example.com", "example.com"):
            await driver.put(*(f"http://{host}/{n}" for n in range(3)))
        pages = len(await driver.run())
        counters = driver.frontier.counters
        assert pages == expected
        assert counters.dropped[reason] > 0
        assert counters.extracted == 6
        assert counters.host_passed == expected

    async def test_the_ip_cap_stands_before_robots(self) -> None:
        driver = Driver(self.make(Policy(politeness=POLITE), caps=Caps(per_ip=1)))
        await driver.put("http://a/", "http://b/", "http://c/", "http://a/2")
        shared = {host: [Resolved(("10.0.0.1",), FOREVER)] for host in "ab"}
        pages = await driver.run(dict(shared))
        counters = driver.frontier.counters
        assert pages == ["http://a/", "http://c/"]
        assert counters.ip_passed == 2
        assert counters.robots_attempted == 2, "the refused host's robots.txt is not asked for"
        assert counters.dropped["ip_cap"] == 2

    @pytest.mark.parametrize(("limit", "pages"), [(0, 3), (1, 2)])
    async def test_the_depth_limit(self, limit: int, pages: int) -> None:
        driver = self.driver(depth_max=limit)
        for depth in range(3):
            await driver.put(f"http://a/{depth}", depth=depth)
        assert len(await driver.run()) == pages
        assert await driver.put("http://a/2") == 3 - pages, "by another way it may come in"

    async def test_redirects_in_a_row_are_bounded(self) -> None:
        driver = self.driver(redirects_max=5)
        await driver.put("http://a/", redirects=6)
        await driver.put("http://a/b", redirects=5)
        assert await driver.run() == ["http://a/b"]

    # Orderings

    async def test_the_lowest_level_comes_first_and_a_level_is_first_in_first_out(self) -> None:
        driver = self.driver(order="level")
        urls = ["http://a/1/2", "http://a/1", "http://a/", "http://a/2", "http://a/0"]
        await driver.put(*urls)
        assert await driver.run() == [
            "http://a/", "http://a/1", "http://a/2", "http://a/0", "http://a/1/2",
        ]  # fmt: skip

    async def test_depth_is_breadth_first(self) -> None:
        driver = self.driver(order="depth")
        for depth in (2, 0, 1):
            await driver.put(f"http://a/{depth}", depth=depth)
        assert await driver.run() == ["http://a/0", "http://a/1", "http://a/2"]

    async def test_least_visited_takes_the_domain_with_the_fewest_pages(self) -> None:
        policy = Policy(politeness=Politeness(0.0, 0.0), obey_robots=False)
        driver, pages = Driver(self.make(policy, order="least-visited")), []
        await driver.put(*(f"http://{n}.a.com/" for n in range(3)), "http://b.com/")
        while leases := await driver.frontier.acquire(driver.now, 9, Lane.ADMISSIONS):
            for lease in leases:
                await driver.give_back(lease, answer(lease, driver.now))
        while leases := await driver.frontier.acquire(driver.now, 1):
            pages.append(leases[0].host)
            await driver.give_back(leases[0], answer(leases[0], driver.now))
        assert pages == ["0.a.com", "b.com", "1.a.com", "2.a.com"]

    async def test_hosts_with_wanted_pages_come_first_and_a_sample_of_pages_is_looked_at(
        self,
    ) -> None:
        polite = Politeness(0.0, 0.0)
        policy = Policy(politeness=polite, obey_robots=False, languages=frozenset({"por"}))
        driver, leases = Driver(self.make(policy, order="language")), []
        await driver.put(*(f"http://{host}/{n}" for host in "abc" for n in range(6)))
        while not driver.frontier.is_finished():
            lease = await driver.until(Step.PAGE)
            leases.append(lease)
            text = ("por" if lease.host == "b" else "eng") if lease.is_sampled else ""
            await driver.give_back(lease, answer(lease, driver.now, detected_language=text))
        pages = "".join(lease.host for lease in leases)
        assert pages.index("bbbb") < 4, pages
        sampled = [lease.is_sampled for lease in leases if lease.host == "b"]
        assert sampled == [True] * 3 + [False] * 3
        assert driver.frontier.counters.languages == {"por": 3, "eng": 6}

    async def test_a_better_link_moves_its_host_up(self) -> None:
        driver = self.driver(order="level", obey_robots=False)
        await driver.put("http://a/1/2", "http://b/1")
        await driver.answer_all()
        await driver.put("http://a/")
        assert [lease.url for lease in await driver.leases()] == ["http://a/", "http://b/1"]

    async def test_a_url_in_line_that_more_pages_link_to_comes_first(self) -> None:
        driver = self.driver(order="opic")
        await driver.put("http://a/1", "http://a/2")
        links = [link(f"http://a/{name}", depth=1) for name in ("x", "y", "z")]
        pages = await driver.run(
            {
                "http://a/1": [Fetched(200, 100.0, 100.0, tuple(links))],
                "http://a/2": [Fetched(200, 100.0, 100.0, (links[1],))],
            }
        )
        assert [url[9:] for url in pages] == ["1", "2", "y", "x", "z"]

    async def test_a_returned_lease_has_the_cash_that_came_while_it_was_out(self) -> None:
        driver = self.driver(order="opic", obey_robots=False)
        await driver.put("http://a/1", "http://b/")
        await driver.answer_all()
        a, b = await driver.leases()
        links = (link("http://a/2", depth=1), link("http://a/1"), link("http://a/2", depth=1))
        await driver.give_back(b, answer(b, driver.now, links=links))
        await driver.give_back(a, Returned())
        assert await driver.run() == ["http://a/1", "http://a/2"]

    # Clocks and leases

    @pytest.mark.parametrize(
        ("asked_s", "ended_s", "wait_s"),
        [(3, 5, 13), (3, 50, 50), (None, 5, 5)],
        ids=["from the first byte", "never before the end", "no request reached the server"],
    )
    async def test_the_delay_counts_from_the_answers_first_byte(
        self, asked_s: float | None, ended_s: float, wait_s: float
    ) -> None:
        driver = self.driver(retry_times=0)
        await driver.put("http://a/1", "http://a/2")
        lease, at = await driver.until(Step.PAGE), driver.now
        failed = Failed("connect", 0.0, at + ended_s)
        answered = Fetched(200, at + (asked_s or 0), at + ended_s)
        await driver.give_back(lease, failed if asked_s is None else answered)
        driver.now = at + wait_s - 0.001
        assert await driver.leases() == []
        driver.now = at + wait_s
        assert [lease.url for lease in await driver.leases()] == ["http://a/2"]

    async def test_hosts_of_one_address_take_turns(self) -> None:
        driver = self.driver(obey_robots=False)
        await driver.put("http://a/", "http://b/", "http://c/")
        shared = {host: [Resolved(("10.0.0.1",), FOREVER)] for host in "abc"}
        await driver.run(dict(shared))  # type: ignore[arg-type]
        times = [at for at, _ in driver.asked]
        assert [b - a for a, b in itertools.pairwise(times)] == [1.0, 1.0]

    async def test_a_crawl_delay_above_ours_wins_up_to_the_maximum(self) -> None:
        async def check(crawl_delay: str) -> float:
            driver = self.driver()
            await driver.put("http://a/1", "http://a/2")
            rules = RobotsRules.parse(f"user-agent: *\ncrawl-delay: {crawl_delay}".encode(), "x")
            lease = await driver.until(Step.ROBOTS)
            at = driver.now
            await driver.give_back(lease, RobotsFetched(rules, FOREVER, at, at))
            await driver.until(Step.PAGE)
            return driver.now - at

        assert await check("25") == 25.0
        assert await check("3") == 10.0
        assert await check("100000") == POLITE.crawl_delay_max_s

    async def test_the_adaptive_delay_follows_the_first_byte_and_429(self) -> None:
        async def check(*answers: tuple[int, float]) -> float:
            polite = Politeness(
                delay_s=10.0, ip_delay_s=1.0, delay_factor=5.0, crawl_delay_max_s=50.0
            )
            driver = self.driver(politeness=polite, retry_times=0, retry_codes=frozenset())
            await driver.put(*(f"http://a/{number}" for number in range(len(answers) + 1)))
            for status, first_byte_s in answers:
                lease = await driver.until(Step.PAGE)
                at = driver.now
                await driver.give_back(lease, Fetched(status, at, at, first_byte_s=first_byte_s))
            await driver.until(Step.PAGE)
            return driver.now - at

        assert await check((200, 1.0)) == 10.0, "never below the host's own delay"
        assert await check((200, 4.0)) == 20.0
        assert await check((200, 4.0), (404, 8.0)) == 25.0, "smoothed"
        assert await check((200, 4.0), (503, 0.1)) == 40.0
        assert await check((429, 0.1), (200, 3.0)) == 30.0
        assert await check((429, 0.1), (429, 0.1), (429, 0.1), (429, 0.1)) == 50.0
        assert await check((429, 0.1), *[(200, 0.0)] * 9) == 20.0
        assert await check((429, 0.1), *[(200, 0.0)] * 10) == 10.0
        assert await check((200, 1000.0)) == 50.0

    async def test_the_first_byte_of_robots_txt_counts_until_a_page_is_answered(self) -> None:
        polite = Politeness(delay_s=10.0, ip_delay_s=1.0, delay_factor=5.0)
        driver = self.driver(politeness=polite)
        await driver.put("http://a/1", "http://a/2")
        robots = await driver.until(Step.ROBOTS)
        waits, at = [], driver.now
        answered = RobotsFetched(ALLOW_ALL, FOREVER, at, at, status=200, first_byte_s=8.0)
        await driver.give_back(robots, answered)
        page = await driver.until(Step.PAGE)
        waits.append(driver.now - at)
        at = driver.now
        await driver.give_back(page, Fetched(200, at, at, first_byte_s=3.0))
        await driver.until(Step.PAGE)
        assert [*waits, driver.now - at] == [40.0, 15.0]

    async def test_a_returned_lease_comes_back_first_and_costs_no_delay(self) -> None:
        driver = self.driver()
        await driver.put("http://a/1", "http://a/2")
        lease = await driver.until(Step.PAGE)
        await driver.give_back(lease, Returned())
        (again,) = await driver.leases()
        assert again.url == lease.url

    # robots.txt

    async def test_a_url_that_robots_txt_disallows_is_dropped(self) -> None:
        driver = self.driver()
        await driver.put("http://a/private/x", "http://a/public")
        rules = RobotsRules.parse(b"user-agent: *\ndisallow: /private", "x")
        robots = RobotsFetched(rules, FOREVER, 100.0, 100.0)
        pages = await driver.run({"http://a/robots.txt": [robots]})
        counters = driver.frontier.counters
        assert pages == ["http://a/public"]
        assert counters.dropped == {"robots": 1}
        assert (counters.ip_passed, counters.robots_passed) == (2, 1)

    async def test_a_refused_request_of_a_user_is_leased_so_that_its_errback_is_called(
        self,
    ) -> None:
        driver = self.driver()
        await driver.put("http://a/private", "http://gone/", payload=b"a Request")
        rules = RobotsRules.parse(b"user-agent: *\ndisallow: /private", "x")
        plan: dict[str, Outcome] = {
            "http://a/robots.txt": RobotsFetched(rules, FOREVER, 100.0, 100.0),
            "gone": Unresolved("dns", again=False),
        }

        def outcome_of(lease: Lease) -> Outcome | None:
            is_page = lease.step is Step.PAGE
            return Dropped(lease.refused) if is_page else plan.get(lease.url or lease.host)

        leases = await driver.drain(outcome_of)
        counters = driver.frontier.counters
        assert {lease.url: lease.refused for lease in leases if lease.step is Step.PAGE} == {
            "http://a/private": "robots",
            "http://gone/": "dns",
        }
        assert counters.dropped == {"robots": 1, "dns": 1}
        assert (counters.extracted, counters.robots_passed, counters.pending) == (2, 0, 0)

    async def test_a_robots_txt_that_moved_to_another_host_obeys_the_clock_of_that_host(
        self,
    ) -> None:
        driver = self.driver()
        await driver.put("http://a/", "http://b/1")
        moved = RobotsMoved("http://b/robots.txt", "b", 100.0, 100.0)
        pages = await driver.run({"http://a/robots.txt": [moved]})
        now = driver.now
        assert sorted(pages) == ["http://a/", "http://b/1"]
        assert now >= 120.0, "b is asked for two robots.txt and a page, 10 s apart"

    async def test_two_hosts_whose_robots_txt_redirect_to_each_other_do_not_deadlock(self) -> None:
        driver = self.driver()
        await driver.put("http://a/", "http://b/")
        plan: dict[str, list[Outcome]] = {
            f"http://{one}/robots.txt": [RobotsMoved(f"http://{other}/r", other, 100.0, 100.0)]
            for one, other in ("ab", "ba")
        }
        assert sorted(await driver.run(plan)) == ["http://a/", "http://b/"]

    async def test_a_robots_txt_on_a_host_that_is_given_up_is_unreachable(self) -> None:
        driver = self.driver()
        await driver.put("http://a/", "http://c/")
        moved = RobotsMoved("http://b/robots.txt", "b", 100.0, 100.0)
        gone = Unresolved("dns", again=False)
        assert await driver.run({"http://a/robots.txt": [moved], "b": [gone]}) == ["http://c/"]
        assert driver.frontier.counters.kept == {"robots_unreachable": 1}

    async def test_an_unreachable_robots_txt_is_retried_and_then_disallows_all(self) -> None:
        async def check(failures: int) -> tuple[list[str], Any]:
            driver = self.driver()
            await driver.put("http://a/")
            lost: list[Outcome] = [RobotsUnreachable("5xx", 100.0, 100.0) for _ in range(failures)]
            return await driver.run({"http://a/robots.txt": lost}), driver.frontier.counters

        assert (await check(2))[0] == ["http://a/"]
        pages, counters = await check(3)
        assert pages == []
        assert counters.dropped == {}
        assert counters.kept == {"robots_unreachable": 1}
        assert (counters.robots_attempted, counters.pending) == (1, 1)

    async def test_links_that_an_unreachable_robots_txt_refuses_do_not_wait_for_its_next_try(
        self,
    ) -> None:
        driver = self.driver(retry_times=1)
        await driver.put("http://a/")
        lost: list[Outcome] = [RobotsUnreachable("5xx", 100.0, 100.0) for _ in range(2)]
        assert await driver.run({"http://a/robots.txt": lost}) == []
        assert driver.now == 110.0  # of the second try

    async def test_robots_txt_is_fetched_again_when_it_expires(self) -> None:
        driver = self.driver()
        await driver.put("http://a/1", "http://a/2")
        lease = await driver.until(Step.ROBOTS)
        soon = driver.now + 15
        await driver.give_back(lease, RobotsFetched(ALLOW_ALL, soon, driver.now, driver.now))
        await driver.run()
        assert driver.frontier.counters.robots_attempted == 2

    async def test_expired_rules_hold_while_new_ones_are_unreachable(self) -> None:
        driver = self.driver(retry_times=0)
        await driver.put("http://a/1", "http://a/2", "http://a/private")
        lease = await driver.until(Step.ROBOTS)
        rules = RobotsRules.parse(b"user-agent: *\ndisallow: /private", "x")
        soon = driver.now + 15
        await driver.give_back(lease, RobotsFetched(rules, soon, driver.now, driver.now))
        assert await driver.run({"http://a/robots.txt": [RobotsUnreachable("5xx", 1.0, 1.0)]}) == [
            "http://a/1",
            "http://a/2",
        ]

    # DNS

    async def test_a_name_without_an_address_drops_its_urls(self) -> None:
        driver = self.driver()
        await driver.put("http://a/1", "http://a/2", "http://b/")
        pages = await driver.run({"a": [Unresolved("dns", again=False)]})
        await driver.put("http://a/3")
        pages, counters = pages + await driver.run(), driver.frontier.counters
        assert pages == ["http://b/"]
        assert counters.dropped == {"dns": 3}
        assert (counters.extracted, counters.host_passed, counters.ip_passed) == (4, 4, 1)
        assert (counters.lookups, counters.resolved) == (2, 1)

    async def test_a_look_up_that_may_succeed_later_is_retried(self) -> None:
        async def check(failures: int) -> list[tuple[Step, float]]:
            driver, leased = self.driver(), []
            await driver.put("http://a/")

            def outcome_of(lease: Lease) -> Outcome | None:
                leased.append((lease.step, driver.now))
                return Unresolved("dns", again=True) if len(leased) <= failures else None

            await driver.drain(outcome_of)
            assert driver.frontier.counters.retried == {"dns": 2}
            return leased

        tries = [(Step.RESOLVE, 100.0), (Step.RESOLVE, 101.0), (Step.RESOLVE, 103.0)]
        assert await check(2) == [*tries, (Step.ROBOTS, 103.0), (Step.PAGE, 113.0)]
        assert await check(3) == tries

    async def test_a_name_without_an_address_is_looked_up_again_for_links_of_a_later_time(
        self,
    ) -> None:
        driver = self.driver(obey_robots=False)
        await driver.put("http://a/")
        assert await driver.run({"a": [Unresolved("blocked_address", again=False)]}) == []
        driver.now += Policy().retired_s
        await driver.put("http://a/1")
        assert await driver.run() == ["http://a/1"]

    async def test_an_old_address_holds_while_a_new_one_cannot_be_had(self) -> None:
        driver = self.driver(obey_robots=False, retry_times=0)
        await driver.put("http://a/1", "http://a/2")
        found = [Resolved(("10.0.0.1",), 105.0), Unresolved("dns", again=True)]
        leases = await driver.drain(
            lambda lease: found.pop(0) if lease.step is Step.RESOLVE else None
        )
        steps = [lease.step for lease in leases]
        assert steps == [Step.RESOLVE, Step.PAGE, Step.RESOLVE, Step.PAGE], "not looked up again"

    # Outcomes

    @pytest.mark.parametrize(
        "outcome", [Failed("reset", 100.0, 100.0), Fetched(503, 100.0, 100.0)], ids=repr
    )
    async def test_a_failure_that_may_pass_is_retried(self, outcome: Outcome) -> None:
        async def check(failures: int) -> tuple[int, Any]:
            driver = self.driver()
            await driver.put("http://a/")
            pages = await driver.run({"http://a/": [outcome] * failures})
            return len(pages), driver.frontier.counters

        tries, counters = await check(1)
        assert (tries, counters.crawled, counters.codes["2xx"]) == (2, 1, 1)
        assert (await check(9))[0] == 3, "the first try and RETRY_TIMES more"
        assert counters.extracted == counters.robots_passed == 1, "a URL is counted once"

    async def test_a_failure_that_will_not_pass_is_not_retried(self) -> None:
        driver = self.driver()
        await driver.put("http://a/")
        assert await driver.run({"http://a/": [Failed("header_too_large", 100.0, 100.0)]}) == [
            "http://a/"
        ]

    async def test_a_retry_after_beyond_the_maximum_ends_the_url(self) -> None:
        async def check(retry_after_s: float) -> tuple[int, float]:
            driver = self.driver()
            await driver.put("http://a/", "http://a/2")
            busy = Fetched(429, 100.0, 100.0, retry_after_s=retry_after_s)
            return len(await driver.run({"http://a/": [busy]})), driver.now

        assert (await check(1e9))[0] == 2
        tries, now = await check(100.0)
        assert tries == 3
        assert now >= 200.0, "the host is left alone for as long as it asked"

    async def test_a_dropped_url_is_not_leased_again(self) -> None:
        driver = self.driver()
        await driver.put("http://a/")
        pages = await driver.run({"http://a/": [Dropped("middleware")]})
        counters = driver.frontier.counters
        assert pages == ["http://a/"]
        assert counters.dropped == {"middleware": 1}
        assert counters.crawled == 0

    async def test_a_host_that_never_answers_is_retired_for_a_while(self) -> None:
        driver = self.driver(obey_robots=False, failures_max=4, retry_times=0)
        urls = [f"http://a/{n}" for n in range(10)]
        await driver.put(*urls)
        dead: dict[str, list[Outcome]] = {url: [Failed("connect", 0.0, 100.0)] for url in urls}
        tries = len(await driver.run(dead))
        counters = driver.frontier.counters
        assert tries == 4
        assert counters.dropped == {}
        assert counters.kept == {"connect": 4, "host_retired": 6}

    async def test_an_answer_ends_the_failures_of_a_host(self) -> None:
        driver, times = self.driver(obey_robots=False, failures_max=2, retry_times=0), []
        await driver.put(*(f"http://a/{n}" for n in range(6)), "http://b/")

        def outcome_of(lease: Lease) -> Outcome | None:
            if lease.host != "a" or lease.step is Step.RESOLVE:
                return None
            times.append(driver.now)
            return Failed("reset", driver.now, driver.now) if len(times) % 2 else None

        await driver.drain(outcome_of)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert gaps[:5] == [10.0] * 5, "it was not given up"

    async def test_bot_walls_in_a_row_wait_longer_and_then_defer_the_host(self) -> None:
        driver, times = self.driver(obey_robots=False, failures_max=3), []
        await driver.put(*(f"http://a/{n}" for n in range(4)))

        def outcome_of(lease: Lease) -> Outcome | None:
            times.append(driver.now)
            return answer(lease, driver.now, wall="cloudflare")

        await driver.drain(outcome_of)
        assert times == [100.0, 100.0, 110.0, 130.0]
        assert driver.frontier.counters.kept == {"host_retired": 1}

    async def test_a_back_off_doubles_up_to_its_limit(self) -> None:
        driver, times = self.driver(obey_robots=False, retry_times=8), []
        await driver.put("http://a/")

        def outcome_of(lease: Lease) -> Outcome | None:
            times.append(driver.now)
            return answer(lease, driver.now, status=503)

        await driver.drain(outcome_of)
        gaps = [later - earlier for earlier, later in itertools.pairwise(times[1:])]
        assert gaps == [10, 20, 40, 80, 160, 300, 300, 300]

    async def test_the_next_address_is_tried_after_a_failure(self) -> None:
        driver, addresses = self.driver(obey_robots=False), []
        await driver.put("http://a/")
        resolve = await driver.until(Step.RESOLVE)
        await driver.give_back(resolve, Resolved(("10.0.0.1", "10.0.0.2"), FOREVER))
        for _ in range(2):
            lease = await driver.until(Step.PAGE)
            addresses.append(lease.address)
            await driver.give_back(lease, Failed("connect", 0.0, driver.now))
        assert addresses == ["10.0.0.1", "10.0.0.2"]

    async def test_a_failure_whose_errback_was_called_is_final(self) -> None:
        driver = self.driver(obey_robots=False)
        await driver.put("http://a/")
        plan: dict[str, list[Outcome]] = {
            "a": [Resolved(("10.0.0.1", "10.0.0.2"), FOREVER)],
            "http://a/": [Failed("connect", 0.0, 100.0, final=True)],
        }
        pages = await driver.run(plan)
        counters = driver.frontier.counters
        assert pages == ["http://a/"]
        assert counters.dropped == {"connect": 1}

    async def test_every_address_is_tried_before_a_host_counts_as_dead(self) -> None:
        driver = self.driver()
        await driver.put("http://a/")
        addresses = ("10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5")
        dead: list[Outcome] = [RobotsUnreachable("connect", 0.0, 100.0)] * 4
        plan: dict[str, list[Outcome]] = {
            "a": [Resolved(addresses, FOREVER)],
            "http://a/robots.txt": dead,
        }
        pages = await driver.run(plan)
        counters = driver.frontier.counters
        assert pages == ["http://a/"]
        assert counters.robots == {"2xx": 1}

    async def test_a_second_address_counts_for_the_ip_cap(self) -> None:
        policy = Policy(politeness=POLITE, obey_robots=False)
        driver = Driver(self.make(policy, caps=Caps(per_ip=1)))
        await driver.put("http://a/", "http://b/")
        plan = {"a": ("10.0.0.1",), "b": ("10.0.0.2", "10.0.0.1")}
        for lease in await driver.leases():
            await driver.give_back(lease, Resolved(plan[lease.host], FOREVER))
        failures = [Failed("reset", driver.now, driver.now)] * 2
        leases = await driver.drain(
            lambda lease: failures.pop() if lease.host == "b" and failures else None
        )
        assert [lease.address for lease in leases].count("10.0.0.1") == 1

    async def test_hosts_of_one_address_come_up_by_their_best_link(self) -> None:
        driver = self.driver(order="level")
        hosts = "cabdfe"
        await driver.put(*(f"http://{host}/{'x/' * ord(host)}"[: 10 + 2 * (ord(host) - 97)]
                           for host in hosts))  # fmt: skip
        shared = {host: [Resolved(("10.0.0.1",), FOREVER)] for host in hosts}
        assert [url[7] for url in await driver.run(dict(shared))] == list("abcdef")  # type: ignore[arg-type]

    async def test_the_retry_after_of_a_robots_txt_holds_after_the_last_try_too(self) -> None:
        driver = self.driver(retry_times=0)
        await driver.put("http://a/", "https://a/")
        lease = await driver.until(Step.ROBOTS)
        at = driver.now
        busy = RobotsUnreachable("5xx", at, at, retry_after_s=60)
        await driver.give_back(lease, busy)
        await driver.until(Step.ROBOTS)
        assert (driver.now - at) >= 60

    # What may pass: kept for a later try

    async def test_a_kept_url_is_tried_beside_other_work(self) -> None:
        driver = self.driver(obey_robots=False, retry_times=0)
        others = [f"http://b/{n}" for n in range(40)]
        await driver.put("http://a/", *others)
        failures: list[Outcome] = [Failed("timeout", 0.0, at) for at in (100.0, 115.0, 180.0)]
        await driver.run({"http://a/": failures})
        times = [at for at, url in driver.asked if url == "http://a/"]
        counters = driver.frontier.counters
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert [14 < gap < 30 for gap in gaps[:1]] == [True]
        assert gaps == sorted(gaps), "each wait is longer than the last"
        assert len(times) == 4
        assert (counters.crawled, counters.kept.total(), counters.pending) == (41, 0, 0)

    async def test_a_crawl_ends_when_only_kept_urls_are_left(self) -> None:
        driver = self.driver(obey_robots=False, retry_times=0)
        await driver.put("http://a/", "http://b/")
        await driver.run({"http://a/": [Failed("reset", 100.0, 100.0)]})
        at = driver.now
        assert await driver.leases() == []
        counters = driver.frontier.counters
        assert at < 115, "it does not wait for the next try"
        assert counters.kept == {"reset": 1}
        assert (counters.pending, counters.crawled) == (1, 1)

    async def test_kept_urls_are_tried_again_when_new_work_comes(self) -> None:
        driver = self.driver(obey_robots=False, retry_times=0)
        await driver.put("http://a/")
        await driver.run({"http://a/": [Failed("reset", 100.0, 100.0)]})
        driver.now += 100
        await driver.put("http://b/1", "http://b/2")
        assert sorted(await driver.run()) == ["http://a/", "http://b/1", "http://b/2"]

    async def test_a_name_that_cannot_be_resolved_for_now_is_looked_up_once_per_retirement(
        self,
    ) -> None:
        driver = self.driver(obey_robots=False, retry_times=1)
        await driver.put("http://a/", *(f"http://b/{n}" for n in range(50)))
        leases = await driver.drain(
            lambda lease: Unresolved("dns", again=True) if lease.host == "a" else None
        )
        counters = driver.frontier.counters
        assert [lease.host for lease in leases].count("a") == 5, (
            "two at once, then after 15 s, a minute and four minutes"
        )
        assert (counters.kept, counters.dropped) == ({"dns": 1}, {})
        assert (counters.lookups, counters.extracted, counters.ip_passed) == (2, 51, 50)

    async def test_all_kept_urls_of_a_host_are_fetched_once_it_answers_again(self) -> None:
        driver = self.driver(obey_robots=False, failures_max=2, retry_times=0)
        dead = [f"http://a/{n}" for n in range(6)]
        await driver.put(*dead, *(f"http://b/{n}" for n in range(60)))
        failed: dict[str, list[Outcome]] = {url: [Failed("connect", 0.0, 100.0)] for url in dead}
        pages = await driver.run(failed)
        counters = driver.frontier.counters
        assert {f"http://a/{n}" for n in range(6)} <= set(pages)
        assert (counters.crawled, counters.kept.total(), counters.pending) == (66, 0, 0)

    async def test_a_kept_url_counts_once_for_the_ip_cap(self) -> None:
        driver = Driver(self.make(Policy(politeness=POLITE, retry_times=0), caps=Caps(per_ip=1)))
        await driver.put("http://a/", *(f"http://h{n}/" for n in range(9)))
        lost: list[Outcome] = [RobotsUnreachable("timeout", 100.0, 100.0)]
        pages = await driver.run({"http://a/robots.txt": lost})
        driver.now += 100
        await driver.put("http://z/")
        pages, counters = pages + await driver.run(), driver.frontier.counters
        # A frontier with hardly any place for hosts may not come to it before the other work ends.
        assert counters.kept.total() == ("http://a/" not in pages)
        assert counters.dropped == {}
        assert counters.ip_passed == 11

    async def test_of_several_copies_the_one_sent_in_the_same_bytes_is_named(self) -> None:
        frontier = self.make()
        forms = (("a", "A"), ("b", "B"), ("c", "B"), ("d", "A"))
        found = [
            await frontier.content_seen(
                b"x", Original(f"http://{name}/", 1.0, f"sha1:{digest}"), None
            )
            for name, digest in forms
        ]
        named = [each and each.url for each, _ in found]
        assert named == [None, "http://a/", "http://b/", "http://a/"]

    async def test_a_page_is_near_the_first_one_with_nearly_its_text(self) -> None:
        """Not near itself, and not near a page whose links nobody follows."""
        near = partial(near_duplicate_of, self.make())
        assert await near("leaf", range(100), is_leaf=True) == ""
        assert await near("a", range(100)) == ""
        assert await near("other", range(60, 160)) == ""  # a quarter of both is the same
        assert await near("b", range(10, 110)) == "http://a/"
        assert await near("leaf", range(90), is_leaf=True) == "http://a/"
        assert await near("a", range(95)) == ""
        assert await near("c", range(70, 165)) == "http://other/"

    # What a reader sees

    async def test_the_overview_counts_each_host_once(self) -> None:
        driver, seen = self.driver(obey_robots=False), []

        async def look() -> None:
            seen.append(await driver.frontier.local.overview(driver.now, 2))

        await look()
        await driver.put("http://a/1", "http://a/2", "http://b/1", "http://c/1")
        await driver.put(*(f"http://b/{n}" for n in range(2, 5)))
        await look()
        await driver.run({"c": [Unresolved("dns", again=False)]})
        await look()
        before, queued, done = seen
        assert before.hosts == dict.fromkeys(STATES, 0)
        assert (before.largest, before.slowest) == ([], [])
        placed = ("ready", "snoozed", "waiting")  # a small workbench has no place for each
        assert sum(queued.hosts[state] for state in placed) == 3
        assert sum(queued.hosts.values()) == 3
        largest = [(host.host, host.urls) for host in queued.largest]
        everyone = queued.hosts["waiting"] == 0
        assert largest == [("b", 4), ("a", 2)] if everyone else len(largest) <= 2
        assert done.hosts["idle"] == 3
        assert sum(done.hosts.values()) == 3 + done.hosts["retired"]
        assert done.largest == []

    async def test_the_slowest_hosts_come_first(self) -> None:
        driver = self.driver(obey_robots=False)
        seconds = {"a": 0.5, "b": 4.0, "c": 2.0}
        await driver.put(*(f"http://{name}/" for name in seconds))
        await driver.drain(lambda lease: answer(lease, driver.now, took_s=seconds[lease.host]))
        overview: Overview = await driver.frontier.local.overview(driver.now, 2)
        assert [(h.host, h.mean_ms) for h in overview.slowest] == [("b", 4000), ("c", 2000)]

    async def test_urls_are_counted_by_level(self) -> None:
        driver = Driver(
            self.make(Policy(politeness=POLITE, obey_robots=False), caps=Caps(per_host=3))
        )
        await driver.put("http://a/", "http://a/x", "http://a/x/", "http://a/x/y?z=/1/2")
        await driver.put("http://a/", "http://b//x//" + "/".join("wwwwwwwwwwww"))
        before = dict(driver.frontier.counters.levels)
        await driver.run()
        after = driver.frontier.counters.levels
        found = {"found/1": 1, "found/2": 2, "found/3": 1, "found/10": 1}
        assert before == found | {"ended/3": 1}, "the cap has dropped one"
        assert after == found | {name.replace("found", "ended"): n for name, n in found.items()}

    # URLs that are denied while they wait (SCOPE_DENY, and `scrapy ctl deny`)

    async def test_a_denied_url_is_dropped_and_its_host_is_not_asked(self) -> None:
        denied = HostsAndPatterns()
        driver = self.driver(denied=denied)
        await driver.put("http://a/1", "http://a/2", "http://b/1", "http://b/2")
        denied.add(["a", "re:2$"], "deny")
        leases = await driver.drain()
        counters = driver.frontier.counters
        assert [lease.url or lease.host for lease in leases] == [
            "b",
            "http://b/robots.txt",
            "http://b/1",
        ]
        assert counters.dropped == {"scope_deny": 3}
        assert (counters.pending, counters.extracted, counters.crawled) == (0, 4, 1)

    @pytest.mark.parametrize("step", [Step.RESOLVE, Step.ROBOTS, Step.HEAD, Step.PAGE])
    async def test_a_lease_of_a_denied_url_that_comes_back_is_not_leased_again(
        self, step: Step
    ) -> None:
        denied = HostsAndPatterns()
        driver = self.driver(denied=denied, head_first=True)
        await driver.put("http://a/1", "http://a/2")
        lease = await driver.until(step)
        denied.add(["a"], "deny")
        await driver.give_back(lease, Returned())
        pages = await driver.run()
        counters = driver.frontier.counters
        assert pages == []
        assert counters.dropped == {"scope_deny": 2}
        assert counters.pending == 0

    async def test_a_robots_txt_that_moved_to_a_denied_host_is_unreachable(self) -> None:
        driver = self.driver(denied=HostsAndPatterns(["b"], "deny"))
        await driver.put("http://a/", "http://c/")
        moved: list[Outcome] = [RobotsMoved("http://b/robots.txt", "b", 100.0, 100.0)]
        pages = await driver.run({"http://a/robots.txt": moved * 9})
        counters = driver.frontier.counters
        assert pages == ["http://c/"]
        assert counters.kept == {"robots_unreachable": 1}

    async def test_a_denied_request_of_a_user_is_leased_so_that_its_errback_is_called(self) -> None:
        driver = self.driver(denied=HostsAndPatterns(["a"], "deny"))
        await driver.put("http://a/", payload=b"a Request")
        assert [(lease.step, lease.refused) for lease in (await driver.leases())] == [
            (Step.PAGE, "scope_deny")
        ]

    async def test_a_host_with_many_denied_urls_delays_no_other_host(self) -> None:
        denied = HostsAndPatterns()
        driver = self.driver(obey_robots=False, denied=denied)
        await driver.put(*(f"http://a/{n}" for n in range(2_000)), "http://b/deep/1")
        denied.add(["a"], "deny")
        lease = await driver.until(Step.PAGE)
        left = driver.frontier.counters.pending
        await driver.give_back(lease, answer(lease, driver.now))
        assert await driver.run() == []
        counters = driver.frontier.counters
        assert left > 1_000
        assert counters.dropped == {"scope_deny": 2_000}


class RemoteContract(FrontierContract):
    """For a frontier in another process: subclasses define `connect`."""

    # It asks before it knows.
    test_a_new_frontier_is_finished_and_waits_for_ever = None

    def connect(self, server: FrontierServer) -> tuple[ClientFrontier, Close]:
        """A frontier that `server` serves, and what closes it."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def closing(self) -> None:
        self._closing: list[Close] = []  # of the frontiers made

    async def aclose(self) -> None:
        while self._closing:
            await self._closing.pop()()

    def make(
        self, policy: Policy | None = None, *, order: str = "", caps: Caps | None = None
    ) -> Frontier:
        frontier = memory_frontier(policy, ordering=ORDERINGS[order or self.order](), caps=caps)
        remote, close = self.connect(FrontierServer(frontier))
        # Those of the crawl, for the contract to see.
        remote.counters, remote.local = frontier.counters, frontier
        if isinstance(remote, RemoteFrontier):
            remote._changes = dict  # type: ignore[method-assign]  # and nothing is added
        self._closing.append(close)
        return remote
