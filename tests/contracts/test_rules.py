"""Rules by host, and budgets of bytes: what each frontier does with them, also when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.frontier import FOREVER, POLITE, Driver, answer, memory_frontier
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import ACTIVE_HOSTS_MAX, LocalFrontier
from webcrawl.frontier.lease import (
    Failed,
    Lease,
    Outcome,
    RobotsFetched,
    RobotsMoved,
    RobotsUnreachable,
    Step,
)
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.hub.server import FrontierServer
from webcrawl.parse.robots import RobotsRules
from webcrawl.scope.hostrules import HostRule, HostRules, Values

Make = Callable[..., Driver]


def for_host(host: str, **values: Any) -> HostRule:
    return HostRule(line=1, hosts=(host,), values=Values(**values))


@pytest.fixture(params=["small disk", "served"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a frontier with rules; the same again on disk resumes it."""
    made: list[LocalFrontier] = []

    def driver(*rules: HostRule, order: str = "level", now: float = 0.0, **policy: Any) -> Driver:
        held = HostRules(rules)
        chosen = Policy(**{"politeness": POLITE, "rules": held} | policy)
        caps, ordering = Caps(rules=held), ORDERINGS[order]()
        disk = LocalFrontier(
            tmp_path / "job",
            chosen,
            ordering=ordering,
            caps=caps,
            active_max=2 if request.param == "small disk" else ACTIVE_HOSTS_MAX,
            identity={"FRONTIER_ORDER": order},
            now=now,
        )
        made.append(disk)
        return Driver(FrontierServer(disk) if request.param == "served" else disk)

    yield driver
    for each in made:
        if not each._executor.is_busy:
            each._do(each._store.close)


async def change(driver: Driver, *rules: HostRule) -> None:
    await driver.frontier.set_rules(rules, driver.now)


def gaps(driver: Driver, host: str) -> list[float]:
    times = [at for at, url in driver.asked if f"//{host}/" in url]
    return [round(later - at, 4) for at, later in pairwise(times)]


async def test_a_longer_delay_holds_at_once_and_a_shorter_one_after_the_next_request(
    make: Make,
) -> None:
    driver = make()
    await driver.put(*(f"http://{host}/{n}" for host in "ab" for n in range(3)))
    for _ in "ab":
        lease = await driver.until(Step.PAGE)
        driver.asked.append((driver.now, lease.url))
        await driver.give_back(lease, answer(lease, driver.now))
    await change(driver, for_host("a", delay_s=40.0), for_host("b", delay_s=1.0))
    await driver.run()
    assert {host: gaps(driver, host) for host in "ab"} == {"a": [40.0, 40.0], "b": [10.0, 1.0]}


async def test_urls_in_line_obey_a_new_denial_and_are_counted(make: Make) -> None:
    driver = make()
    await driver.put(*(f"http://{host}/{n}" for host in "abc" for n in range(3)))
    await change(driver, for_host("a", deny=True), for_host("b", deny=("/1$", "/0$")))
    pages = await driver.run()
    assert sorted(pages) == ["http://b/2", "http://c/0", "http://c/1", "http://c/2"]
    counters = driver.frontier.counters
    assert counters.dropped == {"deny": 5}
    assert (counters.extracted, counters.crawled, counters.pending) == (9, 4, 0)


async def test_a_denied_link_comes_in_once_the_rule_is_gone(make: Make) -> None:
    driver = make(for_host("a", deny=True))
    refused = await driver.put("http://a/")
    await change(driver)
    assert [refused, await driver.put("http://a/"), *await driver.run()] == [0, 1, "http://a/"]


async def test_a_host_that_is_denied_while_it_waits_to_serve_a_robots_txt(make: Make) -> None:
    driver = make(retry_times=0)
    await driver.put("http://a/", "http://b/")
    moved = RobotsMoved("http://b/robots.txt", "b", 100.0, 100.0)
    for _ in range(2):
        for lease in await driver.leases():
            own = lease.url == "http://a/robots.txt"
            await driver.give_back(lease, moved if own else answer(lease, driver.now))
        driver.wait()
    await change(driver, for_host("b", deny=True))
    assert await driver.run() == []
    counters = driver.frontier.counters
    assert (dict(counters.kept), counters.dropped["deny"]) == ({"robots_unreachable": 1}, 1)


