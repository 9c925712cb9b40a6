"""Tenancies: which shard may ask the hosts at an IP address.

A tenancy rides on RESOLVE: before a `Resolved` outcome is released, `take` gets the address for the
shard. `Resolved.expires_at` is at most the end of the tenancy, TENANCY_S after the write by this
node's clock; then the frontier asks RESOLVE again, which renews it. A shard is the holder, not a
node: who has a shard (`shards`) has its tenancies.

| the record on the bus | so a shard that wants the address |
| --- | --- |
| none | takes it. After a loss of the KV: waits until the record `crawl` is settled, `silence_s` after the loss. The holders write theirs again at once |
| of no shard | takes it, unless another is next (`wanted`): that one has WISH_S |
| of a shard that this node has and that does not use it: of an earlier run, or before a move | takes it, and waits `IP_DELAY` and the longest fetch. After a loss of the KV: as without a record, since the record may come from a call that did not know of the loss |
| of another shard | waits, and writes itself as `wanted` if nobody is. The holder does not renew after a whole tenancy. If the record was unchanged for `silence_s`, takes it over |

`silence_s` is TENANCY_S, the longest fetch and IP_DELAY. A record is given back (deleted; with
MAX_PAGES_PER_IP kept, of no shard) after as long: so whoever finds none may ask at once. A taken
address counts only after the era is confirmed (`registry`).

MAX_PAGES_PER_IP: `Cell.reserved` has the pages that a shard may take, ahead of what it has taken:
as many as fit into a tenancy at IP_DELAY. What is unused is given back with the address. The sum of
all cells is at most the cap, so a lost node may lose pages and no fault exceeds it. After a loss of
the KV the shards write their counts again (`recount`), and until all have, no page is reserved.

Memory: 300 bytes for each address that is held, or waited for within `silence_s`. KV: a `create`
(or a `get` and an `update`) for a new address, an `update` each RENEW_S while it is used, a
`delete`; a `get` per address that is waited for each LOOK_S. So `n` addresses in use are n/150
writes a second, however many hosts there are on each.
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network
from math import ceil, inf
from random import Random
from typing import Final, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from webcrawl.cluster.bus import Bus, BusError
from webcrawl.cluster.records import (
    ADDRESSES,
    COUNTED,
    DRIFT,
    AddressRecord,
    Cell,
    Read,
    change,
    read,
    write,
)
from webcrawl.cluster.registry import Registry

TENANCY_S: Final = 300.0
RENEW_S: Final = 150.0  # a tenancy is renewed at most once in this time
LOOK_S: Final = 30.0  # between two looks at an address of another
WISH_S: Final = 90.0  # the next in line has this time
_NOBODY: Final = -1
_GIVEN_BACK_MAX: Final = 100  # addresses in one `tick`


class Tenancy(NamedTuple):
    """The shard may ask at the address until `until` (monotonic seconds of this node).

    pages_max -- the shard's own count of URLs at the address may reach this; None: no cap
    """

    until: float
    pages_max: int | None = None


class Wait(NamedTuple):
    """Another shard has the address. Ask again at `again_at`: no failure of the host."""

    again_at: float


class Full(NamedTuple):
    """All pages of the address are taken (MAX_PAGES_PER_IP)."""


class _Held(Struct):
    shard: int
    epoch: int  # of the shard
    revision: int
    record: AddressRecord
    taken_at: float
    from_at: float  # nothing is asked before
    until: float
    renewed_at: float
    pages_max: int | None = None


class Tenancies:
    """The addresses of this node's shards.

    epochs -- by shard: `Shards.held`, of this node
    restored -- the last epoch of a shard that came from a checkpoint (`ShardRecord.restored`)
    used -- a shard's own count of URLs at an address: row "ip <address>" of its caps
    shared -- CLUSTER_SHARED_ADDRESSES: prefixes of addresses that many shards may ask at a time
    pages_max -- MAX_PAGES_PER_IP, 0: no cap
    """

    def __init__(
        self,
        bus: Bus,
        registry: Registry,
        node: str,
        *,
        shards: int,
        epochs: Mapping[int, int],
        restored: Callable[[int], int] = lambda shard: 0,
        used: Callable[[int, str], int] = lambda shard, address: 0,
        ip_delay_s: float,
        longest_fetch_s: float,
        pages_max: int = 0,
        shared: Sequence[str] = (),
        clock: Callable[[], float],
        random: Random | None = None,
    ) -> None:
        self.silence_s = (TENANCY_S + longest_fetch_s + ip_delay_s) * DRIFT
        self._bus = bus
        self._registry = registry
        self._node = node
        self._shards = shards
        self._epochs = epochs
        self._restored = restored
        self._used = used
        self._ip_delay_s = ip_delay_s
        self._fetch_s = longest_fetch_s
        self._cap = pages_max
        self._shared = [ip_network(prefix, strict=False) for prefix in shared]
        self._clock = clock
        self._random = random or Random()
        self._held: dict[str, _Held] = {}
        self._seen: dict[str, tuple[tuple[int, int], float]] = {}  # (shard, turn), first seen at
        self._busy: dict[str, asyncio.Event] = {}
        self._era = ("", 0.0)  # and when it was first seen
        self._counted_era = ""  # in which all shards have written their counts again

    def __repr__(self) -> str:
        return f"<Tenancies: {len(self._held)} held>"

    @property
    def are_needed(self) -> bool:
        """Whether a setting limits what is asked of an address."""
        return self._ip_delay_s > 0 or self._cap > 0

    # For a shard

    def is_shared(self, address: str) -> bool:
        """Whether a prefix exempts `address`. O(prefixes)."""
        if not self._shared:
            return False
        parsed = ip_address(address)
        return any(parsed in network for network in self._shared)

    def may_ask(self, shard: int, address: str, now: float) -> bool:
        """Whether `shard` has `address` now. The node must have the bus, too (`Node.may_use`)."""
        held = self._own(address)
        if held is None or held.shard != shard:
            return self.is_shared(address)
        return held.from_at <= now < held.until

    async def take(self, shard: int, address: str) -> Tenancy | Wait | Full:
        """Take or renew `address` for `shard`. A fault of the bus is a `Wait`."""
        if self.is_shared(address):
            return Tenancy(inf)
        while (busy := self._busy.get(address)) is not None:
            await busy.wait()
        self._busy[address] = done = asyncio.Event()
        try:
            return await self._take(shard, address)
        except BusError:
            return self._answer(shard, address) or Wait(self._clock() + LOOK_S)
        finally:
            del self._busy[address]
            done.set()

    def _own(self, address: str) -> _Held | None:
        """The tenancy of `address`, unless its shard has gone since, or is back from elsewhere."""
        held = self._held.get(address)
        if held is not None and self._epochs.get(held.shard) != held.epoch:
            return None
        return held

    def _answer(self, shard: int, address: str) -> Tenancy | Wait | Full | None:
        """What is known without the bus; None: nothing."""
        held, now = self._own(address), self._clock()
        if held is None:
            return None
        if held.shard != shard:
            return Wait(min(now + LOOK_S, self._free_at(held)))
        if now >= held.until:
            return None
        if now < held.from_at:
            return Wait(held.from_at)
        if held.pages_max is not None and self._used(shard, address) >= held.pages_max:
            return Full() if self._left(held.record) <= 0 else None
        return Tenancy(held.until, held.pages_max)

    async def _take(self, shard: int, address: str) -> Tenancy | Wait | Full:
        now, held = self._clock(), self._own(address)
        if held is not None and held.shard != shard and now < self._free_at(held):
            return await self._wish(shard, address, held.record, held.revision)
        if held is not None and held.shard == shard and now < held.until:
            if self._is_wanted(held, now):
                return self._answer(shard, address) or Wait(self._free_at(held))
            if now < held.renewed_at + RENEW_S and (known := self._answer(shard, address)):
                return known
            if await self._renew(address, held):
                return self._answer(shard, address) or Full()
            self._held.pop(address, None)
        elif held is not None and now >= self._free_at(held):
            await self._give_back(address)  # who waits for it comes first
        return await self._take_new(shard, address)

    def _is_wanted(self, held: _Held, now: float) -> bool:
        """Whether the holder must not renew: another waits, and it had a whole tenancy."""
        return held.record.wanted not in (_NOBODY, held.shard) and now > held.taken_at + TENANCY_S

    async def _renew(self, address: str, held: _Held) -> bool:
        """Extend a tenancy that is not over. False: it is lost."""
        for _ in range(3):
            now = self._clock()
            record = await self._next(held.shard, address, held.record)
            revision = await write(self._bus, _key(address), record, held.revision)
            if revision:
                held.record, held.revision = record, revision
                held.until, held.renewed_at = now + TENANCY_S, now
                held.pages_max = self._pages_max(held.shard, record)
                return self._clock() < held.until
            found = await read(self._bus, _key(address), AddressRecord)
            if found is None:  # the KV was lost: nobody takes it before this tenancy is over
                held.revision = 0
                held.record = replace(held.record, cells={}, wanted=_NOBODY)
            elif (found.record.node, found.record.shard) == (self._node, held.shard):
                held.record, held.revision = found  # a wish; or an answer was lost
                if self._is_wanted(held, now):
                    return True  # as it is
            else:
                return False
            if self._clock() >= held.until:
                return False
        return True

    async def _take_new(self, shard: int, address: str) -> Tenancy | Wait | Full:
        era = self._registry.era
        now = self._clock()
        found = await read(self._bus, _key(address), AddressRecord)
        wait = self._why_wait(shard, address, found)
        if wait is not None:
            if found is not None and wait.again_at > now and found.record.shard != _NOBODY:
                return await self._wish(shard, address, found.record, found.revision, wait)
            return wait
        before = found.record if found is not None else None
        base = before or AddressRecord(self._node, _NOBODY, 0)
        if self._cap and self._left(base) <= 0 and not self._unused(shard, address, base):
            return Full()
        if self._cap and not await self._are_counted():
            return Wait(self._clock() + LOOK_S)
        base = replace(base, node=self._node, wanted=_NOBODY)  # who waits still, says so again
        record = await self._next(shard, address, base)
        now = self._clock()
        revision = await write(
            self._bus, _key(address), record, found.revision if found is not None else 0
        )
        if not revision:
            return Wait(self._clock() + 1.0)
        if not await self._registry.confirm(era) or shard not in self._epochs:
            return Wait(self._clock() + 1.0)
        self._seen.pop(address, None)
        own = before is not None and before.shard in self._epochs
        from_at = self._clock() + self._ip_delay_s + self._fetch_s if own else now
        self._held[address] = _Held(
            *(shard, self._epochs[shard], revision, record),
            *(now, from_at, now + TENANCY_S, now),
            self._pages_max(shard, record),
        )
        return self._answer(shard, address) or Full()

    def _why_wait(self, shard: int, address: str, found: Read[AddressRecord] | None) -> Wait | None:
        """When to ask again, None if the address may be taken. After the `get` of `found`."""
        now, crawl = self._clock(), self._registry.crawl
        if shard not in self._epochs or crawl is None:
            return Wait(now + LOOK_S)
        if found is None:
            return self._until_settled(now) if crawl.is_rebuilt else None
        record = found.record
        if record.shard in self._epochs and record.shard != _NOBODY:
            holder = self._own(address)
            if holder is None and crawl.is_rebuilt:
                # Written in ignorance of the loss, by a call whose era was not confirmed?
                return self._until_settled(now)
            return None if holder is None or now >= self._free_at(holder) else Wait(now + LOOK_S)
        first_at = self._observe(address, record, now)
        if record.shard == _NOBODY:
            if crawl.is_rebuilt:
                return self._until_settled(now)
            is_next = record.wanted in (_NOBODY, shard) or now > first_at + WISH_S
            return None if is_next else Wait(now + LOOK_S)
        free_at = first_at + self.silence_s
        return Wait(min(now + LOOK_S, free_at + 0.1)) if now <= free_at else None

    def _until_settled(self, now: float) -> Wait:
        return Wait(min(now + LOOK_S, max(self._settled_at(), now + 1.0)))

    def _observe(self, address: str, record: AddressRecord, now: float) -> float:
        """When this node first saw this turn of the holder."""
        state = (record.shard, record.turn)
        seen = self._seen.get(address)
        if seen is None or seen[0] != state:
            self._seen[address] = seen = (state, now)
        return seen[1]

    async def _wish(
        self,
        shard: int,
        address: str,
        record: AddressRecord,
        revision: int,
        wait: Wait | None = None,
    ) -> Wait:
        """Note that `shard` waits, if no other does."""
        now, held = self._clock(), self._held.get(address)
        if record.wanted == _NOBODY:
            wished = replace(record, wanted=shard)
            written = await write(self._bus, _key(address), wished, revision)
            if written and held is not None and held.revision == revision:
                held.record, held.revision = wished, written
        if wait is not None:
            return wait
        return Wait(min(now + LOOK_S, self._free_at(held)) if held is not None else now + LOOK_S)

    # The cap

    def _left(self, record: AddressRecord) -> int:
        """Pages of the address that no shard has reserved."""
        return self._cap - sum(cell.reserved for cell in record.cells.values())

    def _unused(self, shard: int, address: str, record: AddressRecord) -> int:
        """Pages that `shard` has reserved and not used."""
        cell = self._cell(shard, address, record)
        return cell.reserved - cell.lost - self._used(shard, address)

    def _cell(self, shard: int, address: str, record: AddressRecord) -> Cell:
        """The cell of `shard` in its present epoch."""
        epoch = self._epochs.get(shard, 0)
        cell = record.cells.get(shard) or Cell(epoch, 0)
        if cell.epoch < self._restored(shard):  # which pages it took since is unknown
            lost = max(cell.reserved - self._used(shard, address), 0)
            cell = replace(cell, lost=lost)
        return replace(cell, epoch=epoch)

    def _pages_max(self, shard: int, record: AddressRecord) -> int | None:
        if not self._cap:
            return None
        cell = record.cells[shard]
        return cell.reserved - cell.lost

    async def _next(self, shard: int, address: str, record: AddressRecord) -> AddressRecord:
        """`record` with a new turn of `shard`, and the pages that a tenancy needs."""
        turn = self._random.getrandbits(52)
        cells = record.cells
        if self._cap:
            cell = self._cell(shard, address, record)
            need = ceil(TENANCY_S / self._ip_delay_s) + 1 if self._ip_delay_s > 0 else self._cap
            missing = need - (cell.reserved - cell.lost - self._used(shard, address))
            more = min(missing, self._left(record)) if await self._are_counted() else 0
            cells = cells | {shard: replace(cell, reserved=cell.reserved + max(more, 0))}
        return replace(record, shard=shard, turn=turn, cells=cells)

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
                record = record or AddressRecord(self._node, _NOBODY, 0)
                cell = record.cells.get(shard) or Cell(epoch, 0)
                reserved = max(cell.reserved, used)
                return replace(record, cells=record.cells | {shard: Cell(epoch, reserved)})

            await change(self._bus, _key(address), AddressRecord, counted)
        if await self._registry.confirm(crawl.era):
            await self._bus.put(f"{COUNTED}{shard}", crawl.era.encode())

    # From time to time

    def drop(self, shard: int) -> None:
        """`shard` is parked: its tenancies are now those of the node that has it."""
        self._held = {name: held for name, held in self._held.items() if held.shard != shard}

    async def tick(self) -> None:
        """Give back what is not used any more, and settle a rebuilt KV. Call it each few seconds.

        BusError: call it again later.
        """
        now = self._clock()
        await self._note_era(now)
        over = [name for name, held in self._held.items() if now >= self._free_at(held)]
        for address in over[:_GIVEN_BACK_MAX]:
            if address not in self._busy and address in self._held:
                self._busy[address] = done = asyncio.Event()
                try:
                    await self._give_back(address)
                finally:
                    del self._busy[address]
                    done.set()
        if len(self._seen) > 1000:
            self._seen = {
                name: seen
                for name, seen in self._seen.items()
                if now < seen[1] + 2 * self.silence_s
            }

    async def _note_era(self, now: float) -> None:
        crawl = self._registry.crawl
        if crawl is None:
            return
        if self._era[0] != crawl.era:
            is_first = not self._era[0]
            self._era = (crawl.era, now)
            self._seen.clear()
            if not is_first:
                for address, held in list(self._held.items()):
                    if address not in self._busy and now < held.until:
                        await self._renew(address, held)
        elif crawl.is_rebuilt and now > self._settled_at():
            await self._registry.settle(crawl.era)

    def _settled_at(self) -> float:
        return self._era[1] + self.silence_s if self._era[0] == self._registry.era else inf

    def _free_at(self, held: _Held) -> float:
        """When the address may be given back."""
        return held.until + (self._fetch_s + self._ip_delay_s) * DRIFT

    async def _give_back(self, address: str) -> None:
        held = self._held[address]
        for _ in range(3):
            if await self._return(address, held):
                break
            found = await read(self._bus, _key(address), AddressRecord)
            if found is None or found.record.turn != held.record.turn:
                break  # another has it
            held.record, held.revision = found  # with a wish
        self._held.pop(address, None)

    async def _return(self, address: str, held: _Held) -> bool:
        """Write that no shard has the address; False: its record has changed."""
        record = replace(held.record, shard=_NOBODY, turn=held.record.turn + 1)
        if self._cap and held.shard in self._epochs:
            cell = self._cell(held.shard, address, record)
            used = self._used(held.shard, address) + cell.lost
            cell = replace(cell, reserved=min(cell.reserved, used))
            record = replace(record, cells=record.cells | {held.shard: cell})
        if self._cap or record.wanted != _NOBODY:
            return bool(await write(self._bus, _key(address), record, held.revision))
        return await self._bus.delete(_key(address), held.revision)


def _key(address: str) -> str:
    """The record of `address`. A key of the bus has no colons."""
    return ADDRESSES + address.replace(":", "-")
