"""The URL cache: links that need not be put, and no link that must be."""

from __future__ import annotations

from collections import Counter

import pytest
from scrapy.settings import Settings

from tests.cases import each_of
from tests.contracts.frontier import Driver, memory_frontier
from webcrawl.config import build
from webcrawl.frontier import urlcache
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Fetched, Link, Step
from webcrawl.frontier.outbox import LINKS_AT_A_TIME, Outbox
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.scope import Scope

HOST = "h.example"
HOME = Link(f"http://{HOST}/", HOST)
MENU = [f"http://{HOST}/{word}" for word in ("a", "b", "c")]


def links(*urls: str, depth: int = 1, redirects: int = 0) -> list[Link]:
    return [Link(url, HOST, depth, redirects) for url in urls]


def test_only_added_urls_are_known() -> None:
    urls = UrlCache(Policy())
    assert urls.maybe_new(MENU) == MENU
    urls.add(links(*MENU[:2]))
    assert urls.maybe_new(MENU) == MENU[2:]
    outlinks = Outlinks(Scope(), Counter(), url_cache=urls)
    assert outlinks.of_redirect(MENU[0], HOME) is None
    assert outlinks.of_redirect(MENU[2], HOME) is not None
    urls.clear()
    assert urls.maybe_new(MENU) == MENU


def test_a_url_replaces_the_one_in_its_slot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(urlcache, "_SLOTS", 1)
    urls = UrlCache(Policy())
    urls.add(links(*MENU))
    assert urls.maybe_new(MENU) == MENU[:2]


@each_of("far", [{"depth": 3}, {"redirects": 21}])
def test_by_another_way_a_url_may_come_in(far: dict[str, int]) -> None:
    urls = UrlCache(Policy(depth_max=2))
    urls.add(links(*MENU, **far))
    assert urls.maybe_new(MENU) == MENU
    urls.add(links(*MENU, depth=2, redirects=20))
    assert urls.maybe_new(MENU) == []


async def test_a_url_is_known_once_the_frontier_has_it() -> None:
    """A page with two batches of links: its URLs are known once both are handed over."""
    frontier = memory_frontier(Policy(obey_robots=False))
    driver = Driver(frontier)
    urls = UrlCache(Policy())
    outlinks = Outlinks(Scope(), Counter(), url_cache=urls)
    outbox = Outbox(frontier, urls)
    await driver.put(HOME.url)
    many = [f"http://{HOST}/{number}" for number in range(LINKS_AT_A_TIME + 1)]
    for targets in (MENU, many):
        lease = await driver.until(Step.PAGE)
        found = outlinks.of_page(targets, HOME)
        assert [link.url for link in found] == targets
        outbox.release(lease, Fetched(200, driver.now, driver.now, tuple(found)))
        assert outlinks.of_page(targets, HOME) == found
        while outbox:
            await outbox.deliver(driver.now)
        assert len(outlinks.of_page(targets, HOME)) < 30  # some share a slot: 4 of 2,001
    assert frontier.counters.pending == len(MENU) - 1 + len(many)


@each_of("order", ["level", "depth", "least-visited", "opic"])
def test_an_ordering_that_moves_links_has_no_url_cache(order: str) -> None:
    outlinks = build.outlinks_from(Settings({"FRONTIER_ORDER": order}), Counter())
    assert (outlinks.url_cache is None) == (order == "opic")
