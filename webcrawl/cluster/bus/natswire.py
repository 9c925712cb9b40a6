"""NATS between client and server: reads and writes its lines. No I/O, no JetStream.

The protocol: https://docs.nats.io/reference/reference-protocols/nats-protocol. The server sends
INFO, MSG, HMSG (with headers), PING, PONG, +OK and -ERR; a client CONNECT, PUB, HPUB, SUB, UNSUB,
PING, PONG.

Foreign bytes: a line has LINE_MAX bytes at most, a message PAYLOAD_MAX. Anything else is a
ProtocolError, and the connection is given up.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

LINE_MAX: Final = 64 * 1024  # INFO names the servers of a cluster
PAYLOAD_MAX: Final = 8 * 1024 * 1024  # the most that NATS recommends

PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"
_EOL: Final = b"\r\n"
_HEADERS: Final = b"NATS/1.0"


class ProtocolError(Exception):
    """The server does not speak NATS."""


class Message(NamedTuple):
    sid: int  # of our subscription
    subject: str
    reply: str  # "": none wanted
    data: bytes
    status: str  # "": none; 503: nobody listens; 100: a control message of JetStream
    headers: dict[str, str]  # by name in lower case


class Info(NamedTuple):
    json: bytes


class Pinged(NamedTuple):
    pass


class Ponged(NamedTuple):
    pass


class Failed(NamedTuple):
    error: str  # without the quotes


Event = Message | Info | Pinged | Ponged | Failed


class Reader:
    """Bytes of the server in any pieces; yields what they say. Cost: linear in the bytes."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._message: list[bytes] | None = None  # the words of a MSG whose payload is to come
        self._head_size = 0
        self._size = 0  # of head and payload

    def feed(self, data: bytes) -> Iterator[Event]:
        self._buffer += data
        while True:
            if self._message is not None:
                if len(self._buffer) < self._size + 2:
                    return
                yield self._take_message(self._message)
                continue
            end = self._buffer.find(_EOL, 0, LINE_MAX + 2)
            if end < 0:
                if len(self._buffer) > LINE_MAX:
                    raise ProtocolError("a line without an end")
                return
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 2]
            event = self._read_line(line)
            if event is not None:
                yield event

    def _read_line(self, line: bytes) -> Event | None:
        verb, _, rest = line.partition(b" ")
        match verb.upper():
            case b"MSG" | b"HMSG":
                self._begin_message(rest.split(), 2 if len(verb) == 4 else 1)
            case b"PING":
                return Pinged()
            case b"PONG":
                return Ponged()
            case b"INFO":
                return Info(rest)
            case b"-ERR":
                return Failed(rest.decode("utf-8", "replace").strip().strip("'"))
            case b"+OK":
                pass
            case _:
                raise ProtocolError("no NATS server")
        return None

    def _begin_message(self, words: list[bytes], sizes: int) -> None:
        try:
            numbers = [int(word) for word in words[-sizes:]]
            self._message = [words[0], words[1], b"" if len(words) == 2 + sizes else words[2]]
            self._head_size, self._size = numbers[0] if sizes == 2 else 0, numbers[-1]
        except (ValueError, IndexError):
            raise ProtocolError("a bad MSG line") from None
        if not 0 <= self._head_size <= self._size <= PAYLOAD_MAX:
            raise ProtocolError("a message of a bad size")

    def _take_message(self, words: list[bytes]) -> Message:
        head = bytes(self._buffer[: self._head_size])
        data = bytes(self._buffer[self._head_size : self._size])
        if self._buffer[self._size : self._size + 2] != _EOL:
            raise ProtocolError("a message without an end")
        del self._buffer[: self._size + 2]
        self._message = None
        status, headers = _read_headers(head)
        subject, sid, reply = (word.decode("utf-8", "replace") for word in words)
        if not sid.isdecimal():
            raise ProtocolError("a bad MSG line")
        return Message(int(sid), subject, reply, data, status, headers)


def _read_headers(head: bytes) -> tuple[str, dict[str, str]]:
    if not head:
        return "", {}
    first, *lines = head.decode("utf-8", "replace").split("\r\n")
    headers = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if colon:
            headers[name.strip().lower()] = value.strip()
    return first[len(_HEADERS) :].strip().partition(" ")[0], headers


def publish(
    subject: str, data: bytes, reply: str = "", headers: dict[str, str] | None = None
) -> bytes:
    """The names come from `bus.encoded` or from this package: without blanks and line ends."""
    names = f"{subject} {reply} " if reply else f"{subject} "
    if not headers:
        return b"PUB %s%d\r\n%s\r\n" % (names.encode(), len(data), data)
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    head = b"%s\r\n%s\r\n" % (_HEADERS, lines.encode())
    sizes = len(head), len(head) + len(data)
    return b"HPUB %s%d %d\r\n%s%s\r\n" % (names.encode(), *sizes, head, data)


def subscribe(subject: str, sid: int) -> bytes:
    return f"SUB {subject} {sid}\r\n".encode()


def unsubscribe(sid: int) -> bytes:
    return f"UNSUB {sid}\r\n".encode()
