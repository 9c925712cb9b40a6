"""The HTTP client: one request, one answer, one `Exchange`, on plain asyncio.

Owns sockets, TLS connections and the limits of time and size. Connects to the IP address of the
request; looks up no name, follows no redirect, keeps no cookie. Keeps connections alive
(`connections`) if `Limits.keep_alive_s` says so.

Invariants: whatever a peer sends, `fetch` returns an Exchange or raises FetchFailed. Its connection
is then closed or idle, and its timer cancelled. No peer can make a fetch last longer than
`timeout_s`, or use more memory than `http1` states.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
import time
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum

from webcrawl.fetch.connections import Connections, Server
from webcrawl.fetch.decode import decode, decode_quickly
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.gate import Gate, Matches
from webcrawl.fetch.http1 import Headers, ResponseReader
from webcrawl.fetch.mediatypes import Wants
from webcrawl.fetch.requesthead import build_request, split_url
from webcrawl.fetch.tls import CertificateJudge, client_context
from webcrawl.openfiles import IDLE, is_ours

OnContent = Callable[[bytes], bool]

# Reading the bytes of one server may take this long before other tasks run. uvloop gives up to 32
# reads of 256 KB at once: 10 MiB of tiny chunks take 0.8 s.
_TURN_S = 0.005
_REPEATABLE = frozenset({"GET", "HEAD"})  # may be sent again if a reused connection fails
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one fetch. Seconds count from the start of the fetch, after the DNS look-up."""

    timeout_s: float = 15.0
    connect_timeout_s: float = 10.0  # TCP and TLS
    first_byte_timeout_s: float = 0.0  # from the request sent; 0 is no limit of its own
    max_size_bytes: int = 10 << 20  # of the body on the wire, and again once decoded
    max_header_bytes: int = 64 << 10
    keep_alive_s: float = 0.0  # how long a connection may stay idle; 0 turns keep-alive off


@dataclass(slots=True)
class FetchRequest:
    """A request, and how its answer is read. Immutable.

    `wants(status, headers)` is called once, when the head is complete: False closes the connection
    there. `on_content` is called with each new part of the body, without chunk framing: False ends
    the body there.
    """

    method: str
    url: str
    address: str  # IP address to connect to
    headers: Headers
    body: bytes = b""
    wants: Wants | None = None
    on_content: OnContent | None = None
    limits: Limits | None = None  # None: the client's
    local_address: tuple[str, int] | None = None  # None: the client's


