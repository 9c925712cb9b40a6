"""Crawls that are killed repeatedly: the state that the next run finds, and the requests sent.

The simulated web runs on during the kills, so its ledger judges all runs of a crawl as one crawl.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from shutil import copytree
from typing import Any

import pytest

from simweb import Running
from tests.crawl.crawling import Crawl, assert_clean
from tests.crawl.onecrawl import assert_one_crawl
from tests.crawl.smalldisk import VIEW, crawl_twice, mounts
from tests.forked import python, running
from webcrawl.parse.urls import host_of

pytestmark = pytest.mark.slow

UNDER_WAY_MAX = 8
DISK: dict[str, Any] = {
    "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
    "FRONTIER_ACTIVE_HOSTS": 10,
}
FEATURES = "none,page-30*,page-404,page-503,page-chunked,page-gzip,robots-crawl-delay,robots-none"
# No host of this world is much larger than the others, so that none makes each crawl long.
WORLD = ("--seed", "41", "--hosts", "25", "--pages-per-host", "8", "--features", FEATURES)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")


def start(folder: Path, web: Running, **more: Any) -> Crawl:
    return Crawl(folder, web=web, **{"JOBDIR": folder / "job"} | DISK | more)


def fault_points(random: Random) -> list[str]:
    """Faults at each place around a commit, early and late in a run, and at random moments."""
    first = [f"{side}-commit:{at}" for at in (1, 2, 3, 4) for side in ("before", "after")]
    late = [
        *(f"{side}-commit:{random.randint(5, 30)}" for side in ("before", "after")),
        *("before-open:1", "after-open:1", "after-open:2"),
        *(f"{side}-append:{random.randint(2, 6)}" for side in ("before", "within", "after")),
        *(f"{side}-release:{random.randint(3, 9)}" for side in ("before", "after")),
        *(f"{side}-write:{random.randint(1, 5)}" for side in ("before", "after")),
        *(f"random:{random.randint(100, 900)}" for _ in range(8)),
    ]
    points = first + random.sample(late, len(late))
    # A recovery has work only if the run before has archived a page.
    for leaves, mend in (
        *(("after-append", "before-mend:1"), ("after-write", "after-mend:1")),
        *(("before-release", "before-index:1"), ("after-release", "after-index:1")),
    ):
        (behind,) = (at for at, point in enumerate(points, 1) if point.startswith(leaves))
        points.insert(behind, mend)
    return points


def test_a_killed_crawl_looks_like_one_crawl(tmp_path: Path) -> None:
    kills = tmp_path / "kills.jsonl"
    with running(*WORLD, "--seed", "58", "--hosts", "70", *PROMISES) as web:
        points = fault_points(Random(0))
        program = ("tests.crawl.faulty", ",".join(points), str(kills), str(web.port), "--")
        result = start(tmp_path, web, program=program).wait()
        kills_seen = [json.loads(line)["leased"] for line in kills.read_text().splitlines()]
        assert len(kills_seen) > 20, result.log[-4000:]
        leased = [url for urls in kills_seen for url in urls]
        pages = assert_one_crawl(web, result, len(leased), leased=leased)
    assert {url for url, times in pages.items() if times > 1} <= set(leased)


def test_a_killed_crawl_by_opic_and_with_a_cap_looks_like_one_crawl(tmp_path: Path) -> None:
    kills = tmp_path / "kills.jsonl"
    points = "after-commit:3,before-release:4,random:1200"
    chosen = {"FRONTIER_ORDER": "opic", "CRAWL_PROCESSES": 2, "MAX_PAGES_PER_HOST": 4}
    # A commit after a stall holds more pages: there must be enough pages for all runs.
    with running(*WORLD, "--seed", "5", "--hosts", "50", *PROMISES) as web:
        program = ("tests.crawl.faulty", points, str(kills), str(web.port), "--")
        result = start(tmp_path, web, program=program, **chosen).wait()
        # The second process logs an error when the first is killed.
        result.log = result.log.rpartition("Resumes with")[2]
        kills_seen = [json.loads(line)["leased"] for line in kills.read_text().splitlines()]
        assert len(kills_seen) == 3, result.log[-4000:]
        leased = [url for urls in kills_seen for url in urls]
        pages = assert_one_crawl(web, result, len(leased), whole=False, leased=leased)
    assert {url for url, times in pages.items() if times > 1} <= set(leased)
    assert max(Counter(map(host_of, pages)).values()) == 4
    assert result.report["counts"]["dropped/host_cap"] > 0


def test_a_crawl_can_be_inspected_while_it_runs_and_is_resumed_when_stopped(tmp_path: Path) -> None:
    def scrapy(*words: str) -> str:
        done = python("-m", "scrapy", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    job = tmp_path / "job"
    with running(*WORLD, *PROMISES) as web:
        first = start(tmp_path, web, DOWNLOAD_DELAY=2)
        first.until("*** crawling")
        pending: list[str] = []
        while len(pending) <= 5 and first.process.poll() is None:
            pending = scrapy("frontier", str(job), "--export", "-").split()
        summary = scrapy("frontier", str(job))
        explained = scrapy("explain", pending[-1], "-s", f"JOBDIR={job}")
        unknown = scrapy("explain", "http://elsewhere.br/", "-s", f"JOBDIR={job}")
        first.interrupt()
        stopped = first.wait()
        assert_clean(stopped)
        before = stopped.report
        result = start(tmp_path, web).wait()
        assert_one_crawl(web, result, UNDER_WAY_MAX)
    assert "in order level" in summary
    assert " hosts" in summary
    assert len(pending) > 5
    assert "Never queued: " in unknown
    assert "Waiting at level " in explained or "Fetched at " in explained
    assert "Resumes with" in result.log
    after = result.report
    earlier_s = after["elapsed_s"] - after["this_run"]["elapsed_s"]
    assert earlier_s > 0.9  # the awaited line comes after one second
    runs = [report["this_run"]["counts"]["crawled"] for report in (before, after)]
    assert sum(runs) == after["counts"]["crawled"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    """A web, and the folder of a crawl of it that has ended after some pages."""
    folder = tmp_path_factory.mktemp("begun")
    with running(*WORLD, *PROMISES) as web:
        start(folder, web, CLOSESPIDER_PAGECOUNT=5).wait()
        yield web, folder


@pytest.fixture
def web(begun: tuple[Running, Path], tmp_path: Path) -> Running:
    """The web of a crawl that has begun; `tmp_path` is a copy of its folder."""
    web, folder = begun
    copytree(folder, tmp_path, dirs_exist_ok=True)
    return web


def test_another_order_is_refused_and_another_scope_is_logged(tmp_path: Path, web: Running) -> None:
    other = start(tmp_path, web, FRONTIER_ORDER="depth").wait()
    assert other.exit_code == 1
    assert "begun with FRONTIER_ORDER = 'level'" in other.log
    assert other.output == ""
    wider = start(tmp_path, web, SCOPE_DENY="example.net", CLOSESPIDER_PAGECOUNT=6).wait()
    assert wider.exit_code == 0
    assert "SCOPE_DENY is ['example.net'], and was []" in wider.log


def test_an_invalid_jobdir_is_refused_with_one_line(tmp_path: Path, web: Running) -> None:
    foreign, torn = tmp_path / "foreign", tmp_path / "job"
    (foreign / "frontier").mkdir(parents=True)
    (foreign / "frontier" / "thesis.txt").touch()
    (torn / "frontier" / "CURRENT").write_text("MANIFEST-999999\n")
    asked = web.ledger()["totals"]["requests"]
    for job in (foreign, torn):
        result = start(tmp_path, web, JOBDIR=job).wait()
        assert web.ledger()["totals"]["requests"] == asked
        assert result.exit_code == 1
        assert "Traceback" not in result.log, result.log[-3000:]
        (line,) = [line for line in result.log.splitlines() if " ERROR: " in line]
        problem = line.partition(" ERROR: ")[2]
        assert problem.startswith(f"JOBDIR: {job}")
        last = result.log.splitlines()[-1]
        assert last == f"the crawl ended by an error: {problem}"


READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'


@mounts
def test_a_read_only_folder_is_refused_with_one_line(tmp_path: Path, web: Running) -> None:
    asked = web.ledger()["totals"]["requests"]
    for folder in (tmp_path / "job", tmp_path / "warc"):
        before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        within = (*VIEW, "sh", "-c", READ_ONLY, str(folder))
        result = start(tmp_path, web, within=within, REPORT_DIR=tmp_path).wait()
        assert web.ledger()["totals"]["requests"] == asked
        assert result.exit_code in (1, 2)
        assert "Traceback" not in result.log, result.log[-3000:]
        assert before
        assert {path: path.read_bytes() for path in before} == before
        assert sum(str(folder) in line for line in errors(result.log)) == 1, result.log[-3000:]


@mounts
@pytest.mark.parametrize(("setting", "size"), [("JOBDIR", "120k"), ("WARC_DIR", "600k")])
def test_a_full_disk_ends_the_crawl_and_the_next_run_resumes_it(
    tmp_path: Path, setting: str, size: str
) -> None:
    """The lease of a page whose records do not fit is returned; the next run fetches the page."""
    with running(*WORLD, "--page-bytes", "15000", *PROMISES) as web:
        first, result = crawl_twice(tmp_path, web, setting, size, DISK_FREE_MIN=0, **DISK)
        (line,) = [line for line in first.splitlines() if " ERROR: " in line]
        assert f"{tmp_path / 'small'}" in line
        assert "No space left on device" in line
        assert_one_crawl(web, result, 2 * UNDER_WAY_MAX)


def errors(log: str) -> list[str]:
    """The error lines of `log`, and the lines about settings before the log began."""
    return [line for line in log.splitlines() if " ERROR: " in line or "cannot be used" in line]
