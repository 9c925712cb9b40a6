"""The HTTP server of the simulated web: one listening socket takes all of 127.0.0.0/8.

Reads requests, passes them to the ledger, and sends the world's replies: pieces, pauses, resets and
silences. Knows nothing of pages. A plain page of 100 links takes about 160 µs of CPU on a new
connection, of which 40 make the page.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from math import inf
from struct import pack
from time import monotonic
from typing import Any, TextIO, cast

from simweb.ledger import SHOWN, Ledger
from simweb.reply import Reply, answer
from simweb.spec import Place

_HEAD_MAX = 64 << 10
_HOST = re.compile(rb"(?:^|\r\n)host:([^\r]*)").search
_LINGER_0 = pack("ii", 1, 0)  # closing sends RST


class Web:
    """The state that all connections share. `slowness` multiplies every pause.

    `journal` gets a line of JSON per request, and one per answer: see `note`.
    """

    def __init__(self, ledger: Ledger, slowness: float, journal: TextIO | None = None) -> None:
        self.ledger = ledger
        self.slowness = slowness
        self.journal = journal
        self.open = 0
        self.most_open = 0
        self._hold_at = inf  # pages
        self._held: list[Callable[[], None]] = []

    def hold(self, pages: int) -> None:
        """Give no answer any more when so many pages have been asked for, until `release`."""
        self._hold_at = pages

    def held(self, give: Callable[[], None]) -> bool:
        """Whether answers are held; `give` is called at the release."""
        if self.ledger.totals["pages"] < self._hold_at:
            return False
        self._held.append(give)
        return True

    def release(self) -> None:
        self._hold_at = inf
        held, self._held = self._held, []
        for give in held:
            give()

    def note(self, journal: TextIO, name: str, **what: Any) -> None:
        """Write a line. Of a request: its time `at` (monotonic), method, target and the lines of
        its header; of an answer: the bytes `sent`, when its last byte was given to the system.
        """
        journal.write(json.dumps({"host": name, **what}) + "\n")


class Connection(asyncio.Protocol):
    """One connection. It answers one request at a time."""

    __slots__ = ("_answer", "_buffer", "_ip", "_keep", "_loop", "_name", "_parts", "_paused",
                 "_secure", "_sent", "_timer", "_transport", "_web")  # fmt: skip

    def __init__(self, web: Web, loop: asyncio.AbstractEventLoop, secure: bool = False) -> None:
        self._web = web
        self._secure = secure
        self._loop = loop
        self._buffer = b""
        self._ip = self._name = ""
        self._answer: tuple[Place | None, str, Reply] | None = None  # under way
        self._parts: Iterator[bytes | float] = iter(())
        self._paused = False
        self._keep = False
        self._sent = 0
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport

    # Events.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ip = transport.get_extra_info("sockname")[0]
        if not is_loopback(self._ip):
            self._transport.abort()
        self._web.open += 1
        self._web.most_open = max(self._web.most_open, self._web.open)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        if self._answer is None:
            self._read()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._timer is None:
            self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._web.open -= 1
        if self._timer:
            self._timer.cancel()
        if self._answer:
            self._done(whole=False)

    # One request at a time.

    def _read(self) -> None:
        head, end, rest = self._buffer.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _HEAD_MAX:
                self._transport.abort()
            return
        now = monotonic()
        self._buffer = rest
        line, _, fields = head.partition(b"\r\n")
        words = line.decode("latin-1").split(" ")
        if len(words) != 3:
            self._transport.abort()
            return
        method, target, version = words
        name, close = _read_fields(fields)
        self._keep = version == "HTTP/1.1" and not close
        host, place, attempt = self._web.ledger.asked(
            now, name, self._ip, method, target, self._secure
        )
        if self._web.journal is not None:
            self._name, text = name, fields.decode("latin-1")
            peer = self._transport.get_extra_info("peername")[1]
            what = {"at": now, "ip": self._ip, "peer": peer, "method": method, "target": target}
            self._web.note(self._web.journal, name, **what, fields=text)
        if host is None or method not in ("GET", "HEAD"):
            reply = answer(400 if host is None else 405)
        else:
            world = self._web.ledger.world
            if place is None and target in SHOWN:
                reply = world.host(host).kind.change(SHOWN[target])
            else:
                reply = world.reply(host, place, attempt, world.version(place, now), now)
        self._begin(place, method, reply)

    def _begin(self, place: Place | None, method: str, reply: Reply) -> None:
        self._answer = (place, method, reply)
        self._sent = 0
        self._keep = self._keep and reply.end == "keep"
        head = reply.head
        if reply.status:
            head += b"\r\n" if self._keep else b"Connection: close\r\n\r\n"
        self._parts = _parts(head, () if method == "HEAD" else reply.body)
        if not self._web.held(self._start):
            self._start()

    def _start(self) -> None:
        if self._answer and self._answer[2].delay_s:
            self._wait(self._answer[2].delay_s)
        else:
            self._go_on()

    def _wait(self, seconds: float) -> None:
        self._timer = self._loop.call_later(seconds * self._web.slowness, self._resume)

    def _resume(self) -> None:
        self._timer = None
        self._go_on()

    def _go_on(self) -> None:
        """Sends until a pause, a full buffer or the end of the reply."""
        if self._answer is None:
            return
        for part in self._parts:
            if isinstance(part, float):
                self._wait(part)
                return
            self._transport.write(part)
            self._sent += len(part)
            if self._paused or self._transport.is_closing():
                return
        self._finish(self._answer[2].end)

    def _finish(self, end: str) -> None:
        if end == "hang":
            return
        self._done(whole=True)
        if end == "reset":
            self._reset()
        elif not self._keep:
            self._transport.close()
        elif self._buffer:
            self._read()

    def _done(self, whole: bool) -> None:
        assert self._answer
        place, method, reply = self._answer
        self._answer = None
        self._web.ledger.answered(place, method, reply, self._sent, whole)
        if self._web.journal is not None:
            self._web.note(self._web.journal, self._name, sent=self._sent)

    def _reset(self) -> None:
        sock: socket.socket = self._transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_0)
        self._transport.abort()


def is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


@lru_cache(1024)  # most requests of a connection differ in the first line only
def _read_fields(fields: bytes) -> tuple[str, bool]:
    """Host in lower case without its port, and whether the client closes."""
    lower = fields.lower()
    found = _HOST(lower)
    host = found[1].strip().decode("latin-1") if found else ""
    return host.rpartition(":")[0] or host, b"connection: close" in lower


def _parts(head: bytes, body: Iterable[bytes | float]) -> Iterator[bytes | float]:
    """The head and the first piece are one part, since each write is a system call."""
    pieces = iter(body)
    first = next(pieces, b"")
    if isinstance(first, bytes):
        yield head + first
    else:
        yield head
        yield first
    yield from pieces
