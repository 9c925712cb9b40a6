"""Writes captures to WARC files from an event loop.

Invariants: captures are written in the order they were given; a future is done only when its bytes
are in the file. A caller awaits each write, so what waits here is bounded by how many captures its
callers have in hand: that is the back-pressure.
"""

from __future__ import annotations

import asyncio
from functools import partial

from webcrawl.executor import AdaptiveExecutor
from webcrawl.warc.files import Position, WarcFiles, Written
from webcrawl.warc.records import Capture


class WarcWriter:
    """`open` it, `write` any number of captures, `close` it. All raise WarcError."""

    def __init__(self, files: WarcFiles) -> None:
        self._files = files
        self._offload = AdaptiveExecutor("warc")

    @property
    def written(self) -> Written:
        """What the finished files hold."""
        return self._files.written

    async def open(self) -> None:
        """Begin the first file."""
        await self._offload.do(self._files.open)

    def write(self, capture: Capture) -> asyncio.Future[Position]:
        """Await it to know that the records of `capture` are in the file."""
        files = self._files
        waits = capture.is_large or files.may_finish(capture)
        return self._offload.do(partial(files.write, capture), waits=waits)

    async def sync(self) -> None:
        """Return once all that was given before is on the disk."""
        await self._offload.do(self._files.sync, waits=True)

    async def close(self) -> None:
        """Write what was given before, and finish the last file."""
        await self._offload.do(self._files.close, waits=True)
