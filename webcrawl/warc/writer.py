"""Writes captures to WARC files from an event loop.

Invariants: captures are written in the order of the calls; a future is done only when its bytes are
in the file. Back-pressure: each caller awaits its write, so the queue holds at most one capture per
page in progress.
"""

from __future__ import annotations

import asyncio
from functools import partial

from webcrawl.base.executor import AdaptiveExecutor
from webcrawl.warc.files import Position, WarcFiles, Written
from webcrawl.warc.records import Capture


class WarcWriter:
    """Call `open`, then `write` for each capture, then `close`. All raise WarcError."""

    def __init__(self, files: WarcFiles) -> None:
        self._files = files
        self._offload = AdaptiveExecutor("warc")

    @property
    def written(self) -> Written:
        """The sums over all finished files."""
        return self._files.written

    async def open(self) -> None:
        """Begin the first file."""
        await self._offload.do(self._files.open)

    def write(self, capture: Capture) -> asyncio.Future[Position]:
        """Write the records of `capture`. The future is done once they are in the file."""
        files = self._files
        waits = capture.is_large or files.may_finish(capture)
        return self._offload.do(partial(files.write, capture), waits=waits)

    async def close(self) -> None:
        """Write all captures of earlier calls, and finish the last file."""
        await self._offload.do(self._files.close, waits=True)
