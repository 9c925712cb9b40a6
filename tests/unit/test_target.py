"""The target: which answers count, which wait, and which pages are cut for others."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.contracts.frontier import Driver, answer, memory_frontier
from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Fetched, Lease, Returned, Step
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.scheduler.target import Target


def run(check: Coroutine[Any, Any, None]) -> None:
    asyncio.run(check)


async def with_pages(
    count: int, *, target: int
) -> tuple[Driver, Target, list[PageFetch], set[Lease]]:
    """`count` pages under way in a crawl with a target, and which of them have a place."""
    frontier = FrontierServer(memory_frontier(Policy(obey_robots=False)), target=target)
    driver = Driver(frontier)
    await driver.put(*(f"http://h{number}.example/" for number in range(count)))
    for lease in await driver.leases():
        assert lease.step is Step.RESOLVE
        await driver.give_back(lease, answer(lease, driver.now))
    spare = max(count - target, 0)
    leases = await frontier.acquire_pages(driver.now, count, spare)
    if len(leases) < count:  # without a place, beside those that have one
        leases += await frontier.acquire_pages(driver.now, count - len(leases), spare)
    assert len(leases) == count
    placed: set[Lease] = set()
    fetches = [PageFetch(lease, driver.now) for lease in leases]
    return driver, Target(frontier, placed, cuts_max=2), fetches, placed


def test_without_a_target_every_answer_counts() -> None:
    async def check() -> None:
        driver = Driver(memory_frontier(Policy(obey_robots=False)))
        await driver.put("http://a.example/")
        lease = await driver.until(Step.PAGE)
        placed: set[Lease] = set()
        assert Target(driver.frontier, placed, cuts_max=1).counts(PageFetch(lease), driver.now)
        assert placed == set()

    run(check())


def test_the_answers_that_come_first_get_the_places() -> None:
    async def check() -> None:
        driver, goal, fetches, placed = await with_pages(4, target=2)
        assert [goal.counts(each, driver.now) for each in fetches] == [True, True, False, False]
        assert placed == {each.lease for each in fetches[:2]}
        assert goal.counts(fetches[0], driver.now), "a place stays"

    run(check())


def test_a_waiting_answer_takes_the_place_that_another_gives_up() -> None:
    async def check() -> None:
        driver, goal, fetches, placed = await with_pages(2, target=1)
        first, second = fetches
        assert goal.counts(first, driver.now)
        waiting = asyncio.create_task(goal.wait())
        await asyncio.sleep(0)
        assert goal.is_waited_for
        goal.wake(everyone=False)
        await asyncio.sleep(0)
        assert not waiting.done(), "no place is free"

        placed.discard(first.lease)
        await driver.give_back(first.lease, Returned())
        goal.wake(everyone=False)
        await waiting
        assert goal.counts(second, driver.now)

    run(check())


def test_everyone_wakes_at_the_end() -> None:
    async def check() -> None:
        _, goal, _, _ = await with_pages(1, target=1)
        waiting = [asyncio.create_task(goal.wait()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        goal.wake(everyone=True)
        await asyncio.gather(*waiting[1:])
        assert not goal.is_waited_for

    run(check())


def test_slow_pages_without_a_place_are_cut_up_to_a_number() -> None:
    async def check() -> None:
        driver, goal, fetches, _ = await with_pages(4, target=4)
        assert goal.counts(fetches[0], driver.now)
        assert goal.slow(fetches, driver.now) == [], "all have just begun"
        later = driver.now + 60.0
        slow = goal.slow(fetches, later)
        assert slow == fetches[1:], "the first has its answer"
        assert goal.cut(slow) == {each.lease.url for each in slow[:2]}, "cuts_max is 2"
        assert goal.slow(fetches, later) == slow[2:], "a page is cut once"
        assert goal.cut(slow[2:]) == frozenset()
        assert [goal.ended(each) for each in slow] == [True, True, False]
        assert not goal.ended(slow[0]), "its end is noted"

    run(check())


def test_leases_that_are_held_back_are_taken_once() -> None:
    async def check() -> None:
        driver, goal, fetches, _ = await with_pages(1, target=1)
        held = (fetches[0].lease, Fetched(200, driver.now, driver.now))
        goal.held_back.append(held)
        assert goal.take_held_back() == [held]
        assert goal.take_held_back() == []

    run(check())
