"""Keep-alive: idle connections, kept for the next request to their server (RFC 9112, 9.3).

Invariants: a connection that `pop` returns was open and silent since `put`, for at most the time
that `put` was given. A connection is closed when its server closes it or sends anything unasked.
Memory is bounded by `idle_max` and UNRELIABLE_MAX.
"""

from __future__ import annotations

import asyncio
from typing import Final

from msgspec import Struct

from webcrawl.base.openfiles import IDLE

UNRELIABLE_MAX: Final = 4096


class Server(Struct, frozen=True, gc=False):
    """The server of a connection. The connection is used for this server only."""

    secure: bool
    host: str
    port: int
    address: str
    local_address: tuple[str, int] | None


class Connections:
    """Idle connections, at most one per server.

    `idle_max` is the maximum number without TLS (2 KB each) and with TLS (90 KB each). If there
    are more, the connection that has been idle longest is closed.
    """

    def __init__(self, idle_max: tuple[int, int] = IDLE) -> None:
        self._idle_max = idle_max
        # Without and with TLS; the longest idle first.
        self._idle: tuple[dict[Server, _IdleConnection], dict[Server, _IdleConnection]] = ({}, {})
        self._unreliable: dict[Server, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._idle))

    def is_reliable(self, server: Server) -> bool:
        """Whether a connection to `server` is worth keeping."""
        return server not in self._unreliable

    def pop(self, server: Server) -> asyncio.Transport | None:
        """The idle connection to `server`, if there is one. The caller owns it from now on."""
        idle = self._idle[server.secure].get(server)
        return idle.release() if idle is not None else None

    def put(self, server: Server, transport: asyncio.Transport, idle_s: float) -> None:
        """Keep `transport` for up to `idle_s`. Its last answer must have been read whole."""
        idle = self._idle[server.secure]
        if server in idle:
            transport.abort()
            return
        if len(idle) >= self._idle_max[server.secure]:
            if not idle:
                transport.abort()
                return
            next(iter(idle.values())).release().abort()
        idle[server] = _IdleConnection(idle, server, transport, idle_s)

    def mark_unreliable(self, server: Server) -> None:
        """A request failed on a reused connection to `server`: do not reuse one again."""
        if len(self._unreliable) >= UNRELIABLE_MAX:
            del self._unreliable[next(iter(self._unreliable))]
        self._unreliable[server] = None

    def close(self) -> None:
        """Close all idle connections."""
        for idle in self._idle:
            for each in tuple(idle.values()):
                each.release().abort()


class _IdleConnection(asyncio.Protocol):
    """One idle connection. Any event on it closes it: data, the server's close, the time-out."""

    def __init__(
        self,
        idle: dict[Server, _IdleConnection],
        server: Server,
        transport: asyncio.Transport,
        idle_s: float,
    ) -> None:
        self._all = idle
        self._server = server
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(idle_s, self._abort)
        transport.set_protocol(self)

    def release(self) -> asyncio.Transport:
        """Remove this connection from the idle ones, and return its transport."""
        self._timer.cancel()
        if self._all.get(self._server) is self:  # not another, kept since this one was aborted
            del self._all[self._server]
        return self._transport

    def data_received(self, data: bytes) -> None:
        self._abort()

    def eof_received(self) -> None:
        self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """TLS chooses whom it tells before it tells: by then a fetch may have the connection."""
        owner = self._transport.get_protocol()
        if owner is self or owner is None:
            self.release()
        else:
            owner.connection_lost(exc)

    def _abort(self) -> None:
        self.release().abort()
