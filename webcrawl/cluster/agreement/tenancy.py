"""Tenancies: which node may ask the hosts at an IP address.

Owns the records `addresses.<ip>`; `addresses` has the node's clocks, and says which addresses its
shards want. A node holds an address until it gives it back, as it holds its shards: nothing is
renewed. It gives an address back when no request is under way there and the clock is due, so a
taker of a record that is gone may ask at once.

| the record on the bus | so a node that wants the address |
| --- | --- |
| none, or of no node | takes it by compare-and-set. After a loss of the KV: waits until the record `crawl` is settled, `silence_s` after the loss. The holders write theirs again at once |
| of this node, which does not hold it: of an earlier run, or a time without the bus | takes it, and waits IP_DELAY. After a loss of the KV: as without a record, since the record may come from a call that did not know of the loss |
| of another node | asks it for the address, by a message. The holder gives it as soon as no shard of its own wants it, or after a turn of TURN_S, and says so to all that asked; it waits BACK_S before it takes the address again |
| of a node that has left, or is silent for SILENT_S and the longest fetch (`members`) | takes it, and waits IP_DELAY, if it saw the same record before its last look at the heartbeats |

A node that had no bus for STALE_S asks nobody (`members`). When it may ask again, it holds no
address any more, whatever the records say: others may have taken them over. A taken address counts
only after the era is confirmed (`registry`). After a loss of the KV a node holds its addresses
again once it has written them in the new era. Times are those of this node's clock only.

MAX_PAGES_PER_IP: `Cell.reserved` has the pages that a shard may take, ahead of what it has taken:
a portion of PORTION_MAX at most. What is unused is given back with the address, or goes to another
shard of the node. The sum of all cells is at most the cap, so a lost node may lose a portion for
each shard and address, and no fault exceeds the cap. After a loss of the KV the shards write their
counts again (`recount`), and until all have, no page is reserved.

Memory: 500 bytes for each address that is held or wanted. KV: for a new address a `create`, and a
`get` of the record `crawl` for all that are taken in one moment; a `delete`. With a cap the records
stay, and each portion is an `update`.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from heapq import heappop, heappush
from ipaddress import ip_address
from math import inf
from random import Random
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from webcrawl.cluster.addresses import NodeAddresses
from webcrawl.cluster.agreement.members import SILENT_S, Members
from webcrawl.cluster.agreement.records import (
    ADDRESSES,
    COUNTED,
    DRIFT,
    UNREADABLE,
    AddressRecord,
    Cell,
    NodeID,
    Read,
    change,
    encode,
    read,
    write,
)
from webcrawl.cluster.agreement.registry import Registry
from webcrawl.cluster.bus import Bus, BusError

BACK_S: Final = 1.0  # after it was given to another node, this one waits before it takes it again
PORTION_MAX: Final = 64  # pages of an address that a shard reserves at a time
LOOK_S: Final = 5.0  # between two looks at an address of another node, unless it says more
_AGAIN_S: Final = 1.0
_CLOSE_S: Final = 10.0  # the longest time in which a node that leaves gives its pages back
_AT_ONCE: Final = 64  # addresses in one pass of `work`, and of messages kept for the next one


class _Mail(Struct, frozen=True):
    """A message from `node` about an address."""

    node: NodeID
    address: Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f.:]{2,45}\Z")]
    kind: Literal["wanted", "free"]


class _Held(Struct):
    revision: int
    record: AddressRecord
    era: str


class _Wish(Struct):
    """An address that this node wants. `seen` was its record, (node, turn), since `seen_at`.

    None: there was probably no record.
    """

    seen: tuple[str, int] | None = None
    seen_at: float = inf
    not_before: float = -inf


class Tenancies:
    """The addresses that this node holds.

    epochs -- by shard: `Shards.held`, of this node
    restored -- the last epoch of a shard that came from a checkpoint (`ShardRecord.restored`)
    pages_max -- MAX_PAGES_PER_IP, 0: no cap
    """

    def __init__(
        self,
        bus: Bus,
        registry: Registry,
        members: Members,
        addresses: NodeAddresses,
        *,
        shards: int,
        epochs: Mapping[int, int],
        restored: Callable[[int], int] = lambda shard: 0,
        ip_delay_s: float,
        longest_fetch_s: float,
        pages_max: int = 0,
        clock: Callable[[], float],
        random: Random | None = None,
    ) -> None:
        self.silence_s = (SILENT_S + longest_fetch_s + ip_delay_s) * DRIFT
        self.wake = asyncio.Event()  # `work` has something to do now
        self._bus = bus
        self._registry = registry
        self._members = members
        self._addresses = addresses
        self._shards = shards
        self._epochs = epochs
        self._restored = restored
        self._ip_delay_s = ip_delay_s
        self._fetch_s = longest_fetch_s
        self._cap = pages_max
        self._clock = clock
        self._random = random or Random()
        self._held: dict[str, _Held] = {}
        self._wishes: dict[str, _Wish] = {}
        self._tries: list[tuple[float, str]] = []  # heap: when to try to take which
        self._suspended: set[str] = set()  # held addresses whose record is of an earlier era
        self._wanted: dict[str, set[str]] = {}  # held addresses: the nodes that want them
        self._stray: set[str] = set()  # addresses that others think are held here
        self._returning: dict[str, set[str]] = {}  # given up, and not yet written: who wants them
        self._page_wishes: set[tuple[str, int]] = set()
        self._session = 0
        self._era = ("", 0.0)  # and when it was first seen
        self._counted_era = ""  # in which all shards have written their counts again
        self._began_at = clock()

    def __repr__(self) -> str:
        return f"<Tenancies: {len(self._held)} held, {len(self._wishes)} wanted>"

    @property
    def has_cap(self) -> bool:
        return self._cap > 0

    @property
    def wait_s(self) -> float:
        """When to call `work` again, if `wake` is not set before."""
        if self._wanted or self._stray or self._returning or self._suspended:
            return 0.1
        until_s = self._tries[0][0] - self._clock() if self._tries else 1.0
        return min(max(until_s, 0.0), 1.0)

    async def open(self) -> None:
        """Listen to the other nodes, and to this node's shards, in whichever thread they are."""
        loop = asyncio.get_running_loop()
        self._addresses.on_work = lambda: _notify(loop, self.wake)
        await self._bus.subscribe(_subject(self._members.node), self._receive)

    # Moments

    def note(self) -> None:
        """After each round of the node: hold nothing that others may have taken."""
        crawl = self._registry.crawl
        if crawl is None:
            return
        if self._session != self._members.sessions:
            self._session = self._members.sessions
            for address in self._held:
                self._addresses.lose(address)
            self._held.clear()
            self._suspended.clear()
            self._wanted.clear()
        if self._era[0] != crawl.era:
            self._era = (crawl.era, self._clock())
            for wish in self._wishes.values():
                wish.seen = None
            for address, held in self._held.items():
                if held.era != crawl.era:
                    self._addresses.lose(address)
                    self._suspended.add(address)

    def drop(self, shard: int) -> None:
        """`shard` is parked."""
        self._addresses.forget(shard, self._clock())

    async def work(self) -> None:
        """Take what is wanted, give back what is not. Call it often: at once after `wake`.

        It does not raise BusError: the next call tries again.
        """
        crawl = self._registry.crawl
        if crawl is None or not self._members.may_ask(self._clock()):
            return
        self.note()
        if crawl.is_rebuilt and self._clock() > self._settled_at():
            await self._safely(self._registry.settle(crawl.era))
        now = self._clock()
        await self._each(self._write_again, [*self._suspended])
        await self._each(self._return, list(self._returning))
        self._wanted = {a: nodes for a, nodes in self._wanted.items() if a in self._held}
        await self._each(self._give, [*self._wanted, *self._addresses.idle(now)])
        await self._each(self._give_stray, list(self._stray))
        self._stray.clear()
        await self._each(self._take, self._due())
        self._page_wishes |= self._addresses.page_wishes()
        wishes, self._page_wishes = self._page_wishes, set()
        for address, shard in wishes:
            await self._safely(self._reserve(address, shard))

    async def close(self) -> None:
        """The node leaves: others may take all that it holds. With a cap, without what it used."""
        if not self._cap:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await self._each(self._give_at_end, list(self._held))

    async def _each(self, do: Callable[[str], Awaitable[None]], addresses: list[str]) -> None:
        for first in range(0, len(addresses), _AT_ONCE):
            some = addresses[first : first + _AT_ONCE]
            await asyncio.gather(*(self._safely(do(address)) for address in some))

    async def _safely(self, call: Awaitable[object]) -> None:
        with suppress(BusError):
            await call

    # Messages

    def _receive(self, data: bytes) -> None:
        try:
            mail = msgspec.msgpack.decode(data, type=_Mail)
            ip_address(mail.address)
        except UNREADABLE:  # of another version
            return
        if mail.kind == "free":
            wish = self._wishes.get(mail.address)
            if wish is not None:
                wish.seen = None
                self._try(mail.address, self._clock())
        elif mail.address in self._held:
            self._wanted.setdefault(mail.address, set()).add(mail.node)
            self._addresses.stop(mail.address, self._clock())
        elif mail.address in self._returning:
            self._returning[mail.address].add(mail.node)
        elif len(self._stray) < _AT_ONCE:
            self._stray.add(mail.address)
        self.wake.set()

    def _send(self, node: str, address: str, kind: Literal["wanted", "free"]) -> None:
        mail = _Mail(self._members.node, address, kind)
        self._bus.publish(_subject(node), encode(mail))

    # Taking

    def _due(self) -> list[str]:
        """Addresses to try to take now."""
        now = self._clock()
        for address in self._addresses.wishes():
            if address not in self._wishes and address not in self._held:
                self._wishes[address] = _Wish()
                self._try(address, now)
        due: list[str] = []
        while self._tries and self._tries[0][0] <= now and len(due) < _AT_ONCE:
            address = heappop(self._tries)[1]
            wish = self._wishes.get(address)
            if wish is None or address in due:
                continue
            if address in self._held or not self._addresses.is_wanted(address, now):
                del self._wishes[address]
            elif now < wish.not_before:
                self._try(address, wish.not_before)
            else:
                due.append(address)
        return due

    def _try(self, address: str, at: float) -> None:
        heappush(self._tries, (at, address))
        self.wake.set()

    async def _take(self, address: str) -> None:
        wish = self._wishes[address]
        again_s = _AGAIN_S
        try:
            if address not in self._returning:
                again_s = await self._try_to_take(address, wish)
        finally:
            if address in self._held:
                self._wishes.pop(address, None)
            else:
                self._try(address, self._clock() + again_s)

    async def _try_to_take(self, address: str, wish: _Wish) -> float:
        """Take the address, or return after how many seconds to try again."""
        crawl = self._registry.crawl
        assert crawl is not None
        session = self._session
        found = None
        if crawl.is_rebuilt or self._cap or wish.seen is not None:
            found = await read(self._bus, _key(address), AddressRecord)
        wait_s, delay_s = self._why_wait(address, wish, found)
        if wait_s:
            return wait_s
        cells = found.record.cells if found is not None else {}
        record = AddressRecord(self._members.node, self._random.getrandbits(52), cells)
        revision = found.revision if found is not None else 0
        revision = await write(self._bus, _key(address), record, revision) or 0
        if not revision:  # another node was faster
            wish.seen = ("", 0)
            return 0.05
        is_sure = await self._registry.confirm(crawl.era)
        if not is_sure or session != self._members.sessions:
            return _AGAIN_S
        now = self._clock()
        self._held[address] = _Held(revision, record, crawl.era)
        self._addresses.hold(address, now + delay_s, now)
        return 0.0

    def _why_wait(
        self, address: str, wish: _Wish, found: Read[AddressRecord] | None
    ) -> tuple[float, float]:
        """(seconds, 0) until the next try, or (0, seconds) to wait once the address is taken."""
        crawl, now = self._registry.crawl, self._clock()
        assert crawl is not None
        if found is None or found.record.node in ("", self._members.node):
            wish.seen = None
            if crawl.is_rebuilt:
                return min(max(self._settled_at() - now, _AGAIN_S), 10.0), 0.0
            return 0.0, 0.0 if found is None or not found.record.node else self._ip_delay_s
        node, turn = found.record.node, found.record.turn
        if wish.seen != (node, turn):
            wish.seen, wish.seen_at = (node, turn), now
        was_judged = wish.seen_at < self._members.looked_at
        is_over = self._members.has_left(node) or self._members.is_dead(node, self._fetch_s)
        if was_judged and is_over:
            return 0.0, self._ip_delay_s
        self._send(node, address, "wanted")
        return LOOK_S, 0.0

    async def _give_at_end(self, address: str) -> None:
        held = self._held.pop(address)
        record = self._without_holder(held.record, address, self._addresses.counts(address))
        await self._erase(address, record, held.revision)

    # After a loss of the KV

    def _settled_at(self) -> float:
        return self._era[1] + self.silence_s if self._era[0] == self._registry.era else inf

    async def _write_again(self, address: str) -> None:
        """Write the record of an address into the KV of a new era, and hold it again."""
        held, session, era = self._held.get(address), self._session, self._registry.era
        if held is None or held.era == era:
            self._suspended.discard(address)
            return
        revision = await write(self._bus, _key(address), held.record, 0)
        if not revision:
            found = await read(self._bus, _key(address), AddressRecord)
            if found is None:
                return
            if found.record.node not in ("", self._members.node):  # taken in the meantime
                self._held.pop(address, None)
                self._suspended.discard(address)
                return
            held.record = replace(held.record, cells=_most(held.record.cells, found.record.cells))
            revision = await write(self._bus, _key(address), held.record, found.revision)
        if not revision or not await self._registry.confirm(era):
            return
        if session == self._members.sessions and self._held.get(address) is held:
            held.revision, held.era = revision, era
            self._suspended.discard(address)
            self._addresses.hold(address, -inf, self._clock())

    # Giving back

    async def _give(self, address: str) -> None:
        held = self._held.get(address)
        if held is None:
            return
        wanted = self._wanted.get(address)
        used = self._addresses.give_up(address, self._clock(), is_wanted=wanted is not None)
        if used is None:
            return
        del self._held[address]
        self._wanted.pop(address, None)
        self._returning[address] = wanted or set()
        if wanted:
            not_before = self._clock() + BACK_S
            self._wishes[address] = _Wish(seen=("", 0), not_before=not_before)
            self._try(address, not_before)
        record = self._without_holder(held.record, address, used)
        if await self._erase(address, record, held.revision):
            self._returned(address)

    async def _return(self, address: str) -> None:
        """Write again that no node has the address: the first try has failed."""
        if await self._erase_own(address):
            self._returned(address)

    async def _give_stray(self, address: str) -> None:
        """Another node wants an address that this one does not hold, but whose record it has."""
        crawl, now = self._registry.crawl, self._clock()
        if crawl is None or crawl.is_rebuilt or now < self._began_at + self._ip_delay_s:
            return
        if address in self._held or not self._addresses.is_at_rest(address, now):
            return
        if address in self._wishes:  # it is taken, and then given
            return
        await self._erase_own(address)

    async def _erase_own(self, address: str) -> bool:
        """Whether the record is not of this node any more."""
        found = await read(self._bus, _key(address), AddressRecord)
        if found is None or found.record.node != self._members.node:
            return True
        record = replace(found.record, node="")
        return await self._erase(address, record, found.revision)

    async def _erase(self, address: str, record: AddressRecord, revision: int) -> bool:
        if self._cap:
            return bool(await write(self._bus, _key(address), record, revision))
        return await self._bus.delete(_key(address), revision)

    def _returned(self, address: str) -> None:
        for node in self._returning.pop(address, ()):
            self._send(node, address, "free")

    # MAX_PAGES_PER_IP

    def _without_holder(
        self, record: AddressRecord, address: str, used: Mapping[int, int]
    ) -> AddressRecord:
        return replace(record, node="", cells=self._trimmed(record.cells, used))

    def _trimmed(self, cells: Mapping[int, Cell], used: Mapping[int, int]) -> dict[int, Cell]:
        """`cells` without what the shards of `used` have reserved and not used."""
        return {
            shard: replace(cell, reserved=min(cell.reserved, used[shard] + cell.lost))
            if shard in used
            else cell
            for shard, cell in cells.items()
        }

    def _cell(self, shard: int, used: int, record: AddressRecord) -> Cell:
        """The cell of `shard` in its present epoch."""
        epoch = self._epochs.get(shard, 0)
        cell = record.cells.get(shard) or Cell(epoch, 0)
        if cell.epoch < self._restored(shard):  # which pages it took since is unknown
            cell = replace(cell, lost=max(cell.reserved - used, 0))
        return replace(cell, epoch=epoch)

    async def _reserve(self, address: str, shard: int) -> None:
        """Get pages of the address for a shard of this node."""
        held = self._held.get(address)
        if held is None or held.era != self._registry.era or shard not in self._epochs:
            return  # it asks again
        record, used = held.record, self._addresses.counts(address).get(shard, 0)
        mine = self._cell(shard, used, record)
        cells = {**record.cells, shard: mine}
        if used >= mine.reserved - mine.lost:
            if not await self._are_counted():
                return
            if self._left(cells) <= 0:
                cells = self._trimmed(cells, self._addresses.trim(address, shard))
            left = self._left(cells)
            more = min(max(left // (2 * self._shards), 1), PORTION_MAX, max(left, 0))
            mine = replace(mine, reserved=mine.reserved + more)
            cells[shard] = mine
        if cells != record.cells and not await self._write_cells(address, held, cells):
            return
        pages = mine.reserved - mine.lost
        self._addresses.set_pages(address, shard, pages, is_full=used >= pages)

    async def _write_cells(self, address: str, held: _Held, cells: dict[int, Cell]) -> bool:
        """Whether `cells` are in the record. If its revision has changed: a shard has recounted."""
        record = replace(held.record, cells=cells)
        revision = await write(self._bus, _key(address), record, held.revision)
        if revision and self._held.get(address) is held:
            held.revision, held.record = revision, record
            return True
        found = await read(self._bus, _key(address), AddressRecord)
        if found is not None and (found.record.node, found.record.turn) == (
            *(self._members.node, held.record.turn),
        ):
            held.revision, held.record = found.revision, found.record
        return False

    def _left(self, cells: Mapping[int, Cell]) -> int:
        """Pages of the address that no shard has reserved."""
        return self._cap - sum(cell.reserved for cell in cells.values())

    async def _are_counted(self) -> bool:
        """Whether the records have the counts of all shards."""
        crawl = self._registry.crawl
        if crawl is None or not crawl.losses:
            return crawl is not None
        if self._counted_era != crawl.era:
            entries = await self._bus.keys(COUNTED)
            era = crawl.era.encode()
            if sum(entry.value == era for entry in entries.values()) < self._shards:
                return False
            self._counted_era = crawl.era
        return True

    async def recount(self, shard: int, counts: Iterable[tuple[str, int]]) -> None:
        """After a loss of the KV: write `counts` of `shard`, (address, URLs) of all its rows.

        With MAX_PAGES_PER_IP only. Two calls of the bus per address. BusError: call it again.
        """
        crawl = self._registry.crawl
        assert crawl is not None
        epoch = self._epochs[shard]
        for address, used in counts:

            def counted(record: AddressRecord | None, used: int = used) -> AddressRecord:
                record = record or AddressRecord("", 0)
                cell = record.cells.get(shard) or Cell(epoch, 0)
                reserved = max(cell.reserved, used)
                return replace(record, cells=record.cells | {shard: Cell(epoch, reserved)})

            await change(self._bus, _key(address), AddressRecord, counted)
        if await self._registry.confirm(crawl.era):
            await self._bus.put(f"{COUNTED}{shard}", crawl.era.encode())


def _most(mine: Mapping[int, Cell], found: Mapping[int, Cell]) -> dict[int, Cell]:
    """The cells of both, of each shard the one with more pages."""
    cells = dict(found)
    for shard, cell in mine.items():
        if shard not in cells or cells[shard].reserved < cell.reserved:
            cells[shard] = cell
    return cells


def _notify(loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the event loop is closed
        loop.call_soon_threadsafe(event.set)


def _key(address: str) -> str:
    """The record of `address`. A key of the bus has no colons."""
    return ADDRESSES + address.replace(":", "-")


def _subject(node: str) -> str:
    return ADDRESSES + node
