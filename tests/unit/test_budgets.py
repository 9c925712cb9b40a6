"""A pause of a crawl with ARCHIVE_STORE while a disk is nearly full."""

from __future__ import annotations

from pathlib import Path

import pytest
from scrapy.utils.test import get_crawler

from webcrawl.crawl.crawl import crawl_of
from webcrawl.extensions import budgets
from webcrawl.extensions.budgets import Budgets

FREE_MIN = 1000
HELD, LET_GO = True, False


@pytest.mark.parametrize(
    ("free", "unsent", "holds"),
    [
        ([999, 500, 1199, 1200], 2, [HELD, HELD, HELD, HELD, LET_GO]),
        # Nothing is left to send: there will be no more room.
        ([999], 0, [HELD]),
        ([1100], 0, [HELD, LET_GO]),
    ],
)
async def test_a_full_disk_is_waited_for_while_files_leave(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    free: list[int],
    unsent: int,
    holds: list[bool],
) -> None:
    """It is held again and again: a request that was begun just before would keep its lease, and
    the lease the files that must leave."""
    held: list[bool] = []
    left = iter(free)
    last = free[-1]
    monkeypatch.setattr(budgets, "free_bytes", lambda folder: next(left, last))
    monkeypatch.setattr(budgets, "POLL_S", 0.0)
    monkeypatch.setattr(budgets, "QUIET_S", 60.0 if unsent else -1.0)
    extension = Budgets(crawler := get_crawler(), 0, FREE_MIN, (tmp_path,))
    monkeypatch.setattr(extension, "_hold", lambda *, is_held: held.append(is_held))
    crawl = crawl_of(crawler)
    crawl.unsent = unsent
    ends = await extension._pause("a disk is full")
    assert held == holds
    assert bool(ends) is bool(crawl.held) is (holds == [HELD])
