"""Lines of the crawl log for answers that were archived and have none."""

from __future__ import annotations

import gzip
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.test import get_crawler

from tests.contracts.frontier import Driver, answer
from tests.exchanges import EXCHANGES, METADATA, capture, encrypted, exchange, head
from webcrawl.crawl.lost import _changed_since as changed_since
from webcrawl.crawl.lost import _files_before, unlogged
from webcrawl.crawllog.files import CrawlLog
from webcrawl.crawllog.line import Details, LostLine, Turn, joined, to_bytes
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Step
from webcrawl.pipelines.recovery import Recovery
from webcrawl.warc.captures import captures_in, crawls_of
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.members import whole_members
from webcrawl.warc.records import Capture, Original

ID = "20261123045012-a1b2c3"
PLAIN = EXCHANGES["plain"]
OF_PAGE = (*METADATA, ("fetchTimeMs", "12"))
PAGE = replace(capture(PLAIN), metadata=OF_PAGE)
ROBOTS = Capture(EXCHANGES["robots.txt"], "")
SITEMAP = Capture(exchange(head(b"Content-Type: text/xml"), url="http://b.test/map.xml"), "")
UNKEPT = replace(PAGE, has_answer=False)


def archive(folder: Path, *captured: Capture, prefix: str = "test") -> Path:
    """One WARC file of the crawl `ID`."""
    info = [("software", "webcrawl/0"), ("isPartOf", "a collection"), ("isPartOf", ID)]
    files = WarcFiles(folder, prefix, 1 << 30, info)
    files.open()
    for each in captured:
        files.write(each)
    files.close()
    (path,) = folder.glob(f"{prefix}-*.warc.gz")
    return path


def log_with(folder: Path, path: Path, *offsets: int, packed: bool = False) -> list[Path]:
    """The folder of a log that has lines of these records, and of other files."""
    log = CrawlLog(folder, ID)
    for offset in offsets:
        for name in ("other.warc.gz", path.name):
            details = to_bytes(Details(200, warc=name, offset=offset))
            turn = Turn("", "page", "http://a.test/", "a.test", "done")
            log.add(joined(to_bytes(turn), details))
    log.flush()
    if packed:
        log.close()
    return [folder]


def lost(path: Path, folders: list[Path], crawl: str = ID, host: str = "") -> list[dict[str, Any]]:
    found = unlogged([path], folders, crawl, lambda each: not host or each == host)
    return [json.loads(line) for line in found]


@pytest.mark.parametrize("packed", [False, True])
def test_each_answer_without_a_line_gets_one(tmp_path: Path, packed: bool) -> None:
    path = archive(tmp_path, PAGE, ROBOTS, UNKEPT, SITEMAP, PAGE)
    at = [each.record.offset for each in captures_in(path)]
    assert len(at) == 4
    folders = log_with(tmp_path / "log", path, at[0], packed=packed)
    robots, sitemap, page = lost(path, folders)
    assert (robots["kind"], sitemap["kind"], page["kind"]) == ("robots", "sitemap", "page")
    assert page == {
        "time": "2023-11-14T22:13:20.123Z", "kind": "page", "url": "http://a.test/page",
        "host": "a.test", "end": "lost", "depth": 1, "via": "http://a.test/", "status": 200,
        "media_type": "text/html", "digest": PAGE.payload_digest, "ip": "192.0.2.1",
        "warc": path.name, "offset": at[3],
    }  # fmt: skip
    assert [each["offset"] for each in lost(path, folders, host="b.test")] == [at[2]]
    assert len(lost(path, folders, crawl="20261123045012-ffffff")) == 4, "of another crawl's log"


def test_a_revisit_has_a_line(tmp_path: Path) -> None:
    original = Original("http://a.test/first", 1.0, PAGE.payload_digest)
    path = archive(tmp_path, replace(capture(encrypted(PLAIN), original), metadata=OF_PAGE))
    (line,) = lost(path, [])
    assert (line["url"], line["status"]) == ("https://a.test/page", 200)
    assert "media_type" not in line


def test_a_file_that_is_cut_within_a_page_has_its_line(tmp_path: Path) -> None:
    """Of the page only the response is whole: its metadata is missing."""
    path = archive(tmp_path, ROBOTS, PAGE)
    ends = [each.end for each in whole_members(io.BytesIO(path.read_bytes()))]
    os.truncate(path, ends[3] + 5)
    robots, page = lost(path, [])
    assert (robots["kind"], page["kind"]) == ("robots", "page")
    assert "depth" not in page


def test_names_are_found_however_they_are_written(tmp_path: Path) -> None:
    path = archive(tmp_path, PAGE, prefix='café"\\')
    (offset,) = (each.record.offset for each in captures_in(path))
    assert lost(path, log_with(tmp_path / "log", path, offset)) == []
    assert len(lost(path, log_with(tmp_path / "other", path, offset + 1))) == 1


