"""Commands of a user for all processes: what no message can carry is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from webcrawl.base.wording import SettingError
from webcrawl.crawl.crawl import crawl_of
from webcrawl.extensions.hubprocess import ENTRIES_MAX, HubProcess
from webcrawl.extensions.steering import _entries
from webcrawl.hub.wire import TEXT_MAX, Orders, SteeringError


async def test_entries_that_no_letter_can_carry_are_refused() -> None:
    """Else each session with another hub would end at these orders, also in the next run."""
    crawler: Any = SimpleNamespace()
    crawl = crawl_of(crawler)
    crawl.frontier = SimpleNamespace(orders=Orders(deny=("x" * (ENTRIES_MAX - 5),)))  # type: ignore[assignment]
    for command in ("allow", "deny"):
        with pytest.raises(SteeringError, match=f"with those before.*SCOPE_{command.upper()}"):
            await HubProcess(crawler).do(command, ["a.test"], "scrapy ctl")


def test_an_entry_that_no_message_can_carry_is_refused() -> None:
    """Else each other process of the crawl would end at it."""
    longest = "re:".ljust(TEXT_MAX, "x")
    assert _entries("deny", [longest]) == (longest,)
    with pytest.raises(SettingError, match="at most 100,000 characters"):
        _entries("deny", [longest + "x"])
