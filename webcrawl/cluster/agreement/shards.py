"""Which node has which shard: claims with epochs, by compare-and-set.

A shard belongs to a node until it is given away or restored by command: the shards of a dead node
pause. Only a shard that no node has ever begun is claimed freely, and never in a KV that was
rebuilt after a loss: there its record may only be missing because its node is dead.

A node uses a shard (`held`) only when all of this is true:
- the shard's record names this node, in a round that the era confirms;
- the node before has said, in a heartbeat, that it has seen this epoch, which it says only when
  its own requests for the shard have ended; or it is silent for SILENT_S and the longest fetch;
- `node.json` has the epoch (on the disk).
It stops as soon as it sees a higher epoch, and with all others when it has lost the bus
(`members`). So two nodes never use one shard at a time.

| a shard's record | in `node.json` of this node | so the node |
| --- | --- | --- |
| names it, same epoch | begun in it | uses it: it was only restarted. If the KV was lost while the node was down: after SILENT_S and the longest fetch, in which a node that knows a higher epoch writes that |
| names it, same epoch | begun in it, killed before its first folder was made | begins again, empty: nothing was in it |
| names it | not begun in it | waits for the node before, then begins (no node before), or takes over |
| names another, higher epoch | begun in a lower one | parks the folder and says so |
| names another, same epoch | begun in it | the same: two losses of the KV, and the record decides |
| is missing, or has a lower epoch | known | writes what it knows, of other nodes' shards too |
| is missing | not known | the KV was never lost: claims its fair share. Lost: waits for its node, or for `restore` |
"""  # noqa: E501  # the rows of a table

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

from webcrawl.cluster.agreement.members import HEARTBEAT_S, SILENT_S, STALE_S, Members
from webcrawl.cluster.agreement.nodefile import NodeStore
from webcrawl.cluster.agreement.records import (
    DRIFT,
    SHARDS,
    Crawl,
    ShardRecord,
    read,
    shards_of,
    write,
)
from webcrawl.cluster.bus import Bus, BusError, Refused

How = Literal["begun", "begun again", "resumed", "moved", "restored"]


class Use(NamedTuple):
    """The node uses `shard` from now on. `how` it came: "begun" is an empty folder.

    "begun again": the node was killed before it had made that folder, or before it had used it.
    """

    shard: int
    epoch: int
    how: How


class Park(NamedTuple):
    """The node must stop using `shard`: `node` has it with a higher epoch.

    When no request for it runs and its folder is closed, call `Shards.stopped`.
    """

    shard: int
    epoch: int  # that of the folder
    node: str


Event = Use | Park