async def test_a_denial_during_a_request_ends_its_retries(make: Make) -> None:
    driver = make()
    await driver.put("http://a/", "http://b/")
    lease = await driver.until(Step.ROBOTS)
    await change(driver, for_host(lease.host, deny=True))
    await driver.give_back(lease, RobotsUnreachable("timeout", driver.now, driver.now))
    assert [url[7] for url in await driver.run()] == ["b" if lease.host == "a" else "a"]
    assert driver.frontier.counters.dropped == {"deny": 1}


async def test_a_new_cap_counts_the_pages_so_far_and_refuses_urls_in_line(make: Make) -> None:
    driver = make()
    await driver.put(*(f"http://a/{n}" for n in range(6)))
    for _ in range(2):
        await driver.fetch()
    await driver.put("http://b/deep", depth=3)
    await change(driver, for_host("a", max_pages=3), for_host("b", max_depth=2))
    await driver.put("http://a/6", "http://a/7")
    pages = await driver.run()
    assert pages == ["http://a/2"]
    assert driver.frontier.counters.dropped == {"host_cap": 5, "depth": 1}
    assert driver.frontier.counters.pending == 0


async def test_a_failed_page_that_is_kept_counts_once_for_a_cap(make: Make) -> None:
    driver = make(for_host("a", max_pages=1), retry_times=1)
    await driver.put("http://a/", "http://b/", "http://b/1", "http://b/2", "http://b/3")
    failures: list[Outcome] = [Failed("reset", 100.0, 100.0)] * 3
    await driver.run({"http://a/": failures})
    counters = driver.frontier.counters
    assert counters.dropped == {}
    assert counters.crawled + counters.kept.total() == 5


@pytest.mark.parametrize("of_rule", [True, False])
async def test_bytes_of_a_host_are_a_budget_that_one_page_may_exceed(
    make: Make, of_rule: bool
) -> None:
    rules = [for_host("b", max_bytes=0)]
    if of_rule:
        rules.append(for_host("a", max_bytes=250))
    driver = make(*rules, bytes_max=0 if of_rule else 250)
    await driver.put(*(f"http://{host}/{n}" for host in "ab" for n in range(5)))
    leases = await driver.drain(lambda lease: answer(lease, driver.now, size_bytes=100))
    assert sorted(lease.url for lease in leases if lease.step is Step.PAGE) == [
        f"http://a/{n}" for n in range(3)
    ] + [f"http://b/{n}" for n in range(5)]
    assert driver.frontier.counters.dropped == {"host_bytes": 2}


async def test_robots_txt_counts_for_the_bytes_of_its_host(make: Make) -> None:
    driver = make(for_host("a", max_bytes=10))
    await driver.put("http://a/", "https://a/")
    large = RobotsFetched(RobotsRules(), FOREVER, 100.0, 100.0, size_bytes=10)
    pages = await driver.run({"http://a/robots.txt": [large], "https://a/robots.txt": [large]})
    assert pages == []
    assert driver.frontier.counters.dropped == {"host_bytes": 2}


async def test_a_change_of_priority_reorders_hosts_in_line(tmp_path: Path) -> None:
    held = HostRules()
    policy = Policy(politeness=POLITE, rules=held, obey_robots=False)
    driver = Driver(memory_frontier(policy))
    await driver.put("http://a/", "http://b/1", "http://c/1/2")
    await driver.answer_all()
    await change(driver, for_host("c", priority=5), for_host("a", priority=-(10**6)))
    pages = [(await driver.frontier.acquire(driver.now, 1))[0] for _ in range(3)]
    assert [lease.host for lease in pages] == ["c", "b", "a"]


@pytest.mark.parametrize("moved", [False, True])
async def test_a_robots_txt_in_line_is_not_fetched_once_a_rule_lifts_it(
    make: Make, moved: bool
) -> None:
    driver = make()
    await driver.put("http://a/")
    if moved:
        lease = await driver.until(Step.ROBOTS)
        target = RobotsMoved("http://b/robots.txt", "b", driver.now, driver.now)
        await driver.give_back(lease, target)
        (look_up,) = await driver.leases()
    else:
        look_up = await driver.until(Step.RESOLVE)
    await driver.give_back(look_up, answer(look_up, driver.now))
    await change(driver, for_host("a", obey_robots=False))
    assert [lease.url for lease in await driver.drain()] == ["http://a/"]


