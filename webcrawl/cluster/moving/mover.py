"""Moves whole shards from node to node, over the bus, while the crawl runs.

Owns the steps of a move, on both sides, and its messages. Does not open or close a shard (`Holder`)
and does not decide which shard is moved (`running`, `desk`).

| step | at | after a fault here |
| --- | --- | --- |
| ask the taker (`Offer` without files) | giver | nothing has changed |
| lease nothing more, wait for the leases that are out, close the folder | giver | it uses the shard again |
| the taker asks for the files in pieces (`Ask`) and writes them to `NNNN.ID.part` | taker | the giver uses the shard again. A taker that was only restarted begins the copy anew |
| sync all, open the database read-only, rename to `NNNN.ID.copy` | taker | the same |
| the record of the shard names the taker and the copy (`Shards.give`) | giver | the record decides: it names the giver, whose folder is as it was closed; or the taker, whose copy is whole |
| remove the folder | giver | removed when it is parked |
| wait until the giver has seen the record, put the copy into use (`Folders.settle`) | taker | again |

So there is one moment, a compare-and-set, before which only the giver may use the shard, and after
which only the taker. As long as the giver does not know whether it was applied, it uses the shard
no more. A copy that the record does not name is never used.

Flow control: the taker asks, WINDOW pieces at a time, and only once the last ones are on its disk.
Each piece has a checksum. Offers are repeated, and mean the same each time; so it does not matter
which messages are lost. Memory: WINDOW pieces on each side for each move. A node gives one shard at
a time, and takes TAKEN_MAX.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Final, NamedTuple, Protocol
from uuid import uuid4

import msgspec
from msgspec import Meta, Struct
from xxhash import xxh3_64_digest

from webcrawl.cluster.agreement.node import Node
from webcrawl.cluster.agreement.records import SHARDS, UNREADABLE, Copy, NodeID, ShardRecord, read
from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.errors import CopyError, MoveError
from webcrawl.cluster.moving.folders import (
    FILES_MAX,
    Files,
    Folders,
    check_files,
    files_of,
    read_mark,
)
from webcrawl.cluster.synced import sync_file
from webcrawl.frontier.store import StoreError

PIECE: Final = 256 << 10
WINDOW: Final = 4
TAKEN_MAX: Final = 2
STUCK_S: Final = 60.0  # without a further byte a move fails
ANSWER_S: Final = 10.0
_POLL_S: Final = 0.2
_SPARE_BYTES: Final = 256 << 20  # that a copy leaves free on the taker's disk
_SUM: Final = 8  # bytes of a checksum

logger = logging.getLogger(__name__)


_Number = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Offer(Struct, frozen=True, tag="offer"):
    """The giver offers a shard. Without `files`: would you take it?

    utc -- the shard's time when it was closed
    """

    crawl: str
    giver: NodeID
    shard: _Number
    epoch: int
    copy: Copy
    size_bytes: _Number
    utc: float = 0.0
    files: Files = []


class Ask(Struct, frozen=True, tag="ask"):
    """The taker asks for a piece of a file. The answer is a checksum and the bytes."""

    copy: Copy
    file: _Number
    offset: _Number


class Order(Struct, frozen=True, tag="order"):
    """A user's command for this node (`desk`). The answer is an `Answer`."""

    arguments: list[str]


class Taken(Struct, frozen=True):
    """The answer to an offer. `problem`: it is refused."""

    received: int = 0
    is_whole: bool = False
    problem: str = ""


class Answer(Struct, frozen=True):
    """The answer to an order."""

    text: str = ""
    problem: str = ""


_encode: Callable[[Struct], bytes] = msgspec.msgpack.Encoder().encode
_read = msgspec.msgpack.Decoder(Offer | Ask | Order).decode
_read_taken = msgspec.msgpack.Decoder(Taken).decode
_read_answer = msgspec.msgpack.Decoder(Answer).decode


