"""Scheduler.page_found: several pages with very many links at a time."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from scrapy.utils.test import get_crawler

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.outbox import LINKS_AT_A_TIME
from webcrawl.scheduler.scheduler import Scheduler

PAGES, SLICES = 5, 4


def test_a_turn_of_the_event_loop_has_one_slice_of_one_page() -> None:
    """Five pages at a time took a slice of 15 ms each in every turn."""
    turn, turns = 0, []

    def of_page(urls: list[str], link: object) -> list[object]:
        turns.append(turn)
        return []

    async def count() -> None:
        nonlocal turn
        while True:
            await asyncio.sleep(0)
            turn += 1

    async def go() -> None:
        crawler: Any = get_crawler()
        frontier: Any = SimpleNamespace(counters=Counters())
        outlinks: Any = SimpleNamespace(of_page=of_page)
        pump: Any = SimpleNamespace(is_cut=False)
        other: Any = SimpleNamespace(retry_times=0)
        scheduler = Scheduler(crawler, frontier, outlinks, other, pump, other, follow=True)
        page: Any = SimpleNamespace(
            links=["http://h.example/"] * LINKS_AT_A_TIME * SLICES,
            links_found=0,
            status=200,
            wall="",
            size_bytes=0,
            redirect_to="",
        )
        counting = asyncio.create_task(count())
        fetches: list[Any] = [
            SimpleNamespace(lease=SimpleNamespace(link=object()), links=[]) for _ in range(PAGES)
        ]
        found = (scheduler.page_found(each, page) for each in fetches)
        assert all(await asyncio.gather(*found))
        counting.cancel()

    asyncio.run(go())
    first, later = turns[:PAGES], turns[PAGES:]  # the first slice of a page is taken at once
    assert len(first + later) == PAGES * SLICES
    assert len(set(later)) == len(later)
