"""A proxy for tests: http URLs by absolute form, tunnels by CONNECT, and a log of all it was asked.

It knows nothing of the crawler. `stop` closes its port and all connections, `start` opens the same
port again.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import struct
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import NamedTuple, Self

from tests.closing import close

_HEAD = re.compile(rb"([A-Z]+) (\S+) HTTP/1\.1\r\n")
_URL = re.compile(r"http://([^/:]+|\[[^]]+\])(?::(\d+))?(/.*)")


class Asked(NamedTuple):
    """A request that reached the proxy."""

    method: str
    target: str
    status: int  # of the proxy's own answer; 200 if it was passed on


class ProxyServer:
    """Runs in a thread of its own. `resolve` turns a name into an address, or raises OSError."""

    def __init__(self, resolve: Callable[[str], str], login: str = "") -> None:
        self.log: list[Asked] = []
        self.heads: list[bytes] = []  # of http requests, as they came
        self.ports: set[int] = set()  # its own ends of connections to servers
        self.answers: dict[str, bytes] = {}  # by host: what the proxy answers in its place
        self._resolve = resolve
        self._wanted = b"Basic " + b64encode(login.encode()) if login else b""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def start(self) -> None:
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=500)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        if self._server is None:
            return
        await close(self._server)
        self._server = None
        while len(asyncio.all_tasks()) > 1:  # those of connections
            for writer in self._writers:
                writer.transport.abort()
            await asyncio.sleep(0.01)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await self._answer(reader, writer)
        finally:
            writer.transport.abort()
            self._writers.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        match = _HEAD.match(head)
        assert match, head
        method, target = match[1].decode(), match[2].decode()
        if method == "CONNECT":
            host, _, port = target.rpartition(":")
            path = ""
        else:
            url = _URL.fullmatch(target)
            assert url, target
            host, port, path = url[1], url[2] or "80", url[3]
            self.heads.append(head)
        if self._wanted and b"\r\nProxy-Authorization: " + self._wanted + b"\r\n" not in head:
            self.log.append(Asked(method, target, 407))
            writer.write(b"HTTP/1.1 407 Login\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            writer.write_eof()
            return
        if answer := self.answers.get(host):
            self.log.append(Asked(method, target, 0))
            writer.write(answer)
            await writer.drain()
            writer.write_eof()
            await reader.read()
            return
        try:
            address = await asyncio.to_thread(self._resolve, host.strip("[]"))
            theirs = await asyncio.open_connection(address, int(port))
        except OSError as error:
            self.log.append(Asked(method, target, 502))
            why = "dns_error" if isinstance(error, socket.gaierror) else "connection_refused"
            writer.write(f"HTTP/1.1 502 No\r\nProxy-Status: test; error={why}\r\n\r\n".encode())
            await writer.drain()
            writer.write_eof()
            return
        self.log.append(Asked(method, target, 200))
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        else:
            head = head.replace(b"\r\nConnection: keep-alive\r\n", b"\r\nConnection: close\r\n")
            lines = [line for line in head.split(b"\r\n") if not line.startswith(b"Proxy-")]
            theirs[1].write(b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), *lines[1:]]))
        self._writers.add(theirs[1])
        self.ports.add(theirs[1].get_extra_info("sockname")[1])
        try:
            await asyncio.gather(_pipe(reader, theirs[1]), _pipe(theirs[0], writer))
        finally:
            theirs[1].transport.abort()
            self._writers.discard(theirs[1])


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()


def asking(server: str) -> Callable[[str], str]:
    """A function that asks the name server at `server`, "address:port", for an IPv4 address."""
    place, _, port = server.rpartition(":")

    def resolve(host: str) -> str:
        name = b"".join(bytes([len(part)]) + part.encode() for part in host.split("."))
        query = b"\x12\x34\x01\0\0\1\0\0\0\0\0\0" + name + b"\0\0\1\0\1"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(2)
            sock.sendto(query, (place, int(port)))
            answer = sock.recv(4096)
        if not struct.unpack("!H", answer[6:8])[0]:
            raise socket.gaierror(f"no address of {host}")
        return socket.inet_ntoa(answer[-4:])

    return resolve
