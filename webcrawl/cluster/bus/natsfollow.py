"""Reads all entries under a prefix, through a consumer of the bucket that lives as long.

The server numbers what it sends, so a gap is seen: then the reading fails, and may be tried again.
"""

from __future__ import annotations

import asyncio

from webcrawl.cluster.bus.base import Entry, Unreachable
from webcrawl.cluster.bus.natsbucket import TIMEOUT_S, Bucket, Consumer, position
from webcrawl.cluster.bus.natswire import Message


class Reading:
    """One consumer, from its first message on. `entries`: what came, whole after `read`."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self.entries: dict[str, Entry] = {}
        self._complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_broken = False
        self._bucket, self._prefix = bucket, prefix
        self._number = 0  # of the last delivery
        self._consumer: Consumer | None = None

    async def read(self) -> None:
        """Wait for all entries that are there. Raises BusError, BucketLost."""
        self._consumer = await self._bucket.follow(self._prefix, self._on_message)
        if self._consumer.pending == 0:
            self._finish()
        lost = self._bucket.connection.lost
        while not self._complete.done() and not self._is_broken and not lost.done():
            number = self._number
            await asyncio.wait(
                (self._complete, lost), timeout=TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
            if number == self._number and not self._complete.done() and not lost.done():
                raise Unreachable(f"{self._bucket.connection.server}: entries do not come")
        if lost.done():
            raise lost.result()
        if self._is_broken:
            raise Unreachable(f"{self._bucket.connection.server}: entries were lost")

    def close(self) -> None:
        self._is_broken = True
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _finish(self) -> None:
        if not self._complete.done():
            self._complete.set_result(None)

    def _on_message(self, message: Message) -> None:
        if self._is_broken:
            return
        if message.status == "100":
            self._on_control(message)
            return
        place = position(message.reply)
        if place is None or place[1] != self._number + 1:
            self._is_broken = True
            return
        sequence, self._number, pending = place
        key = self._bucket.key_of(message.subject)
        entry = self._bucket.entry_of(message.data, message.headers, sequence)
        if entry is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = entry
        if pending == 0:
            self._finish()

    def _on_control(self, message: Message) -> None:
        wanted = message.reply or message.headers.get("nats-consumer-stalled", "")
        if wanted:  # flow control: the server waits for it
            self._bucket.connection.publish(wanted, b"")
        if message.reply:
            return
        if int(message.headers.get("nats-last-consumer", "-1")) != self._number:
            self._is_broken = True
        else:  # idle: the server has no more to send
            self._finish()


async def snapshot(bucket: Bucket, prefix: str) -> dict[str, Entry]:
    """All entries under `prefix`: one message for each, and one call. BusError, BucketLost."""
    reading = Reading(bucket, prefix)
    try:
        await reading.read()
    finally:
        reading.close()
    return reading.entries
