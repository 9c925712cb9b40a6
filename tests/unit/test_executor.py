"""Work in place or in a thread: its order, its errors, and when it goes to the thread."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from webcrawl.base import executor
from webcrawl.base.executor import BATCH, AdaptiveExecutor

HERE = threading.current_thread().name


def where() -> str:
    return threading.current_thread().name


def wait() -> str:
    """Block as on a disk: the kernel counts a voluntary context switch."""
    time.sleep(0.001)
    return where()


def fail() -> None:
    raise ZeroDivisionError


@pytest.fixture(params=["here", "aside"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where work runs: always in place, or in the thread after the first piece."""
    monkeypatch.setattr(executor, "BLOCKED_S", 600.0 if request.param == "here" else -1.0)
    monkeypatch.setattr(executor, "AWAY_S", 600.0)
    return HERE if request.param == "here" else "aside"


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    for thread in threading.enumerate():
        if thread.name == "aside":
            assert thread.daemon
            thread.join(10)
            assert not thread.is_alive()


async def test_work_is_done_in_order(place: str) -> None:
    aside = AdaptiveExecutor("aside")
    done: list[int] = []
    assert await aside.do(wait) == HERE
    futures = [aside.do(lambda n=number: done.append(n)) for number in range(3 * BATCH)]
    assert aside.is_busy == (place != HERE)
    await asyncio.gather(*futures)
    assert not aside.is_busy
    assert await aside.do(where) == place
    assert done == list(range(3 * BATCH))


async def test_an_error_is_raised_where_the_future_is_awaited(place: str) -> None:
    aside = AdaptiveExecutor("aside")
    await aside.do(wait)
    futures = [aside.do(work) for work in (where, fail, where)]
    results = await asyncio.gather(*futures, return_exceptions=True)
    assert [type(each) for each in results] == [str, ZeroDivisionError, str]


async def test_work_that_waits_runs_in_the_thread_and_so_does_all_work_behind_it() -> None:
    aside = AdaptiveExecutor("aside")
    let_go = threading.Event()
    stuck = aside.do(lambda: let_go.wait(60), waits=True)
    cancelled = aside.do(where)
    cancelled.cancel()
    behind = aside.do(where)
    assert aside.is_busy
    let_go.set()
    assert await stuck
    assert await behind == "aside"
    while aside.is_busy:  # noqa: ASYNC110  (no future is left to await)
        await asyncio.sleep(0)
    assert await aside.do(where) == HERE  # as before


async def test_a_piece_that_blocks_sends_the_next_ones_to_the_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    aside = AdaptiveExecutor("aside")
    now = 100.0
    monkeypatch.setattr(executor, "monotonic", lambda: now)

    def taking(seconds: float) -> Callable[[], str]:
        def work() -> str:
            nonlocal now
            now += seconds
            return wait()

        return work

    assert await aside.do(taking(executor.BLOCKED_S)) == HERE
    assert await aside.do(taking(2 * executor.BLOCKED_S)) == HERE
    assert await aside.do(taking(10.0)) == "aside"
    assert await aside.do(where) == HERE
    assert await aside.do(taking(2 * executor.BLOCKED_S)) == HERE
    now += executor.AWAY_S / 2
    assert await aside.do(where) == "aside"


async def test_a_piece_that_only_waited_for_the_processor_has_not_blocked(place: str) -> None:
    aside = AdaptiveExecutor("aside")
    assert await aside.do(where) == HERE
    assert await aside.do(where) == HERE
    assert await aside.do(wait) == HERE
    assert await aside.do(where) == place


def test_work_is_done_after_its_event_loop_is_closed() -> None:
    let_go, done = threading.Event(), threading.Event()

    async def use() -> None:
        aside = AdaptiveExecutor("aside")
        aside.do(lambda: let_go.wait(60), waits=True)
        aside.do(done.set)

    asyncio.run(use())  # as a second Ctrl-C does
    let_go.set()
    assert done.wait(60)
