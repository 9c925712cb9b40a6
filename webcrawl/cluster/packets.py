"""What hubs and fetchers send on the bus: control messages, packets of streams, and letters.

All are structs in MessagePack, of checked types; `read_by_hub` and `read_by_fetcher` raise
DecodeError for anything else. There is no code in them, and no pickle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar

from msgspec import DecodeError, Meta
from msgspec.msgpack import Decoder, Encoder

from webcrawl.hub.wire import Tagged

SILENCE_S: Final = 10.0  # a session without a packet for so long has ended
TICK_S: Final = 1.0  # between two packets at least
SAY_TICKS: Final = 60  # between two lines of a fetcher without a session
PACKET_BYTES: Final = 256 * 1024  # of data in one message; NATS allows 1 MB by default
_PARTS_MAX: Final = 256  # of a brief

B = TypeVar("B")  # bytes, or what a decoder takes in their place
T = TypeVar("T")

# Of a process: a part of a subject. Of a session: that of its fetcher, a dot, and one of its own.
Name = Annotated[str, Meta(pattern=r"\A[0-9a-z]{1,32}\Z")]
Place = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._-]{1,100}\Z")]  # it is logged
SessionName = Annotated[str, Meta(pattern=r"\A[0-9a-z]{1,32}\.[0-9a-z]{1,32}\Z")]


class Letter(Tagged, frozen=True):
    """A message from hub to hub (`peers`), of plain values. Each module there has its own kinds.

    Its types are tested when it arrives; its receiver tests what it means before it keeps or obeys
    it.
    """


class Packet(Tagged, frozen=True):
    """A part of a stream; without data it only keeps the session alive.

    number -- of the last packet with data, this one included
    received -- number of the last packet with data that has arrived from the other end
    echo -- `sent_at` of the last packet from the other end
    sent_at -- monotonic, of the sender
    """

    session: SessionName
    number: int
    received: int
    echo: float
    sent_at: float
    data: bytes


class Ask(Tagged, frozen=True):
    """A new fetcher asks how to crawl: the parts of a `Brief` are the answer."""

    fetcher: Name


class Hello(Tagged, frozen=True):
    """A fetcher asks for a session.

    fetcher -- its name on the bus, of this process alone
    place -- its name for users
    crawl, settings -- the crawl's ID, and the hash of the settings in its brief
    stream -- of the session before; "" at first
    received -- number of the last packet that has arrived from that stream
    session -- the name of the new session
    """

    fetcher: Name
    place: Place
    crawl: str
    settings: str
    stream: str
    received: int
    session: SessionName
    sent_at: float


class Brief(Tagged, frozen=True):
    """How to crawl: plain values only.

    settings -- Scrapy's, by name
    settings_hash -- of all of this
    arguments -- of the spider
    domains -- its `allowed_domains`
    has_rules -- whether RULES is set: the rules themselves come in the stream, before a lease
    hubs -- how many the crawl has
    """

    crawl: str
    spider: str
    settings: dict[str, Any]
    settings_hash: str
    arguments: dict[str, Any]
    domains: list[str]
    has_rules: bool
    hubs: int = 1


class BriefPart(Tagged, frozen=True):
    """A part of a `Brief`: one with a long SCOPE_DENY does not fit into a message.

    settings_hash -- of the brief
    number -- 0 to `count` - 1
    """

    settings_hash: str
    number: Annotated[int, Meta(ge=0, lt=_PARTS_MAX)]
    count: Annotated[int, Meta(ge=1, le=_PARTS_MAX)]
    data: Annotated[bytes, Meta(max_length=PACKET_BYTES)]


class Welcome(Tagged, frozen=True):
    """The answer to `Hello`: `session` begins, with the packets after `received`.

    stream -- another one than before: the hub has nothing of that one any more
    """

    session: SessionName
    stream: str
    received: int
    echo: float  # `sent_at` of the Hello


class Refusal(Tagged, frozen=True):
    """The answer to a Hello with another crawl or other settings than the hub's."""

    session: SessionName


class Over(Tagged, frozen=True):
    """The answer to a packet of a session that the hub does not have."""

    session: SessionName


ToHub = Ask | Hello | Packet
ToFetcher = BriefPart | Welcome | Refusal | Over | Packet
encode: Callable[[ToHub | ToFetcher | Brief], bytes] = Encoder().encode


def untrusted(decode: Callable[[B], T]) -> Callable[[B], T]:
    """`decode` for bytes that anybody may have sent: DecodeError is its only exception."""

    def read(data: B) -> T:
        try:
            return decode(data)
        except (UnicodeDecodeError, RecursionError) as error:
            raise DecodeError(str(error)) from None

    return read


read_by_hub: Callable[[bytes], ToHub] = untrusted(Decoder(ToHub).decode)
read_by_fetcher: Callable[[bytes], ToFetcher] = untrusted(Decoder(ToFetcher).decode)
read_brief: Callable[[bytes], Brief] = untrusted(Decoder(Brief).decode)

ASK: Final = "ask"  # the subject that every hub hears


def parts_of(brief: Brief) -> list[BriefPart]:
    """What is sent of `brief`: of PACKET_BYTES each, about."""
    data = encode(brief)
    parts = [data[start : start + PACKET_BYTES] for start in range(0, len(data), PACKET_BYTES)]
    return [BriefPart(brief.settings_hash, n, len(parts), part) for n, part in enumerate(parts)]


def hub_subject(number: int) -> str:
    """The subject on which hub `number` hears fetchers, and the key of its owner's record."""
    return f"hub.{number}"


def subject_of(fetcher: str) -> str:
    """The subject of a fetcher, by its name or that of one of its sessions."""
    return f"fetcher.{fetcher.partition('.')[0]}"
