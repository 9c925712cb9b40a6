"""Server-sent events: the snapshots and the new lines of the crawl log, to each reader.

Format: WHATWG HTML, 9.2. Events are `snapshot` (JSON), `urls` (a JSON list of log lines),
`left_out` (the number of lines that were too many to show) and `end` (the reason why the crawl
ended).

Memory: one transport buffer per reader, 64 KB and one event. A reader that is slower gets no event
until its buffer is empty, and then the current snapshot. READERS_MAX readers.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

import msgspec
from twisted.web.http import Request

from webcrawl.live.livecrawl import LiveCrawl, RefusalError

logger = logging.getLogger(__name__)

INTERVAL_S: Final = 1.0  # between two events `urls`; a snapshot comes with every second one
READERS_MAX: Final = 16
LINES_MAX: Final = 50  # in an event; the first one of a reader has FIRST_MAX
FIRST_MAX: Final = 200
STALLED_MAX: Final = 120  # intervals without a byte taken, after which a reader is disconnected


class _Reader:
    """One response that does not end. Twisted calls it as an `IPushProducer`."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.seen = -1  # number of the last log line that it got or that was left out
        self.stalled = 0  # intervals since its buffer filled
        self.is_paused = False

    def pauseProducing(self) -> None:  # noqa: N802  (Twisted's name)
        self.is_paused = True

    def resumeProducing(self) -> None:  # noqa: N802  (Twisted's name)
        self.is_paused = False
        self.stalled = 0

    stopProducing = pauseProducing  # noqa: N815  (Twisted's name)


class Events:
    """Sends events while there are readers; without one it does nothing."""

    def __init__(self, crawl: LiveCrawl) -> None:
        self._crawl = crawl
        self._readers: set[_Reader] = set()
        self._task: asyncio.Task[None] | None = None
        self._has_ended = False

    def __len__(self) -> int:
        """The number of readers."""
        return len(self._readers)

    def add(self, request: Request) -> None:
        """Send events to `request`, whose headers are set, until it disconnects or `end`.

        RefusalError if there are too many readers, or the crawl has ended.
        """
        if self._has_ended:
            raise RefusalError(503, "the crawl has ended")
        if request.channel is None:  # the client has left
            return
        if len(self._readers) >= READERS_MAX:
            raise RefusalError(503, f"there are {READERS_MAX} readers already")
        reader = _Reader(request)
        self._readers.add(reader)
        request.notifyFinish().addBoth(lambda _: self._readers.discard(reader))
        request.registerProducer(reader, True)
        request.write(b"retry: 2000\n\n")
        if self._task is None or self._task.done():
            self._task = asyncio.ensure_future(self._run())

    async def end(self, reason: str) -> None:
        """Send the last snapshot and `end`, and finish all responses."""
        self._has_ended = True
        if self._task is not None:
            self._task.cancel()
        if not self._readers:
            return
        last = await self._snapshot()
        for reader in [*self._readers]:
            self._send(reader, last + _event("end", msgspec.json.encode({"reason": reason})))
            reader.request.unregisterProducer()
            reader.request.finish()

    async def _run(self) -> None:
        number = 0
        try:
            while self._readers:
                is_new = any(reader.seen < 0 for reader in self._readers)
                snapshot = await self._snapshot() if is_new or number % 2 == 0 else b""
                for reader in [*self._readers]:
                    if reader.is_paused:
                        reader.stalled += 1
                        if reader.stalled >= STALLED_MAX:
                            self._disconnect(reader)
                    else:
                        self._send(reader, snapshot + self._lines_for(reader))
                await asyncio.sleep(INTERVAL_S)
                number += 1
        except Exception:  # the pages say that the connection is lost, and ask again
            logger.exception("No events for the live page")
            for reader in [*self._readers]:
                self._disconnect(reader)

    async def _snapshot(self) -> bytes:
        try:
            return _event("snapshot", await self._crawl.snapshot())
        except RefusalError:  # the frontier is closed
            return b""

    def _lines_for(self, reader: _Reader) -> bytes:
        """The events with the new lines of the log; empty without a new line."""
        is_first = reader.seen < 0
        seen = max(reader.seen, 0)
        lines, reader.seen = self._crawl.lines(seen, FIRST_MAX if is_first else LINES_MAX)
        left_out = reader.seen - seen - len(lines)
        events = _event("urls", b"[" + b",".join(lines) + b"]") if lines else b""
        if left_out > 0 and not is_first:
            events += _event("left_out", b"%d" % left_out)
        return events

    def _send(self, reader: _Reader, events: bytes) -> None:
        if events and reader.request.channel is not None:
            reader.request.write(events)

    def _disconnect(self, reader: _Reader) -> None:
        if reader.request.channel is not None:
            reader.request.channel.forceAbortClient()


def _event(name: str, data: bytes) -> bytes:
    """`data` is JSON: it has no line break."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