def test_a_file_knows_its_crawl(tmp_path: Path) -> None:
    path = archive(tmp_path, PAGE)
    assert crawls_of(path) == ["a collection", ID]
    path.write_bytes(path.read_bytes()[:20])
    assert crawls_of(path) == []


def test_files_that_go_meanwhile_are_passed_over(tmp_path: Path) -> None:
    """A worker of a killed run gives its file its name; a user moves a finished file away."""
    path, gone = archive(tmp_path, PAGE), tmp_path / "gone.warc.gz.open"
    gone.symlink_to(tmp_path / "nothing")  # listed, and not there when it is opened
    assert crawls_of(gone) == []
    assert changed_since(tmp_path, "*", 0.0, ID) == [path]
    assert len([*unlogged([gone, path], [], ID, lambda _: True)]) == 1


def test_a_file_of_the_log_that_is_compressed_meanwhile_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = archive(tmp_path, PAGE)
    (offset,) = (each.record.offset for each in captures_in(path))
    folders = log_with(tmp_path / "log", path, offset, packed=True)
    (packed,) = (tmp_path / "log").glob("*.gz")
    listed = [(ID, 0, packed.with_suffix(""))]
    monkeypatch.setattr("webcrawl.crawllog.places.log_files", lambda _: listed)
    assert lost(path, folders) == []


def test_a_damaged_file_of_the_log_ends_no_crawl(tmp_path: Path) -> None:
    """A loss of power may leave one. Its last lines are missing, so the answers get new ones."""
    path = archive(tmp_path, PAGE)
    (offset,) = (each.record.offset for each in captures_in(path))
    folders = log_with(tmp_path / "log", path, offset, packed=True)
    (packed,) = (tmp_path / "log").glob("*.gz")
    for damaged in (packed.read_bytes()[:-8], b"\0" * 100):
        packed.write_bytes(damaged)
        assert len(lost(path, folders)) == 1


async def test_an_answer_with_a_line_gets_no_second_one(tmp_path: Path) -> None:
    """A fetcher names the same file twice, and has given pages back meanwhile."""
    frontier = LocalFrontier(tmp_path / "job", log_folder=tmp_path)
    driver, path = Driver(frontier), Path("a.warc.gz")

    def details(offset: int) -> bytes:
        return to_bytes(Details(200, warc=path.name, offset=offset))

    def lines(*offsets: int) -> list[LostLine]:
        turn = to_bytes(Turn("", "page", "http://a.test/", "a.test", "lost"))
        return [(each, "a.test", joined(turn, details(each))) for each in offsets]

    await driver.put("http://a.test/1", "http://b.test/2")
    await frontier.log_if_lost(path.name, lines(1))
    for offset in (2, 3):
        lease = await driver.until(Step.PAGE)
        await driver.give_back(lease, answer(lease, driver.now, details=details(offset)))
        await frontier.log_if_lost(path.name, lines(1, offset))
    await frontier.log_if_lost(path.name, lines(4))
    await frontier.close()
    (packed,) = tmp_path.glob("crawl-*.gz")
    found = [json.loads(each) for each in gzip.decompress(packed.read_bytes()).splitlines()]
    offsets = [(each["end"], each["offset"]) for each in found if "offset" in each]
    assert offsets == [("lost", 1), ("done", 2), ("done", 3), ("lost", 4)]


def test_the_files_before_are_of_the_same_process_and_time(tmp_path: Path) -> None:
    """The last one, and those that were written in the last minute: small files are many."""
    names = [
        f"web-[x]-20261123045012-{serial:05d}-host_{mark}-17.warc.gz"
        for serial in (1, 2, 3, 4)
        for mark in ("aa", "bb")
    ]
    for name in names:
        (tmp_path / name).touch()
    last = tmp_path / f"{names[6]}.open"
    last.touch()
    for at, name in zip((100, 970, 900), names[::2], strict=False):
        os.utime(tmp_path / name, (at, at))
    os.utime(last, (1000, 1000))
    assert [each.name for each in _files_before(last)] == [names[2], names[4]]
    os.utime(last, (2000, 2000))
    assert [each.name for each in _files_before(last)] == [names[4]]
    assert _files_before(tmp_path / names[0]) == []


async def test_a_death_that_is_told_after_the_end_is_left_to_the_next_run(tmp_path: Path) -> None:
    """The frontier may be closed by then."""
    errors: list[Exception] = []
    recovery = Recovery(get_crawler(), tmp_path, errors.append)
    await recovery.end()
    left = archive(tmp_path, PAGE)
    left = left.rename(f"{left}.open")
    await recovery.process_died(int(left.name.split("-")[-1].partition(".")[0]))
    assert left.exists()
    assert errors == []
