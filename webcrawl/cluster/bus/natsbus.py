"""The bus over NATS: one connection after another, and all that goes on over them.

`natsclient.py` is a connection, `natsbucket.py` the entries, `natsfollow.py` reads them. This
module connects again when one is lost, and begins subscriptions and answers anew.

A PING each second, SILENT_TICKS seconds without its PONG: the connection is lost. Ticks of the
event loop are counted, not the clock: if this process was busy or stopped, the server was not.
The log lines about a lost bus are the node's (`running`): a short loss has no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

from webcrawl.cluster.bus.base import (
    ANSWERS,
    Address,
    Bus,
    BusError,
    Entry,
    Refused,
    Server,
    Unreachable,
    checked_crawl,
    checked_size,
    encoded,
)
from webcrawl.cluster.bus.natsbucket import RETRY_S, TIMEOUT_S, Bucket, BucketLost
from webcrawl.cluster.bus.natsclient import Connection
from webcrawl.cluster.bus.natsfollow import snapshot
from webcrawl.cluster.bus.natswire import Message

logger = logging.getLogger(__name__)

CONNECT_S: Final = 3.0  # for each server
OPEN_S: Final = 5.0  # `open` tries all servers again for so long
TICK_S: Final = 0.25
PING_TICKS: Final = 4
SILENT_TICKS: Final = 8
WAIT_S: Final = (0.2, 2.0)  # between two tries to connect: at first, at most

_FAILED: Final = "Webcrawl-Failed"  # header of an answer: the handler raised

T = TypeVar("T")


class NatsBus(Bus):
    def __init__(self, address: Address, crawl: str, *, open_s: float = OPEN_S) -> None:
        self._address = address
        self._crawl = checked_crawl(crawl)
        self._open_s = open_s
        self._connection: Connection | None = None
        self._bucket: Bucket | None = None
        self._handlers: list[tuple[str, Callable[[Message], None]]] = []
        self._keeper: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()  # answers
        self._is_closed = False

    def __repr__(self) -> str:
        state = "connected" if self.is_connected else "not connected"
        return f"<NatsBus {self._address} {self._crawl} {state}>"

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and not self._connection.lost.done()

    # Connecting

    async def open(self) -> None:
        until = time.monotonic() + self._open_s
        while True:
            try:
                await self._connect()
                break
            except Refused:
                raise
            except Unreachable:
                if time.monotonic() > until:
                    raise
            await asyncio.sleep(WAIT_S[0])
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def close(self) -> None:
        self._is_closed = True
        tasks = [*self._tasks, *([self._keeper] if self._keeper else ())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._connection is not None:
            connection, self._connection, self._bucket = self._connection, None, None
            await connection.close()

    async def _connect(self) -> None:
        """To any server. Raises what the user can do something about, else the last failure."""
        servers = list(self._address.servers)
        random.shuffle(servers)  # nodes spread over the servers
        failures: dict[Server, BusError] = {}
        for server in servers:
            connection = Connection(server)
            try:
                await connection.connect(self._address, f"webcrawl {self._crawl}", CONNECT_S)
                await self._begin(connection)
            except BusError as error:
                connection.abort(error)
                failures[server] = error
            except BaseException:
                connection.abort(Unreachable("the bus is closed"))
                raise
            else:
                return
        errors = [failures[server] for server in dict.fromkeys(self._address.servers)]
        refusals = [error for error in errors if isinstance(error, Refused)]
        if refusals:
            raise Refused(f"CLUSTER={self._address}: {refusals[0]}")
        raise Unreachable(f"CLUSTER={self._address}: {'; '.join(map(str, errors))}")

    async def _begin(self, connection: Connection) -> None:
        """Everything goes on over a new connection. Raises BusError."""
        bucket = Bucket(connection, self._crawl, self._address.replicas)
        try:
            await bucket.open()
        except BucketLost as error:  # wiped in between
            raise Unreachable(f"{connection.server}: {error}") from None
        if connection.lost.done():
            raise connection.lost.result()
        for subject, on_message in self._handlers:
            connection.subscribe(subject, on_message)
        self._connection, self._bucket = connection, bucket

    async def _keep(self) -> None:
        while True:
            connection = self._connection
            assert connection is not None
            error = await self._until_lost(connection)
            self._connection = self._bucket = None
            lost_at = time.monotonic()
            logger.debug("The bus is lost, connecting again: %s", error)
            await self._reconnect()
            logger.debug("The bus is back after %.1f s", time.monotonic() - lost_at)

    async def _until_lost(self, connection: Connection) -> BusError:
        pong: asyncio.Future[None] | None = None
        ticks = 0
        while not connection.lost.done():
            if pong is None:
                pong, ticks = connection.ping(), 0
            await asyncio.wait((connection.lost,), timeout=TICK_S)
            ticks += 1
            if not pong.done():
                if ticks >= SILENT_TICKS:
                    connection.abort(Unreachable(f"{connection.server} is silent"))
            elif ticks >= PING_TICKS:
                pong = None
        return connection.lost.result()

    async def _reconnect(self) -> None:
        wait_s, most_s = WAIT_S
        refusal = ""
        while True:
            try:
                await self._connect()
            except BusError as error:
                if isinstance(error, Refused) and str(error) != refusal:
                    refusal = str(error)
                    logger.error("The bus refuses this node: %s", refusal)
            except Exception:  # of ours: the bus must come back nevertheless
                logger.exception("The bus cannot be connected to")
            else:
                return
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # not all nodes at once
            wait_s = min(wait_s * 2, most_s)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Messages

    def _subject(self, subject: str) -> str:
        return f"webcrawl.{self._crawl}.{encoded(subject)}"

    def _connected(self) -> Connection:
        if self._connection is None:
            raise Unreachable(f"CLUSTER={self._address}: not connected")
        return self._connection

    def publish(self, subject: str, data: bytes) -> None:
        if self._connection is not None:
            self._connection.publish(self._subject(subject), checked_size(data))

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        await self._listen(subject, lambda message: handle(message.data))

    def unsubscribe(self, subject: str) -> None:
        name = self._subject(subject)
        over = [handle for known, handle in self._handlers if known == name]
        self._handlers = [each for each in self._handlers if each[0] != name]
        if self._connection is not None:
            for handle in over:
                self._connection.forget(handle)

    async def answer(self, subject: str, handle: Callable[[bytes], Awaitable[bytes]]) -> None:
        under_way: set[str] = set()

        async def reply_to(message: Message) -> None:
            try:
                data, headers = checked_size(await handle(message.data)), None
            except Exception:
                logger.exception("A request on %s failed", subject)
                data, headers = b"", {_FAILED: "1"}
            finally:
                under_way.discard(message.reply)
            if self._connection is not None:
                self._connection.publish(message.reply, data, headers=headers)

        def on_request(message: Message) -> None:
            if message.reply and len(under_way) < ANSWERS and not self._is_closed:
                under_way.add(message.reply)
                self._spawn(reply_to(message))

        await self._listen(subject, on_request)

    async def _listen(self, subject: str, on_message: Callable[[Message], None]) -> None:
        """Once it returns, the server has the subscription, if it is connected."""
        handler = self._subject(subject), on_message
        self._handlers.append(handler)
        connection = self._connection
        if connection is not None:
            connection.subscribe(*handler)
            await asyncio.wait(
                (connection.ping(), connection.lost), return_when=asyncio.FIRST_COMPLETED
            )

    async def request(self, subject: str, data: bytes, timeout_s: float) -> bytes:
        message = await self._connected().request(
            self._subject(subject), checked_size(data), timeout_s
        )
        if message.status == "503":
            raise BusError("it does not run, or has lost the bus")
        if _FAILED.lower() in message.headers:
            raise BusError(f"the node that answers {subject} failed: its log says why")
        return message.data

    # Entries

    async def _on_bucket(self, call: Callable[[Bucket], Awaitable[T]]) -> T:
        """`call`, again if the bucket was wiped, or has no leader for a while."""
        until = time.monotonic() + TIMEOUT_S
        while True:
            self._connected()
            bucket = self._bucket
            assert bucket is not None
            try:
                return await call(bucket)
            except BucketLost:
                if time.monotonic() > until:
                    raise Unreachable(
                        f"CLUSTER={self._address}: no leader for the entries"
                    ) from None
            with contextlib.suppress(BucketLost):  # deleted again in between
                await bucket.open()
            await asyncio.sleep(RETRY_S)

    async def get(self, key: str) -> Entry | None:
        async def last(bucket: Bucket) -> Entry | None:
            return (await bucket.last(key))[0]

        return await self._on_bucket(last)

    async def create(self, key: str, value: bytes) -> int | None:
        async def create(bucket: Bucket) -> int | None:
            revision = await bucket.write(key, checked_size(value), 0)
            if revision is None:
                entry, sequence = await bucket.last(key)
                if entry is None:  # the marker of a deleted one
                    revision = await bucket.write(key, value, sequence)
            return revision

        return await self._on_bucket(create)

    async def update(self, key: str, value: bytes, revision: int) -> int | None:
        async def update(bucket: Bucket) -> int | None:
            expected = bucket.expected(revision)
            if expected is None:
                return None
            return await bucket.write(key, checked_size(value), expected)

        return await self._on_bucket(update)

    async def put(self, key: str, value: bytes) -> int:
        async def put(bucket: Bucket) -> int:
            revision = await bucket.write(key, checked_size(value), None)
            assert revision is not None  # nothing was expected
            return revision

        return await self._on_bucket(put)

    async def delete(self, key: str, revision: int | None = None) -> bool:
        async def delete(bucket: Bucket) -> bool:
            entry, sequence = await bucket.last(key)
            if entry is None or revision not in (None, entry.revision):
                return False
            return await bucket.erase(key, None if revision is None else sequence)

        return await self._on_bucket(delete)

    async def keys(self, prefix: str) -> dict[str, Entry]:
        return await self._on_bucket(lambda bucket: snapshot(bucket, prefix))
