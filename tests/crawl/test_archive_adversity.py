"""Archives of crawls that go wrong: killed, stopped twice, out of disk, two in one folder."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.crawl.crawling import Crawl, Result, assert_clean
from tests.crawl.knownsite import AT_ONCE, SOUND, Record, records, served
from tests.forked import running
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path

pytestmark = pytest.mark.slow

QUICK: dict[str, Any] = {"DOWNLOAD_DELAY": 0.01, "IP_DELAY": 0}


@pytest.fixture(scope="module")
def web() -> Iterator[Running]:
    """A web so large that a crawl is still running when the test interrupts it."""
    features = "--features=none,page-chunked,page-gzip,page-301"
    world = ("--hosts", "500", "--pages-per-host", "50", "--page-bytes", "10000")
    with running(*world, "--host-delay", "0", "--partial", features) as web:
        yield web


def archive_of(crawl: Crawl, size_bytes: int = 10_000) -> Path:
    """The file that a crawl writes; waits until it has this size."""
    files = (crawl.folder / "warc").glob

    def found() -> list[Path]:
        return [each for each in files("*.warc.gz.open") if each.stat().st_size > size_bytes]

    crawl.until_true(found)
    return found()[0]


def assert_valid(paths: list[Path]) -> list[Record]:
    """Assert that `check` accepts each file and its index, and warcio the files; return records."""
    found = []
    for path in paths:
        assert check(path) == []
        assert index_path(path).exists()
        first, *others = records(path)
        assert first.type == "warcinfo"
        found += others
    command = [sys.executable, "-m", "warcio.cli", "check", *paths]
    assert subprocess.run(command, check=False).returncode == 0
    return found


def assert_paired(found: list[Record]) -> None:
    """Assert that each answer has its request."""
    answers = {each.id for each in found if each.type in ("response", "revisit")}
    asked = {each.fields["warc-concurrent-to"] for each in found if each.type == "request"}
    assert answers == asked


def next_crawl(folder: Path) -> Result:
    """Run a small crawl into the same folder."""
    site = ("--hosts", "2", "--pages-per-host", "2", "--features", "none", "--host-delay", "0")
    with running(*site) as web:
        return Crawl(folder, web=web, **QUICK).wait()


def test_a_killed_crawl_leaves_every_finished_page(tmp_path: Path, web: Running) -> None:
    """But the one within whose write it was killed. `test_kill` kills at other moments."""
    crawl = Crawl(tmp_path, web=web, LOG_LEVEL="DEBUG", **QUICK)
    left = archive_of(crawl, 100_000)
    crawl.process.send_signal(signal.SIGKILL)
    log = crawl.wait().log
    with left.open("r+b") as file:
        file.truncate(left.stat().st_size - 7)
    result = next_crawl(tmp_path)
    assert_clean(result)
    assert not left.exists()
    found = assert_valid(result.warcs)
    assert left.with_suffix("") in result.warcs
    urls = {each.url for each in found if each.type in ("response", "revisit")}
    finished = [line.split(" depth ")[1].split()[1] for line in log.splitlines() if " B " in line]
    assert len([url for url in finished if url not in urls]) <= 1


def test_the_next_crawl_recovers_a_crawl_interrupted_twice(tmp_path: Path) -> None:
    """A page that hangs keeps the crawl from ending before the second interrupt.

    A thread is in RocksDB all the time, as that of `AdaptiveExecutor` may be.
    """
    program = f"""
import sys, threading
from rocksdict import Rdict
from scrapy.cmdline import execute

def write(database=Rdict({str(tmp_path / "database")!r})):
    while True:
        database.flush()

threading.Thread(target=write, daemon=True).start()
execute(["scrapy", *sys.argv[4:]])
"""
    within = (sys.executable, "-c", program)
    with served(SOUND | {"/hangs": b""}) as site:
        crawl = Crawl(tmp_path, f"{site.url}/", within=within, **AT_ONCE)
        archive_of(crawl)
        crawl.until_true(lambda: "/hangs" in site.requests)
        crawl.interrupt_twice()
        result = crawl.wait()
    assert result.exit_code == 130
    assert result.log.rstrip().endswith("as after a kill, without summary and report")
    assert "Traceback" not in result.log
    assert list((tmp_path / "warc").glob("*.open"))
    result = next_crawl(tmp_path)
    assert_clean(result)
    assert not list((tmp_path / "warc").glob("*.open"))
    assert_valid(result.warcs)


def test_two_crawls_may_share_a_folder_and_files_have_a_maximum_size(
    tmp_path: Path, web: Running
) -> None:
    size_bytes = 30_000
    target = {"CLOSESPIDER_PAGECOUNT": 100, "WARC_DIR": tmp_path / "warc"}
    target |= QUICK | {"WARC_MAX_SIZE": size_bytes}
    crawls = [Crawl(tmp_path / name, web=web, **target) for name in "ab"]
    for crawl in crawls:
        assert_clean(crawl.wait())
    assert not list((tmp_path / "warc").glob("*.open"))
    paths = sorted((tmp_path / "warc").glob("*.warc.gz"))
    assert len(paths) > 10
    assert_paired(assert_valid(paths))
    for path in paths:
        answers = [each for each in records(path) if each.type in ("response", "revisit")]
        assert path.stat().st_size <= size_bytes or len(answers) == 1