async def test_robots_txt_is_fetched_again_for_another_agent(make: Make) -> None:
    """The rules in the store are those of one agent."""
    robots = "http://a/robots.txt"
    driver = make(for_host("a", robots_agent="one"))
    await driver.put("http://a/0", "http://a/1", "http://a/2")
    held: HostRules = driver_rules(driver)
    asked: list[tuple[str, str]] = []

    async def give(lease: Lease) -> None:
        agent = held.of("a").robots_agent or ""
        asked.append((lease.url, agent))
        done = answer(lease, driver.now)
        if isinstance(done, RobotsFetched):
            done = RobotsFetched(RobotsRules(), FOREVER, driver.now, driver.now, agent=agent)
        await driver.give_back(lease, done)

    while not driver.frontier.is_finished():
        for lease in await driver.leases():
            await give(lease)
            if lease.url == "http://a/0":
                await change(driver, for_host("a", robots_agent="two"))
            if lease.url == "http://a/1":
                await change(driver)
        driver.wait()
    assert [each for each in asked if each[0]] == [
        *((robots, "one"), ("http://a/0", "one"), (robots, "two"), ("http://a/1", "two")),
        *((robots, ""), ("http://a/2", "")),
    ]


async def test_the_old_agents_rules_hold_while_robots_txt_cannot_be_fetched(make: Make) -> None:
    driver = make(retry_times=0)
    await driver.put("http://a/no", "http://a/yes")
    no = RobotsRules.parse(b"user-agent: *\ndisallow: /no", "x")
    lost: list[Outcome] = [RobotsUnreachable("5xx", 100.0, 100.0)] * 9
    lease = await driver.until(Step.ROBOTS)
    await driver.give_back(lease, RobotsFetched(no, FOREVER, driver.now, driver.now))
    await change(driver, for_host("a", robots_agent="other"))
    pages = await driver.run({"http://a/robots.txt": lost})
    assert (pages, len(lost)) == (["http://a/yes"], 8), "asked once, and not for each page"


def driver_rules(driver: Driver) -> HostRules:
    frontier: Any = driver.frontier.local
    held = frontier._state._state.policy.rules
    assert isinstance(held, HostRules)
    return held


async def test_bytes_and_pages_of_a_host_are_known_to_the_next_run(tmp_path: Path) -> None:
    def opened(*rules: HostRule, now: float) -> Driver:
        policy = Policy(politeness=POLITE, rules=HostRules(rules))
        identity = {"FRONTIER_ORDER": "level"}
        return Driver(LocalFrontier(tmp_path, policy, identity=identity, now=now))

    driver = opened(now=1.0)
    await driver.put(*(f"http://{host}/{n}" for host in "ab" for n in range(3)))
    for _ in "ab":
        lease = await driver.until(Step.PAGE)
        await driver.give_back(lease, answer(lease, driver.now, size_bytes=100))
    await driver.frontier.close()
    driver = opened(for_host("a", max_bytes=100), for_host("b", max_pages=2), now=1000.0)
    driver.now = 1000.0
    assert await driver.run() == ["http://b/1"]
    await driver.frontier.close()
    assert dict(driver.frontier.counters.dropped) == {"host_bytes": 2, "host_cap": 1}


async def test_a_host_that_leaves_memory_follows_rules_that_changed_meanwhile(
    tmp_path: Path,
) -> None:
    policy = Policy(politeness=POLITE, rules=HostRules(), obey_robots=False)
    driver = Driver(LocalFrontier(tmp_path, policy, active_max=1))
    await driver.put("http://a/0")
    await driver.run()
    await driver.put("http://b/")
    await driver.run()
    assert "a" not in driver.frontier._state._bench.hosts  # type: ignore[attr-defined]
    await change(driver, for_host("a", delay_s=500.0))
    await driver.put("http://a/1")
    await driver.run()
    await driver.frontier.close()
    assert gaps(driver, "a") == [500.0]


async def test_a_crawl_delay_is_never_undercut(make: Make) -> None:
    driver = make(for_host("a", delay_s=2.0))
    await driver.put(*(f"http://a/{n}" for n in range(3)))
    slow = RobotsRules.parse(b"user-agent: *\ncrawl-delay: 7", "x")
    await driver.run({"http://a/robots.txt": [RobotsFetched(slow, FOREVER, 100.0, 100.0)]})
    assert gaps(driver, "a") == [7.0, 7.0]


async def test_caps_per_host_by_rule(make: Make) -> None:
    driver = make(for_host("a", max_pages=2), for_host("b", max_depth=1))
    await driver.put(*(f"http://a/{n}" for n in range(5)))
    await driver.put("http://b/2", depth=2)
    await driver.put("http://b/1", depth=1)
    pages = sorted(await driver.run())
    assert pages == ["http://a/0", "http://a/1", "http://b/1"]
    assert driver.frontier.counters.dropped == {"host_cap": 3, "depth": 1}
