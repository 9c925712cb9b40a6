"""The messages between a frontier and the processes that use it, on a socket or a `Carrier`.

A message is a frame: 4 bytes of length (big-endian), then a struct in MessagePack. Links, leases
and outcomes are sent as they are. Both ends are processes of one crawl and one version: the socket
has no name, and a fetcher of another version does not join (`cluster.joining`). So the types of a
message are checked, but a message has no version number.

The first frame to a worker is not a message: `receive` reads it, `extensions.processes` writes it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from math import inf
from typing import Annotated, Any, Protocol, runtime_checkable

from msgspec import DecodeError, Meta, Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.crawllog.line import LostLine
from webcrawl.frontier.lease import Lane, Lease, Link, Outcome, Text
from webcrawl.scope.hostrules import HostRule
from webcrawl.warc.records import Original

_LENGTH = struct.Struct("!I")

NUMBER_MAX = (1 << 63) - 1  # MessagePack has no larger numbers
# `Channel.send` raises one of these for a value that MessagePack cannot hold: a number beyond
# NUMBER_MAX, text that is not Unicode, an object.
UNSENDABLE = (OverflowError, TypeError, ValueError)

Changes = dict[str, Any]  # of counters: `counters.Tracked`


class Tagged(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """An array that begins with the name of its class."""


# Calls of a process, and their answers. A `Release` is answered by None.


class Put(Tagged, frozen=True):
    links: list[Link]
    now: float
    force: bool


class Acquire(Tagged, frozen=True):
    now: float
    limit: int
    lane: Lane


class Release(Tagged, frozen=True):
    done: list[tuple[int, Outcome]]  # by key of the lease
    now: float


class ContentSeen(Tagged, frozen=True):
    content: bytes
    original: Original
    text: Text | None


class Lost(Tagged, frozen=True):
    """Answers in the WARC file `warc` that may have no line in the crawl log."""

    warc: str
    lines: list[LostLine]


class Accepted(Tagged, frozen=True):
    links: int


class Leased(Tagged, frozen=True):
    leases: list[tuple[int, Lease]]  # each with the key by which `Release` names it


class FirstSeen(Tagged, frozen=True):
    original: Original | None
    near: str = ""  # the URL of the first page with nearly the same text


class CallFailed(Tagged, frozen=True):
    error: str


Call = Put | Acquire | Release | ContentSeen | Lost
Answer = Accepted | Leased | FirstSeen | CallFailed | None


class Status(Tagged, frozen=True):
    """State of the frontier, sent with each answer and each wake-up."""

    next_page_at: float
    next_admission_at: float
    is_finished: bool
    has_spare: bool
    next_requisite_at: float = inf


class SteeringError(Exception):
    """A command that was not carried out: one line for the user."""


TEXT_MAX = 100_000  # characters
BoundedText = Annotated[str, Meta(max_length=TEXT_MAX)]  # an entry, an argument or an answer


class Orders(Struct, frozen=True, array_like=True):
    """How a crawl is steered (docs/watching.md): the whole state, not a change of it.

    allow, deny -- entries beside those of the settings
    number -- grows with each change; of those of several hubs the highest counts
    """

    is_paused: bool = False
    allow: tuple[BoundedText, ...] = ()
    deny: tuple[BoundedText, ...] = ()
    number: Annotated[int, Meta(ge=0, lt=1 << 62)] = 0  # as hubs report it


# Messages from a process to the frontier


class Calls(Tagged, frozen=True):
    number: int  # of the message
    calls: list[Call]
    changes: Changes
    cpu_s: float  # that the process has used


class Heartbeat(Tagged, frozen=True):
    changes: Changes


class Exit(Tagged, frozen=True):
    reason: str
    stats: dict[str, int | str]
    changes: Changes


class Steered(Tagged, frozen=True):
    """The process has carried out the orders of message `number`."""

    number: int
    unanswered: int  # requests that the orders forbid, sent before, that no server has answered yet


# Messages from the frontier to a process


class Answers(Tagged, frozen=True):
    number: int  # of the `Calls`
    answers: list[Answer]
    status: Status


class WakeUp(Tagged, frozen=True):
    status: Status


class Steer(Tagged, frozen=True):
    number: int
    orders: Orders
    status: Status


class End(Tagged, frozen=True):
    reason: str


class NewRules(Tagged, frozen=True):
    rules: list[HostRule]  # RULES, as the first process has read them


class GiveBack(Tagged, frozen=True):
    """Leases whose requests are not sent must go back: others may ask at their addresses."""


class Allowed(Tagged, frozen=True):
    """The process may send requests until then: see `fetch.gate`. Monotonic, of this machine."""

    until: float


Message = (
    Calls
    | Heartbeat
    | Exit
    | Steered
    | Answers
    | WakeUp
    | Steer
    | End
    | NewRules
    | GiveBack
    | Allowed
)

encode: Callable[[Message], bytes] = Encoder().encode
decode: Callable[[bytes | bytearray], Message] = Decoder(Message).decode


def frame(data: bytes) -> bytes:
    return _LENGTH.pack(len(data)) + data


def receive(sock: socket.socket) -> bytes:
    """The content of the first frame on a socket that blocks. EOFError if it ends before."""
    with sock.makefile("rb", buffering=0) as stream:
        (size,) = _LENGTH.unpack(_exactly(stream.read, _LENGTH.size))
        return _exactly(stream.read, size)


def _exactly(read: Callable[[int], bytes | None], size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = read(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def valid_text(text: str) -> str:
    """`text` with escapes for surrogates, which UTF-8 cannot hold: file names may have them."""
    return text.encode("utf-8", "backslashreplace").decode()


@runtime_checkable
class Carrier(Protocol):
    """What carries the frames of a channel in place of a socket (`cluster.streams`)."""

    async def carry(self, channel: Channel) -> None:
        """Connect `channel`: be its transport."""


class Channel(asyncio.Protocol):
    """One end of the socket: calls `on_message` in order, and `on_disconnect` once."""

    def __init__(
        self,
        on_message: Callable[[Any], None],
        on_disconnect: Callable[[], None],
        message_bytes_max: int = 1 << 32,
    ) -> None:
        self._on_message = on_message
        self._on_disconnect = on_disconnect
        self._message_bytes_max = message_bytes_max
        self._received = bytearray()
        self._unsent: list[bytes] = []  # until the channel is open
        self._transport: asyncio.Transport | None = None
        self._is_closed = False
        self.decode: Callable[[bytes | bytearray], Any] = decode

    async def open(self, sock: socket.socket | Carrier) -> None:
        if isinstance(sock, Carrier):
            await sock.carry(self)
        else:
            await asyncio.get_running_loop().create_unix_connection(lambda: self, sock=sock)

    def send(self, message: Message) -> None:
        """Send `message`, at once or when possible: never waits. Lost after a disconnect.

        Raises one of UNSENDABLE if it cannot be encoded.
        """
        self.write(frame(encode(message)))

    def write(self, data: bytes) -> None:
        """Send a frame."""
        if self._transport is None:
            self._unsent.append(data)
        elif not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """Disconnect at once, or as soon as the channel is open."""
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
            size = _LENGTH.unpack_from(received, start)[0]
            if size > self._message_bytes_max:
                raise DecodeError(f"a message of {size} bytes")
            end = start + head + size
            if len(received) < end:
                break
            message = self.decode(received[start + head : end])
            start = end
            self._on_message(message)
        del received[:start]

    def connection_lost(self, error: Exception | None) -> None:
        self._on_disconnect()
