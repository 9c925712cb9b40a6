"""Which hub a new process with JOBDIR is."""

from __future__ import annotations

import asyncio
from itertools import count
from pathlib import Path

import pytest
from msgspec import json

from tests.cases import each_of
from tests.unit import virtualtime
from tests.unit.test_hub_records import Process, Records
from webcrawl.cluster.bus import Entry, Refused
from webcrawl.cluster.claims import (
    CLAIMANT,
    Claim,
    ClaimError,
    claim_number,
    claimant_of,
    read_claim,
    write_claim,
)
from webcrawl.cluster.packets import SILENCE_S
from webcrawl.cluster.records import CRAWL, CrawlRecord

NAMES = map(str, count(1))


def claim(
    records: Records, crawl: str = "A", settings: str = "hash", hubs: int = 2, claimant: str = ""
) -> Claim:
    async def test() -> Claim:
        wanted = CrawlRecord("1", crawl, settings, hubs)
        return await claim_number(records, wanted, claimant or next(NAMES))

    return virtualtime.run(test())


def begin(records: Records, got: Claim) -> Process:
    process = Process(records, f"hub-{got.number}", got.crawl, claim=got, is_new=True)
    assert process.check() == SILENCE_S
    return process


def test_each_process_claims_the_lowest_number_without_owner_and_the_first_gives_the_id() -> None:
    records = Records()
    first, second = claim(records, "A"), claim(records, "B")
    assert (first, second) == (Claim("A", 0, 2), Claim("A", 1, 2))
    begin(records, first)
    begin(records, second)
    with pytest.raises(Refused, match="all 2 hubs have owners: without JOBDIR this machine"):
        claim(records)


def test_a_process_that_died_before_it_kept_its_claim_claims_the_same_number_again(
    tmp_path: Path,
) -> None:
    records = Records()
    begin(records, claim(records))
    died = claim(records, claimant=claimant_of(tmp_path))
    assert claim(records, claimant=claimant_of(tmp_path)) == died
    begin(records, died)
    with pytest.raises(Refused, match="all 2 hubs have owners"):
        claim(records, claimant=claimant_of(tmp_path))


def test_cloned_machines_that_start_at_once_claim_different_numbers(tmp_path: Path) -> None:
    records, jobdirs = Records(), [tmp_path / "first", tmp_path / "second"]
    for each in jobdirs:
        each.mkdir()
    first, second = (claim(records, claimant=claimant_of(each)) for each in jobdirs)
    assert (first.number, second.number) == (0, 1)
    (jobdirs[0] / CLAIMANT).write_bytes(b"\xff")
    with pytest.raises(ClaimError, match="cannot be used"):
        claimant_of(jobdirs[0])


@each_of(
    ("other", "problem"),
    [
        ({"hubs": 3}, "has CLUSTER_HUBS=2, and this process 3"),
        ({"settings": "other"}, "has other settings"),
    ],
)
def test_a_process_that_does_not_fit_is_refused(other: dict[str, int], problem: str) -> None:
    records = Records()
    claim(records)
    with pytest.raises(Refused, match=problem):
        claim(records, **other)  # type: ignore[arg-type]


def test_a_crawl_that_has_ended_is_followed_by_another_one() -> None:
    records = Records()
    begin(records, claim(records)).end("finished")
    assert claim(records, "B") == Claim("B", 0, 2)
    assert claim(records, "C") == Claim("B", 1, 2)


def test_a_hub_that_is_resumed_with_other_settings_while_others_run_is_refused() -> None:
    records = Records()
    first, second = claim(records), claim(records)
    running = begin(records, first)
    begin(records, second).end("", is_free=True)
    changed = Process(records, "again", "A", claim=second, settings="changed")
    changed.check()
    running.check(2.0)
    with pytest.raises(Refused, match="runs on this bus with other settings"):
        changed.check(2.0)


def test_hubs_that_are_all_resumed_with_other_settings_go_on() -> None:
    records = Records()
    claims = claim(records), claim(records)
    for each in claims:
        begin(records, each).end("", is_free=True)
    hubs = [Process(records, "x", "A", claim=each, settings="changed") for each in claims]
    for hub in hubs:
        hub.check()
    assert [hub.check(SILENCE_S) for hub in hubs] == [SILENCE_S] * 2
    assert records.crawl.settings == "changed"


def test_a_hub_that_replaces_the_settings_while_another_looks_refuses_nobody() -> None:
    class Interleaved(Records):
        first: Process | None = None

        async def get(self, key: str) -> Entry | None:
            found = await super().get(key)
            if key == CRAWL and self.first is not None:
                first, self.first = self.first, None
                await first.ownership.check()
            return found

    records = Interleaved()
    claims = claim(records), claim(records)
    for each in claims:
        begin(records, each).end("", is_free=True)
    first, other = (Process(records, "x", "A", claim=each, settings="new") for each in claims)
    first.check()
    other.check()
    first.now += SILENCE_S
    records.first = first
    assert other.check(SILENCE_S) < 0
    assert other.check(2.0) == SILENCE_S


def test_the_claim_is_kept_in_jobdir(tmp_path: Path) -> None:
    assert read_claim(tmp_path) is None
    write_claim(tmp_path, Claim("A", 1, 2))
    assert read_claim(tmp_path) == Claim("A", 1, 2)
    with pytest.raises(ClaimError, match="cannot be written"):
        write_claim(tmp_path / "none", Claim("A", 1, 2))


@pytest.mark.parametrize("data", [b"{", b"[]", json.encode(Claim("A", 2, 2))])
def test_a_damaged_claim_is_one_line(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "hub.json").write_bytes(data)
    with pytest.raises(ClaimError, match=r"hub\.json cannot be"):
        read_claim(tmp_path)


def test_a_hub_that_lives_writes_lost_records_again_before_another_crawl_begins() -> None:
    records = Records()
    process = begin(records, claim(records))
    records.entries.clear()

    async def test() -> Claim:
        loop = asyncio.get_running_loop()
        loop.call_later(2.0, records.entries.update, written.entries)
        wanted = CrawlRecord("1", "B", "hash", 2)
        return await claim_number(records, wanted, "someone")

    process.check(2.0)
    written = Records()
    written.entries = dict(records.entries)
    records.entries.clear()
    assert virtualtime.run(test()) == Claim("A", 1, 2)


def test_garbage_in_place_of_the_crawl_is_replaced() -> None:
    records = Records()
    records.entries[CRAWL] = Entry(b"\xff{", 90)
    assert claim(records) == Claim("A", 0, 2)