class Client:
    """Runs any number of fetches at a time. `repr` counts its active and idle connections."""

    def __init__(
        self,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        judge: CertificateJudge | None = None,
        local_address: tuple[str, int] | None = None,
        idle_max: tuple[int, int] = IDLE,
        gate: Gate | None = None,
    ) -> None:
        self.limits = limits
        self._context = context or client_context()
        self._judge = judge or CertificateJudge()
        self._local_address = local_address
        self._under_way: set[_Fetch] = set()
        self._idle = Connections(idle_max)
        self._gate = gate or Gate()
        self._gate.senders.append(self)

    def __repr__(self) -> str:
        return f"<Client {self.active} active, {len(self._idle)} idle>"

    @property
    def active(self) -> int:
        return len(self._under_way)

    async def fetch(self, request: FetchRequest) -> Exchange:
        """The answer to `request`. Raises FetchFailed; ValueError if its URL is not http or https;
        UnsendableError if it would not be valid HTTP; and any exception of its callbacks.
        """
        while True:
            if self._gate.is_shut:
                await self._gate.wait(request.url)
            try:
                return await self._exchange(await self._fetch(request))
            except _Held:
                continue

    async def _fetch(self, request: FetchRequest) -> _Fetch:
        limits = request.limits or self.limits
        target = split_url(request.url)
        local_address = request.local_address or self._local_address
        server = Server(target.secure, target.host, target.port, request.address, local_address)
        keep = (
            limits.keep_alive_s > 0
            and request.method in _REPEATABLE
            and self._idle.is_reliable(server)
        )
        wire = build_request(request.method, target, request.headers, request.body, keep=keep)
        kept = self._idle.take(server) if keep else None
        fetch = _Fetch(request, wire, limits, server, self._idle if keep else None, self._gate)
        self._under_way.add(fetch)
        try:
            await fetch.run(self._context if target.secure else None, kept)
        except FetchFailed as error:
            if kept is not None and not fetch.first_byte_at and error.reason != "cancelled":
                self._idle.mark_unreliable(server)
            raise
        finally:
            self._under_way.discard(fetch)
        return fetch

    def abort(self, urls: Container[str] | None = None) -> None:
        """End all fetches, or those of `urls`, with FetchFailed("cancelled")."""
        for fetch in tuple(self._under_way):
            if urls is None or fetch.request.url in urls:
                fetch.stop(FetchFailed("cancelled"))

    def hold_unsent(self) -> None:
        for fetch in tuple(self._under_way):
            if fetch.state is State.CONNECTING:
                fetch.stop(_Held())

    def cut_unsent(self, matches: Matches) -> None:
        for fetch in tuple(self._under_way):
            if fetch.state is State.CONNECTING and matches(fetch.request.url):
                fetch.stop(FetchFailed("cancelled"))

    def unanswered(self, matches: Matches) -> int:
        return sum(
            fetch.state is State.AWAITING_ANSWER and matches(fetch.request.url)
            for fetch in self._under_way
        )

    async def close(self) -> None:
        """End all fetches and wait until the last socket is closed."""
        self.abort()
        self._idle.close()
        while self._under_way:  # noqa: ASYNC110  (three turns of the loop, once per crawl)
            await asyncio.sleep(0)

    async def _exchange(self, fetch: _Fetch) -> Exchange:
        reader = fetch.reader
        exchange = Exchange(
            method=fetch.request.method,
            url=fetch.request.url,
            request=fetch.wire,
            head=reader.head,
            status=reader.status,
            http_version=reader.http_version,
            headers=reader.headers,
            ip=fetch.server.address,
            body_skipped=fetch.body_skipped,
            truncated=reader.truncated,
            started_time=fetch.started_time,
            asked_at=fetch.first_byte_at,
            ended_at=fetch.ended_at,
            connect_s=fetch.connected_at - fetch.started_at,
            first_byte_s=fetch.first_byte_at - fetch.connected_at,
            total_s=fetch.ended_at - fetch.started_at,
        )
        if fetch.ssl_object is not None:
            exchange.tls = self._judge.describe(fetch.ssl_object, fetch.server.host)
        if not fetch.body_skipped:
            exchange.body = reader.body
            content = reader.content if reader.chunked else exchange.body
            what = content, reader.headers, fetch.limits.max_size_bytes
            decoded = decode_quickly(*what)
            if decoded is None:
                decoded = await asyncio.to_thread(decode, *what)
            exchange.payload = decoded.payload
            exchange.decode_problem = reader.problem or decoded.problem
            exchange.codings_left = decoded.left
        return exchange


class _Held(Exception):  # noqa: N818  (no error: the fetch begins again)
    """The gate was shut before the request was sent."""


class State(Enum):
    """The states of a fetch, in their order. DONE may follow any state."""

    CONNECTING = "connecting"  # TCP and TLS; skipped on a connection that was idle
    AWAITING_ANSWER = "awaiting the answer"  # the request is sent
    READING_HEAD = "reading the head"  # the first byte came
    READING_BODY = "reading the body"  # the head is complete
    DONE = "done"  # the end is decided; the connection may still be closing


