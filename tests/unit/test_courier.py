"""One courier, turn by turn: when it sends, what it waits for, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from webcrawl.cluster.errors import OffsetsError
from webcrawl.cluster.mail.courier import (
    ARRIVED_BYTES_MAX,
    BATCHES_MAX,
    FEW_A_SECOND,
    RETRY_MAX_S,
    RETRY_S,
    Courier,
)
from webcrawl.cluster.mail.messages import ROWS_MAX, Batch, Watermark, pack, read, write
from webcrawl.cluster.mail.offsets import NAME, Offsets
from webcrawl.frontier.lease import Link
from webcrawl.frontier.mailbox import FoundLink, Mail, Packed, encode

ROW = FoundLink(Link("https://a.example/", "a.example", 1))
RUN = 1 << 32


class Shard:
    """Rows by receiver, all of the same link."""

    def __init__(self, **last: int) -> None:
        self.outbox = {int(to[1:]): (1, rows) for to, rows in last.items()}
        self.inbox: dict[int, int] = {}
        self.batches: list[int] = []  # of each commit

    async def receive_each(
        self, batches: Sequence[tuple[int, int, Sequence[Mail]]], now: float
    ) -> None:
        self.batches.append(len(batches))
        for sender, first, mail in batches:
            if first == self.inbox.get(sender, 0) + 1:
                self.inbox[sender] = first + len(mail) - 1

    async def packed(self, shard: int, after: int, limit: int, limit_bytes: int) -> Packed:
        rows = [ROW] * min(limit, self.outbox[shard][1] - after)
        return Packed(len(rows), encode(rows))

    async def sent(self, shard: int, upto: int) -> None:
        self.outbox[shard] = upto + 1, self.outbox[shard][1]


class Bus:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.is_connected = True
        self.published: list[tuple[str, Batch | Watermark]] = []

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self.handle = handle

    def publish(self, subject: str, data: bytes) -> None:
        self.published.append((subject, read(data)))

    def take(self) -> list[Batch]:
        """The batches since the last call."""
        taken, self.published = self.published, []
        return [message for _, message in taken if isinstance(message, Batch)]


class Scene:
    """Courier 0 of three, in epoch 5."""

    def __init__(self, **last: int) -> None:
        self.shard, self.bus = Shard(**last), Bus()
        self.courier = Courier(0, 5, "crawl", self.shard, self.bus, shards=3)

    async def turn(self, now: float) -> list[Batch]:
        self.due_at = await self.courier.turn(now)
        return self.bus.take()

    async def begin(self) -> None:
        await self.courier.open()
        for batch in await self.turn(0.0):
            assert not batch.count
            self.hear(batch, 0)

    def hear(self, batch: Batch, applied: int, kept: int | None = None, epoch: int = 1) -> None:
        kept = applied if kept is None else kept
        head = "crawl", batch.receiver, epoch, 0, 5, batch.serial
        self.bus.handle(write(Watermark(*head, applied, kept)))


def mail(
    rows: int = 1, first: int = 1, epoch: int = 1, serial: int = RUN + 1, **more: int
) -> bytes:
    data, count = pack([ROW] * rows)
    crawl = "crawl"
    head = crawl, more.get("sender", 1), epoch, more.get("to", 0), more.get("to_epoch", 5), serial
    return write(Batch(*head, first, count, data))


def test_it_asks_first_and_sends_after_the_answer() -> None:
    async def scene() -> None:
        each = Scene(s1=3)
        await each.courier.open()
        (asking,) = await each.turn(0.0)
        assert (asking.count, asking.first) == (0, 1)
        assert await each.turn(0.5) == []
        (again,) = await each.turn(RETRY_S)
        each.hear(again, 0)
        (batch,) = await each.turn(1.1)
        assert (batch.first, batch.count) == (1, 3)
        assert each.courier.unapplied == 3
        each.hear(batch, 3)
        assert await each.turn(1.2) == []
        assert each.courier.unapplied == 0
        assert each.shard.outbox == {1: (4, 3)}

    asyncio.run(scene())


def test_four_batches_are_unanswered_at_most_and_delay_no_other_shard() -> None:
    async def scene() -> None:
        each = Scene(s1=ROWS_MAX * 9, s2=ROWS_MAX)
        await each.begin()
        batches = await each.turn(0.1)
        assert [batch.receiver for batch in batches] == [1] * BATCHES_MAX + [2]
        each.hear(batches[-1], ROWS_MAX)
        assert await each.turn(0.2) == []
        assert each.shard.outbox[2] == (ROWS_MAX + 1, ROWS_MAX)
        each.hear(batches[1], ROWS_MAX * 2)
        assert [batch.first for batch in await each.turn(0.3)] == [
            ROWS_MAX * 4 + 1,
            ROWS_MAX * 5 + 1,
        ]

    asyncio.run(scene())


def test_a_silent_shard_is_asked_after_ever_longer_waits() -> None:
    async def scene() -> None:
        each = Scene(s1=1)
        await each.begin()
        assert len(await each.turn(0.1)) == 1
        waits, now = [], 0.1
        for _ in range(9):
            waits.append(each.due_at - now)
            now = each.due_at
            (asking,) = await each.turn(now)
            assert not asking.count
        assert waits == pytest.approx([RETRY_S, 2, 4, 8, 16] + [RETRY_MAX_S] * 4)
        each.hear(asking, 0)
        (batch,) = await each.turn(now + 1)
        assert (batch.first, batch.count) == (1, 1)
        assert each.courier.repeated == 1

    asyncio.run(scene())


def test_few_rows_wait_for_more() -> None:
    async def scene() -> None:
        each = Scene(s1=1)
        await each.begin()
        (batch,) = await each.turn(0.1)  # it has waited for the answer
        each.shard.outbox[1] = 1, 3
        assert await each.turn(0.2) == []
        assert each.due_at == pytest.approx(3 / FEW_A_SECOND)
        (batch,) = await each.turn(3 / FEW_A_SECOND)
        assert (batch.first, batch.count) == (2, 2)
        each.shard.outbox[1] = 1, 3 + ROWS_MAX
        assert len(await each.turn(0.5)) == 1  # enough of them do not wait

    asyncio.run(scene())


def test_nothing_is_sent_without_a_bus() -> None:
    async def scene() -> None:
        each = Scene(s1=1)
        each.bus.is_connected = False
        await each.courier.open()
        assert await each.turn(0.0) == []
        each.bus.is_connected = True
        assert len(await each.turn(each.due_at)) == 1

    asyncio.run(scene())


def test_rows_that_are_applied_and_not_kept_stay() -> None:
    async def scene() -> None:
        each = Scene(s1=4)
        await each.begin()
        (batch,) = await each.turn(0.1)
        each.hear(batch, 4, kept=1)
        assert await each.turn(0.2) == []
        assert each.courier.unapplied == 0
        assert each.shard.outbox == {1: (2, 4)}
        (asking,) = await each.turn(0.2 + RETRY_MAX_S)  # is it still there?
        each.hear(asking, 2, kept=2, epoch=2)
        (batch,) = await each.turn(40.0)
        assert (batch.first, batch.count) == (3, 2)
        assert each.courier.lost == 0

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (mail(sender=0), "receiver"),
        (mail(sender=3), "receiver"),
        (mail(to=1), "receiver"),
        (mail(to_epoch=6), "epoch"),
        (mail(epoch=1), "epoch"),
        (b"mail9\nx", "version"),
        (write(Watermark("other", 1, 2, 0, 5, 1, 0, 0)), "crawl"),
        (write(Batch("crawl", 1, 2, 0, 5, RUN, 1, 1, b"x")), "malformed"),
    ],
)
def test_what_is_refused_is_counted_and_not_answered(message: bytes, reason: str) -> None:
    async def scene() -> None:
        each = Scene()
        await each.begin()
        each.courier.set_epoch(1, 2)
        each.bus.handle(message)
        await each.turn(1.0)
        assert each.courier.refused == {reason: 1}
        assert not each.bus.published
        assert not each.shard.inbox

    asyncio.run(scene())


def test_a_batch_of_an_earlier_run_is_refused() -> None:
    async def scene() -> None:
        each = Scene()
        await each.begin()
        each.bus.handle(mail(serial=2 * RUN + 1))
        each.bus.handle(mail(serial=RUN + 9, first=2))
        await each.courier.turn(1.0)
        assert each.shard.inbox == {1: 1}
        assert each.courier.refused == {"run": 1}

    asyncio.run(scene())


def test_a_gap_and_a_repeated_batch_are_answered_and_not_applied() -> None:
    async def scene() -> None:
        each = Scene()
        await each.courier.open()
        each.bus.published.clear()
        for serial, first in enumerate([1, 3, 1], RUN + 1):
            each.bus.handle(mail(first=first, serial=serial))
            await each.courier.turn(1.0)
        assert each.courier.applied == 1
        answers = [answer for _, answer in each.bus.published if isinstance(answer, Watermark)]
        assert [(answer.serial - RUN, answer.applied) for answer in answers] == [
            (1, 1), (2, 1), (3, 1),
        ]  # fmt: skip

    asyncio.run(scene())


def test_small_batches_are_applied_in_one_commit_and_each_sender_is_answered_once() -> None:
    async def scene() -> None:
        each = Scene()
        await each.courier.open()
        each.bus.published.clear()
        for n, (sender, first, rows) in enumerate([(1, 1, 2), (2, 1, 3), (1, 3, 1), (1, 9, 1)]):
            each.bus.handle(mail(rows, first, sender=sender, serial=RUN + 1 + n))
        await each.courier.turn(1.0)
        assert each.shard.batches == [3]
        assert each.shard.inbox == {1: 3, 2: 3}
        assert each.courier.applied == 6
        answers = [answer for _, answer in each.bus.published if isinstance(answer, Watermark)]
        assert [(a.receiver, a.serial - RUN, a.applied) for a in answers] == [(1, 4, 3), (2, 2, 3)]

    asyncio.run(scene())


def test_a_long_commit_is_none_of_many_batches() -> None:
    async def scene() -> None:
        each = Scene()
        await each.courier.open()
        for n in range(3):
            each.bus.handle(mail(ROWS_MAX, ROWS_MAX * n + 1, serial=RUN + 1 + n))
        assert await each.courier.turn(1.0) == 1.0, "there is more to do"
        await each.courier.turn(1.0)
        await each.courier.turn(1.0)
        assert each.shard.batches == [1, 1, 1]

    asyncio.run(scene())


def test_few_rows_wait_longer_if_there_are_many_shards() -> None:
    async def scene() -> None:
        each = Scene(s1=1)
        each.courier = Courier(0, 5, "crawl", each.shard, each.bus, shards=50)
        await each.begin()
        [batch] = await each.turn(0.1)
        each.hear(batch, 1)
        pause_s = 50 / FEW_A_SECOND
        each.shard.outbox[1] = 2, 2
        for now in (pause_s + 0.1, pause_s * 2 - 0.1):
            assert await each.turn(now) == []
            assert each.due_at == pytest.approx(pause_s * 2), "also of other shards' rows"
        each.shard.outbox[1] = 2, 2 + ROWS_MAX
        assert len(await each.turn(pause_s * 2 - 0.1)) == 1, "many rows do not wait"

    asyncio.run(scene())


def test_what_has_arrived_is_bounded() -> None:
    async def scene() -> None:
        each = Scene()
        await each.courier.open()
        size, message = 500_000, Batch("crawl", 1, 1, 0, 5, RUN + 1, 1, 1)
        for _ in range(ARRIVED_BYTES_MAX // size + 2):
            each.courier.deliver(message, encode([ROW]), size)
        assert each.courier.refused == {"full": 2}

    asyncio.run(scene())


def test_a_shard_with_a_newer_epoch_elsewhere_is_silent() -> None:
    async def scene() -> None:
        each = Scene(s1=1)
        await each.begin()
        each.courier.set_epoch(0, 6)
        each.bus.handle(mail())
        assert each.courier.is_superseded
        assert await each.courier.turn(9.0) == float("inf")
        assert not each.bus.published
        assert not each.shard.inbox

    asyncio.run(scene())


def test_shards_of_one_node_need_no_bus() -> None:
    async def scene() -> None:
        bus, node = Bus(), {}
        bus.is_connected = False
        shards = [Shard(s1=ROWS_MAX * 3), Shard()]
        crew = [
            Courier(n, 1, "crawl", each, bus, shards=2, node=node) for n, each in enumerate(shards)
        ]
        for courier in crew:
            await courier.open()
        tasks = [asyncio.create_task(courier.run()) for courier in crew]
        crew[0].wrote()
        while crew[0].unapplied:  # noqa: ASYNC110  (no event says so)
            await asyncio.sleep(0)
        for courier in crew:
            courier.close()
        await asyncio.gather(*tasks)
        assert shards[1].inbox == {0: ROWS_MAX * 3}
        assert not node

    asyncio.run(scene())


def test_offsets_last(tmp_path: Path) -> None:
    first = Offsets(tmp_path)
    first.begin_run({1: 7, 2: 9})
    first.move(1, 5)
    first.confirm(1)
    first.save()
    second = Offsets(tmp_path)
    assert (second.run, second.of(1), second.of(2)) == (2, 5, 0)
    second.begin_run({1: 8, 2: 99})
    assert (second.trusted(1), second.trusted(2)) == (8, 9)


def test_damaged_offsets_are_refused(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text("{")
    with pytest.raises(OffsetsError, match="cannot be read"):
        Offsets(tmp_path)
