"""The records of a crawl in the bus's KV, and the compare-and-set loop that changes them.

A record is a struct in MessagePack, typed when it is read; fields that a version does not know are
skipped. No record has a time: clocks of two machines are not compared.

An update whose answer is lost may have been applied. So each change here can be made twice without
harm: it sets its writer's own field, or the reader finds its own name in the record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import Meta, Struct

from webcrawl.cluster.bus import Bus, BusError, Entry
from webcrawl.cluster.views import NodeView

PROTOCOL: Final = 2  # of records and messages; a node with another is refused

CRAWL: Final = "crawl"
NODES: Final = "nodes."
SHARDS: Final = "shards."
ADDRESSES: Final = "addresses."
COUNTED: Final = "counted."
TARGET: Final = "target"
ORDERS: Final = "orders"
WAVE: Final = "wave"
QUIET: Final = "quiet."
END: Final = "end"

# Deviation: clocks of machines may differ in rate by this factor; quartz differs by 1.0002.
DRIFT: Final = 1.02
# What msgspec raises for bytes that are no message. A DecodeError is a ValueError, as is the error
# for text that is no Unicode; the other is for a value that is nested too deeply.
UNREADABLE: Final = (ValueError, RecursionError)
# ID of a node: a part of the name of a subject. The second: or "", no node.
NodeID = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,40}\Z")]
NodeIDOrNone = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,40}\Z")]
# ID of a copy of a shard: a part of the name of its folder (`folders`).
Copy = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{0,40}\Z")]
_TRIES_MAX = 50  # of one change: more nodes than that do not change one record at the same moment

T = TypeVar("T", bound=Struct)


class Crawl(Struct, frozen=True):
    """`crawl`: the crawl that is on this bus.

    era -- of this content of the KV: a random text, another one after each loss of the KV
    is_rebuilt -- the KV was lost, and nodes may not have written again yet what they hold
    losses -- how many times the KV was lost, at least; 0: never
    """

    id: str
    protocol: int
    shards: int
    settings: dict[str, str]
    era: str
    is_rebuilt: bool = False
    losses: int = 0


class NodeRecord(Struct, frozen=True):
    """`nodes.<id>`: a heartbeat.

    run -- a random text of this process: two processes of one JOBDIR are found by it
    beats -- how many heartbeats this process has written
    epochs -- by shard: the epoch that the node has seen before this heartbeat; 0: no record
    view -- what other nodes show of this one
    """

    run: str
    beats: int
    state: Literal["joining", "running", "leaving", "left"]
    epochs: list[int]
    era: str
    view: NodeView = NodeView()


class ShardRecord(Struct, frozen=True):
    """`shards.<k>`: the node that has shard k.

    epoch -- 1, and one more with each node that gets the shard
    before -- the node that had it in the epoch before, "": none that is known
    restored -- the last epoch in which the shard came from a checkpoint, 0: never
    copy -- ID of the copy that the node uses (`folders`); "" for the folder of epoch 1
    """

    node: NodeID
    epoch: int
    before: NodeIDOrNone = ""
    restored: int = 0
    copy: Copy = ""


class Cell(Struct, frozen=True):
    """Pages at one address that one shard has reserved.

    epoch -- of the shard, when it wrote this
    reserved -- in all; a shard's own count of URLs at the address is at most reserved - lost
    lost -- of those, what the restore of a checkpoint has made unknown: they count as used
    """

    epoch: int
    reserved: int
    lost: int = 0


class AddressRecord(Struct, frozen=True):
    """`addresses.<ip>`: the node that may ask hosts at this address.

    node -- "": none
    turn -- a random number of each taking
    cells -- with MAX_PAGES_PER_IP: the pages of each shard
    """

    node: NodeIDOrNone
    turn: int
    cells: dict[int, Cell] = {}


class TargetRecord(Struct, frozen=True):
    """`target`: CLOSESPIDER_PAGECOUNT of the whole crawl.

    goal -- pages; 0: no target
    version -- one more with each change of the goal
    places -- by shard: places that its node has for it, those of its answered pages too
    used -- by shard: answered pages, as last written
    """

    goal: int
    version: int = 0
    places: dict[int, int] = {}
    used: dict[int, int] = {}


class OrdersRecord(Struct, frozen=True):
    """`orders`: how the crawl is steered, the whole state (docs/watching.md)."""

    version: int = 0
    is_paused: bool = False
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()


class WaveRecord(Struct, frozen=True):
    """`wave`: the leader asks all nodes for an answer with this number."""

    number: int
    leader: str


class QuietRecord(Struct, frozen=True):
    """`quiet.<node>`: a node's answer to a wave: by shard (epoch, activity). All are quiet."""

    number: int
    shards: dict[int, tuple[int, int]]


class EndRecord(Struct, frozen=True):
    """`end`: the crawl ends, for this reason, in all nodes.

    number -- a random one: each end has its own
    """

    reason: str
    number: int = 0


class Read(NamedTuple, Generic[T]):
    """A record and its revision."""

    record: T
    revision: int


encode: Callable[[Struct], bytes] = msgspec.msgpack.Encoder().encode


def decode(key: str, value: bytes, kind: type[T]) -> T:
    """BusError if `value` is no record of `kind`: another program writes to this bus."""
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except UNREADABLE as error:
        raise BusError(f"the record {key!r} on the bus cannot be read: {error}") from None


def shards_of(entries: Mapping[str, Entry], shards: int) -> dict[int, Read[ShardRecord]]:
    """The records of shards by number; keys that are none of `shards` are left out. BusError."""
    names = {f"{SHARDS}{number}": number for number in range(shards)}
    return {
        names[key]: Read(decode(key, entry.value, ShardRecord), entry.revision)
        for key, entry in entries.items()
        if key in names
    }


async def read(bus: Bus, key: str, kind: type[T]) -> Read[T] | None:
    entry = await bus.get(key)
    return Read(decode(key, entry.value, kind), entry.revision) if entry is not None else None


async def write(bus: Bus, key: str, record: Struct, revision: int) -> int | None:
    """Create the record (`revision` 0), or replace that of `revision`. None: it has changed."""
    if revision:
        return await bus.update(key, encode(record), revision)
    return await bus.create(key, encode(record))


async def change(
    bus: Bus, key: str, kind: type[T], edit: Callable[[T | None], T | None]
) -> T | None:
    """Replace a record by `edit` of it, again if another node was faster. Returns the record.

    `edit` gets None if there is no record, and returns None to leave all as it is. It may be
    called on its own result: the answer to an update may have been lost.
    """
    for _ in range(_TRIES_MAX):
        before = await read(bus, key, kind)
        record = before.record if before is not None else None
        edited = edit(record)
        if edited is None or edited == record:
            return record
        if await write(bus, key, edited, before.revision if before is not None else 0):
            return edited
    raise BusError(f"the record {key!r} on the bus changes too often")
