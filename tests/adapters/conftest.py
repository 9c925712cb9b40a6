"""Fixtures of the tests with real sockets."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from tests.adapters.rawserver import Run

try:
    import uvloop

    LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]
except ImportError:  # optional
    LOOPS = [asyncio.new_event_loop]


@pytest.fixture(params=LOOPS, ids=lambda make: make.__module__.partition(".")[0])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a coroutine; fail on any error of the loop, and on leaks."""
    complaints: list[object] = []

    def complain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        complaints.append(context)
        if isinstance(context.get("exception"), pytest.fail.Exception):
            loop.stop()  # the time of the test is over, which uvloop alone does not obey

    def go(coroutine: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.get_loop().set_exception_handler(complain)
            result = runner.run(coroutine)
            assert asyncio.all_tasks(runner.get_loop()) == set()
        return result

    gc.freeze()  # only what the test makes is looked at
    yield go
    gc.collect()  # an unclosed socket or transport is a ResourceWarning, an error here
    assert complaints == []
