"""Who is the hub: claims, renewals, pauses, and records that are lost, spoiled or another's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf

import pytest
from msgspec import json

from tests.cases import each_of
from webcrawl.cluster.bus import Bus, Entry, Refused
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import SILENCE_S, hub_subject
from webcrawl.cluster.records import CRAWL, CrawlRecord, OwnerRecord, Ownership

PAUSE_S = 26.0
HUB = hub_subject(0)
ONLY = Claim("A", 0, 1)


class Records(Bus):
    """Records without a bus."""

    def __init__(self) -> None:
        self.entries: dict[str, Entry] = {}
        self._revision = 0

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def publish(self, subject: str, data: bytes) -> None: ...

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None: ...

    async def get(self, key: str) -> Entry | None:
        return self.entries.get(key)

    async def put(self, key: str, value: bytes, revision: int) -> int | None:
        found = self.entries.get(key)
        if (found.revision if found else 0) != revision:
            return None
        self._revision += 1
        self.entries[key] = Entry(value, self._revision)
        return self._revision

    @property
    def crawl(self) -> CrawlRecord:
        return json.decode(self.entries[CRAWL].value, type=CrawlRecord)

    @property
    def owner(self) -> OwnerRecord:
        return json.decode(self.entries[HUB].value, type=OwnerRecord)


class Process:
    """A hub's process, whose clock stands still between two calls."""

    def __init__(
        self,
        records: Records,
        owner: str,
        crawl: str = "A",
        *,
        claim: Claim = ONLY,
        settings: str = "hash",
        is_new: bool = False,
    ) -> None:
        self.now = 1_000.0
        self.ownership = Ownership(
            records,
            CrawlRecord("1", crawl, settings, claim.hubs),
            owner,
            pause_s=PAUSE_S,
            is_new=is_new,
            clock=lambda: self.now,
            number=claim.number,
        )

    def check(self, after_s: float = 0.0) -> float:
        """Until when it may serve, in seconds from now."""
        self.now += after_s
        return asyncio.run(self.ownership.check()) - self.now

    def end(self, reason: str, *, is_free: bool = True) -> None:
        asyncio.run(self.ownership.end(reason, is_free=is_free))


def served(records: Records) -> Process:
    process = Process(records, "one", is_new=True)
    assert process.check() == SILENCE_S
    return process


def served_by_two(records: Records) -> tuple[Process, Process]:
    """The hubs 0 and 1 of a crawl with two."""
    first = Process(records, "one", claim=Claim("A", 0, 2), is_new=True)
    other = Process(records, "two", claim=Claim("A", 1, 2), is_new=True)
    first.check()
    other.check()
    return first, other


def test_a_new_crawl_is_served_at_once_and_each_check_renews() -> None:
    records = Records()
    process = served(records)
    assert records.crawl == CrawlRecord("1", "A", "hash")
    assert records.owner == OwnerRecord("A", "one")
    before = records.entries[HUB].revision
    assert process.check(2.0) == SILENCE_S
    assert records.entries[HUB].revision > before


def test_an_end_that_another_hub_writes_is_seen_and_the_next_run_takes_it_back() -> None:
    records = Records()
    first, other = served_by_two(records)
    assert other.ownership.end_elsewhere == ""
    first.end("finished")
    other.check(2.0)
    assert other.ownership.end_elsewhere == "finished"
    again = Process(records, "three", claim=Claim("A", 0, 2))
    again.check()
    again.check(2.0)
    assert again.ownership.end_elsewhere == records.crawl.end == ""


def test_a_stop_is_seen_by_a_hub_that_runs_and_taken_back_by_one_that_begins() -> None:
    records = Records()
    first, other = served_by_two(records)
    asyncio.run(first.ownership.stop())
    first.end("")
    other.check(2.0)
    assert other.ownership.end_elsewhere == "shutdown"
    assert not records.crawl.end, "fetchers wait for the next run"
    again = Process(records, "three", claim=Claim("A", 0, 2))
    again.check()
    assert not records.crawl.is_stopped
    other.check(4.0)
    assert other.ownership.end_elsewhere == ""


def test_a_resumed_crawl_without_records_waits() -> None:
    process = Process(Records(), "one")
    assert process.check() == -inf
    assert process.check(PAUSE_S - 1) == -inf
    assert process.check(1.0) == SILENCE_S


def test_after_a_clean_end_the_next_run_serves_at_once_and_takes_the_end_back() -> None:
    records = Records()
    served(records).end("finished")
    assert records.crawl.end == "finished"
    process = Process(records, "two")
    assert process.check() == SILENCE_S
    assert records.crawl.end == ""


@each_of("ends", [True, False])
def test_after_a_kill_or_with_fetchers_about_the_next_run_waits(ends: bool) -> None:
    records = Records()
    before = served(records)
    if ends:
        before.end("", is_free=False)
    process = Process(records, "two")
    assert process.check() == -inf
    assert process.check(PAUSE_S) == SILENCE_S
    assert records.owner == OwnerRecord("A", "two")


def test_the_owner_before_ends_when_another_takes_over() -> None:
    records = Records()
    first = served(records)
    Process(records, "two").check()
    with pytest.raises(Refused, match="another process has taken over the crawl A"):
        first.check(2.0)


@each_of("key", [CRAWL, HUB])
def test_garbage_is_replaced(key: str) -> None:
    records = Records()
    process = served(records)
    records.entries[key] = Entry(b"\xff{", 90)
    process.check(2.0)
    assert records.crawl.id == records.owner.crawl == "A"
    assert process.check(PAUSE_S) == SILENCE_S


def test_another_crawl_that_runs_refuses_this_one() -> None:
    records = Records()
    other, process = served(records), Process(records, "two", "B", is_new=True)
    assert process.check() == -inf
    other.check(2.0)
    with pytest.raises(Refused, match="another name"):
        process.check(2.0)


def test_another_crawl_that_nobody_runs_is_replaced_after_a_while() -> None:
    records = Records()
    served(records)
    process = Process(records, "two", "B", is_new=True)
    assert process.check() == -inf
    assert process.check(SILENCE_S) == -inf
    assert records.crawl.id == "B"
    assert process.check(PAUSE_S) == SILENCE_S


def test_another_crawl_that_has_ended_is_replaced_at_once() -> None:
    records = Records()
    served(records).end("finished")
    process = Process(records, "two", "B", is_new=True)
    assert process.check() == SILENCE_S
    assert records.crawl == CrawlRecord("1", "B", "hash")


def test_lost_records_are_written_again_after_a_pause() -> None:
    records = Records()
    process = served(records)
    records.entries.clear()
    assert process.check(2.0) == -inf
    assert records.crawl.id == records.owner.crawl == "A"
    assert process.check(PAUSE_S) == SILENCE_S


def test_a_pause_is_not_cut_short_by_a_second_loss() -> None:
    records = Records()
    process = served(records)
    records.entries.clear()
    process.check(2.0)
    records.entries[CRAWL] = Entry(b"garbage", 90)
    assert process.check(2.0) == -inf