class _Fetch(asyncio.Protocol):
    """One fetch, from connecting to the end of the answer. `repr` has its state.

    Only `_enter` changes the state and its timer. `_decide` enters DONE with the outcome, once.
    After that `run` returns as soon as the connection is closed or idle.
    """

    def __init__(
        self,
        request: FetchRequest,
        wire: bytes,
        limits: Limits,
        server: Server,
        idle: Connections | None,
        gate: Gate,
    ) -> None:
        self.request = request
        self.wire = wire  # the bytes of the request
        self.limits = limits
        self.server = server
        self._idle = idle  # takes the connection if it can be used again
        self._gate = gate
        self.reader = ResponseReader(request.method, limits.max_header_bytes, limits.max_size_bytes)
        self.ssl_object: ssl.SSLObject | None = None
        self.body_skipped = False
        self.started_time = time.time()
        self.started_at = time.monotonic()
        self.connected_at = self.first_byte_at = self.ended_at = 0.0
        self.state = State.CONNECTING
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  # of the present state, one at a time
        self._error: Exception | None = None
        self._reading_s = 0.0  # time spent reading since other tasks had a turn
        self._paused = False
        self._given = 0  # bytes of content that `on_content` has seen

    def __repr__(self) -> str:
        return f"<_Fetch {self.request.method} {self.request.url} {self.state.value}>"

    async def run(self, context: ssl.SSLContext | None, kept: asyncio.Transport | None) -> None:
        """Send the request on `kept`, an idle connection, or on a new one. Returns when the
        connection is closed or idle again. Raises the error that was given to `stop`.
        """
        try:
            if kept is not None:
                kept.set_protocol(self)
                self._ask(kept, self.started_at)
            else:
                self._enter(State.CONNECTING, self.started_at)
                await self._connect(context)
            await self._closed
        except asyncio.CancelledError:
            if self._error is None or self._task is None or self._task.uncancel():
                raise  # not by `stop`: the caller's task is being cancelled
        except ssl.SSLError as error:
            self._decide(FetchFailed("tls", error.reason or str(error)))
        except OSError as error:
            ours = is_ours(error) or self._lacks_port(error)
            self._decide(FetchFailed("no_socket" if ours else "connect", str(error)))
        except ValueError as error:  # a name that TLS cannot ask for
            self._decide(FetchFailed("connect", str(error)))
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._transport is not None:
                self._transport.abort()
        if self._error is not None:
            raise self._take_error()

    async def _connect(self, context: ssl.SSLContext | None) -> None:
        """Raises OSError, for a failed handshake ssl.SSLError; ValueError for a bad name."""
        server, connect = self.server, self._loop.create_connection
        place = server.address, server.port
        if context is None:
            await connect(lambda: self, *place, local_addr=server.local_address)
            return
        # In two steps, because uvloop does them as one task: cancelled between the two, it leaves
        # the error of the handshake to nobody, and the log gets a traceback.
        transport, _ = await connect(asyncio.Protocol, *place, local_addr=server.local_address)
        try:
            name = server.host.rstrip(".")  # Python sends no SNI for an IP address
            secured = await self._loop.start_tls(transport, self, context, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        if secured is None or secured.is_closing():
            raise ConnectionResetError("closed in the TLS handshake")
        self._ask(secured, time.monotonic())

    def _lacks_port(self, error: OSError) -> bool:
        """Whether all local ports are in use. The system reports the same error for a local address
        that is not ours, and for IPv6 where this machine has none.
        """
        server = self.server
        chosen = server.local_address is None and ":" not in server.address
        return error.errno == errno.EADDRNOTAVAIL and chosen

    def stop(self, error: Exception | None = None) -> None:
        """End the fetch with `error`, unless it has ended, and close the connection."""
        state = self.state
        if state is State.DONE:
            return
        self._decide(error)
        if self._transport is not None:
            if state is State.AWAITING_ANSWER:
                _forget(self._transport)
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()  # in `create_connection`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ask(transport, time.monotonic())  # type: ignore[arg-type]  # it is two-way

    def _ask(self, transport: asyncio.Transport, connected_at: float) -> None:
        self._transport = transport
        if self.state is State.DONE:  # stopped while connecting
            transport.abort()
            return
        if self._gate.is_shut:  # since this moment: the process was busy or stopped
            self.stop(_Held())
            return
        self.connected_at = connected_at
        self.ssl_object = transport.get_extra_info("ssl_object")
        self._enter(State.AWAITING_ANSWER, connected_at)
        transport.write(self.wire)

    def data_received(self, data: bytes) -> None:
        if self.state is State.DONE:
            return
        if self.state is State.CONNECTING:  # the TLS handshake is complete
            self.stop(FetchFailed("bad_response", "data before the request"))
            return
        now = time.monotonic()
        if self.state is State.AWAITING_ANSWER:
            self.first_byte_at = now
            self._enter(State.READING_HEAD, now)
        reader, request = self.reader, self.request
        try:
            reader.feed(data)
            if reader.status and self.state is State.READING_HEAD:
                self._enter(State.READING_BODY, now)
                if request.wants is not None:
                    self.body_skipped = not request.wants(reader.status, reader.headers)
            if reader.status and request.on_content is not None and not self.body_skipped:
                self._give_content(request.on_content)
        except Exception as error:  # the peer's fault, or a callback's: either ends in `run`
            self.stop(error)
        else:
            if reader.done or self.body_skipped:
                self._end_answer()
                return
            self._reading_s += time.monotonic() - now
            if self._reading_s > _TURN_S:
                self._give_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self.state is State.READING_BODY:
            self.reader.end("disconnect" if exc else "eof")
            self._decide()
        elif self.state is not State.DONE:
            self._decide(FetchFailed("reset", str(exc or "closed before the end of the head")))
        if not self._closed.done():
            self._closed.set_result(None)

    def _on_timer(self) -> None:
        if self.state is State.CONNECTING:
            self.stop(FetchFailed("connect_timeout"))
        elif self.state is State.READING_BODY:
            self.reader.end("time")
            self.stop()
        else:
            self.stop(FetchFailed("timeout"))

    def _enter(self, state: State, now: float) -> None:
        """Change the state at `now`, and start the timer of the new state if it has its own."""
        self.state = state
        limits = self.limits
        left_s = self.started_at + limits.timeout_s - now
        if state is State.CONNECTING:
            left_s = min(limits.connect_timeout_s, left_s)
        elif state is State.AWAITING_ANSWER:
            left_s = min(limits.first_byte_timeout_s or left_s, left_s)
        elif state is not State.READING_HEAD or not limits.first_byte_timeout_s:
            return  # the timer of the earlier state keeps running, or `run` cancels it
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(left_s, self._on_timer)

    def _decide(self, error: Exception | None = None) -> None:
        """End with `error`, or with the answer as far as it came. Only the first call counts."""
        if self.state is State.DONE:
            return
        self.ended_at = time.monotonic()
        if error is not None and isinstance(error, FetchFailed):
            error.asked = self.state is not State.CONNECTING
            error.ended_at = self.ended_at
            error.connect_s = max(0.0, self.connected_at - self.started_at)
            error.received_bytes = self.reader.received_bytes
        self._error = error
        self._enter(State.DONE, self.ended_at)

    def _end_answer(self) -> None:
        """The answer is complete: keep the connection as an idle one, or close it."""
        idle, transport = self._idle, self._transport
        if idle is None or transport is None or self.body_skipped:
            self.stop()
            return
        idle_s = min(self.limits.keep_alive_s, self.reader.idle_s)
        if idle_s <= 0:
            self.stop()
            return
        self._decide()
        self._transport = None
        idle.put(self.server, transport, idle_s)
        self._closed.set_result(None)

    def _give_turn(self) -> None:
        """Pause reading until the event loop has run its other callbacks once."""
        self._reading_s = 0.0
        if not self._paused and self._transport is not None and self.state is not State.DONE:
            self._paused = True
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._paused = False
        if self._transport is not None and self.state is not State.DONE:
            self._transport.resume_reading()

    def _give_content(self, on_content: OnContent) -> None:
        content = self.reader.content_from(self._given)
        self._given += len(content)
        if content and not on_content(content):
            self.reader.end("unspecified")

    def _take_error(self) -> Exception:
        """Hand the error over, so that its traceback and this object form no cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error


def _forget(transport: asyncio.Transport) -> None:
    """Make the system discard bytes that it has not sent yet.

    Otherwise it would still send the request after an outage, when the crawl has given it up: too
    early for the host's delay.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
