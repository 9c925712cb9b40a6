"""Work done in place, or by a thread: order, errors, when which."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from webcrawl import executor
from webcrawl.executor import BATCH, Offload

HERE = threading.current_thread().name


def where() -> str:
    return threading.current_thread().name


def wait() -> str:
    """As for a disk: the kernel counts that this thread let go of the processor."""
    time.sleep(0.001)
    return where()


def fail() -> None:
    raise ZeroDivisionError


def run(use: Callable[[Offload], Awaitable[None]]) -> None:
    async def go() -> None:
        await use(Offload("aside"))

    asyncio.run(go())


@pytest.fixture(params=["here", "aside"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where work is done: in place whatever it takes, or by the thread after the first piece."""
    monkeypatch.setattr(executor, "HELD_UP_S", 600.0 if request.param == "here" else -1.0)
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


def test_work_is_done_in_order(place: str) -> None:
    done: list[int] = []

    async def use(aside: Offload) -> None:
        assert await aside.do(wait) == HERE
        futures = [aside.do(lambda n=number: done.append(n)) for number in range(3 * BATCH)]
        assert aside.is_busy == (place != HERE)
        await asyncio.gather(*futures)
        assert not aside.is_busy
        assert await aside.do(where) == place

    run(use)
    assert done == list(range(3 * BATCH))


def test_errors_go_to_who_asked(place: str) -> None:
    async def use(aside: Offload) -> None:
        await aside.do(wait)
        futures = [aside.do(work) for work in (where, fail, where)]
        results = await asyncio.gather(*futures, return_exceptions=True)
        assert [type(each) for each in results] == [str, ZeroDivisionError, str]

    run(use)


def test_what_is_sure_to_wait_is_done_aside_and_all_behind_it() -> None:
    let_go = threading.Event()

    async def use(aside: Offload) -> None:
        stuck = aside.do(lambda: let_go.wait(60), waits=True)
        behind = aside.do(where)
        cancelled = aside.do(where)
        cancelled.cancel()
        assert aside.is_busy
        let_go.set()
        assert await stuck
        assert await behind == "aside"
        while aside.is_busy:  # noqa: ASYNC110  (nobody waits for the cancelled one)
            await asyncio.sleep(0)
        assert await aside.do(where) == HERE  # as before

    run(use)


def test_one_piece_that_was_held_up_sends_the_next_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(executor, "monotonic", lambda: now)

    def taking(seconds: float) -> Callable[[], str]:
        def work() -> str:
            nonlocal now
            now += seconds
            return wait()

        return work

    async def use(aside: Offload) -> None:
        nonlocal now
        assert await aside.do(taking(executor.HELD_UP_S)) == HERE
        assert await aside.do(taking(2 * executor.HELD_UP_S)) == HERE
        assert await aside.do(taking(10.0)) == "aside"
        assert await aside.do(where) == HERE
        assert await aside.do(taking(2 * executor.HELD_UP_S)) == HERE
        now += executor.AWAY_S / 2
        assert await aside.do(where) == "aside"

    run(use)


def test_a_piece_that_others_kept_from_the_processor_was_not_held_up(place: str) -> None:
    async def use(aside: Offload) -> None:
        assert await aside.do(where) == HERE
        assert await aside.do(where) == HERE
        assert await aside.do(wait) == HERE
        assert await aside.do(where) == place

    run(use)


def test_work_is_done_though_its_loop_is_gone() -> None:
    let_go, done = threading.Event(), threading.Event()

    async def use(aside: Offload) -> None:
        aside.do(lambda: let_go.wait(60), waits=True)
        aside.do(done.set)

    run(use)  # as a second Ctrl-C does
    let_go.set()
    assert done.wait(60)


def test_many_threads_after_one_another() -> None:
    """Each ends as soon as there is nothing to do, and only one is there at a time."""
    at_work = 0

    def alone() -> int:
        nonlocal at_work
        at_work += 1
        most = at_work
        at_work -= 1
        return most

    async def use(aside: Offload) -> None:
        for count in (1, 2, 3) * 30:
            futures: list[Any] = [aside.do(alone, waits=True) for _ in range(count)]
            assert set(await asyncio.gather(*futures)) == {1}

    run(use)


def test_loops_after_one_another() -> None:
    """The thread of the one may still be there when the next has work."""
    aside = Offload("aside")

    async def use() -> None:
        assert await asyncio.wait_for(aside.do(where, waits=True), 60) == "aside"

    for _ in range(300):
        asyncio.run(use())
