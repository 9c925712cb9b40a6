"""An event loop whose clock a test puts ahead: with real sockets, no test waits for a time-out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class AheadLoop(asyncio.SelectorEventLoop):
    """The time of its timers; `time.monotonic` stays as it is."""

    ahead_s = 0.0

    def time(self) -> float:
        return super().time() + self.ahead_s


def pass_time(seconds: float) -> None:
    """Run the timers of the next `seconds` in the next turns of the running loop."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, AheadLoop)
    loop.ahead_s += seconds


def run_ahead(coroutine: Coroutine[Any, Any, Any]) -> Any:
    with asyncio.Runner(loop_factory=AheadLoop) as runner:
        return runner.run(coroutine)
