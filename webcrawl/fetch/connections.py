"""Connections that stay open for the next request to their server (RFC 9112, 9.3).

Invariants: what `take` gives was open and silent until then, for no longer than was said at `put`;
a server that speaks without being asked, or closes, is let go. What grows is bounded by `idle_max`
and UNRELIABLE_MAX.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from webcrawl.openfiles import IDLE

UNRELIABLE_MAX: Final = 4096


class Server(NamedTuple):
    """Who is at the other end: a connection serves requests to no other."""

    secure: bool
    host: str
    port: int
    address: str
    local_address: tuple[str, int] | None


class Connections:
    """Idle connections, one for each server.

    At most `idle_max`, without and with TLS: 2 and 90 KB each. The longest idle goes first.
    """

    def __init__(self, idle_max: tuple[int, int] = IDLE) -> None:
        self._idle_max = idle_max
        # By whether they have TLS; the oldest first.
        self._idle: tuple[dict[Server, _Idle], dict[Server, _Idle]] = ({}, {})
        self._unreliable: dict[Server, None] = {}

    def __len__(self) -> int:
        return sum(map(len, self._idle))

    def is_reliable(self, server: Server) -> bool:
        """Whether a connection to `server` is worth keeping."""
        return server not in self._unreliable

    def take(self, server: Server) -> asyncio.Transport | None:
        """The connection to `server`, if one waits; the caller's from now on."""
        idle = self._idle[server.secure].get(server)
        return idle.end() if idle is not None else None

    def put(self, server: Server, transport: asyncio.Transport, idle_s: float) -> None:
        """Have `transport`, whose last answer has come whole, wait for up to `idle_s`."""
        idle = self._idle[server.secure]
        if server in idle:
            transport.abort()
            return
        if len(idle) >= self._idle_max[server.secure]:
            if not idle:
                transport.abort()
                return
            next(iter(idle.values())).end().abort()
        idle[server] = _Idle(idle, server, transport, idle_s)

    def mark_unreliable(self, server: Server) -> None:
        """`server` kept a connection and did not answer on it: believe it no more."""
        if len(self._unreliable) >= UNRELIABLE_MAX:
            del self._unreliable[next(iter(self._unreliable))]
        self._unreliable[server] = None

    def close(self) -> None:
        """Close all that wait."""
        for idle in self._idle:
            for each in tuple(idle.values()):
                each.end().abort()


class _Idle(asyncio.Protocol):
    """One that waits: whatever happens on it before `end` is its end."""

    def __init__(
        self,
        idle: dict[Server, _Idle],
        server: Server,
        transport: asyncio.Transport,
        idle_s: float,
    ) -> None:
        self._all = idle
        self._server = server
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(idle_s, self._abort)
        transport.set_protocol(self)

    def end(self) -> asyncio.Transport:
        """Wait no more."""
        self._timer.cancel()
        self._all.pop(self._server, None)
        return self._transport

    def data_received(self, data: bytes) -> None:
        self._abort()

    def eof_received(self) -> None:
        self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()

    def _abort(self) -> None:
        self.end().abort()
