"""The sessions of one hub with the other ones of its crawl, on the bus.

A hub has one session at a time with each other one. Its packets are those of `streams`, but it is
never resumed: what was on its way when it ended may or may not have arrived. So whoever sends
letters says again at the begin of the next session what the other hub must know.

Of two hubs the one with the higher number asks for a session, once each tick until the other one
agrees. The session begins at the asker with the answer, and at the other one with the asker's first
packet. So what is sent at the begin meets the session at the other end.

A session ends at a gap, at a letter that cannot be read or carried out, when the other end does not
have it, when the bus is lost, and SILENCE_S after this end has sent the last packet that the other
end is known to have. So when one end has ended it, the other one has within SILENCE_S. Absence is
counted in ticks in which this hub serves: one that was stopped, or had no bus, first listens again.

Owns which hubs are there, and which are lost. Knows nothing of what letters mean. A letter is in
memory while its parts arrive, LETTER_BYTES for each hub at most, and what was sent until it is
confirmed or the session ends.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any, Final, Union

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.cluster.bus import Bus
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import (
    SILENCE_S,
    TICK_S,
    Letter,
    Over,
    Packet,
    SessionName,
    untrusted,
)
from webcrawl.cluster.streams import Clock, Stream
from webcrawl.hub.wire import Channel, frame

logger = logging.getLogger(__name__)

LETTER_BYTES: Final = 16 * 1024 * 1024
QUIET_S: Final = 60.0  # between two lines of a kind about a hub: sessions may end each tick


class PeerHello(Struct, frozen=True, array_like=True, tag=True):
    """The hub asks for a session.

    crawl -- its ID
    sent_at -- monotonic, of the sender
    """

    crawl: str
    session: SessionName
    sent_at: float


class PeerWelcome(Struct, frozen=True, array_like=True, tag=True):
    """The answer to `PeerHello`, of which `echo` is the `sent_at`."""

    session: SessionName
    echo: float
    sent_at: float


# By kind: called with the number of the hub, and the letter.
Letters = Mapping[type[Letter], Callable[[int, Any], None]]
PeerMessage = PeerHello | PeerWelcome | Packet | Over
_encode: Callable[[PeerMessage | Letter], bytes] = Encoder().encode
_read: Callable[[bytes], PeerMessage] = untrusted(Decoder(PeerMessage).decode)


def peer_subject(hub: int, sender: int) -> str:
    """The subject on which `hub` hears `sender`."""
    return f"peer.{hub}.{sender}"


@dataclass(eq=False)
class _Peer:
    """Another hub.

    session -- the name of the session that is on, or is asked for; "": none
    stream -- of the session that is on; None: none is
    away -- ticks since the last session
    is_lost -- it was called lost since the last session
    said_at -- when each line of the log was said
    """

    hub: int
    session: str = ""
    stream: Stream | None = None
    away: int = 0
    is_lost: bool = False
    said_at: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Listener:
    """What one part of this hub does with sessions and letters. Each is told the hub's number.

    letters -- the kinds of letters that are its own
    begin -- a session begins
    end -- a session has ended. The other hub may call this one lost as soon as SILENCE_S and the
        longest fetch are over: what is not sent by then is not this hub's to send
    lost -- the session has been away for so long that all which the hub's fetchers had under way
        has ended. Once for each loss, and after each start for a hub that has never come
    """

    letters: Letters
    begin: Callable[[int], None] = lambda hub: None
    end: Callable[[int], None] = lambda hub: None
    lost: Callable[[int], None] = lambda hub: None


class Peers:
    """Of hub `number` of `hubs`: serves while the clock is before `serves_until`, at first never.

    All calls and callbacks are in the thread of the event loop. Listeners are called in the order
    in which they were added, and must not raise for what another hub has sent.

    others -- the numbers of the other hubs
    longest_fetch_s -- from a request to the end of its fetch
    new_name -- a name that no session had before
    """

    def __init__(
        self,
        bus: Bus,
        claim: Claim,
        *,
        longest_fetch_s: float,
        clock: Clock,
        new_name: Callable[[], str],
    ) -> None:
        self.number = claim.number
        self.hubs = claim.hubs
        self.others = tuple(hub for hub in range(claim.hubs) if hub != claim.number)
        self.serves_until = -inf
        self._bus = bus
        self._crawl = claim.crawl
        self._clock = clock
        self._new_name = new_name
        # The other end ends the session within SILENCE_S after this one, and its fetchers theirs
        # with it within another one.
        self._lost_ticks = (2 * SILENCE_S + longest_fetch_s) / TICK_S
        self._peers = {hub: _Peer(hub) for hub in self.others}
        self._listeners: list[Listener] = []
        self._letters: dict[type[Letter], Callable[[int, Any], None]] = {}
        self._decode: Callable[[bytes | bytearray], Letter]

    def __repr__(self) -> str:
        on = sum(map(self.is_connected, self.others))
        return f"<Peers of hub {self.number}: {on} of {len(self._peers)} are there>"

    def add(self, listener: Listener) -> None:
        """Before `open`. A kind of letter has one listener."""
        self._listeners.append(listener)
        self._letters.update(listener.letters)

    async def open(self) -> None:
        """All listeners were added."""
        kinds: Any = Union[tuple(self._letters)]  # noqa: UP007  (known only now)
        self._decode = untrusted(Decoder(kinds).decode)
        for hub in self.others:
            await self._bus.subscribe(peer_subject(self.number, hub), partial(self.receive, hub))

    # For those who send letters

    @property
    def serves(self) -> bool:
        """Whether this hub may serve now: it owns its record, and its pause is over."""
        return self._clock() < self.serves_until

    def is_connected(self, hub: int) -> bool:
        """Whether there is a session with `hub`."""
        return self._peers[hub].stream is not None

    def send(self, hub: int, letter: Letter) -> None:
        """Send in order. Never waits; without a session the letter is lost."""
        stream = self._peers[hub].stream
        if stream is not None:
            stream.write(frame(_encode(letter)))

    def send_to_all(self, letter: Letter) -> None:
        for hub in self.others:
            self.send(hub, letter)

    # The life of this hub

    def tick(self) -> None:
        """Once each TICK_S."""
        if not self.serves:
            self.end_all()
            return
        for peer in self._peers.values():
            if peer.stream is None:
                self._tick_absence(peer)
            elif self._clock() >= peer.stream.valid_until:
                self._end(peer)
            else:
                peer.stream.tick()

    def end_all(self) -> None:
        """The bus is lost, or this process is not the hub now."""
        for peer in self._peers.values():
            self._end(peer)

    def close(self) -> None:
        """This hub ends: let the other ones know."""
        for peer in self._peers.values():
            if peer.stream is not None:
                self._send(peer, Over(peer.session))
        self.end_all()
        self.serves_until = -inf

    def _tick_absence(self, peer: _Peer) -> None:
        peer.away += 1
        if peer.away > self._lost_ticks and not peer.is_lost:
            peer.is_lost = True
            logger.warning("Hub %d is away", peer.hub)
            for listener in self._listeners:
                listener.lost(peer.hub)
        if peer.hub < self.number:
            peer.session = peer.session or f"{self.number}.{self._new_name()}"
            self._send(peer, PeerHello(self._crawl, peer.session, self._clock()))

    # Messages

    def receive(self, hub: int, data: bytes) -> None:
        """Take a message of `hub` from the bus."""
        if not self.serves:
            return
        try:
            message = _read(data)
        except DecodeError:
            return
        peer = self._peers[hub]
        match message:
            case Packet():
                self._receive(peer, message)
            case PeerHello():
                self._greet(peer, message)
            case PeerWelcome(session, echo, sent_at):
                if session == peer.session and peer.stream is None and peer.hub < self.number:
                    self._begin(peer, echo, sent_at)
            case Over(session):
                if session == peer.session and peer.stream is not None:
                    self._end(peer)

    def _greet(self, peer: _Peer, hello: PeerHello) -> None:
        if hello.crawl != self._crawl:
            return
        if peer.hub < self.number or (peer.stream is not None and peer.session == hello.session):
            return  # it was late
        self._end(peer)
        peer.session = hello.session
        self._send(peer, PeerWelcome(hello.session, hello.sent_at, self._clock()))

    def _receive(self, peer: _Peer, packet: Packet) -> None:
        is_asker = peer.hub > self.number
        if packet.session != peer.session or (peer.stream is None and not is_asker):
            self._send(peer, Over(packet.session))
            return
        stream = peer.stream or self._begin(peer, packet.echo, packet.sent_at)
        try:
            stream.receive(packet)
        except Exception as error:  # of the letter, or our own in carrying it out
            own = None if isinstance(error, DecodeError) else error
            line = "Hub %d has sent what cannot be carried out: %r"
            self._say(peer, logging.ERROR, line, error, exc_info=own)
            stream.end()
        if stream is peer.stream and not stream.session:  # a gap
            self._send(peer, Over(packet.session))
            self._end(peer)

    def _begin(self, peer: _Peer, echo: float, sent_at: float) -> Stream:
        self._say(peer, logging.INFO, "A session with hub %d begins")
        stream = Stream(partial(self._send, peer), self._clock, lambda data, _: self._decode(data))
        stream.connect(
            Channel(partial(self._hear, peer.hub), lambda: None, message_bytes_max=LETTER_BYTES)
        )
        peer.stream, peer.is_lost, peer.away = stream, False, 0
        stream.begin(peer.session, 0, echo, sent_at)
        stream.confirm()  # it begins at the other end
        for listener in self._listeners:
            listener.begin(peer.hub)
        return stream

    def _hear(self, hub: int, letter: Letter) -> None:
        self._letters[type(letter)](hub, letter)

    def _end(self, peer: _Peer) -> None:
        stream, peer.stream, peer.session = peer.stream, None, ""
        if stream is not None:
            stream.end()
            self._say(peer, logging.INFO, "The session with hub %d has ended")
            for listener in self._listeners:
                listener.end(peer.hub)

    def _say(
        self, peer: _Peer, level: int, line: str, *more: object, exc_info: Exception | None = None
    ) -> None:
        now = self._clock()
        if now >= peer.said_at.get(line, -inf) + QUIET_S:
            peer.said_at[line] = now
            logger.log(level, line, peer.hub, *more, exc_info=exc_info)

    def _send(self, peer: _Peer, message: PeerMessage) -> None:
        self._bus.publish(peer_subject(peer.hub, self.number), _encode(message))
