"""An event loop whose time passes only when there is nothing else to do: it never waits."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Selector(selectors.DefaultSelector):
    """Passes the time in which no file would be ready."""

    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if not ready:
            assert timeout is not None, "all tasks wait for something that will not happen"
            self.passed_s += timeout
        return ready


class Loop(asyncio.SelectorEventLoop):
    def __init__(self, passing: Selector | None = None) -> None:
        self._passing = passing or Selector()
        super().__init__(self._passing)

    def time(self) -> float:
        return 1000.0 + self._passing.passed_s


def now() -> float:
    """The time of the running loop, in place of `time.monotonic`."""
    return asyncio.get_running_loop().time()


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=Loop) as runner:
        return runner.run(coroutine)