class Shards:
    """This node's view of all shards. Memory: 200 bytes for each shard of the crawl.

    held -- by shard: the epoch in which this node uses it
    map -- by shard: the record as last seen
    waits -- by shard: why a shard whose record names this node is not used yet, for the user
    """

    def __init__(
        self,
        bus: Bus,
        store: NodeStore,
        members: Members,
        shards: int,
        longest_fetch_s: float,
        clock: Callable[[], float],
    ) -> None:
        self.held: dict[int, int] = {}
        self.map: dict[int, ShardRecord] = {}
        self.waits: dict[int, str] = {}
        self._bus = bus
        self._store = store
        self._members = members
        self._shards = shards
        self._fetch_s = longest_fetch_s
        self._clock = clock
        self._stopping: dict[int, int] = {}  # parked shards whose requests may still run: epoch
        self._aside: set[int] = set()  # closed, to be given away
        self._era = ("", 0.0)  # the era, and when it was first seen

    def __repr__(self) -> str:
        return f"<Shards {sorted(self.held)} of {self._shards}>"

    @property
    def has_begun(self) -> bool:
        """Whether this node has folders of shards that are its own."""
        return bool(self._store.content.begun)

    # One round (`node`): a heartbeat with `epochs`, `look`, `Registry.confirm`, `decide`

    async def look(self, crawl: Crawl) -> list[Event]:
        """Read all records, write those that are missing, and park what others have. O(shards)."""
        entries = await self._bus.keys(SHARDS)
        records = shards_of(entries, self._shards)
        known = dict(self._store.content.map)
        for shard in known.keys() | records.keys():
            mine, found = known.get(shard), records.get(shard)
            if found is None or (mine is not None and mine.epoch > found[0].epoch):
                assert mine is not None
                revision = found[1] if found is not None else 0
                if await write(self._bus, f"{SHARDS}{shard}", mine, revision):
                    self.map[shard] = mine
                continue  # else another node was faster: the next round sees it
            self.map[shard] = known[shard] = found[0]
        self._store.keep(map=known)
        return self._park()

    def note_era(self, crawl: Crawl) -> None:
        """Before `look`. A node that had no bus when the KV was lost uses none of its shards.

        Another may have them, with an epoch that this node has not seen.
        """
        if self._era[0] != crawl.era:
            self._era = (crawl.era, self._clock())
            if not self._members.may_ask(self._clock()):
                self.held.clear()

    def _park(self) -> list[Event]:
        events: list[Event] = []
        begun = dict(self._store.content.begun)
        for shard, epoch in list(begun.items()):
            record = self.map.get(shard)
            if record is not None and (record.node, record.epoch) != (self._members.node, epoch):
                if self.held.pop(shard, None) is not None or shard in self._aside:
                    self._stopping[shard] = epoch
                self._aside.discard(shard)
                del begun[shard]
                events.append(Park(shard, epoch, record.node))
        self._store.keep(begun=begun)
        return events

    def restored(self, shard: int) -> int:
        """The last epoch in which `shard` came from a checkpoint, 0: never."""
        record = self.map.get(shard)
        return record.restored if record is not None else 0

    def stopped(self, shard: int) -> None:
        """No request for the parked `shard` runs any more: the next heartbeat says so."""
        self._stopping.pop(shard, None)

    def stopped_all(self) -> None:
        """The node ends: all its requests have."""
        self.held.clear()
        self._stopping.clear()

    def epochs(self) -> list[int]:
        """For the heartbeat: the epochs seen; that of a parked shard once its requests ended."""
        seen = [0] * self._shards
        for shard, record in self.map.items():
            if shard < self._shards:
                seen[shard] = self._stopping.get(shard, record.epoch)
        return seen

    def decide(self, crawl: Crawl) -> list[Event]:
        """Which shards this node uses from now on, after a confirmed round."""
        node = self._members.node
        events: list[Event] = []
        used: dict[int, int] = {}
        empty = self._store.content.empty
        self.waits = {}
        for shard, record in sorted(self.map.items()):
            if record.node != node or shard in self.held or shard in self._aside:
                continue
            why = self._why_wait(shard, record, crawl)
            if why:
                self.waits[shard] = why
                continue
            how = _how(record)
            if self._store.content.begun.get(shard) == record.epoch:
                how = "begun again" if empty.get(shard) == record.epoch else "resumed"
            elif how == "begun":
                empty = empty | {shard: record.epoch}
            used[shard] = record.epoch
            events.append(Use(shard, record.epoch, how))
        if used:  # one write for all of them, before they are used
            self._store.keep(begun=self._store.content.begun | used, empty=empty)
            self.held |= used
        if self._is_sure(crawl):
            self._store.keep(era=crawl.era)
        return events

    def _why_wait(self, shard: int, record: ShardRecord, crawl: Crawl) -> str:
        """Why this node may not use `shard` yet, "" if it may."""
        if shard in self._stopping:
            return "its requests of before have not ended"
        if not self._is_sure(crawl):
            return "the bus has lost its records: other nodes may know of a later one"
        if self._store.content.begun.get(shard) == record.epoch:
            return ""
        before = record.before
        if not before and record.epoch == 1 and crawl.losses:
            return "the bus lost its records while it was claimed: start its node, or restore it"
        if not before or before == self._members.node or self._members.has_left(before):
            return ""
        if self._members.has_seen(before, shard, record.epoch, crawl.era):
            return ""
        if self._members.is_dead(before, self._fetch_s):
            return ""
        return f"node {before} has not confirmed that it has stopped"

    def _is_sure(self, crawl: Crawl) -> bool:
        """Whether no node can know a higher epoch that is not on the bus.

        After a loss of the KV, all nodes that run have to write first what they know.
        """
        if not crawl.is_rebuilt or self._store.content.era == crawl.era:
            return True
        return self._clock() - self._era[1] > (SILENT_S + self._fetch_s) * DRIFT

    def opened(self, shard: int) -> None:
        """The folder of `shard` is on the disk. Call it before the shard gets its first link."""
        if shard in self._store.content.empty:
            empty = dict(self._store.content.empty)
            del empty[shard]
            self._store.keep(empty=empty)

    # Claims

    async def claim(self, crawl: Crawl, joined_at: float) -> int:
        """Claim never-begun shards, up to a fair share. Returns how many.

        A heartbeat after the node has joined, so that nodes that start together share alike. The
        next round uses them.
        """
        if crawl.losses or self._clock() < joined_at + HEARTBEAT_S:
            return 0
        alive = self._members.alive()
        share = -(-self._shards // len(alive))
        mine = sum(record.node == self._members.node for record in self.map.values())
        rank = alive.index(self._members.node)
        free = [shard for shard in range(self._shards) if shard not in self.map]
        free.sort(key=lambda shard: (shard % len(alive) != rank, shard))
        claimed = 0
        for shard in free[: max(share - mine, 0)]:
            record = ShardRecord(self._members.node, 1)
            if await write(self._bus, f"{SHARDS}{shard}", record, 0):
                claimed += 1
        return claimed

    # Moves, by command or to rebalance

    def set_aside(self, shard: int) -> None:
        """`shard` is closed, to be given away: this node does not use it until `take_back`."""
        self._aside.add(shard)
        self.held.pop(shard, None)

    def take_back(self, shard: int) -> None:
        """`shard` is not given away. The next round uses it, if its record still names this node.

        Safe at any time, also if the answer to `give` was lost.
        """
        self._aside.discard(shard)

    async def give(self, shard: int, to: str, copy: str = "") -> bool:
        """Give `shard` to node `to`. Only when its requests have ended and `to` has the `copy`.

        False: its record has changed. Sent again after a lost answer, it is True if it was applied.
        """
        epoch = self.held.get(shard) or self._store.content.begun.get(shard)
        found = await read(self._bus, f"{SHARDS}{shard}", ShardRecord)
        if found is None or epoch is None:
            return False
        node, record = self._members.node, found.record
        if (record.node, record.epoch, record.before) == (to, epoch + 1, node):
            return True
        if (record.node, record.epoch) != (node, epoch):
            return False
        given = ShardRecord(to, epoch + 1, node, record.restored, copy)
        return bool(await write(self._bus, f"{SHARDS}{shard}", given, found.revision))

    async def restore(self, shard: int, crawl: Crawl, copy: str = "") -> ShardRecord:
        """Take `shard` of a dead node, by command: its folder is lost. Refused, if it is alive.

        This node has the `copy`, made from a checkpoint.

        Used once its node was silent for SILENT_S and the longest fetch (`decide`). Without any
        record, in a rebuilt KV, its epoch is 2: the node that began it parks its own.
        """
        found = await read(self._bus, f"{SHARDS}{shard}", ShardRecord)
        node = self._members.node
        if found is None:
            await self.refuse_restore(shard, crawl)
            record = ShardRecord(node, 2, "", 2, copy)
        else:
            old = found.record
            if old.node == node and old.restored == old.epoch and old.copy == copy:
                return old
            await self.refuse_restore(shard, crawl)
            record = ShardRecord(node, old.epoch + 1, old.node, old.epoch + 1, copy)
        revision = found.revision if found is not None else 0
        if not await write(self._bus, f"{SHARDS}{shard}", record, revision):
            raise BusError(f"the record of shard {shard} has changed: try again")
        return record

    async def refuse_restore(self, shard: int, crawl: Crawl) -> None:
        """Refused, if `shard` must not be restored: its node is alive, or nobody ever had it."""
        found = await read(self._bus, f"{SHARDS}{shard}", ShardRecord)
        if found is None:
            if not crawl.losses:
                raise Refused(f"shard {shard} was never begun: nodes claim it by themselves")
            return
        node = found.record.node
        if self._members.silent_s(node) < STALE_S and not self._members.has_left(node):
            raise Refused(f"node {node} has shard {shard} and is alive: move it, or stop it")


def _how(record: ShardRecord) -> How:
    if record.restored == record.epoch:
        return "restored"
    return "moved" if record.before else "begun"


class Move(NamedTuple):
    shard: int
    giver: str
    taker: str


def moves(owners: Mapping[int, str], alive: Sequence[str], *, at_once: int = 1) -> list[Move]:
    """Which shards to move so that the nodes of `alive` have alike numbers, `at_once` per giver.

    A pure function of what all nodes see alike; a move is carried out by its giver. Shards of nodes
    that are not alive stay. Empty once the numbers differ by at most 1. O(shards log nodes).
    """
    has: dict[str, list[int]] = {node: [] for node in sorted(alive)}
    for shard, node in sorted(owners.items()):
        if node in has:
            has[node].append(shard)
    given = dict.fromkeys(has, 0)
    found: list[Move] = []
    while has:
        taker = min(has, key=lambda node: (len(has[node]), node))
        givers = [node for node in has if given[node] < at_once]
        giver = max(givers, key=lambda node: (len(has[node]), node), default="")
        if not giver or len(has[giver]) - len(has[taker]) < 2:
            break
        shard = has[giver].pop()
        has[taker].append(shard)
        given[giver] += 1
        found.append(Move(shard, giver, taker))
    return found
