"""One request on one connection, from connecting to the end of the answer, on plain asyncio.

Owns its socket and TLS connection, its timer and its state. Connects to the IP address of the
server, or to the crawl's proxy, for https through a tunnel. `http1` reads the bytes, `connections`
takes a connection that can be used again.

Invariants: whatever a peer sends, `run` returns, or raises FetchFailed or an exception of a
callback. Then the connection is closed or idle, and the timer cancelled. No peer can make a
transfer last longer than `timeout_s`, without the time in which it waits for a room that is not
timed (`room`), or use more memory than `http1` states.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import struct
import time
from contextlib import suppress
from enum import Enum

from webcrawl.base.openfiles import is_ours
from webcrawl.fetch.connections import Connections, Server
from webcrawl.fetch.decode import codings_of
from webcrawl.fetch.exchange import FailureReason, FetchFailed
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.http1 import ResponseReader, content_length
from webcrawl.fetch.proxy import Proxy, Tunnel, failure_of, tunnel_place
from webcrawl.fetch.request import FetchRequest, Limits, OnContent
from webcrawl.fetch.room import FREE_BYTES, Room, Share

# Reading the bytes of one server may take this long before other tasks run. uvloop gives up to 32
# reads of 256 KB at once: 10 MiB of tiny chunks take 0.8 s.
_TURN_S = 0.005
_NO_LINGER = struct.pack("ii", 1, 0)


class Held(Exception):  # noqa: N818  (no error: the fetch begins again)
    """The gate was shut before the request was sent."""


class State(Enum):
    """The states of a transfer, in their order. DONE may follow any state."""

    CONNECTING = "connecting"  # TCP and TLS; skipped on a connection that was idle
    AWAITING_ANSWER = "awaiting the answer"  # the request is sent
    READING_HEAD = "reading the head"  # the first byte came
    READING_BODY = "reading the body"  # the head is complete
    DONE = "done"  # the end is decided; the connection may still be closing


class Transfer(asyncio.Protocol):
    """One request and its answer. `repr` has its state.

    `_decide` enters DONE with the outcome, once.
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
        proxy: Proxy | None = None,
        room: Room | None = None,
    ) -> None:
        self.request = request
        self.wire = wire  # the bytes of the request, without the proxy's user name and password
        self._proxy = proxy
        self._at_proxy = False  # connected to it
        self.limits = limits
        self.server = server
        self._idle = idle  # takes the connection if it can be used again
        self._gate = gate
        self._room = room
        self.share: Share | None = None  # of the room; asked for by a large answer
        self.granted_at = 0.0
        self._held_s: float | None = None  # left of the timer, while this waits for room
        self.reader = ResponseReader(request.method, limits.max_header_bytes, limits.max_size_bytes)
        self.ssl_object: ssl.SSLObject | None = None
        self.body_skipped = False
        self.started_time = time.time()
        self.started_at = time.monotonic()
        self.connected_at = self.first_byte_at = self.ended_at = 0.0
        self.state = State.CONNECTING
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None  # that connects
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  # of the present state, one at a time
        self._error: Exception | None = None
        self._reading_s = 0.0  # time spent reading since other tasks had a turn
        self._paused = False
        self._given = 0  # bytes of content that `on_content` has seen

    def __repr__(self) -> str:
        return f"<Transfer {self.request.method} {self.request.url} {self.state.value}>"

    async def run(self, context: ssl.SSLContext | None, kept: asyncio.Transport | None) -> None:
        """Send the request on `kept`, an idle connection, or on a new one. Returns when the
        connection is closed or idle again. Raises the error that was given to `stop`.
        """
        try:
            if kept is not None:
                kept.set_protocol(self)
                self._ask(kept, self.started_at)
            else:
                self._task = asyncio.current_task()
                self._start_timer(self.limits.connect_timeout_s, self.started_at)
                await self._connect(context)
            await self._closed
        except asyncio.CancelledError:
            if self._error is None or self._task is None or self._task.uncancel():
                raise  # not by `stop`: the caller's task is being cancelled
        except FetchFailed as failure:  # of the tunnel
            self._decide(failure)
        except ssl.SSLError as error:
            self._decide(FetchFailed("tls", error.reason or str(error)))
        except OSError as error:
            ours = is_ours(error) or self._lacks_port(error)
            theirs: FailureReason = "proxy" if self._lacks_proxy else "connect"
            self._decide(FetchFailed("no_socket" if ours else theirs, str(error)))
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
        """Connect to the server; through a proxy, if there is one, for https with a tunnel.

        Raises FetchFailed, of the tunnel; OSError, for a failed handshake ssl.SSLError; ValueError
        for a bad name.
        """
        server, proxy = self.server, self._proxy
        tunnel = None
        if proxy is not None and context is not None:
            tunnel = Tunnel(proxy.tunnel_request(tunnel_place(server.host, server.port)))
        first = self if context is None else tunnel or asyncio.Protocol()
        transport, _ = await self._loop.create_connection(
            lambda: first,
            *((proxy.host, proxy.port) if proxy is not None else (server.address, server.port)),
            local_addr=server.local_address,
        )
        if context is None:
            return
        self._at_proxy = True
        # TLS is a second step, because uvloop would do both as one task: cancelled between the two,
        # it leaves the error of the handshake to nobody, and the log gets a traceback.
        try:
            if tunnel is not None:
                await tunnel.opened
            if transport.is_closing():  # `start_tls` of uvloop would print a traceback
                raise ConnectionResetError("closed before the TLS handshake")
            name = server.host.rstrip(".")  # Python sends no SNI for an IP address
            secured = await self._loop.start_tls(transport, self, context, server_hostname=name)
        except BaseException:
            transport.abort()
            raise
        if secured is None or secured.is_closing():
            raise ConnectionResetError("closed in the TLS handshake")
        self._ask(secured, time.monotonic())

    @property
    def _lacks_proxy(self) -> bool:
        """Whether there is a proxy, and no connection to it yet."""
        return self._proxy is not None and not self._at_proxy

    def _lacks_port(self, error: OSError) -> bool:
        """Whether all local ports are in use. The system reports the same error for a local address
        that is not ours, and for IPv6 where this machine has none.
        """
        server = self.server
        chosen = server.local_address is None and ":" not in server.address
        return error.errno == errno.EADDRNOTAVAIL and chosen

    def stop(self, error: Exception | None = None) -> None:
        """End the transfer with `error`, unless it has ended, and close the connection."""
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
        self._at_proxy = True
        if self.state is State.DONE:  # stopped while connecting
            transport.abort()
            return
        if self._gate.holds(self.request.url):
            self.stop(Held())  # since this moment: the process was busy or stopped
            return
        self.connected_at = connected_at
        self.ssl_object = transport.get_extra_info("ssl_object")
        self.state = State.AWAITING_ANSWER
        self._start_timer(0.0, connected_at)
        proxy = None if self.ssl_object else self._proxy
        transport.write(proxy.with_authorization(self.wire) if proxy else self.wire)

    def data_received(self, data: bytes) -> None:
        if self.state is State.DONE:
            return
        if self.state is State.CONNECTING:  # the TLS handshake is complete
            self.stop(FetchFailed("bad_response", "data before the request"))
            return
        now = time.monotonic()
        if self.state is State.AWAITING_ANSWER:
            self.first_byte_at = now
            self.state = State.READING_HEAD
        reader, request = self.reader, self.request
        try:
            reader.feed(data)
            if reader.status and self.state is State.READING_HEAD:
                self.state = State.READING_BODY
                if self._proxy is not None and self.ssl_object is None:
                    failure = failure_of(reader.status, reader.headers, tunnel=False)
                    if failure is not None:
                        raise failure
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
            if self._room is not None and self.share is None:
                self._ask_for_room(self._room)
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
            self.stop(FetchFailed("proxy" if self._lacks_proxy else "connect_timeout"))
        elif self.state is State.READING_BODY:
            self.reader.end("time")
            self.stop()
        else:
            self.stop(FetchFailed("timeout"))

    def _start_timer(self, limit_s: float, now: float) -> None:
        """Start the timer of the present state, which may last `limit_s`; 0: up to the end."""
        left_s = self.started_at + self.limits.timeout_s - now
        if 0 < limit_s < left_s:
            left_s = limit_s
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
        self.state = State.DONE  # `run` cancels the timer

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
        if self._transport is not None and self.state is not State.DONE and self._held_s is None:
            self._transport.resume_reading()

    async def room_to_decode(self) -> None:
        """Wait for room for a small body that becomes a large payload. A large one has its room."""
        if self._room is not None and self.share is None:
            granted = self._loop.create_future()
            size = self.limits.max_size_bytes
            self.share = self._room.ask(self.server.host, size, lambda: granted.set_result(None))
            await granted
            self.granted_at = self.ended_at  # its host did not use the room before

    def release_room(self) -> None:
        if self.share is not None:
            self.share.release()

    def _ask_for_room(self, room: Room) -> None:
        """Stop reading a large answer until there is room for it, as large as it may become."""
        reader, size_max = self.reader, self.limits.max_size_bytes
        if not reader.status or reader.received_bytes <= FREE_BYTES:
            return
        size = min(content_length(reader.headers) or size_max, size_max)
        if self.request.decodes and codings_of(reader.headers):
            size += size_max
        elif reader.chunked:
            size *= 2
        self.share = room.ask(self.server.host, size, self._go_on)
        if self.share.waits and self._transport is not None and self._timer is not None:
            self._transport.pause_reading()
            self._held_s = self._timer.when() - self._loop.time()
            if not room.is_timed:
                self._timer.cancel()

    def _go_on(self) -> None:
        """There is room. The server gets the time that it had left."""
        self.granted_at = time.monotonic()
        held_s, self._held_s = self._held_s, None
        if held_s is not None and self._transport is not None and self.state is not State.DONE:
            if self._timer is None or self._timer.cancelled():
                self._timer = self._loop.call_later(held_s, self._on_timer)
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
