"""When a file of a crawl goes to ARCHIVE_STORE, and when it leaves: with a store in a folder."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from scrapy.utils.test import get_crawler

from tests.contracts.frontier import Driver, answer
from tests.exchanges import EXCHANGES, capture
from webcrawl.cluster.claims import Claim
from webcrawl.crawl.crawl import crawl_of
from webcrawl.extensions import archivestore
from webcrawl.extensions.archivestore import ArchiveStore
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Step
from webcrawl.spiders.broad import BroadSpider
from webcrawl.warc.files import WarcFiles
from webcrawl.warc.index import index_path
from webcrawl.warc.recovery import recover


class Run:
    """A run of a crawl on this disk, and its store."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.here, self.there, self.folder = folder / "warc", folder / "store", folder
        for each in (self.here, self.there):
            each.mkdir(exist_ok=True)
        url = f"file://{self.there}"
        given = {"WARC_DIR": str(self.here), "ARCHIVE_STORE": url, "JOBDIR": str(folder / "job")}
        self.crawler = get_crawler(BroadSpider, given | settings)
        self.crawl = crawl_of(self.crawler)
        self.frontier = LocalFrontier(folder / "job", log_folder=self.here)
        self.crawl.frontier = self.frontier
        self.extension = ArchiveStore.from_crawler(self.crawler)

    def archive(self, crawl: str = "") -> Path:
        """A finished WARC file."""
        files = WarcFiles(self.here, "test", 1, [("isPartOf", crawl or self.frontier.crawl_id)])
        before = {*self.here.glob("*.warc.gz")}
        files.open()
        files.write(capture(EXCHANGES["plain"]))
        files.close()
        (path,) = {*self.here.glob("*.warc.gz")} - before
        return path

    async def round(self, *, is_end: bool = False) -> bool:
        return await self.extension._round(is_end=is_end)

    async def end(self) -> None:
        await self.frontier.close()
        await self.extension.engine_stopped()

    @property
    def sent(self) -> set[str]:
        return {path.name for path in self.there.iterdir()}


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def names(*warcs: Path) -> set[str]:
    return {each.name for warc in warcs for each in (warc, index_path(warc))}


async def test_a_file_leaves_when_each_answer_in_it_has_its_line(run: Run) -> None:
    driver = Driver(run.frontier)
    await run.frontier.log_lost([])  # as `pipelines.recovery` does at the start
    await driver.put("http://a.test/1")
    lease = await driver.until(Step.PAGE)
    path = run.archive()
    assert await run.round()
    assert run.sent == names(path)
    assert path.exists(), "the answer may be of the lease that is out"
    assert run.crawl.unsent == 2
    await driver.give_back(lease, answer(lease, driver.now))
    assert await run.round()
    assert not path.exists()
    assert not index_path(path).exists()
    assert run.crawl.unsent == 0
    await run.frontier.close()


async def test_only_finished_files_of_this_crawl_go(run: Run) -> None:
    ours, other = run.archive(), run.archive("20200101000000-abcdef")
    of_user = run.here / "other-00000.warc.gz"
    of_user.write_bytes(ours.read_bytes())
    another = ours.rename(run.here / "test-20260101000000-00001-host_ab-1.warc.gz")
    being_written = run.here / "test-20260101000000-00002-host_ab-1.warc.gz.open"
    being_written.touch()
    assert await run.round()
    assert run.sent == set(), "another process writes on, and sends its own"
    being_written.unlink()
    assert await run.round()
    assert run.sent == {another.name}
    assert other.exists()
    assert of_user.exists()
    await run.frontier.close()


async def test_what_a_killed_run_left_goes_when_it_is_recovered(run: Run) -> None:
    path = run.archive()
    path.rename(f"{path}.open")
    index_path(path).unlink()
    assert await run.round()
    assert run.sent == set()
    recover(run.here)
    assert await run.round()
    assert run.sent == names(path)
    await run.frontier.close()


