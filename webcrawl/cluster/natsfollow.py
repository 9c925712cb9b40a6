"""Reads the entries under a prefix, once (`snapshot`) or for good (`Watch`).

The server numbers what it sends, and tells the last number each second. A gap, silence and a new
connection have the same remedy: a new consumer, which begins with all present entries. The
difference to what was handled before is handled: nothing that lasts is missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from webcrawl.cluster.bus import Entry, Unreachable
from webcrawl.cluster.natsbucket import TIMEOUT_S, Bucket, Consumer, position
from webcrawl.cluster.natswire import Message

logger = logging.getLogger(__name__)

SILENT_TICKS: Final = 4  # seconds without one of the server's heartbeats

Handler = Callable[[str, Entry | None], None]


class Reading:
    """One consumer, from its first message on. Calls `on_entry` with each, in the server's order.

    `complete` is done once all entries of the beginning came; its exception says why they do not.
    """

    def __init__(self, bucket: Bucket, prefix: str, on_entry: Handler) -> None:
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_broken = False
        self.silent_ticks = 0
        self._bucket, self._prefix, self._on_entry = bucket, prefix, on_entry
        self._number = 0  # of the last delivery
        self._consumer: Consumer | None = None

    @property
    def is_over(self) -> bool:
        return self.is_broken or self._bucket.connection.lost.done()

    async def read(self) -> None:
        """Wait for the entries of the beginning. Raises BusError, BucketLost."""
        self._consumer = await self._bucket.follow(self._prefix, self._on_message)
        if self._consumer.pending == 0:
            self._finish()
        lost = self._bucket.connection.lost
        while not self.complete.done() and not self.is_broken and not lost.done():
            number = self._number
            await asyncio.wait(
                (self.complete, lost), timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if number == self._number and not self.complete.done() and not lost.done():
                raise Unreachable(f"{self._bucket.connection.server}: entries do not come")
        if lost.done():
            raise lost.result()
        if self.is_broken:
            raise Unreachable(f"{self._bucket.connection.server}: entries were lost")

    def close(self) -> None:
        self.is_broken = True
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _finish(self) -> None:
        if not self.complete.done():
            self.complete.set_result(None)

    def _on_message(self, message: Message) -> None:
        self.silent_ticks = 0
        if self.is_broken:
            return
        if message.status == "100":
            self._on_control(message)
            return
        place = position(message.reply)
        if place is None or place[1] != self._number + 1:
            self.is_broken = True
            return
        sequence, self._number, pending = place
        key = self._bucket.key_of(message.subject)
        self._on_entry(key, self._bucket.entry_of(message.data, message.headers, sequence))
        if pending == 0:
            self._finish()

    def _on_control(self, message: Message) -> None:
        wanted = message.reply or message.headers.get("nats-consumer-stalled", "")
        if wanted:  # flow control: the server waits for it
            self._bucket.connection.publish(wanted, b"")
        if message.reply:
            return
        if int(message.headers.get("nats-last-consumer", "-1")) != self._number:
            self.is_broken = True
        else:  # idle: the server has no more to send
            self._finish()


async def snapshot(bucket: Bucket, prefix: str) -> dict[str, Entry]:
    """All entries under `prefix`. Cost: one message for each, and one call. Raises as `read`."""
    entries: dict[str, Entry] = {}

    def add(key: str, entry: Entry | None) -> None:
        if entry is None:
            entries.pop(key, None)
        else:
            entries[key] = entry

    reading = Reading(bucket, prefix, add)
    try:
        await reading.read()
    finally:
        reading.close()
    return entries


class Watch:
    """Calls `handle` with what is under `prefix` and with each change, over many connections."""

    def __init__(self, prefix: str, handle: Handler) -> None:
        self.prefix = prefix
        self._handle = handle
        self._revisions: dict[str, int] = {}  # of the entries handled
        self._reading: Reading | None = None
        self._restarting = asyncio.Lock()

    def __repr__(self) -> str:
        return f"<Watch {self.prefix!r}, {len(self._revisions)} entries>"

    def is_due(self) -> bool:
        """Whether it must `start` again. Called once a second: it counts the server's silence."""
        if self._restarting.locked():
            return False
        if self._reading is None or self._reading.is_over:
            return True
        self._reading.silent_ticks += 1
        return self._reading.silent_ticks > SILENT_TICKS

    async def start(self, bucket: Bucket) -> None:
        """Read all again. Returns when the difference was handled. Raises BusError, BucketLost."""
        async with self._restarting:
            self.stop()
            unseen = set(self._revisions)
            reading = Reading(bucket, self.prefix, lambda key, entry: self._on(key, entry, unseen))
            self._reading = reading
            try:
                await reading.read()
            except BaseException:
                self.stop()
                raise
            for key in list(unseen):
                self._on(key, None, unseen)

    def stop(self) -> None:
        if self._reading is not None:
            self._reading.close()
            self._reading = None

    def _on(self, key: str, entry: Entry | None, unseen: set[str]) -> None:
        unseen.discard(key)
        if entry is None:
            if self._revisions.pop(key, None) is None:
                return
        elif self._revisions.get(key) == entry.revision:
            return
        else:
            self._revisions[key] = entry.revision
        try:
            self._handle(key, entry)
        except Exception:
            logger.exception("A handler of the entries under %r failed", self.prefix)
