"""The bus of a crawl on several machines: subjects, and records that change by compare-and-set.

NATS carries it. This module is the only one that knows nats-py, and contains its faults, as of
version 2.16:

- it reconnects by itself, and what was sent meanwhile is lost or comes late: so it may not, and
  each connection here is a client of its own;
- it sends a password in plain text to a server without TLS: so TLS is checked before CONNECT;
- a PONG that comes late ends its reader without a word: so nothing here waits for a PONG, and a
  reader that has ended is a lost connection;
- `close` may wait for ever: it has CLOSE_S, and what it leaves is ended here;
- it logs an exception of its own, with a traceback, at a server that dies: its logger is off;
- requests may swallow that their task is cancelled: so `close` here sets a flag too,
  and others call `cancel_all`;
- a credentials file without its markers is read for ever: so they are looked for before.

A user name, a password, a token and the content of a credentials file are in no text.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import ssl
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple, NoReturn

from nats.aio.client import Client
from nats.errors import Error as NatsError
from nats.js import JetStreamContext, api
from nats.js.errors import (
    APIError,
    NoStreamResponseError,
    NotFoundError,
    ServiceUnavailableError,
)
from nats.protocol.command import pub_cmd

from webcrawl.base.textfile import read_text
from webcrawl.cluster.address import Address, BusServer
from webcrawl.frontier.store import StoreError

logger = logging.getLogger(__name__)
# Faults are told by our own lines. Scrapy enables a logger again that is disabled.
logging.getLogger("nats.aio.client").setLevel(logging.CRITICAL + 1)

CONNECT_S: Final = 3.0  # to one server
CLOSE_S: Final = 1.0
CHECK_S: Final = 0.5  # between two looks whether the connection is alive
RECORDS_S: Final = 5.0  # for one record
WAIT_S: Final = (0.2, 2.0)  # between two tries to connect: at first, at most
PING_S: Final = 3  # two of them without an answer: the connection is lost
PAYLOAD_MIN: Final = 512 * 1024  # NATS allows 1 MB by default
_WRONG_REVISION: Final = 10071
_IS_BEING_MADE: Final = 10065  # by another process: "subjects overlap with an existing stream"
_NO_JETSTREAM: Final = (10039, 10076)  # off for this account, off at this server
_MARKERS: Final = re.compile(r"BEGIN NATS USER JWT-+\s+\S.*BEGIN USER NKEY SEED-+\s+\S", re.DOTALL)


class BusError(Exception):
    """The bus did not do it, one line. A record may have been written nevertheless."""


class Refused(BusError):  # noqa: N818
    """The user must act."""


class Entry(NamedTuple):
    value: bytes
    revision: int


async def cancel_all(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks that may wait for the bus, again and again until they have ended."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=CLOSE_S)
        await asyncio.gather(*done, return_exceptions=True)


async def repeat(seconds: float, work: Callable[[], Awaitable[None] | None]) -> None:
    """Do `work` again and again, with `seconds` between, until this task is cancelled."""
    while True:
        try:
            waiting = work()
            if waiting is not None:
                await waiting
        except StoreError as error:  # the crawl ends by it
            logger.debug("A round of the hub ends: %s", error)
            return
        except Exception:  # our own fault: the crawl goes on, or its allowance runs out
            logger.exception("The hub failed in its round")
        await asyncio.sleep(seconds)


class _Client(Client):
    """nats-py's client of one connection, which asks for TLS before it sends a password.

    Messages of the crawl pass its queues and tasks by, which cost most of a message.
    """

    wants_tls = False
    has_records = False  # known

    def __init__(self, handlers: Mapping[str, Callable[[bytes], None]]) -> None:
        """`handlers`: what to call with the messages of a subject."""
        super().__init__()
        self._handlers = handlers

    def send(self, subject: str, data: bytes) -> None:
        """Publish, behind what nats-py has not written. Never waits; lost if it is not alive."""
        if self.is_alive and self._writer is not None:
            unwritten, self._pending, self._pending_data_size = self._pending, [], 0
            self._writer.writelines([*unwritten, pub_cmd(subject, "", data)])

    async def _process_msg(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes
    ) -> None:
        handle = self._handlers.get(subject.decode())
        if handle is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        try:
            handle(data)
        except Exception:  # our own fault: the connection goes on
            logger.exception("A message from the bus has failed")

    def _connect_command(self) -> bytes:
        if self.wants_tls and not self._server_info.get("tls_required"):
            raise Refused("the server does not ask for TLS, and CLUSTER does (tls://)")
        return super()._connect_command()

    @property
    def is_alive(self) -> bool:
        reading, writer = self._reading_task, self._writer
        if reading is None or writer is None or writer.transport.is_closing():
            return False
        return self.is_connected and not reading.done()

    @property
    def _writer(self) -> asyncio.StreamWriter | None:
        return getattr(self._transport, "_io_writer", None)

    @property
    def has_jetstream(self) -> bool:
        return bool(self._server_info.get("jetstream"))

    @property
    def is_cluster(self) -> bool:
        """Whether there are several servers."""
        return bool(self._server_info.get("cluster"))

    def tasks(self) -> list[asyncio.Task[Any]]:
        """All that run for this connection."""
        handlers = [each._wait_for_msgs_task for each in self._subs.values()]
        own = (self._reading_task, self._flusher_task, self._ping_interval_task)
        return [task for task in (*own, *handlers) if task is not None]

    def abort(self) -> None:
        """Drop what a silent server does not take."""
        if self._writer is not None:
            self._writer.transport.abort()


class Bus:
    """One process's connection to the bus of the crawl that `address` names.

    Messages are lost now and then, and not repeated.

    on_lost -- is called when the connection is lost. Another one is made without a call
    """

    on_lost: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, address: Address) -> None:
        self._address = address
        self._prefix = f"webcrawl.{address.name}.1."  # of this version's subjects
        self._bucket = f"webcrawl-hub-{address.name}"
        self._client: _Client | None = None
        self._handlers: dict[str, Callable[[bytes], None]] = {}
        self._keeper: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()

    def __repr__(self) -> str:
        return f"<Bus {self._address} {'open' if self._client else 'not connected'}>"

    # The connection

    async def open(self) -> None:
        """Connect. BusError if no server can be reached; Refused."""
        self._client = await self._connect()
        self._keeper = asyncio.create_task(self._keep(self._client))

    async def close(self) -> None:
        """Send what was published, and disconnect for good."""
        if self._keeper is not None:
            self._closing.set()
            await asyncio.wait([self._keeper], timeout=CLOSE_S)
            await cancel_all([self._keeper])

    async def _connect(self) -> _Client:
        """To any of the servers."""
        servers = list(self._address.servers)
        random.shuffle(servers)
        for server in servers:
            try:
                return await self._connect_to(server)
            except Refused:
                raise
            except BusError as error:
                last = error
        raise last

    async def _connect_to(self, server: BusServer) -> _Client:
        address, client = self._address, _Client(self._handlers)
        client.wants_tls = address.is_tls
        has_password = address.password is not None

        async def on_error(error: Exception) -> None:
            if not client.is_connected and not client.is_closed:
                _fail(f"CLUSTER={address}: {server}", error)
            logger.debug("The bus: %s", error)

        try:
            async with asyncio.timeout(CONNECT_S):
                await client.connect(
                    f"nats://{server}",
                    name="webcrawl",
                    error_cb=on_error,
                    allow_reconnect=False,
                    ping_interval=PING_S,
                    tls=self._tls(),
                    user=address.user if has_password else None,
                    password=address.password,
                    token=address.user if address.user and not has_password else None,
                    user_credentials=self._credentials(),
                )
            if client.max_payload < PAYLOAD_MIN:
                raise Refused(f"{server}: max_payload is less than {PAYLOAD_MIN}")
            for subject in self._handlers:
                await client.subscribe(subject)
        except BaseException as error:
            await _close(client)
            if isinstance(error, TimeoutError):
                raise BusError(f"CLUSTER={address}: {server} does not answer") from None
            if isinstance(error, NatsError | OSError):
                _fail(f"CLUSTER={address}: {server}", error)
            if isinstance(error, AttributeError | TypeError | ValueError):  # nats-py trusts INFO
                raise BusError(f"CLUSTER={address}: {server} is no NATS server") from None
            raise
        return client

    def _tls(self) -> ssl.SSLContext | None:
        address = self._address
        if not address.is_tls:
            return None
        try:
            return ssl.create_default_context(cafile=address.ca)
        except (ssl.SSLError, OSError):
            raise Refused(f"ca={address.ca}: cannot be read as certificates (PEM)") from None

    def _credentials(self) -> str | None:
        path = self._address.creds
        if path is None:
            return None
        try:
            text = read_text(path)
        except (OSError, ValueError):
            text = ""
        if not _MARKERS.search(text):
            raise Refused(f"creds={path}: has no NATS user's JWT and seed")
        return str(path)

    async def _keep(self, client: _Client) -> None:
        """Connect again when the connection is lost."""
        try:
            while True:
                while client.is_alive:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(CHECK_S):
                            await self._closing.wait()
                            return
                self._client = None
                self.on_lost()
                await _close(client)
                client = self._client = await self._reconnect()
        finally:
            self._client = None
            await _close(client)

    async def _reconnect(self) -> _Client:
        wait_s, most_s = WAIT_S
        refusal = ""
        while True:
            await asyncio.sleep(wait_s * random.uniform(0.5, 1.0))  # not all at once
            wait_s = min(wait_s * 2, most_s)
            try:
                return await self._connect()
            except BusError as error:
                if isinstance(error, Refused) and str(error) != refusal:
                    refusal = str(error)
                    logger.error("The bus refuses this process: %s", refusal)

    # Subjects

    def publish(self, subject: str, data: bytes) -> None:
        """Send to all who have subscribed. Never waits; lost without a connection."""
        if self._client is not None:
            self._client.send(self._prefix + subject, data)

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        """Call `handle` with what is published, over all connections."""
        subject = self._prefix + subject
        self._handlers[subject] = handle
        if self._client is not None:
            try:
                await self._client.subscribe(subject)
            except NatsError:  # the next connection does
                return

    # Records

    def _records(self) -> JetStreamContext:
        if self._client is None:
            raise BusError(f"CLUSTER={self._address}: not connected")
        return self._client.jetstream(timeout=RECORDS_S)

    async def get(self, key: str) -> Entry | None:
        """The record; None if there is none. BusError."""
        records = self._records()
        try:
            if not await self._has_records(records):
                return None
            found = await records.get_last_msg(f"KV_{self._bucket}", f"$KV.{self._bucket}.{key}")
        except NotFoundError:
            return None
        except (NatsError, OSError) as error:
            self._fail(error)
        return Entry(found.data or b"", found.seq or 0)

    async def _has_records(self, records: JetStreamContext) -> bool:
        """Whether there is any.

        nats-server 2.9 ends with a panic if it is asked for a record of a bucket that is just made.
        Asked about the bucket it counts no message until the bucket is whole.
        """
        client = self._client
        if client is None or client.has_records:
            return client is not None
        about = await records.stream_info(f"KV_{self._bucket}")
        client.has_records = about.state.last_seq > 0
        return client.has_records

    async def put(self, key: str, value: bytes, revision: int) -> int | None:
        """Replace the record of this revision, 0 for none. The new revision; None: it has changed.

        BusError.
        """
        try:
            return await self._put(key, value, revision)
        except NoStreamResponseError:
            if revision:
                return None
        except (NatsError, OSError) as error:
            self._fail(error)
        await self._make_bucket()
        try:
            return await self._put(key, value, revision)
        except (NatsError, OSError) as error:
            self._fail(error)

    async def _put(self, key: str, value: bytes, revision: int) -> int | None:
        headers: dict[str, Any] = {api.Header.EXPECTED_LAST_SUBJECT_SEQUENCE.value: str(revision)}
        try:
            done = await self._records().publish(
                f"$KV.{self._bucket}.{key}", value, headers=headers
            )
        except APIError as error:
            if error.err_code == _WRONG_REVISION:
                return None
            raise
        return done.seq

    async def _make_bucket(self) -> None:
        assert self._client is not None
        replicas = self._address.replicas or (3 if self._client.is_cluster else 1)
        config = api.KeyValueConfig(bucket=self._bucket, history=1, replicas=replicas)
        try:
            await self._records().create_key_value(config)
        except APIError as error:
            if error.err_code != _IS_BEING_MADE:
                self._fail(error)
        except (NatsError, OSError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> NoReturn:
        if isinstance(error, ServiceUnavailableError):
            # A cluster's server may have none itself, and one with it may not be ready yet.
            has_none = self._client is not None and not self._client.has_jetstream
            if error.err_code in _NO_JETSTREAM or (error.err_code is None and has_none):
                line = "the server has no JetStream, here or for this account: nats-server -js"
                raise Refused(f"CLUSTER={self._address}: {line}") from None
            said = error.description or "no answer"
            raise BusError(f"CLUSTER={self._address}: JetStream: {said}") from None
        _fail(f"CLUSTER={self._address}", error)


def _fail(where: str, error: Exception) -> NoReturn:
    """Raise what `error` of nats-py is to the user."""
    if isinstance(error, BusError):
        raise error
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or error.reason or "TLS failed"
        raise Refused(f"{where}: TLS: {reason}") from None
    text = str(error).removeprefix("nats: ").strip("' ") or type(error).__name__
    if any(word in text.lower() for word in ("authorization", "authentication", "permissions")):
        remedy = "check the user, password, token or credentials file in CLUSTER"
        raise Refused(f"{where}: {text}: {remedy}") from None
    raise BusError(f"{where}: {text}") from None


async def _close(client: _Client) -> None:
    """Whatever `client` does: in CLOSE_S, or twice that."""
    tasks = client.tasks()
    try:
        with suppress(Exception):
            async with asyncio.timeout(CLOSE_S):
                await client.close()
    finally:
        client.abort()
        await cancel_all(tasks)
