"""Work that may have to wait for a disk, done where it costs least.

The way to a thread and back costs some 60 us of CPU, more where the two then quarrel about the
interpreter's lock, and most work takes less. So work is done at once, by who asks, for as long as
the disk lets it. When one piece was held up, a thread does what comes in the next while, and the
event loop goes on. One that took long because others had the processor was not held up.

Invariants: pieces are done one at a time, in the order they were given. The event loop is held up
by one piece in AWAY_S at most.
"""

from __future__ import annotations

import asyncio
import resource
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from time import monotonic
from typing import Any, Final, NamedTuple, TypeVar

HELD_UP_S: Final = 0.05  # no piece takes half of it where the disk is quick
AWAY_S: Final = 1.0
BATCH: Final = 64  # pieces that the thread does before it wakes the loop
_OF_THREAD: Final = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)  # macOS lacks it

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class _Done(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class Offload:
    """Does what an event loop gives it. The thread is there only while it has work.

    It is a daemon: nothing waits for it when the process is told to go.
    """

    def __init__(self, name: str) -> None:
        self._name = name  # of the thread
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()  # None: enough
        self._away = 0  # pieces that the thread has been given, and whose end is not known
        self._away_until = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether some work is not done."""
        return self._away > 0

    def do(self, work: Callable[[], T], *, waits: bool = False) -> asyncio.Future[T]:
        """Await it for what `work` returns or raises. `waits`: it takes long, or will wait.

        It is done whether anybody awaits it or not.
        """
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        began_at = monotonic()
        if waits or self._away or began_at < self._away_until:
            self._send(_Job(work, future))
            return future
        waited_before = _times_waited()
        try:
            future.set_result(work())
        except Exception as error:  # raised again where it is awaited
            future.set_exception(error)
        ended_at = monotonic()
        if ended_at > began_at + HELD_UP_S and _times_waited() > waited_before:
            self._away_until = ended_at + AWAY_S
        return future

    def _send(self, job: _Job) -> None:
        self._jobs.put(job)
        self._away += 1
        if self._away == 1:
            Thread(target=self._run, name=self._name, daemon=True).start()

    def _take(self, done: list[_Done]) -> None:
        self._away -= len(done)
        if not self._away:
            self._jobs.put(None)
        for each in done:
            _settle(each)

    # In the thread

    def _run(self) -> None:
        while job := self._jobs.get():
            done = [_outcome(job)]
            while len(done) < BATCH and not self._jobs.empty() and (job := self._jobs.get()):
                done.append(_outcome(job))
            try:
                done[-1].future.get_loop().call_soon_threadsafe(self._take, done)
            except RuntimeError:  # the loop is closed: nobody is left to tell
                return


def _times_waited() -> int:
    """How often this thread has let go of the processor to wait for something. 0.7 us."""
    return resource.getrusage(_OF_THREAD).ru_nvcsw  # getrusage(2): voluntary context switches


def _outcome(job: _Job) -> _Done:
    try:
        return _Done(job.future, job.work(), None)
    except Exception as error:  # raised again where it is awaited
        return _Done(job.future, None, error)


def _settle(done: _Done) -> None:
    if done.future.done():  # who waited was cancelled
        return
    if done.error is None:
        done.future.set_result(done.result)
    else:
        done.future.set_exception(done.error)
