"""Writes captures to WARC files from an event loop, by one thread.

The thread builds, compresses and writes; the loop only hands over and is woken once for all that
was written meanwhile. A caller awaits each write, so what waits here is bounded by how many
captures its callers have in hand: that is the back-pressure.

Invariants: captures are written in the order they were given; a future is done only when its bytes
are in the file. The thread is a daemon: nothing waits for it when the process is told to go.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple, TypeVar

from webcrawl.warc.files import Position, WarcError, WarcFiles, Written
from webcrawl.warc.records import Capture

BATCH = 64  # captures that are written before their callers hear of it

T = TypeVar("T")


class _Job(NamedTuple):
    work: Callable[[], Any]
    future: asyncio.Future[Any]


class _Done(NamedTuple):
    future: asyncio.Future[Any]
    result: Any
    error: Exception | None


class WarcWriter:
    """`open` it, `write` any number of captures, `close` it. All raise WarcError."""

    def __init__(self, files: WarcFiles) -> None:
        self._files = files
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._closed = False

    @property
    def written(self) -> Written:
        """What the finished files hold."""
        return self._files.written

    async def open(self) -> None:
        """Begin the first file."""
        self._loop = asyncio.get_running_loop()
        Thread(target=self._run, name="warc", daemon=True).start()
        await self._do(self._begin)

    def write(self, capture: Capture) -> asyncio.Future[Position]:
        """Await it to know that the records of `capture` are in the file."""
        return self._do(partial(self._files.write, capture))

    async def sync(self) -> None:
        """Return once all that was given before is on the disk."""
        await self._do(self._files.sync)

    async def close(self) -> None:
        """Write what was given before, finish the last file and end the thread."""
        await self._do(self._finish)

    def _do(self, work: Callable[[], T]) -> asyncio.Future[T]:
        future: asyncio.Future[T] = self._loop.create_future()
        self._jobs.put(_Job(work, future))
        return future

    def _begin(self) -> None:
        try:
            self._files.open()
        except WarcError:
            self._closed = True
            raise

    def _finish(self) -> None:
        self._closed = True
        self._files.close()

    # In the thread

    def _run(self) -> None:
        while not self._closed:
            done = [_outcome(self._jobs.get())]
            while len(done) < BATCH and not self._jobs.empty() and not self._closed:
                done.append(_outcome(self._jobs.get()))
            try:
                self._loop.call_soon_threadsafe(_settle, done)
            except RuntimeError:  # the loop is closed: nobody is left to tell
                return


def _outcome(job: _Job) -> _Done:
    try:
        return _Done(job.future, job.work(), None)
    except Exception as error:  # raised again where it is awaited
        return _Done(job.future, None, error)


def _settle(done: list[_Done]) -> None:
    for future, result, error in done:
        if future.done():  # its caller was cancelled
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)
