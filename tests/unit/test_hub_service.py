"""What a hub says of its bus, and what nats-py may not say."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from scrapy.utils.log import configure_logging

from webcrawl.cluster import bus
from webcrawl.cluster.bus import BusError
from webcrawl.cluster.service import HubService


class Claim:
    """An ownership whose bus answers or not."""

    def __init__(self) -> None:
        self.answers = True

    async def check(self) -> float:
        if not self.answers:
            raise BusError("no answer")
        return 10.0


def test_a_hub_says_once_that_its_bus_is_away_and_once_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    claim, sessions = Claim(), SimpleNamespace(serves=False, serves_until=0.0)
    parts = (cast("Any", each) for each in (None, claim, sessions))
    hub = HubService(
        *parts, allow=lambda until: None, refuse=lambda problem: None, clock=lambda: 0.0
    )

    def said(*, answers: bool, serves: bool) -> list[str]:
        caplog.clear()
        claim.answers, sessions.serves = answers, serves
        asyncio.run(hub.check())
        return [record.getMessage() for record in caplog.records]

    assert said(answers=False, serves=True) == []  # what was allowed runs out
    line = "The bus does not answer: no request is sent until it does: no answer"
    assert said(answers=False, serves=False) == [line]
    assert said(answers=False, serves=False) == []
    assert said(answers=True, serves=False) == ["The bus answers again"]
    assert said(answers=True, serves=True) == []


class LateClaim(Claim):
    """Its first answer arrives while the task that waits is cancelled, as with `wait_for`."""

    is_late = False

    async def check(self) -> float:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if self.is_late:
                raise
            self.is_late = True
        return 10.0

    async def end(self, reason: str, *, is_free: bool) -> None:
        """Nothing is kept."""


async def test_a_hub_ends_though_nats_py_swallows_a_cancellation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bus, "CLOSE_S", 0.0)

    async def true() -> bool:
        return True

    sessions = SimpleNamespace(tick=lambda: None, open=true, close=true)
    parts = (cast("Any", each) for each in (SimpleNamespace(), LateClaim(), sessions))
    hub = HubService(
        *parts, allow=lambda until: None, refuse=lambda problem: None, clock=lambda: 0.0
    )
    hub.start()
    await asyncio.sleep(0)
    async with asyncio.timeout(10.0):
        await hub.close("")


def test_nats_py_prints_no_traceback_into_the_log() -> None:
    assert bus
    configure_logging({"LOG_INSTALL_ROOT_HANDLER": False})  # it enables all loggers
    assert not logging.getLogger("nats.aio.client").isEnabledFor(logging.CRITICAL)
