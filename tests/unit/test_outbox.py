"""The outbox: a large page's links go to the frontier one batch at a time."""

from __future__ import annotations

import json
from pathlib import Path

from tests.contracts.frontier import Driver, answer, link, memory_frontier
from webcrawl.crawllog.line import Details, to_bytes
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Fetched, Step
from webcrawl.frontier.outbox import LINKS_AT_A_TIME, Outbox, urls_at_a_time


async def test_other_leases_come_and_go_between_the_batches() -> None:
    driver = Driver(frontier := memory_frontier(Policy(obey_robots=False)))
    outbox = Outbox(frontier)
    await driver.put("http://large.example/", "http://small.example/")
    large, small = await driver.until(Step.PAGE), await driver.until(Step.PAGE)
    count = 3 * LINKS_AT_A_TIME
    links = tuple(link(f"http://large.example/{number}") for number in range(count))
    outbox.release(large, Fetched(200, driver.now, driver.now, links))
    await outbox.deliver(driver.now)
    assert frontier.counters.pending == LINKS_AT_A_TIME
    assert (outbox.ended, frontier.counters.crawled) == (1, 0)
    assert outbox.has_large

    outbox.release(small, answer(small, driver.now))
    await outbox.deliver(driver.now)
    assert (outbox.ended, frontier.counters.crawled) == (1, 1)
    while outbox:
        await outbox.deliver(driver.now)
    assert frontier.counters.pending == count
    assert (outbox.ended, frontier.counters.crawled) == (0, 2)
    assert not outbox.has_large
    frontier.audit()


async def test_the_end_of_the_crawl_gives_large_pages_back(tmp_path: Path) -> None:
    """Their answers are in the archive, so they have a line."""
    frontier = memory_frontier(Policy(obey_robots=False), log_folder=tmp_path)
    driver = Driver(frontier)
    outbox = Outbox(frontier)
    await driver.put("http://large.example/")
    large = await driver.until(Step.PAGE)
    links = tuple(link(f"http://other.example/{n}") for n in range(3 * LINKS_AT_A_TIME))
    details = to_bytes(Details(200, warc="a.warc.gz", offset=7))
    outbox.release(large, Fetched(200, driver.now, driver.now, links, details=details))
    await outbox.deliver(driver.now)
    outbox.give_back_large()
    await outbox.deliver(driver.now)
    assert not outbox
    assert frontier.counters.crawled == 0
    assert frontier.counters.pending == 1 + LINKS_AT_A_TIME, "the page is queued again"
    assert frontier.log is not None
    (line,) = map(json.loads, frontier.log.recent())
    assert (line["end"], line["url"], line["offset"]) == ("retried", "http://large.example/", 7)
    frontier.audit()


def test_fewer_long_urls_at_a_time() -> None:
    assert urls_at_a_time([]) == urls_at_a_time(["http://h/"] * 9000) == LINKS_AT_A_TIME
    assert urls_at_a_time(["http://h/" + "a" * 1991] * 9000) == 200
    assert urls_at_a_time(["a" * 9_000_000]) == 1
