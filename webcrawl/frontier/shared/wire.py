"""What goes between a frontier and the processes that use it: messages on a stream socket.

A message is a frame: 4 bytes of length (big-endian), then a pickle. Both ends are processes of one
crawl, on a socket that has no name, so nothing here defends itself. Links, leases and outcomes
travel as plain tuples, which pickle in a quarter of the time.
"""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from collections.abc import Callable, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Step,
    Unresolved,
)

_LENGTH = struct.Struct("!I")
_KINDS: tuple[type, ...] = (
    *(Fetched, Failed, Returned, Dropped, Resolved, Unresolved),
    *(RobotsFetched, RobotsMoved, RobotsUnreachable),
)
_NUMBER = {kind: number for number, kind in enumerate(_KINDS)}
_VALUES = [attrgetter(*(field.name for field in fields(kind))) for kind in _KINDS]
_LEASE = attrgetter(*(field.name for field in fields(Lease)))
_LINKS = [field.name for field in fields(Fetched)].index("links")

Packed = tuple[Any, ...]
# `next_at` of pages and of admissions, `is_finished`, `places`, `is_short`.
News = tuple[float, float, bool, int | None, bool]


def frame(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


def receive(sock: socket.socket) -> Any:
    """The first message on a socket that blocks. EOFError when there is none."""
    with sock.makefile("rb", buffering=0) as stream:
        (size,) = _LENGTH.unpack(_exactly(stream.read, _LENGTH.size))
        return pickle.loads(_exactly(stream.read, size))


def _exactly(read: Callable[[int], bytes | None], size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Channel(asyncio.Protocol):
    """One end of the socket. Tells of each message, in order, and once of the other end's end."""

    def __init__(self, heard: Callable[[Any], None], lost: Callable[[], None]) -> None:
        self._heard = heard
        self._lost = lost
        self._received = bytearray()
        self._unsent: list[bytes] = []  # until it is open
        self._transport: asyncio.Transport | None = None
        self._is_closed = False

    async def open(self, sock: socket.socket) -> None:
        await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=sock)

    def send(self, message: object) -> None:
        """Send `message`, later if it must be: never waits. After the other's end it is lost."""
        self.write(frame(message))

    def write(self, data: bytes) -> None:
        """Send a frame."""
        if self._transport is None:
            self._unsent.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End it at once, or as soon as it is open."""
        self._is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # a socket's is two-way
        for data in self._unsent:
            self._transport.write(data)  # type: ignore[union-attr]  # set above
        self._unsent.clear()
        if self._is_closed:
            self._transport.abort()  # type: ignore[union-attr]  # as above

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        start, head = 0, _LENGTH.size
        while len(received) - start >= head:
            end = start + head + _LENGTH.unpack_from(received, start)[0]
            if len(received) < end:
                break
            message = pickle.loads(received[start + head : end])
            start = end
            self._heard(message)
        del received[:start]

    def connection_lost(self, error: Exception | None) -> None:
        self._lost()


# Values of the frontier's interface, as tuples


def pack_lease(key: int, lease: Lease) -> Packed:
    """`key` stands for the lease where it is given back."""
    host, step, url, address, link, robots_task, *rest = _LEASE(lease)
    link, robots_task = link and tuple(link), robots_task and tuple(robots_task)
    return (key, host, step.value, url, address, link, robots_task, *rest)


def unpack_lease(packed: Packed) -> tuple[int, Lease]:
    key, host, step, url, address, link, robots_task, *rest = packed
    link, robots_task = link and Link._make(link), robots_task and RobotsTask._make(robots_task)
    return key, Lease(host, Step(step), url, address, link, robots_task, *rest)


def pack_links(links: Sequence[Link]) -> list[Packed]:
    return [tuple(link) for link in links]


def unpack_links(packed: list[Packed]) -> tuple[Link, ...]:
    return tuple(map(Link._make, packed))


def pack_outcome(outcome: Outcome) -> Packed:
    number = _NUMBER[type(outcome)]
    values: Packed = _VALUES[number](outcome)
    if number == 0:
        values = (*values[:_LINKS], pack_links(values[_LINKS]), *values[_LINKS + 1 :])
    return number, values


def unpack_outcome(packed: Packed) -> Outcome:
    number, values = packed
    if number == 0:
        values = (*values[:_LINKS], unpack_links(values[_LINKS]), *values[_LINKS + 1 :])
    outcome: Outcome = _KINDS[number](*values)
    return outcome