class Holder(Protocol):
    """Opens and closes the shards of this node."""

    async def stop(self, shard: int) -> None:
        """Lease nothing more of `shard`, wait for its leases, close it. MoveError: it goes on."""

    def utc(self) -> float:
        """This machine's clock."""


class _Given(NamedTuple):
    copy: str
    folder: Path
    files: Files


class _Taking:
    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.received = 0
        self.problem = ""
        self.task: asyncio.Task[None] | None = None


class Mover:
    """The moves of one node, in both directions.

    on_order -- answers a user's command; MoveError
    on_hurry -- called when the next round should be at once
    moving -- the shard that this node gives, and why it is not used meanwhile
    """

    def __init__(
        self,
        bus: Bus,
        node: Node,
        folders: Folders,
        holder: Holder,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.on_order: Callable[[list[str]], Awaitable[str]] = no_orders
        self.on_hurry: Callable[[], None] = lambda: None
        self.moving: dict[int, str] = {}
        self._bus = bus
        self._node = node
        self._folders = folders
        self._holder = holder
        self._clock = clock
        self._sleep = sleep
        self._given: _Given | None = None
        self._taking: dict[str, _Taking] = {}  # by copy
        self._hurried_until = float("-inf")
        self._is_closed = False

    def __repr__(self) -> str:
        return f"<Mover gives {sorted(self.moving)}, takes {len(self._taking)}>"

    async def open(self) -> None:
        """The node has its lock on JOBDIR."""
        await asyncio.to_thread(self._folders.drop_parts)
        await self._bus.answer(subject_of(self._node.members.node), self._on_request)

    async def close(self) -> None:
        """End what is being received, and take nothing more: a giver uses its shard again."""
        self._is_closed = True
        tasks = [each.task for each in self._taking.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def is_hurried(self) -> bool:
        """Whether a shard is changing its node: rounds with the bus should be frequent."""
        return self._clock() < self._hurried_until

    # Giving

    async def give(self, shard: int, to: str) -> None:
        """Move `shard` to node `to`. MoveError: this node has it still, and uses it.

        Cancelled, it is this node's still, or the taker's: the record says which.
        """
        shards, crawl = self._node.shards, self._node.registry.crawl
        epoch = shards.held.get(shard)
        if crawl is None or epoch is None:
            raise MoveError(f"shard {shard} is not in use on this node")
        if self.moving:
            raise MoveError(f"shard {next(iter(self.moving))} is on its way to another node")
        if to == self._node.members.node:
            raise MoveError(f"shard {shard} is on node {to} already")
        if not self._node.members.is_alive(to):
            raise MoveError(f"node {to} is not alive")
        self.moving[shard] = f"is moved to node {to}"
        try:
            size_bytes = await asyncio.to_thread(self._folders.size_bytes, shard)
            offer = Offer(
                *(crawl.id, self._node.members.node, shard, epoch, uuid4().hex[:12]),
                size_bytes=size_bytes,
            )
            await self._offer(to, offer)
            await self._holder.stop(shard)
            shards.set_aside(shard)
            try:
                await self._send(to, offer)
            except BaseException:
                shards.take_back(shard)
                raise
            await self._hand_over(to, offer)
        finally:
            self.moving.clear()
            self._given = None
            self.hurry()
        logger.info("Shard %d was moved to node %s, %d bytes", shard, to, size_bytes)

    async def _offer(self, to: str, offer: Offer) -> Taken:
        """The taker's answer. MoveError if it refuses, or does not answer."""
        try:
            data = await self._bus.request(subject_of(to), _encode(offer), ANSWER_S)
            taken = _read_taken(data)
        except (BusError, *UNREADABLE) as error:
            raise MoveError(f"node {to} does not answer: {error}") from None
        if taken.problem:
            raise MoveError(f"node {to} does not take shard {offer.shard}: {taken.problem}")
        return taken

    async def _send(self, to: str, offer: Offer) -> None:
        """Return once the taker has a whole copy."""
        folder = self._folders.of(offer.shard)
        try:
            files = await asyncio.to_thread(files_of, folder)
            skew_s = (await asyncio.to_thread(read_mark, folder)).skew_s
        except (OSError, CopyError) as error:
            raise MoveError(f"{folder} cannot be read: {error}") from None
        if len(files) > FILES_MAX:
            raise MoveError(f"{folder} has more than {FILES_MAX} files")
        self._given = _Given(offer.copy, folder, files)
        offer = msgspec.structs.replace(
            offer,
            size_bytes=sum(size for _, size in files),
            utc=self._holder.utc() + skew_s,
            files=files,
        )
        received, since = -1, self._clock()
        while True:
            try:
                taken = _read_taken(
                    await self._bus.request(subject_of(to), _encode(offer), ANSWER_S)
                )
            except (BusError, *UNREADABLE) as error:
                taken, why = Taken(), str(error)
            else:
                why = taken.problem or "it receives nothing more"
            if taken.is_whole:
                return
            if taken.problem:
                raise MoveError(f"node {to} does not take shard {offer.shard}: {why}")
            if taken.received != received:  # fewer: the taker was restarted
                received, since = taken.received, self._clock()
            if self._clock() > since + STUCK_S:
                raise MoveError(f"node {to} has no whole copy of shard {offer.shard}: {why}")
            await self._sleep(_POLL_S)

    async def _hand_over(self, to: str, offer: Offer) -> None:
        """Change the record: again until it is known whether it has changed."""
        shards, shard = self._node.shards, offer.shard
        while True:
            try:
                is_given = await shards.give(shard, to, offer.copy)
                break
            except BusError as error:
                logger.warning("Shard %d waits to be given to node %s: %s", shard, to, error)
                await self._sleep(1.0)
        record = shards.map.get(shard)
        if not is_given and (record is None or record.copy != offer.copy):
            shards.take_back(shard)
            raise MoveError(f"the record of shard {shard} has changed")
        await asyncio.to_thread(self._folders.remove, shard)

    # What is asked of this node

    async def _on_request(self, data: bytes) -> bytes:
        try:
            message = _read(data)
        except UNREADABLE:
            return _encode(Taken(problem="the message is of another version"))
        if isinstance(message, Ask):
            return await self._piece(message)
        if isinstance(message, Offer):
            return _encode(await self._offered(message))
        try:
            return _encode(Answer(await self.on_order(message.arguments)))
        except (MoveError, CopyError, BusError, StoreError, OSError) as error:
            return _encode(Answer(problem=str(error)))

    async def _piece(self, ask: Ask) -> bytes:
        """b"" for a copy that is not being given."""
        given = self._given
        if given is None or ask.copy != given.copy or not 0 <= ask.file < len(given.files):
            return b""
        path = given.folder / given.files[ask.file][0]
        data = await asyncio.to_thread(_read_piece, path, ask.offset)
        return xxh3_64_digest(data) + data

    async def _offered(self, offer: Offer) -> Taken:
        """Begin to take a shard, or say how far it is."""
        if self._is_closed:
            return Taken(problem="it ends")
        taking = self._taking.get(offer.copy)
        if taking is not None and not taking.problem:
            return Taken(taking.received)
        if offer.files and self._folders.has_copy(offer.shard, offer.copy):
            self.hurry()
            return Taken(offer.size_bytes, is_whole=True)
        problem = await self._why_not(offer) if taking is None else taking.problem
        if problem or not offer.files:
            self._taking.pop(offer.copy, None)
            return Taken(problem=problem)
        if offer.copy not in self._taking:
            taking = self._taking[offer.copy] = _Taking(offer)
            taking.task = asyncio.create_task(self._take(taking))
        return Taken(0)

    async def _why_not(self, offer: Offer) -> str:
        """Why this node does not take the shard, "" if it does."""
        crawl = self._node.registry.crawl
        if crawl is None or offer.crawl != crawl.id:
            return "it is of another crawl"
        if self._node.state != "running":
            return "it is joining or leaving the crawl"
        for copy in [copy for copy, each in self._taking.items() if each.problem]:
            del self._taking[copy]
        if len(self._taking) >= TAKEN_MAX:
            return f"it takes {TAKEN_MAX} others already"
        try:
            check_files(offer.files)
            found = await read(self._bus, f"{SHARDS}{offer.shard}", ShardRecord)
        except CopyError as error:
            return str(error)
        except BusError as error:
            return f"it does not reach the bus: {error}"
        record = found.record if found is not None else None
        if record is None or (record.node, record.epoch) != (offer.giver, offer.epoch):
            return "the shard is not the giver's"
        self._folders.root.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self._folders.root).free
        if free < offer.size_bytes + _SPARE_BYTES:
            return f"it has {free >> 20} MB of free disk, for {offer.size_bytes >> 20} MB"
        return ""

    # Taking

    async def _take(self, taking: _Taking) -> None:
        offer = taking.offer
        try:
            part = await asyncio.to_thread(self._folders.begin_copy, offer.shard, offer.copy)
            for number, (name, size) in enumerate(offer.files):
                await self._take_file(taking, part / name, number, size)
            skew_s = offer.utc - self._holder.utc()
            await asyncio.to_thread(self._folders.end_copy, offer.shard, offer.copy, skew_s)
        except (MoveError, CopyError) as error:
            taking.problem = str(error)
        except OSError as error:
            taking.problem = f"{self._folders.root} cannot be written: {error.strerror or error}"
        finally:
            if taking.problem:
                logger.warning("Shard %d is not taken: %s", offer.shard, taking.problem)
                await asyncio.to_thread(self._folders.drop_copies, offer.shard)
            else:
                self._taking.pop(offer.copy, None)

    async def _take_file(self, taking: _Taking, path: Path, number: int, size: int) -> None:
        with path.open("wb") as file:
            for start in range(0, size, WINDOW * PIECE):
                offsets = range(start, min(size, start + WINDOW * PIECE), PIECE)
                pieces = await asyncio.gather(
                    *(self._ask(taking.offer, number, at, min(PIECE, size - at)) for at in offsets)
                )
                await asyncio.to_thread(file.write, b"".join(pieces))
                taking.received += sum(map(len, pieces))
        await asyncio.to_thread(sync_file, path)

    async def _ask(self, offer: Offer, number: int, offset: int, size: int) -> bytes:
        """A piece, asked for again until it comes. MoveError."""
        request = _encode(Ask(offer.copy, number, offset))
        until = self._clock() + STUCK_S
        while True:
            try:
                data = await self._bus.request(subject_of(offer.giver), request, ANSWER_S)
            except BusError as error:
                problem = str(error)
            else:
                if not data:
                    raise MoveError("its giver has given up")
                if len(data) == _SUM + size and xxh3_64_digest(data[_SUM:]) == data[:_SUM]:
                    return data[_SUM:]
                problem = "a piece is damaged"
            if self._clock() > until:
                raise MoveError(problem)
            await self._sleep(_POLL_S)

    def hurry(self) -> None:
        """A shard is about to change its node."""
        self._hurried_until = self._clock() + 30.0
        self.on_hurry()


def subject_of(node: str) -> str:
    return f"node.{node}"


async def order(bus: Bus, node: str, arguments: list[str], timeout_s: float) -> str:
    """Give `node` a user's command. MoveError, BusError."""
    data = await bus.request(subject_of(node), _encode(Order(arguments)), timeout_s)
    try:
        answer = _read_answer(data)
    except UNREADABLE:
        raise MoveError(f"node {node} is of another version") from None
    if answer.problem:
        raise MoveError(answer.problem)
    return answer.text


def _read_piece(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read(PIECE)


async def no_orders(arguments: list[str]) -> str:
    raise MoveError("this node takes no commands")
