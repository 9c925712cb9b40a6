"""One end of the messages between a hub and a fetcher, or another hub, over any number of sessions.

A stream is bytes in order, both ways: the frames of `hub.wire`. Its packets are
numbered, and kept until the other end has them. A session carries the stream from `begin` to `end`;
the next one begins with the packets that have not arrived. So a cut neither loses nor repeats a
message.

No clock and no bus: the owner passes the packets in, and `send` takes them out.

A time in a message is a reading of its sender's monotonic clock. Its packet has the time at which
it was sent. So the receiver knows how old each time was then, and takes that age from its own
clock: the clocks of two machines are never compared. A message on its way looks sent later than it
was. So what a fetcher has asked looks asked later, which is polite.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import cache
from math import inf
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from webcrawl.cluster.packets import PACKET_BYTES, SILENCE_S, Packet, untrusted
from webcrawl.hub.wire import Answers, Calls, Channel, Message, Release, Steer, WakeUp, decode

S = TypeVar("S", bound=Struct)
Clock = Callable[[], float]
_decode = untrusted(decode)


def decode_shifted(data: bytes | bytearray, by_s: float) -> Message:
    """A message of a fetcher or its hub, with its times set forward by `by_s`. DecodeError.

    0.0 ("none", "now") and inf stay.
    """
    message = _decode(data)
    match message:
        case Calls():
            calls = [_shifted(call, by_s) for call in message.calls]
            for n, call in enumerate(calls):
                if isinstance(call, Release):
                    done = [(key, _shifted(outcome, by_s)) for key, outcome in call.done]
                    calls[n] = replace(call, done=done)
            return replace(message, calls=calls)
        case Answers() | WakeUp() | Steer():
            return replace(message, status=_shifted(message.status, by_s))
    return message


def _shifted(value: S, by_s: float) -> S:
    times = {}
    for name in _times_of(type(value)):
        if 0.0 < (at := getattr(value, name)) < inf:
            times[name] = at + by_s
    return replace(value, **times) if times else value


@cache
def _times_of(kind: type[Struct]) -> tuple[str, ...]:
    """The fields of a call, an outcome or `Status` that are times of the sender's clock."""
    names = kind.__struct_fields__
    return tuple(name for name in names if name == "now" or name.endswith("_at"))


class Stream(asyncio.Transport):
    """The transport of a `Channel` that is opened with it.

    session -- the name of the session that is on; "" between two sessions
    received -- number of the last packet with data that has arrived
    confirmed_at -- when, by this end's clock, it sent the last packet that the other end has
    """

    def __init__(
        self,
        send: Callable[[Packet], None],
        clock: Clock,
        decode: Callable[[bytes | bytearray, float], Any] = decode_shifted,
    ) -> None:
        """`decode` reads a message, with the seconds to add to the sender's times."""
        super().__init__()
        self.session = ""
        self.received = 0
        self.confirmed_at = -inf
        self._send = send
        self._clock = clock
        self._decode = decode
        self._channel: Channel | None = None
        self._number = 0  # of the last packet with data
        self._unconfirmed: deque[tuple[int, bytes]] = deque()
        self._echo = 0.0
        self._shift_s = 0.0
        self._is_idle = True  # nothing was sent since the last tick
        self._is_lost = False

    def __repr__(self) -> str:
        state = "lost" if self._is_lost else self.session or "between sessions"
        return f"<Stream {state}, {len(self._unconfirmed)} unconfirmed>"

    # The transport, as `Channel` has it

    async def carry(self, channel: Channel) -> None:
        self.connect(channel)

    def connect(self, channel: Channel) -> None:
        """Be the transport of `channel`."""
        self._channel = channel
        channel.decode = lambda data: self._decode(data, self._shift_s)
        channel.connection_made(self)

    def is_closing(self) -> bool:
        return self._is_lost

    def write(self, data: bytes | bytearray | memoryview) -> None:
        for start in range(0, len(data), PACKET_BYTES):
            part = bytes(data[start : start + PACKET_BYTES])
            self._number += 1
            self._unconfirmed.append((self._number, part))
            self._emit(self._number, part)

    def abort(self) -> None:
        """The stream is over at this end; the other end hears nothing any more."""
        if not self._is_lost:
            self._is_lost = True
            self.end()
            self._unconfirmed.clear()
            if self._channel is not None:
                self._channel.connection_lost(None)

    # Sessions

    @property
    def is_confirmed(self) -> bool:
        """Whether the other end has all that was written."""
        return not self._unconfirmed

    def begin(self, session: str, received: int, echo: float, sent_at: float) -> None:
        """A session begins, or its beginning is repeated: the other end has packets to `received`.

        `echo` is the time of this end's last message that the other end has, and `sent_at` that of
        the other end's. 0.0: there is none.
        """
        self.session = session
        self._echo = max(self._echo, sent_at)
        self._note_arrival(received, echo)
        for number, part in tuple(self._unconfirmed):
            self._emit(number, part)

    def end(self) -> None:
        self.session = ""

    def receive(self, packet: Packet) -> None:
        """Take a packet of any session. A gap ends the session.

        Any exception is one of the channel's: the other end has sent what it must not.
        """
        if packet.session != self.session or self._channel is None:
            return
        now = self._clock()
        self._echo = packet.sent_at
        self._note_arrival(packet.received, packet.echo)
        if packet.number > self.received + bool(packet.data):
            self.end()
        elif packet.number > self.received:
            self.received = packet.number
            self._shift_s = now - packet.sent_at
            self._channel.data_received(packet.data)

    def tick(self) -> None:
        """Once each TICK_S: keep the session alive, if nothing else did."""
        if self._is_idle:
            self.confirm()
        self._is_idle = True

    def confirm(self) -> None:
        """Let the other end know what has arrived."""
        self._emit(self._number, b"")

    @property
    def valid_until(self) -> float:
        """Until when the other end holds this session for alive, at least: by this end's clock."""
        return self.confirmed_at + SILENCE_S if self.session else -inf

    def _emit(self, number: int, data: bytes) -> None:
        if self.session:
            self._is_idle = False
            now = self._clock()
            self._send(Packet(self.session, number, self.received, self._echo, now, data))

    def _note_arrival(self, received: int, echo: float) -> None:
        """The other end has the packets to `received`, and one of `echo`: if they were sent."""
        if not (received <= self._number and echo <= self._clock()):
            return
        self.confirmed_at = max(self.confirmed_at, echo)
        while self._unconfirmed and self._unconfirmed[0][0] <= received:
            self._unconfirmed.popleft()
