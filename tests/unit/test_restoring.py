"""restoring: a hub that runs is left alone, and an empty one begins behind the mail of the lost."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec import json

from tests.cases import each_of
from tests.unit.test_hub_records import Process, Records, served
from webcrawl.cluster.bus import Entry, Refused
from webcrawl.cluster.checkpoints import STATE
from webcrawl.cluster.claims import NAME, Claim, claimant_of, read_claim
from webcrawl.cluster.packets import SILENCE_S, hub_subject
from webcrawl.cluster.records import CRAWL, CrawlRecord, OwnerRecord
from webcrawl.cluster.restoring import claim_of, make_jobdir, refuse_if_owned
from webcrawl.frontier.disk.folderlock import LOCK


class Time:
    """Virtual: the owner renews its record every 2 s, if it lives."""

    def __init__(self, owner: Process | None) -> None:
        self.now = 0.0
        self._owner = owner

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self._owner is not None and self.now % 2.0 == 0.0:
            await self._owner.ownership.check()


def test_a_hub_whose_owner_renews_its_record_is_not_restored() -> None:
    records = Records()
    time = Time(served(records))
    with pytest.raises(Refused, match="hub 0 of the crawl A runs: stop it first"):
        asyncio.run(refuse_if_owned(records, "A", 0, time.sleep))
    assert time.now < SILENCE_S


def test_a_hub_that_was_killed_is_restored_after_a_while_and_one_that_has_ended_at_once() -> None:
    records, time = Records(), Time(None)
    process = served(records)
    asyncio.run(refuse_if_owned(records, "A", 0, time.sleep))
    assert time.now == SILENCE_S
    process.end("")
    asyncio.run(refuse_if_owned(records, "A", 0, time.sleep))
    asyncio.run(refuse_if_owned(records, "B", 0, time.sleep))  # of another crawl
    assert time.now == SILENCE_S


def bus_of(hubs: int, version: str = "1") -> Records:
    records = Records()
    crawl = CrawlRecord(version, "A", "hash", hubs)
    records.entries[CRAWL] = Entry(json.encode(crawl), 1)
    owner = OwnerRecord("A", "one", is_free=True)
    records.entries[hub_subject(1)] = Entry(json.encode(owner), 2)
    return records


def test_an_empty_hub_is_of_the_crawl_on_the_bus(tmp_path: Path) -> None:
    claim = asyncio.run(claim_of(bus_of(3), "1", 1))
    make_jobdir(tmp_path / "job", claim, None)
    assert claim == read_claim(tmp_path / "job")
    assert (claim.crawl, claim.number, claim.hubs) == ("A", 1, 3)
    assert claim.has_begun_empty


def test_a_jobdir_that_found_no_number_to_claim_can_be_a_hub_in_the_place_of_another(
    tmp_path: Path,
) -> None:
    claimant_of(tmp_path)  # the message of the refusal names `scrapy hub`
    claim = asyncio.run(claim_of(bus_of(3), "1", 1))
    make_jobdir(tmp_path, claim, None)
    assert claim == read_claim(tmp_path)


def test_a_hub_that_begins_empty_has_nothing_of_a_killed_restore(tmp_path: Path) -> None:
    (tmp_path / STATE).write_bytes(b"of a checkpoint")
    (tmp_path / "restoring").mkdir()
    make_jobdir(tmp_path, Claim("A", 1, 3), None)
    assert {path.name for path in tmp_path.iterdir()} == {LOCK, NAME}


@each_of(
    ("bus", "hub", "problem"),
    [
        (Records(), 1, "the bus has no crawl"),
        (bus_of(3), 3, "the crawl A has the hubs 0 to 2"),
        (bus_of(3), -1, "the crawl A has the hubs 0 to 2"),
        (bus_of(1), 0, "begin it anew, with an empty JOBDIR"),
        (bus_of(3, version="2"), 1, "is crawled with webcrawl 2, and this is 1"),
    ],
)
def test_a_hub_that_the_crawl_does_not_have_is_refused(
    bus: Records, hub: int, problem: str
) -> None:
    with pytest.raises(Refused, match=problem):
        asyncio.run(claim_of(bus, "1", hub))