async def test_the_log_leaves_after_the_archive_and_its_newest_file_stays(run: Run) -> None:
    await run.frontier.log_lost([])
    crawl = run.frontier.crawl_id
    logs = [run.here / f"crawl-{crawl}-{number:05d}.jsonl.gz" for number in (2, 3, 4)]
    for path in logs:
        path.write_bytes(path.name.encode())
    os.utime(logs[0], (0, 0))
    path = run.archive()
    path = path.rename(f"{path}.open")  # the crawl still writes it
    assert await run.round()
    assert run.sent == {log.name for log in logs}
    assert [log.exists() for log in logs] == [False, True, True], (
        "one may have lines of its records"
    )
    path.rename(path.with_suffix(""))
    run.extension.spider_opened()
    await run.end()
    assert [each.name for each in run.here.glob("*.gz")] == [logs[2].name]
    assert run.crawl.fatal_error == ""


async def test_the_newest_file_of_the_log_stays_when_a_run_has_no_line(tmp_path: Path) -> None:
    before = Run(tmp_path)
    await before.frontier.close()
    path = before.here / f"crawl-{before.frontier.crawl_id}-00002.jsonl.gz"
    path.touch()
    os.utime(path, (0, 0))
    run = Run(tmp_path)
    await run.frontier.log_lost([])
    assert await run.round()
    assert run.sent == {path.name}
    await run.frontier.close()
    assert [each.name for each in run.here.glob("crawl-*")] == [path.name]


async def test_with_other_machines_the_log_stays_here_too(tmp_path: Path) -> None:
    run = Run(tmp_path, CLUSTER="nats://127.0.0.1:1")
    crawl = run.frontier.crawl_id
    run.crawl.claim = Claim(crawl, 1, 3)
    files = [run.here / f"crawl-{crawl}-{number:05d}.jsonl.gz" for number in (2, 3)]
    for path in files:
        path.write_bytes(b"x")
    await run.frontier.close()
    assert await run.round(is_end=True)
    assert {path.name for path in (run.there / "hub-1").iterdir()} == {path.name for path in files}
    assert all(path.exists() for path in files)


async def test_what_a_store_does_not_take_stays_and_goes_with_the_next_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(archivestore, "GIVE_UP_S", 0.0)
    monkeypatch.setattr(archivestore, "AGAIN_S", 0.0)
    run.extension.spider_opened()
    path = run.archive()
    away = run.there.rename(run.folder / "away")
    await run.end()
    assert run.crawl.fatal_error.startswith("ARCHIVE_STORE: 2 files (")
    assert run.crawl.fatal_error.endswith("and the same command sends them")
    assert "takes no files for now, they stay here" in caplog.text
    assert path.exists()
    away.rename(run.there)
    again = Run(run.folder)
    await again.frontier.log_lost([])  # as `pipelines.recovery` does
    assert await again.round()
    assert again.sent == names(path)
    assert not path.exists()
    await again.frontier.close()


async def test_a_file_whose_name_the_store_has_for_another_stays_and_ends_in_an_error(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    path, removed, fine = run.archive(), run.archive(), run.archive()
    index = index_path(path)
    (run.there / index.name).write_bytes(b"other")
    (run.there / removed.name).write_bytes(b"other")
    assert await run.round()
    removed.unlink()  # by the user, who has read the error
    run.extension.spider_opened()
    await run.end()
    assert (run.there / index.name).read_bytes() == b"other"
    assert path.exists(), "of an index alone nobody knew the crawl"
    assert index.exists()
    assert not fine.exists()
    assert caplog.text.count(f"{index.name} is there already, with other content") == 1
    assert run.crawl.fatal_error.startswith("ARCHIVE_STORE: 1 file (")
    assert run.crawl.fatal_error.endswith(f") not sent: they stay in {run.here}")


async def test_nothing_leaves_after_the_frontier_has_failed(run: Run) -> None:
    class Failed:
        problem = "the disk is full"

    run.crawl.scheduler = Failed()  # type: ignore[assignment]  # the part that is read
    path = run.archive()
    await run.frontier.close()
    assert await run.round(is_end=True)
    assert run.sent >= names(path)
    assert path.exists(), "the next run compares it with the log"
