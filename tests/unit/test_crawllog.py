"""The files of a crawl log: what a kill, a full disk and another folder leave."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path
from unittest.mock import patch

import pytest

from tests.contracts.frontier import FOREVER, Driver, answer
from webcrawl.crawllog import files
from webcrawl.crawllog.files import CrawlLog, LogError, Place, compress, log_files
from webcrawl.crawllog.line import NO_DETAILS, Details, Turn, joined, milliseconds, to_bytes
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.distributor import Distributor
from webcrawl.frontier.lease import Link, Resolved, Step
from webcrawl.frontier.store import StoreError

ID = "20261123045012-a1b2c3"


def line(number: int) -> bytes:
    url = f"http://a.example/{number}"
    return to_bytes(Turn("2026-11-23T04:50:12.000Z", "page", url, "a.example", "done"))


def written(folder: Path) -> list[int]:
    """The numbers of the lines in all files of `folder`, in order."""
    numbers = []
    for _, _, path in log_files(folder):
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        numbers += [int(json.loads(each)["url"].rpartition("/")[2]) for each in data.splitlines()]
    return numbers


def write(log: CrawlLog, *numbers: int) -> None:
    for number in numbers:
        log.add(line(number))
    log.flush()


def killed(folder: Path, *numbers: int, lost: Iterable[int] = ()) -> Place:
    """A run writes lines and commits their place, then others, and is killed: that place."""
    log = CrawlLog(folder, ID)
    write(log, *numbers)
    committed = log.place
    write(log, *lost)
    for thread in log._threads:
        thread.join()
    return committed


def resumed(folder: Path, place: Place | None, *numbers: int) -> CrawlLog:
    """The log of the next run, which has written lines and is closed."""
    log = CrawlLog(folder, ID, place)
    write(log, *numbers)
    log.close()
    return log


def test_a_finished_log_is_compressed(tmp_path: Path) -> None:
    log = CrawlLog(tmp_path / "new" / "folder", ID)
    write(log, 1, 2)
    log.close()
    (path,) = (tmp_path / "new" / "folder").iterdir()
    assert path.name == f"crawl-{ID}-00001.jsonl.gz"
    assert written(path.parent) == [1, 2]


def test_a_torn_line_is_cut(tmp_path: Path) -> None:
    committed = killed(tmp_path, 1)
    with next(tmp_path.iterdir()).open("ab") as file:
        file.write(b'{"time":"2026')
    resumed(tmp_path, committed)
    assert written(tmp_path) == [1]


def test_a_file_that_was_begun_after_the_last_commit_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILE_BYTES", 1)
    committed = killed(tmp_path, 1, lost=[2])  # into the second file
    resumed(tmp_path, committed, 2)
    assert written(tmp_path) == [1, 2]


@pytest.mark.parametrize("both", [False, True])
def test_a_kill_while_a_file_is_compressed_loses_nothing(tmp_path: Path, both: bool) -> None:
    committed = killed(tmp_path, 1)
    plain = tmp_path / committed["file"]
    kept = plain.read_bytes()
    if both:  # killed between the two last steps
        compress(plain)
        plain.write_bytes(kept)
    else:
        plain.with_name(f"{plain.name}.gz.part").write_bytes(b"half")
    resumed(tmp_path, committed, 2)
    assert written(tmp_path) == [1, 2]
    assert not list(tmp_path.glob("*.jsonl"))
    assert not list(tmp_path.glob("*.part"))


def test_large_logs_are_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "FILE_BYTES", 900)
    log = CrawlLog(tmp_path, ID)
    for number in range(100):
        write(log, number)
    log.close()
    assert written(tmp_path) == list(range(100))
    assert len(log_files(tmp_path)) > 10


def test_a_log_whose_next_file_cannot_be_made_closes_its_own_file_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILE_BYTES", 1)
    log = CrawlLog(tmp_path / "log", ID)
    write(log, 1)
    full = log.place
    (tmp_path / "log").rename(tmp_path / "away")
    with pytest.raises(LogError, match="No such file"):
        write(log, 2)
    with (tmp_path / "other").open("w"):  # another part of the crawl gets a free number
        log.abandon()
    (tmp_path / "away").rename(tmp_path / "log")
    resumed(tmp_path / "log", full, 2)
    assert written(tmp_path / "log") == [1, 2]


def test_a_crawl_that_returns_to_its_first_folder_cuts_the_file_of_the_second(
    tmp_path: Path,
) -> None:
    place = None
    for number, folder in enumerate("abab"):
        log = CrawlLog(tmp_path / folder, ID, place)
        write(log, number)
        place = log.place
        write(log, 99)  # killed before the commit
    resumed(tmp_path / "a", place)
    assert written(tmp_path / "a") == [0, 2]
    assert written(tmp_path / "b") == [1, 3]
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_kill_before_the_first_commit_in_another_folder_leaves_no_line(tmp_path: Path) -> None:
    committed = killed(tmp_path / "a", 1)
    write(CrawlLog(tmp_path / "b", ID, committed), 2, 3)
    resumed(tmp_path / "b", committed)
    assert written(tmp_path / "a") == [1]
    assert written(tmp_path / "b") == []


def test_a_kill_before_the_first_commit_of_a_crawl_leaves_no_line(tmp_path: Path) -> None:
    killed(tmp_path, lost=[1, 2])
    resumed(tmp_path, None, 1, 2)
    assert written(tmp_path) == [1, 2]


async def test_a_frontier_commits_the_place_of_its_log_before_the_first_line(
    tmp_path: Path,
) -> None:
    """A run is killed in its first commit, and the next one has a third REPORT_DIR."""

    def frontier(folder: str) -> LocalFrontier:
        return LocalFrontier(tmp_path / "job", caps=Caps(per_host=1), log_folder=tmp_path / folder)

    first = frontier("a")
    await first.put([Link("http://a.example/1", "a.example")], 0.0)
    await first.close()
    killed = frontier("b")
    with (
        patch.object(Distributor, "commit", side_effect=MemoryError),
        pytest.raises(MemoryError),
    ):
        await killed.put([Link("http://a.example/2", "a.example")], 0.0)
    assert written(tmp_path / "b") == [2], "over the cap"
    await killed.close()
    last = frontier("c")
    await last.put([Link("http://a.example/2", "a.example")], 0.0)
    await last.close()
    assert written(tmp_path / "b") == []
    assert written(tmp_path / "c") == [2]


async def test_a_log_that_another_run_has_removed_is_one_line_at_the_end(tmp_path: Path) -> None:
    """A copy of the JOBDIR has finished the file, since both have one REPORT_DIR."""
    frontier = LocalFrontier(tmp_path / "job", log_folder=tmp_path)
    for path in tmp_path.glob("crawl-*.jsonl"):
        path.unlink()
    with pytest.raises(StoreError, match=r"^REPORT_DIR = .* cannot be written: No such file"):
        await frontier.close()


def test_another_crawl_in_the_folder_is_left_alone(tmp_path: Path) -> None:
    other = CrawlLog(tmp_path, "20261123045012-ffffff")
    write(other, 1)
    log = CrawlLog(tmp_path, ID)
    write(log, 2)
    log.close()
    write(other, 3)
    other.close()
    assert [crawl for crawl, _, _ in log_files(tmp_path)] == [ID, "20261123045012-ffffff"]


def test_lost_lines_are_a_warning(tmp_path: Path) -> None:
    log = CrawlLog(tmp_path, ID)
    write(log, 1, 2)
    plain = tmp_path / log.place["file"]
    os.truncate(plain, plain.stat().st_size - 10)
    again = CrawlLog(tmp_path, ID, log.place)
    assert [warning.endswith("has lost its last 10 bytes") for warning in again.warnings] == [True]
    assert written(tmp_path) == [1]
    again.close()
    next(tmp_path.glob("*.gz")).unlink()
    assert CrawlLog(tmp_path, ID, log.place).warnings == [f"The crawl log {plain} is missing"]


def test_an_unwritable_folder_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match=r"REPORT_DIR = .* cannot be written"):
        CrawlLog(tmp_path / "file" / "logs", ID)


def test_the_last_lines_are_remembered(tmp_path: Path) -> None:
    log = CrawlLog(tmp_path, ID)
    write(log, *range(500))
    assert log.last_number == 500
    assert [json.loads(each)["url"] for each in log.recent()] == [
        f"http://a.example/{number}" for number in range(300, 500)
    ]


def test_empty_fields_are_left_out() -> None:
    assert to_bytes(Details(total_ms=milliseconds(0.0))) == NO_DETAILS
    assert json.loads(joined(line(1), NO_DETAILS)) == json.loads(line(1))
    assert json.loads(joined(line(1), to_bytes(Details(200)))) == {
        "time": "2026-11-23T04:50:12.000Z",
        "kind": "page",
        "url": "http://a.example/1",
        "host": "a.example",
        "end": "done",
        "status": 200,
    }


def test_a_line_break_in_a_value_does_not_break_the_line() -> None:
    data = to_bytes(Details(lang="a\nb\r\u2028"))
    assert b"\n" not in data
    assert json.loads(data)["lang"] == "a\nb\r\u2028"


def test_text_that_is_not_unicode_is_escaped() -> None:
    data = to_bytes(Details(redirect_to="\udc80"))
    assert data.isascii()
    assert json.loads(data)["redirect_to"] == "\udc80"


async def test_the_time_of_a_look_up_is_in_the_line_of_a_turn(tmp_path: Path) -> None:
    """The report leaves lines of superseded answers out."""
    policy = Policy(obey_robots=False, retry_codes=frozenset({503}), retry_times=1)
    frontier = LocalFrontier(tmp_path / "job", policy, log_folder=tmp_path)
    driver = Driver(frontier)
    await driver.put("http://a.example/")
    lease = await driver.until(Step.RESOLVE)
    await driver.give_back(lease, Resolved(("192.0.2.1",), FOREVER, took_s=0.005))
    for status in (503, 200):
        lease = await driver.until(Step.PAGE)
        details = to_bytes(Details(status, warc="a.warc.gz", offset=status))
        outcome = answer(lease, driver.now, status=status, details=details)
        await driver.give_back(lease, outcome)
    await frontier.close()
    (path,) = tmp_path.glob("crawl-*.gz")
    lines = [json.loads(each) for each in gzip.decompress(path.read_bytes()).splitlines()]
    assert [(each["end"], each.get("dns_ms")) for each in lines] == [("retried", None), ("done", 5)]


def test_a_log_without_lines_leaves_no_file(tmp_path: Path) -> None:
    CrawlLog(tmp_path, ID).close()
    assert not list(tmp_path.iterdir())


def test_lines_after_the_last_commit_are_cut(tmp_path: Path) -> None:
    committed = killed(tmp_path, 1, 2, lost=[3])
    assert resumed(tmp_path, committed, 3, 4).warnings == []
    assert written(tmp_path) == [1, 2, 3, 4]


def test_a_crawl_that_goes_on_in_another_folder_finishes_its_files(tmp_path: Path) -> None:
    resumed(tmp_path / "b", killed(tmp_path / "a", 1, lost=[2]), 2)
    assert written(tmp_path / "a") == [1]
    assert written(tmp_path / "b") == [2]
    assert not list(tmp_path.rglob("*.jsonl"))


def test_a_log_that_was_moved_is_cut_where_it_is_now(tmp_path: Path) -> None:
    committed = killed(tmp_path / "a", 1, lost=[2])
    (tmp_path / "a").rename(tmp_path / "b")
    assert resumed(tmp_path / "b", committed).warnings == []
    assert written(tmp_path / "b") == [1]
