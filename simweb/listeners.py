"""The listening sockets of a simulated web: HTTP, HTTPS, and a port that refuses connections.

Each has one socket for all of 127.0.0.0/8, and one for ::1 if the machine has it. No address to
bind to means exactly these. So the socket is bound to the interface "lo", if the system allows it;
`http.Connection` and `secure.SecureServer` close a connection to any other address before a byte is
read.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from simweb.http import Connection, Web
from simweb.origins import OriginKind, Ports
from simweb.secure import SecureServer

_BACKLOG = 4096


class Listeners:
    """Binds in the constructor, so that `ports` are known before the first request."""

    def __init__(self, port: int, secure_port: int) -> None:
        """Port 0: any free port."""
        self._http = _bound(port)
        self._https = _bound(secure_port)
        self._closed = socket.socket()
        self._closed.bind(("0.0.0.0", 0))
        bound = self._http, self._https, self._closed
        self.ports = Ports(*(each.getsockname()[1] for each in bound))
        self._http6, self._https6 = (_bound6(each) for each in self.ports[:2])
        self._servers: list[asyncio.Server | SecureServer] = []

    @property
    def ipv6(self) -> bool:
        return bool(self._http6 and self._https6)

    async def start(self, web: Web, kind_of: Callable[[str], OriginKind | None]) -> None:
        loop = asyncio.get_running_loop()
        for sock in filter(None, (self._http, self._http6)):
            server = await loop.create_server(
                lambda: Connection(web, loop), sock=sock, backlog=_BACKLOG
            )
            self._servers.append(server)
        secure = SecureServer(lambda: Connection(web, loop, secure=True), kind_of)
        for sock in filter(None, (self._https, self._https6)):
            secure.listen(sock)
        self._servers.append(secure)

    def close(self) -> None:
        for server in self._servers:
            server.close()
        self._closed.close()


def _bound(port: int) -> socket.socket:
    bound = socket.create_server(("0.0.0.0", port), backlog=_BACKLOG)
    with suppress(AttributeError, OSError):  # Linux, and without root since 5.7
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"lo\0")
    return bound


def _bound6(port: int) -> socket.socket | None:
    try:
        return socket.create_server(("::1", port), family=socket.AF_INET6, backlog=_BACKLOG)
    except OSError:
        return None
