"""The HTTP client: one request, one answer, one `Exchange`, on plain asyncio.

Owns sockets, TLS connections and the limits of time and size. Connects to the IP address it is
given and never looks up a name, follows no redirect, keeps no cookie. Keeps a connection open for
the next request to its server where the limits say so.

Invariants: a peer gets `fetch` to return an Exchange or raise FetchFailed, nothing else; by then
its socket is closed or idle and its timer cancelled. No peer can make a fetch last longer than
`timeout_s`, nor hold more memory than `http1` states.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl
import struct
import time
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from webcrawl.fetch.connections import Connections, Server
from webcrawl.fetch.decode import decode, decode_quickly
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.http1 import Headers, ResponseReader
from webcrawl.fetch.mediatypes import Wants
from webcrawl.fetch.requesthead import header_line, host_line, request_line
from webcrawl.fetch.tls import CertificateJudge, client_context
from webcrawl.openfiles import IDLE, is_ours

OnContent = Callable[[bytes], bool]

_URL = re.compile(r"(https?)://(?:[^/?#]*@)?(\[[^\]]+\]|[^/?#:]+)(?::(\d*))?([^#]*)", re.IGNORECASE)
# Seconds that the bytes of one peer may take before others have a turn: uvloop gives up to 32 reads
# of 256 KB at once, 10 MiB of tiny chunks among them, which take 0.8 s.
_TURN_S = 0.005
_REPEATABLE = frozenset({"GET", "HEAD"})  # may be asked again where a kept connection failed
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """What one fetch may cost. Seconds count from the start of the fetch, name lookup excluded."""

    timeout_s: float = 15.0
    connect_timeout_s: float = 10.0  # TCP and TLS
    first_byte_timeout_s: float = 0.0  # from the request sent; 0 is no limit of its own
    max_size_bytes: int = 10 << 20  # of the body on the wire, and again once decoded
    max_header_bytes: int = 64 << 10
    keep_alive_s: float = 0.0  # how long a connection may wait for the next request to its server


class Target(NamedTuple):
    """Where a URL leads: `host` as the URL has it, without brackets."""

    secure: bool
    host: str
    port: int
    netloc: str  # for the Host header: the port only where it is not the default
    path: str  # with the query; never empty


class Client:
    """Fetches, any number at a time. `repr` says how many connections are in use and idle."""

    def __init__(
        self,
        limits: Limits,
        context: ssl.SSLContext | None = None,
        judge: CertificateJudge | None = None,
        local_address: tuple[str, int] | None = None,
        idle_max: tuple[int, int] = IDLE,
    ) -> None:
        self.limits = limits
        self._context = context or client_context()
        self._judge = judge or CertificateJudge()
        self._local_address = local_address
        self._under_way: set[_Fetch] = set()
        self._idle = Connections(idle_max)

    def __repr__(self) -> str:
        return f"<Client {self.active} active, {len(self._idle)} idle>"

    @property
    def active(self) -> int:
        return len(self._under_way)

    async def fetch(
        self,
        method: str,
        url: str,
        address: str,
        headers: Headers,
        body: bytes = b"",
        wants: Wants | None = None,
        *,
        on_content: OnContent | None = None,
        limits: Limits | None = None,
        local_address: tuple[str, int] | None = None,
    ) -> Exchange:
        """Ask `address` for `url`. Raises FetchFailed; ValueError if it is no http or https
        URL, or, as UnsendableError, no request that may be sent.

        `wants(status, headers)` is asked once, at the head; False closes the connection there.
        `on_content` is given the body as it comes, without chunk framing, and may end it by False.
        What either raises is raised here.
        """
        limits = limits or self.limits
        target = split_url(url)
        server = Server(
            target.secure, target.host, target.port, address, local_address or self._local_address
        )
        keep = limits.keep_alive_s > 0 and method in _REPEATABLE and self._idle.trusts(server)
        request = build_request(method, target, headers, body, keep=keep)
        kept = self._idle.take(server) if keep else None
        fetch = _Fetch(method, request, limits, server, self._idle if keep else None)
        fetch.url = url
        fetch.wants = wants
        fetch.on_content = on_content
        self._under_way.add(fetch)
        try:
            await fetch.run(self._context if target.secure else None, kept)
        except FetchFailed as error:
            if kept is not None and not fetch.first_byte_at and error.reason != "cancelled":
                self._idle.mark_unreliable(server)
            raise
        finally:
            self._under_way.discard(fetch)
        return await self._exchange(fetch, url, target, address, limits)

    def abort(self, urls: Container[str] | None = None) -> None:
        """End what is under way, or of it what is for `urls`, with FetchFailed("cancelled")."""
        for fetch in tuple(self._under_way):
            if urls is None or fetch.url in urls:
                fetch.stop(FetchFailed("cancelled"))

    async def close(self) -> None:
        """`abort`, and wait until the last socket is closed."""
        self.abort()
        self._idle.close()
        while self._under_way:  # noqa: ASYNC110  (three turns of the loop, once a crawl)
            await asyncio.sleep(0)

    async def _exchange(
        self, fetch: _Fetch, url: str, target: Target, address: str, limits: Limits
    ) -> Exchange:
        reader = fetch.reader
        exchange = Exchange(
            method=fetch.method,
            url=url,
            request=fetch.request,
            head=reader.head,
            status=reader.status,
            http_version=reader.http_version,
            headers=reader.headers,
            ip=address,
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
            exchange.tls = self._judge.describe(fetch.ssl_object, target.host)
        if not fetch.body_skipped:
            exchange.body = reader.body
            content = reader.content if reader.chunked else exchange.body
            what = content, reader.headers, limits.max_size_bytes
            decoded = decode_quickly(*what)
            if decoded is None:
                decoded = await asyncio.to_thread(decode, *what)
            exchange.payload = decoded.payload
            exchange.decode_problem = reader.problem or decoded.problem
            exchange.codings_left = decoded.left
        return exchange


class _Fetch(asyncio.Protocol):
    """One fetch: connecting, waiting for the head, reading the body, over.

    The end is decided once, by `_decide`; `run` wakes when the connection is gone after that.
    """

    url = ""
    wants: Wants | None = None
    on_content: OnContent | None = None

    def __init__(
        self,
        method: str,
        request: bytes,
        limits: Limits,
        server: Server,
        keeper: Connections | None,
    ) -> None:
        self.method = method
        self.request = request
        self.limits = limits
        self._server = server
        self._keeper = keeper  # of the connection, once it has been of use
        self.reader = ResponseReader(method, limits.max_header_bytes, limits.max_size_bytes)
        self.ssl_object: ssl.SSLObject | None = None
        self.body_skipped = False
        self.started_time = time.time()
        self.started_at = time.monotonic()
        self.connected_at = self.first_byte_at = self.ended_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._task = asyncio.current_task()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None  # of the present state, one at a time
        self._error: Exception | None = None
        self._reading_s = 0.0  # what reading took since others had a turn
        self._paused = False
        self._given = 0  # bytes of content that `on_content` has seen

    async def run(self, context: ssl.SSLContext | None, kept: asyncio.Transport | None) -> None:
        """Connect unless there is a `kept` connection, ask, and return when the connection is
        closed or idle. Raises what `stop` was given.
        """
        server = self._server
        try:
            if kept is not None:
                kept.set_protocol(self)
                self._ask(kept, self.started_at)
            else:
                self._arm(min(self.limits.connect_timeout_s, self.limits.timeout_s))
                await self._loop.create_connection(
                    lambda: self,
                    server.address,
                    server.port,
                    ssl=context,
                    # Python sends no SNI for an IP address.
                    server_hostname=server.host.rstrip(".") if context else None,
                    local_addr=server.local_address,
                )
            await self._closed
        except asyncio.CancelledError:
            if self._error is None or self._task is None or self._task.uncancel():
                raise  # not ours: someone ends the task that waits for us
        except ssl.SSLError as error:
            self._decide(FetchFailed("tls", error.reason or str(error)))
        except OSError as error:
            ours = is_ours(error) or self._lacks_port(error)
            self._decide(FetchFailed("no_socket" if ours else "connect", str(error)))
        except ValueError as error:  # a name that TLS cannot ask for
            self._decide(FetchFailed("connect", str(error)))
        finally:
            self._disarm()
            if self._transport is not None:
                self._transport.abort()
        if self._error is not None:
            raise self._take_error()

    def _lacks_port(self, error: OSError) -> bool:
        """Whether all local ports are in use. It says the same of an address that is not ours, and
        for IPv6 where there is none."""
        server = self._server
        chosen = server.local_address is None and ":" not in server.address
        return error.errno == errno.EADDRNOTAVAIL and chosen

    def stop(self, error: Exception | None = None) -> None:
        """Decide the end, if nothing has yet, and let go of the connection."""
        if self.ended_at:
            return
        self._decide(error)
        if self._transport is not None:
            if not self.first_byte_at:
                _forget(self._transport)
            self._transport.abort()
        elif self._task is not None:
            self._task.cancel()  # in `create_connection`

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._ask(transport, time.monotonic())  # type: ignore[arg-type]  # it is two-way

    def _ask(self, transport: asyncio.Transport, connected_at: float) -> None:
        self._transport = transport
        if self.ended_at:  # while it came about
            transport.abort()
            return
        self.connected_at = connected_at
        self.ssl_object = transport.get_extra_info("ssl_object")
        limit_s = self.started_at + self.limits.timeout_s - connected_at
        self._arm(min(limit_s, self.limits.first_byte_timeout_s or limit_s))
        transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        if self.ended_at:
            return
        now = time.monotonic()
        if not self.first_byte_at:
            self.first_byte_at = now
            if self.limits.first_byte_timeout_s:
                self._arm(self.started_at + self.limits.timeout_s - self.first_byte_at)
        reader = self.reader
        headed = reader.status
        try:
            reader.feed(data)
            if reader.status and not headed and self.wants is not None:
                self.body_skipped = not self.wants(reader.status, reader.headers)
            if reader.status and self.on_content is not None and not self.body_skipped:
                self._give_content(self.on_content)
        except Exception as error:  # the peer's fault, or our caller's: either ends in `run`
            self.stop(error)
        else:
            if reader.done or self.body_skipped:
                self._part()
                return
            self._reading_s += time.monotonic() - now
            if self._reading_s > _TURN_S:
                self._give_turn()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if not self.ended_at:
            if self.reader.status:
                self.reader.end("disconnect" if exc else "eof")
                self._decide()
            else:
                self._decide(FetchFailed("reset", str(exc or "closed before the end of the head")))
        if not self._closed.done():
            self._closed.set_result(None)

    def _on_timer(self) -> None:
        if not self.connected_at:
            self.stop(FetchFailed("connect_timeout"))
        elif not self.reader.status:
            self.stop(FetchFailed("timeout"))
        else:
            self.reader.end("time")
            self.stop()

    def _give_turn(self) -> None:
        """Read on once the event loop has been round."""
        self._reading_s = 0.0
        if not self._paused and self._transport is not None and not self.ended_at:
            self._paused = True
            self._transport.pause_reading()
            self._loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        self._paused = False
        if self._transport is not None and not self.ended_at:
            self._transport.resume_reading()

    def _part(self) -> None:
        """The answer is here: leave the connection to its keeper, or close it."""
        keeper, transport = self._keeper, self._transport
        idle_s = 0.0 if self.body_skipped else min(self.limits.keep_alive_s, self.reader.idle_s)
        if keeper is None or transport is None or idle_s <= 0:
            self.stop()
            return
        self._decide()
        self._transport = None
        keeper.put(self._server, transport, idle_s)
        self._closed.set_result(None)

    def _decide(self, error: Exception | None = None) -> None:
        if self.ended_at:
            return
        self.ended_at = time.monotonic()
        if isinstance(error, FetchFailed):
            error.asked = bool(self.connected_at)
            error.ended_at = self.ended_at
        self._error = error

    def _give_content(self, on_content: OnContent) -> None:
        news = self.reader.content_from(self._given)
        self._given += len(news)
        if news and not on_content(news):
            self.reader.end("unspecified")

    def _arm(self, seconds: float) -> None:
        self._disarm()
        self._timer = self._loop.call_later(seconds, self._on_timer)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_error(self) -> Exception:
        """Hand the error over, so that its traceback and this object form no cycle."""
        error, self._error = self._error, None
        assert error is not None
        return error


def _forget(transport: asyncio.Transport) -> None:
    """Have the system send nothing more: a request that did not get through now would reach the
    server when the network is back, unasked and too early.
    """
    sock = transport.get_extra_info("socket")
    if sock is not None:
        with suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def split_url(url: str) -> Target:
    """The parts of an absolute http or https URL that a request needs. 1 us; ValueError."""
    match = _URL.match(url)
    if match is None:
        raise ValueError(f"not an http or https URL: {url!r}")
    scheme, host, port, path = match.groups()
    secure = scheme.lower() == "https"
    default = 443 if secure else 80
    number = int(port or default)
    return Target(
        secure=secure,
        host=host[1:-1] if host.startswith("[") else host,
        port=number,
        netloc=host if number == default else f"{host}:{number}",
        path=path if path.startswith("/") else "/" + path,
    )


def build_request(
    method: str, target: Target, headers: Headers, body: bytes, *, keep: bool = False
) -> bytes:
    """The bytes of the request (RFC 9112, 3 and 6), `headers` as they are given. UnsendableError.

    Connection and framing are ours to say; Host is the caller's if given. A method that means a
    body has a Content-Length even for an empty one (RFC 9110, 8.6).
    """
    lines = [request_line(method, target.path), host_line(target.netloc)]
    if any(name.lower() == b"host" for name, _ in headers):
        del lines[1]
    lines += [line for header in headers if (line := header_line(*header))]
    if body or method in ("POST", "PUT", "PATCH"):
        lines.append(b"Content-Length: %d" % len(body))
    lines.append(b"Connection: keep-alive\r\n\r\n" if keep else b"Connection: close\r\n\r\n")
    return b"\r\n".join(lines) + body
