"""The sessions of one hub with the other ones of its crawl, on the bus.

A hub has one session at a time with each other one, and it is never resumed: what was on its way
when it ended may or may not have arrived. So whoever sends letters says again at the begin of the
next session what the other hub must know.

Of two hubs the one with the higher number asks for a session, once each tick until the other one
agrees. The session begins at the asker with the answer, and at the other one with the asker's first
packet. So what is sent in `on_begin` meets the session at the other end.

A session ends at a gap, at a letter that cannot be read or carried out, when the other end does not
have it, when the bus is lost, and SILENCE_S after this end has sent the last packet that the other
end is known to have. So when one end has ended it, the other one has within SILENCE_S. Absence is
counted in ticks in which this hub serves: one that was stopped, or had no bus, first listens again.

Owns which hubs are there, and which are lost. Knows nothing of what letters mean. A letter is in
memory while its parts arrive: LETTER_BYTES for each hub at most.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, TypeVar, Union

from msgspec import DecodeError, Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.cluster.bus import Bus
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import PACKET_BYTES, SILENCE_S, TICK_S, Letter, Name, untrusted
from webcrawl.cluster.streams import Clock

logger = logging.getLogger(__name__)

LETTER_BYTES: Final = 16 * 1024 * 1024
QUIET_S: Final = 60.0  # between two lines of a kind about a hub: sessions may end each tick

Kind = TypeVar("Kind", bound=Letter)


class _Tagged(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """An array that begins with the name of its class, and the number of the hub that sends it."""

    hub: int
    session: Name


class PeerHello(_Tagged, frozen=True):
    """The hub asks for a session.

    crawl -- its ID
    has_lost -- it has called the other one lost since the session before
    sent_at -- monotonic, of the sender, as in each message
    """

    crawl: str
    has_lost: bool
    sent_at: float


class PeerWelcome(_Tagged, frozen=True):
    """The answer to `PeerHello`.

    echo -- `sent_at` of the last message from the other end
    """

    has_lost: bool
    echo: float
    sent_at: float


class PeerPacket(_Tagged, frozen=True):
    """A letter, or a part of one. Without data it only keeps the session alive.

    number -- of the last packet with data in this session, this one included
    """

    number: int
    echo: float
    sent_at: float
    data: bytes
    is_last: bool = True


class PeerOver(_Tagged, frozen=True):
    """The answer to a packet of a session that the hub does not have."""


PeerMessage = PeerHello | PeerWelcome | PeerPacket | PeerOver
_encode: Callable[[PeerMessage | Letter], bytes] = Encoder().encode
_read: Callable[[bytes], PeerMessage] = untrusted(Decoder(PeerMessage).decode)


def peer_subject(number: int) -> str:
    """The subject on which hub `number` hears the other ones."""
    return f"peer.{number}"


@dataclass(eq=False)
class _Peer:
    """Another hub.

    session -- the name of the session that is on, or is asked for; "": none
    is_on -- it has begun
    was_lost -- what the other hub said of this one when it asked
    sent, received -- numbers of the last packets with data
    letter -- its parts so far
    is_idle -- nothing was sent since the last tick
    confirmed_at -- when this end sent the last message that the other end has
    echo -- `sent_at` of the last message from the other end
    away -- ticks since the last session
    is_lost -- it was called lost since the last session
    said_at -- when each line of the log was said
    """

    hub: int
    session: str = ""
    is_on: bool = False
    was_lost: bool = False
    sent: int = 0
    received: int = 0
    letter: bytearray = field(default_factory=bytearray)
    is_idle: bool = True
    confirmed_at: float = -inf
    echo: float = 0.0
    away: int = 0
    is_lost: bool = False
    said_at: dict[str, float] = field(default_factory=dict)


class Peers:
    """Of hub `number` of `hubs`: serves while the clock is before `serves_until`, at first never.

    All calls and callbacks are in the thread of the event loop. A callback is called in the order
    in which it was added, and must not raise for what another hub has sent.

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
        self._on_letter: defaultdict[type[Letter], list[Callable[[int, Any], None]]]
        self._on_letter = defaultdict(list)
        self._on_begin: list[Callable[[int, bool], None]] = []
        self._on_end: list[Callable[[int], None]] = []
        self._on_lost: list[Callable[[int], None]] = []
        self._decode: Callable[[bytes | bytearray], Letter]

    def __repr__(self) -> str:
        on = sum(peer.is_on for peer in self._peers.values())
        return f"<Peers of hub {self.number}: {on} of {len(self._peers)} are there>"

    async def open(self) -> None:
        """All callbacks were added."""
        kinds: Any = Union[tuple(self._on_letter)]  # noqa: UP007  (known only now)
        self._decode = untrusted(Decoder(kinds).decode)
        await self._bus.subscribe(peer_subject(self.number), self.receive)

    # For those who send letters

    @property
    def serves(self) -> bool:
        """Whether this hub may serve now: it owns its record, and its pause is over."""
        return self._clock() < self.serves_until

    def is_connected(self, hub: int) -> bool:
        """Whether there is a session with `hub`."""
        return self._peers[hub].is_on

    def send(self, hub: int, letter: Letter) -> None:
        """Send in order. Never waits; without a session the letter is lost."""
        peer, data = self._peers[hub], _encode(letter)
        if not peer.is_on:
            return
        for start in range(0, len(data), PACKET_BYTES):
            part = data[start : start + PACKET_BYTES]
            peer.sent += 1
            self._send_packet(peer, part, is_last=start + len(part) == len(data))

    def on_letter(self, kind: type[Kind], handle: Callable[[int, Kind], None]) -> None:
        """Call `handle` with the number of a hub and each letter of `kind` from it."""
        self._on_letter[kind].append(handle)

    def on_begin(self, handle: Callable[[int, bool], None]) -> None:
        """Call `handle` with the number of a hub and whether it had called this one lost.

        A session begins. In the second case requests at addresses and places that this hub had from
        the other one are not its own any more.
        """
        self._on_begin.append(handle)

    def on_end(self, handle: Callable[[int], None]) -> None:
        """Call `handle` with the number of a hub whose session has ended.

        The other hub may call this one lost as soon as SILENCE_S and the longest fetch are over:
        what is not sent by then is not this hub's to send.
        """
        self._on_end.append(handle)

    def on_lost(self, handle: Callable[[int], None]) -> None:
        """Call `handle` with the number of a hub that is lost.

        Its session has been away for so long that all which its fetchers had under way has ended.
        Called once for each loss, and after each start for a hub that has never come.
        """
        self._on_lost.append(handle)

    # The life of this hub

    def tick(self) -> None:
        """Once each TICK_S."""
        if not self.serves:
            self.end_all()
            return
        for peer in self._peers.values():
            if peer.is_on:
                self._tick_session(peer)
            else:
                self._tick_absence(peer)

    def end_all(self) -> None:
        """The bus is lost, or this process is not the hub now."""
        for peer in self._peers.values():
            self._end(peer)

    def close(self) -> None:
        """This hub ends: let the other ones know."""
        for peer in self._peers.values():
            if peer.is_on:
                self._send(peer, PeerOver(self.number, peer.session))
        self.end_all()
        self.serves_until = -inf

    def _tick_session(self, peer: _Peer) -> None:
        if self._clock() >= peer.confirmed_at + SILENCE_S:
            self._end(peer)
            return
        if peer.is_idle:
            self._send_packet(peer, b"")
        peer.is_idle = True

    def _tick_absence(self, peer: _Peer) -> None:
        peer.away += 1
        if peer.away > self._lost_ticks and not peer.is_lost:
            peer.is_lost = True
            peer.session = ""  # what was asked for does not say so
            logger.warning("Hub %d is away", peer.hub)
            for handle in self._on_lost:
                handle(peer.hub)
        if peer.hub < self.number:
            peer.session = peer.session or self._new_name()
            hello = (self._crawl, peer.is_lost, self._clock())
            self._send(peer, PeerHello(self.number, peer.session, *hello))

    # Messages

    def receive(self, data: bytes) -> None:
        """Take a message from the bus."""
        if not self.serves:
            return
        try:
            message = _read(data)
            peer = self._peers[message.hub]
        except (DecodeError, KeyError):
            return
        match message:
            case PeerPacket(echo=echo) | PeerWelcome(echo=echo) if not echo <= self._clock():
                return  # an echo of what was not sent
            case PeerPacket():
                self._take(peer, message)
            case PeerHello():
                self._greet(peer, message)
            case PeerWelcome(_, session, has_lost):
                if session == peer.session and not peer.is_on and peer.hub < self.number:
                    self._begin(peer, message, has_lost)
            case PeerOver(_, session):
                if session == peer.session and peer.is_on:
                    self._end(peer)

    def _greet(self, peer: _Peer, hello: PeerHello) -> None:
        if hello.crawl != self._crawl:
            return
        if peer.hub < self.number or (peer.is_on and peer.session == hello.session):
            return  # it was late
        self._end(peer)
        peer.session, peer.was_lost = hello.session, hello.has_lost
        welcome = (peer.is_lost, hello.sent_at, self._clock())
        self._send(peer, PeerWelcome(self.number, hello.session, *welcome))

    def _take(self, peer: _Peer, packet: PeerPacket) -> None:
        is_asker = peer.hub > self.number
        if packet.session != peer.session or not (peer.is_on or is_asker):
            self._send(peer, PeerOver(self.number, packet.session))
            return
        if not peer.is_on:
            self._begin(peer, packet, peer.was_lost)
        peer.confirmed_at, peer.echo = max(peer.confirmed_at, packet.echo), packet.sent_at
        is_next = packet.number == peer.received + bool(packet.data)
        if not (is_next and self._take_part(peer, packet)):
            self._send(peer, PeerOver(self.number, packet.session))
            self._end(peer)

    def _take_part(self, peer: _Peer, packet: PeerPacket) -> bool:
        """Whether the session goes on."""
        peer.received = packet.number
        peer.letter += packet.data
        if len(peer.letter) > LETTER_BYTES:
            return False
        if not packet.data or not packet.is_last:
            return True
        data, peer.letter = peer.letter, bytearray()
        try:
            letter = self._decode(data)
            for handle in self._on_letter[type(letter)]:
                handle(peer.hub, letter)
        except Exception as error:  # of the letter, or our own in carrying it out
            own = None if isinstance(error, DecodeError) else error
            line = "Hub %d has sent what cannot be carried out: %r"
            self._say(peer, logging.ERROR, line, error, exc_info=own)
            return False
        return True

    def _begin(self, peer: _Peer, first: PeerWelcome | PeerPacket, was_lost: bool) -> None:
        self._say(peer, logging.INFO, "A session with hub %d begins")
        peer.is_on, peer.is_lost = True, False
        peer.sent = peer.received = peer.away = 0
        peer.confirmed_at, peer.echo = first.echo, first.sent_at
        peer.letter.clear()
        self._send_packet(peer, b"")  # it begins at the other end
        for handle in self._on_begin:
            handle(peer.hub, was_lost)

    def _end(self, peer: _Peer) -> None:
        was_on, peer.is_on, peer.session = peer.is_on, False, ""
        if was_on:
            self._say(peer, logging.INFO, "The session with hub %d has ended")
            for handle in self._on_end:
                handle(peer.hub)

    def _say(
        self, peer: _Peer, level: int, line: str, *more: object, exc_info: Exception | None = None
    ) -> None:
        now = self._clock()
        if now >= peer.said_at.get(line, -inf) + QUIET_S:
            peer.said_at[line] = now
            logger.log(level, line, peer.hub, *more, exc_info=exc_info)

    def _send_packet(self, peer: _Peer, data: bytes, *, is_last: bool = True) -> None:
        peer.is_idle = False
        times = (peer.echo, self._clock())
        self._send(peer, PeerPacket(self.number, peer.session, peer.sent, *times, data, is_last))

    def _send(self, peer: _Peer, message: PeerMessage) -> None:
        self._bus.publish(peer_subject(peer.hub), _encode(message))
