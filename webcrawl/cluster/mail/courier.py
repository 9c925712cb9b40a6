"""Carries the mail of one shard: sends the rows of its outbox, applies what other shards send.

Owns how far each other shard is, and when a batch is sent, sent again or refused. Does not know
what mail means: the shard applies it. Trusts neither the bus nor the other shard's memory.

Each row is applied once, in the order of the numbers:
- the receiver applies a batch that continues its watermark, in one commit with the new watermark,
  skips rows that it has, leaves a batch with a gap before it, and answers each with its watermark;
- the sender reads rows from its disk each time it sends them, so it has nothing to remember. It
  deletes rows that the receiver has kept, and goes on behind those that it has applied;
- at most BATCHES_MAX batches are unanswered, so a receiver is never sent more than it can hold. If
  none is answered within RETRY_S, the sender asks for the watermark, after ever longer waits, and
  sends nothing else to this shard until it knows the answer. Other shards do not wait for it.

A batch is sent when ROWS_MAX rows wait. Fewer go when the clock is a multiple of a pause: at the
same time from all shards of a node, so that their receivers apply them in one commit. The pause
grows with the number of shards, since a page has links for some of them only, and a batch costs as
much as dozens of links: a shard sends FEW_A_SECOND such batches to all others together. What
arrives waits for PAUSE_S at most.

**A shard that has lost its last commits** (loss of power, a restored checkpoint) numbers new rows
like rows that others have applied, and these would be skipped. So a sender asks each shard for its
watermark before its first row of a run. If the receiver is ahead of what the sender's disk had at
its opening, numbers on the way are the numbers of the rows plus an offset from then on. The offset
is in a file of its own that is synced (`Offsets`). Batches of an earlier run of the sender's, or of
an earlier epoch, are refused. A receiver that has lost rows which it had called kept gets the next
row that is left: `lost` counts the others. If a sender was set back, and later a receiver to before
that time, the offset does not fit the older rows: some may be applied twice, or count as lost.

Watermarks echo the serial of the batch that they answer. So those that are repeated or late are
known, and a lower watermark comes from a receiver that was set back.

Assumed of the bus: a message that was published before a process subscribed does not reach it.

Memory: of the sender 300 bytes for each receiver, and ROWS_MAX rows while they are sent, whichever
receiver they are for (0.3 MB as a rule, 9 MB of the longest links). The receiver holds
ARRIVED_BYTES_MAX of batches that it has not applied yet, BATCHES_MAX from each sender as a rule,
and drops further ones, which are sent again; and one watermark for each other shard. Shards of one
node exchange the same messages by a call, and the rows of a batch are not compressed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from math import inf
from typing import Final, NamedTuple, Protocol

from webcrawl.cluster.mail.messages import (
    ROWS_BYTES_MAX,
    ROWS_MAX,
    RUN_BITS,
    Batch,
    Reason,
    Refused,
    Watermark,
    compress,
    read,
    unpack,
    write,
)
from webcrawl.cluster.mail.offsets import Offsets
from webcrawl.frontier.mailbox import Mail, Packed, decode_all

BATCHES_MAX: Final = 4  # unanswered, for each receiver
LINGER_S: Final = 0.2
RETRY_S: Final = 1.0
RETRY_MAX_S: Final = 30.0
ARRIVED_BYTES_MAX: Final = 16 << 20
FEW_A_SECOND: Final = 10  # batches with fewer rows than ROWS_MAX, to all shards together
LINGER_MAX_S: Final = 10.0  # between two of them to one shard
PAUSE_S: Final = 0.1  # between two looks at what has arrived and at new rows
_APPLIED_A_TURN = 128  # batches, before the next look at what is to be sent


REMEDIES: Final[Mapping[Reason, str]] = {
    "version": "it is of another version. Run the same version on all nodes",
    "crawl": "it is of another crawl. Give each crawl on a bus a CLUSTER_NAME of its own",
    "malformed": "it is damaged, or not from this program. Who else may use the bus?",
    "receiver": "it is for another shard. Who else may use the bus?",
}

_NO_ROWS: Final = Packed(0, b"")

logger = logging.getLogger(__name__)


class Shard(Protocol):
    """What a courier needs of its frontier: see `frontier.core.CrawlState`."""

    @property
    def outbox(self) -> Mapping[int, tuple[int, int]]: ...

    @property
    def inbox(self) -> Mapping[int, int]: ...

    def receive_each(
        self, batches: Sequence[tuple[int, int, Sequence[Mail]]], now: float
    ) -> Awaitable[None]: ...

    def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Awaitable[Packed]: ...

    def sent(self, shard: int, upto: int) -> Awaitable[None]: ...


class Carrier(Protocol):
    """What a courier needs of the bus (`bus.Bus`)."""

    @property
    def is_connected(self) -> bool: ...

    def publish(self, subject: str, data: bytes) -> None: ...

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None: ...


class _Way:
    """How far one other shard is, in numbers of our rows. `offset` makes them those of the way.

    asked -- serial of the first batch that asked for a watermark; 0 while rows are sent
    heard -- serial of the last answer
    newest -- the last row that this shard may have: of this run, or on our disk when we opened
    """

    __slots__ = (
        "applied", "asked", "ends", "heard", "kept", "newest", "offset", "retry_at", "sent",
        "wait_s", "waiting_since",
    )  # fmt: skip

    def __init__(self, applied: int, newest: int, offset: int) -> None:
        self.applied = self.sent = applied
        self.kept = applied
        self.newest = max(newest, applied)
        self.offset = offset
        self.ends: deque[int] = deque()  # the last row of each unanswered batch
        self.asked = self.heard = 0
        self.retry_at = inf
        self.wait_s = RETRY_S
        self.waiting_since = inf  # when a row that is not sent was first seen


class _Arrived(NamedTuple):
    batch: Batch
    rows: bytes | None  # of a shard of this node, not compressed; None: they are in the batch
    size_bytes: int


class Courier:
    """Of the local shard `shard`, which this node holds in `epoch`.

    refused -- messages that were not applied, by reason
    lost -- rows that receivers had called kept, and do not have any more
    sent, repeated -- rows that were sent, and how many of them were to be sent again
    applied -- rows of others that were applied
    is_superseded -- the shard has a newer epoch elsewhere: nothing is sent or answered any more
    """

    def __init__(
        self,
        shard: int,
        epoch: int,
        crawl: str,
        frontier: Shard,
        bus: Carrier,
        *,
        shards: int,
        offsets: Offsets | None = None,
        node: MutableMapping[int, Courier] | None = None,
        kept: Mapping[int, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`node`: the open couriers of this node, by shard; they share it.

        `kept`: the inbox as of the last checkpoint. None: there are no checkpoints, what is applied
        is kept.
        """
        self.shard, self.epoch, self.crawl = shard, epoch, crawl
        self._frontier = frontier
        self._bus = bus
        self._shards = shards
        self._linger_s = min(max(shards / FEW_A_SECOND, LINGER_S), LINGER_MAX_S)
        self._offsets = offsets if offsets is not None else Offsets(None)
        ends = frontier.outbox
        others = (k for k in range(shards) if k != shard)
        self._offsets.begin_run({k: ends[k][1] if k in ends else 0 for k in others})
        self._node = node if node is not None else {}
        self._kept = dict(kept) if kept is not None else None
        self._clock = clock
        self._ways: dict[int, _Way] = {}
        self._serial = self._offsets.run << RUN_BITS
        self._epochs: dict[int, int] = {}  # of other shards, the highest seen
        self._runs: dict[int, tuple[int, int]] = {}  # of senders: (epoch, run), the highest seen
        self._arrived: deque[_Arrived] = deque()
        self._arrived_rows = self._arrived_bytes = 0
        self._watermarks: dict[int, Watermark] = {}  # by sender, the latest
        self._woken = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._is_open = False
        self.is_superseded = False
        self.refused: Counter[str] = Counter()
        self.lost = self.sent = self.repeated = self.applied = 0

    def __repr__(self) -> str:
        return f"<Courier of {self.shard}: {self.unapplied} rows to apply>"

    # For its owner

    async def open(self) -> None:
        """Take messages, and tell the senders where we are. `run` or `turn` does the rest."""
        self._is_open = True
        self._node[self.shard] = self
        await self._bus.subscribe(subject_of(self.shard), self._on_message)
        self._announce(k for k in range(self._shards) if k != self.shard)

    async def run(self) -> None:
        """Carry mail until `close`. Raises StoreError of the frontier, and OffsetsError: the node
        ends, and nothing is lost.
        """
        while self._is_open:
            self._woken.clear()
            due_at = await self.turn(self._clock())
            wait_s = due_at - self._clock()
            if wait_s <= 0:
                await asyncio.sleep(0)
                continue
            try:
                async with asyncio.timeout(None if due_at == inf else wait_s):
                    await self._woken.wait()
            except TimeoutError:
                pass

    def close(self) -> None:
        """End `run` after its turn, and take no more messages."""
        self._is_open = False
        if self._node.get(self.shard) is self:
            del self._node[self.shard]
        if self._timer is not None:
            self._timer.cancel()
        self._woken.set()

    def wrote(self) -> None:
        """A commit has written rows to the outbox, or a message has arrived. 0.1 µs."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(PAUSE_S, self._wake)

    def set_epoch(self, shard: int, epoch: int) -> None:
        """`shard` has this epoch, as the bus's KV says. Messages of earlier ones are refused."""
        if epoch > self._epochs.get(shard, 0):
            self._epochs[shard] = epoch
            if shard == self.shard:
                self.is_superseded = epoch > self.epoch
            elif shard in self._ways:
                self._ask(self._ways[shard], -inf)
                self._woken.set()

    def set_kept(self, kept: Mapping[int, int]) -> None:
        """A checkpoint has the inbox `kept`: what is in it is safe now."""
        before = self._kept or {}
        self._kept = dict(kept)
        self._announce(k for k, last in kept.items() if last > before.get(k, 0))

    @property
    def unapplied(self) -> int:
        """The rows that are not known to be applied by their receivers. O(shards)."""
        total = 0
        for to, (first, last) in self._frontier.outbox.items():
            way = self._ways.get(to)
            total += last - (way.applied if way is not None else first - 1)
        return total

    @property
    def unanswered(self) -> int:
        """Batches that are sent, and not answered yet."""
        return sum(len(way.ends) for way in self._ways.values())

    async def turn(self, now: float) -> float:
        """Apply and answer what has arrived, and send what is due. Returns when more is due."""
        if self.is_superseded:
            self._arrived.clear()
            self._arrived_rows = self._arrived_bytes = 0
            return inf
        while self._watermarks:
            await self._take(self._watermarks.popitem()[1], now)
        self._offsets.save()
        await self._apply(now)
        due_at = now if self._arrived or self._watermarks else inf
        for to, (first, last) in list(self._frontier.outbox.items()):
            if last >= first:
                due_at = min(due_at, await self._send_due(to, first, last, now))
        return due_at

    def _wake(self) -> None:
        self._timer = None
        self._woken.set()

    # What arrives

    def _on_message(self, data: bytes) -> None:
        try:
            message = read(data)
        except Refused as refusal:
            self._refuse(refusal.reason, "an unknown shard")
            return
        self.deliver(message, None, len(data))

    def deliver(self, message: Batch | Watermark, rows: bytes | None, size_bytes: int) -> None:
        """Take a message; `rows` are those of a batch from a shard of this node."""
        if not self._is_open:
            return
        try:
            self._check(message)
            if isinstance(message, Watermark):
                self._note(message)
            elif self._arrived_bytes + size_bytes > ARRIVED_BYTES_MAX:
                raise Refused("full")
            else:
                self._arrived.append(_Arrived(message, rows, size_bytes))
                self._arrived_rows += message.count
                self._arrived_bytes += size_bytes
        except Refused as refusal:
            self._refuse(refusal.reason, f"shard {message.sender}")
            return
        if self._arrived_rows >= ROWS_MAX or self._is_full(message):
            self._woken.set()
        else:
            self.wrote()

    def _is_full(self, message: Batch | Watermark) -> bool:
        """Whether rows wait for `message`, a watermark."""
        way = self._ways.get(message.sender) if isinstance(message, Watermark) else None
        return way is not None and (way.asked > 0 or len(way.ends) == BATCHES_MAX)

    def _refuse(self, reason: Reason, sender: str) -> None:
        self.refused[reason] += 1
        if self.refused[reason] == 1 and reason in REMEDIES:
            logger.warning(
                "Shard %d refused a message of %s: %s", self.shard, sender, REMEDIES[reason]
            )

    def _check(self, message: Batch | Watermark) -> None:
        sender = message.sender
        if message.crawl != self.crawl:
            raise Refused("crawl")
        if message.receiver != self.shard or sender == self.shard or sender >= self._shards:
            raise Refused("receiver")
        if message.epoch < self._epochs.get(sender, 0) or message.receiver_epoch > self.epoch:
            raise Refused("epoch")
        self.set_epoch(sender, message.epoch)
        if isinstance(message, Batch):
            run = message.epoch, message.serial >> RUN_BITS
            if run > self._runs.get(sender, (0, 0)):
                self._runs[sender] = run

    def _note(self, watermark: Watermark) -> None:
        """Keep the latest of a sender until the next turn."""
        before = self._watermarks.get(watermark.sender)
        if before is None or _age(watermark) >= _age(before):
            self._watermarks[watermark.sender] = watermark

    # The receiver's side

    async def _apply(self, now: float) -> None:
        """Apply what has arrived, about ROWS_MAX rows at most, in one commit. Then answer."""
        inbox, applied = self._frontier.inbox, dict[int, int]()
        taken: list[tuple[int, int, Sequence[Mail]]] = []
        serials: dict[int, int] = {}  # of the batches to answer, by sender
        rows = 0
        for _ in range(min(_APPLIED_A_TURN, len(self._arrived))):
            if rows >= ROWS_MAX:
                break
            arrived = self._arrived.popleft()
            batch, sender = arrived.batch, arrived.batch.sender
            self._arrived_rows -= batch.count
            self._arrived_bytes -= arrived.size_bytes
            end = batch.first + batch.count
            before = applied.get(sender, inbox.get(sender, 0))
            try:
                if (batch.epoch, batch.serial >> RUN_BITS) < self._runs.get(sender, (0, 0)):
                    raise Refused("run")
                if batch.first <= before + 1 < end:
                    mail = unpack(batch) if arrived.rows is None else decode_all(arrived.rows)
                    taken.append((sender, batch.first, mail))
                    applied[sender] = end - 1
                    rows += end - 1 - before
            except Refused as refusal:  # not answered: its sender waits ever longer
                self._refuse(refusal.reason, f"shard {sender}")
                continue
            serials[sender] = max(batch.serial, serials.get(sender, 0))
        if taken:
            await self._frontier.receive_each(taken, now)
            self.applied += rows
        for sender, serial in serials.items():
            self._answer(sender, self._frontier.inbox.get(sender, 0), serial)

    def _announce(self, senders: Iterable[int]) -> None:
        """Tell them where we are: after a start or a checkpoint."""
        for sender in senders:
            self._answer(sender, self._frontier.inbox.get(sender, 0), 0)

    def _answer(self, sender: int, applied: int, serial: int) -> None:
        kept = applied if self._kept is None else min(applied, self._kept.get(sender, 0))
        head = self.crawl, self.shard, self.epoch, sender, self._epochs.get(sender, 0), serial
        watermark = Watermark(*head, applied, kept)
        neighbour = self._node.get(sender)
        if neighbour is not None:
            neighbour.deliver(watermark, None, 0)
        else:
            self._bus.publish(subject_of(sender), write(watermark))

    # The sender's side

    def _ask(self, way: _Way, now: float) -> None:
        """Ask for the watermark at once, before anything else is sent."""
        if not way.asked:
            way.asked = self._serial + 1  # answers to batches of before do not count
            way.ends.clear()
        way.retry_at = min(way.retry_at, now)

    async def _send_due(self, to: int, first: int, last: int, now: float) -> float:
        way = self._ways.get(to)
        if way is None:
            way = _Way(first - 1, self._offsets.trusted(to), self._offsets.of(to))
            self._ways[to] = way
            self._ask(way, now)
        if to not in self._node and not self._bus.is_connected:
            return now + RETRY_S
        if now >= way.retry_at and not way.asked:  # no progress, or nothing heard of kept rows
            if way.ends:
                way.wait_s = min(2 * way.wait_s, RETRY_MAX_S)
            self._ask(way, now)
        if way.asked:
            if now >= way.retry_at:
                self._publish(to, way, _NO_ROWS, now)
                way.retry_at = now + way.wait_s
                way.wait_s = min(2 * way.wait_s, RETRY_MAX_S)
            return way.retry_at
        while way.sent < last and len(way.ends) < BATCHES_MAX:
            if way.waiting_since == inf:
                way.waiting_since = now
            few_at = (way.waiting_since // self._linger_s + 1) * self._linger_s
            if last - way.sent < ROWS_MAX and now < few_at:
                return min(way.retry_at, few_at)
            rows = await self._frontier.packed(to, way.sent, ROWS_MAX, ROWS_BYTES_MAX)
            if not rows.number:  # they are not committed yet
                return min(way.retry_at, now + LINGER_S)
            way.waiting_since = inf
            self._publish(to, way, rows, now)
        if not way.ends and way.retry_at == inf:  # all rows are applied; some are not kept
            way.retry_at = now + RETRY_MAX_S
        return way.retry_at

    def _publish(self, to: int, way: _Way, rows: Packed, now: float) -> None:
        """Send as many of `rows`, the next ones, as fit. Without rows, ask."""
        neighbour = self._node.get(to)
        data, count = b"", rows.number
        if count and neighbour is None:
            data, count = compress(rows)
        self._serial += 1
        batch = Batch(
            *(self.crawl, self.shard, self.epoch, to, self._epochs.get(to, 0), self._serial),
            first=way.sent + 1 + way.offset,
            count=count,
            data=data,
        )
        if count:
            if not way.ends:
                way.retry_at = now + way.wait_s
            self.sent += count
            way.sent += count
            way.newest = max(way.newest, way.sent)
            way.ends.append(way.sent)
        if neighbour is not None:
            neighbour.deliver(batch, rows.data, len(rows.data))
        else:
            self._bus.publish(subject_of(to), write(batch))

    async def _take(self, watermark: Watermark, now: float) -> None:
        """The receiver's progress: free rows, and go on or ask."""
        to, serial = watermark.sender, watermark.serial
        way = self._ways.get(to)
        if way is None:
            return
        if not serial:
            if way.asked or watermark.applied - way.offset != way.applied:
                self._ask(way, now)
        elif not max(way.heard, way.asked - 1, self._offsets.run << RUN_BITS) < serial:
            return  # late, repeated, or of an earlier run
        elif serial > self._serial:
            return  # no message of ours
        elif way.asked:
            applied = self._position(to, way, watermark.applied)
            if applied > way.applied or not way.heard:
                way.wait_s = RETRY_S
            way.heard, way.asked = serial, 0
            self.repeated += max(0, way.sent - applied)
            way.applied = way.sent = applied
            way.retry_at, way.waiting_since = (
                inf,
                now - 2 * self._linger_s,
            )  # the next rows go at once
        else:
            way.heard = serial
            applied = watermark.applied - way.offset
            if not way.applied <= applied <= way.sent:
                self._ask(way, now)
            elif applied > way.applied:
                way.applied, way.wait_s = applied, RETRY_S
                while way.ends and way.ends[0] <= applied:
                    way.ends.popleft()
                way.retry_at = now + RETRY_S if way.ends else inf
        kept = min(watermark.kept - way.offset, way.applied)
        if kept > way.kept:
            way.kept = kept
            await self._frontier.sent(to, kept)

    def _position(self, to: int, way: _Way, reported: int) -> int:
        """The last of our rows that `to` has applied, as it has `reported` now.

        Changes the offset if one of us was set back.
        """
        kept = self._frontier.outbox[to][0] - 1
        applied = reported - way.offset
        position = max(kept, min(applied, way.newest))
        self._offsets.confirm(to)
        if applied != position:
            if applied < kept:
                self.lost += kept - applied
                logger.error(
                    "Shard %d was set back to before a checkpoint that it had announced: %d links"
                    " from shard %d are lost", to, kept - applied, self.shard,
                )  # fmt: skip
            way.offset = reported - position
            self._offsets.move(to, way.offset)
            self._serial = self._offsets.run << RUN_BITS
        return position


def _age(watermark: Watermark) -> tuple[int, int]:
    return watermark.epoch, watermark.serial


def subject_of(shard: int) -> str:
    return f"links.{shard}"
