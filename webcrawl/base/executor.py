"""Runs work that may block on a disk without blocking the event loop for long.

A hand-over to a thread and back costs some 60 µs of CPU, and more if both threads compete for the
interpreter's lock; most work takes less. So work runs in the event loop's thread as long as the
disk is quick. After a piece that has blocked, a worker thread runs the work of the next AWAY_S
seconds. A piece that took long only because other processes had the processor has not blocked.

Invariants: pieces run one at a time, in the order in which they were given. At most one piece in
AWAY_S blocks the event loop.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from queue import SimpleQueue
from resource import getrusage
from threading import Thread
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

BLOCKED_S: Final = 0.05  # on a quick disk each piece takes less than half of it
AWAY_S: Final = 1.0
BATCH: Final = 64  # pieces that the thread runs before it wakes the event loop
_OF_THREAD: Final = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # macOS lacks it

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class _Done(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class AdaptiveExecutor:
    """Runs work in place or in a thread, which exists only while it has work.

    The thread is a daemon: the exit of the process does not wait for it.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # of the thread
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None ends the thread
        self._away = 0  # pieces given to the thread, whose results have not come back
        self._away_until = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether any work is still to do."""
        return self._away > 0

    def do(self, work: Callable[[], T], *, waits: bool = False) -> asyncio.Future[T]:
        """Run `work`. Returns a future of its result or exception. `waits`: it blocks or is long.

        The work is done even if the future is not awaited, or cancelled.
        """
        future: asyncio.Future[T] = asyncio.Future()  # of the running loop
        began_at = monotonic()
        if waits or self._away or began_at < self._away_until:
            self._send(_Job(work, future))
            return future
        # How often this thread gave up the processor to wait: voluntary context switches. 0.7 µs.
        switches_before = getrusage(_OF_THREAD).ru_nvcsw
        try:
            future.set_result(work())
        except Exception as error:  # raised where the future is awaited
            future.set_exception(error)
        ended_at = monotonic()
        if ended_at > began_at + BLOCKED_S and getrusage(_OF_THREAD).ru_nvcsw > switches_before:
            self._away_until = ended_at + AWAY_S
        return future

    def _send(self, job: _Job) -> None:
        self._jobs.put(job)
        self._away += 1
        if self._away == 1:
            Thread(target=self._run, name=self._name, daemon=True).start()

    def _set_results(self, done: list[_Done]) -> None:
        self._away -= len(done)
        if not self._away:
            self._jobs.put(None)
        for each in done:
            _set_result(each)

    # In the thread

    def _run(self) -> None:
        while job := self._jobs.get():
            done = [_run_job(job)]
            while len(done) < BATCH and not self._jobs.empty() and (job := self._jobs.get()):
                done.append(_run_job(job))
            try:
                done[-1].future.get_loop().call_soon_threadsafe(self._set_results, done)
            except RuntimeError:  # the event loop is closed
                return


def _run_job(job: _Job) -> _Done:
    try:
        return _Done(job.future, job.work(), None)
    except Exception as error:  # raised where the future is awaited
        return _Done(job.future, None, error)


def _set_result(done: _Done) -> None:
    if done.future.done():  # it was cancelled
        return
    if done.error is None:
        done.future.set_result(done.result)
    else:
        done.future.set_exception(done.error)
