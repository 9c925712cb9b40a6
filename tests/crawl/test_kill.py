"""Crawls that are killed, again and again: what the next run finds, and what the servers saw.

The simulated web runs on through the kills, so its ledger judges all runs of a crawl as one.
"""

from __future__ import annotations

import json
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.crawl.crawling import ROOT, Crawl, Result, assert_clean
from tests.crawl.knownsite import records
from webcrawl.simweb import Running, faults, running
from webcrawl.warc.check import check

pytestmark = pytest.mark.slow

UNDER_WAY_MAX = 8
DISK: dict[str, Any] = {
    "CONCURRENT_REQUESTS": UNDER_WAY_MAX,
    "FRONTIER_ACTIVE_HOSTS": 10,
}
FEATURES = "none,page-30*,page-404,page-503,page-chunked,page-gzip,robots-crawl-delay,robots-none"
WORLD = ("--hosts", "25", "--pages-per-host", "8", "--features", FEATURES)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")


def start(folder: Path, web: Running, **more: Any) -> Crawl:
    return Crawl(folder, web=web, JOBDIR=folder / "job", **DISK | more)


def assert_one_crawl(web: Running, result: Result, kills: int) -> None:
    """As if it had never been killed, save that what was under way was asked for again."""
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    ledger = web.ledger()
    again = ledger["violations"].pop("twice")
    assert again["count"] <= kills * UNDER_WAY_MAX, again
    assert not faults(ledger), json.dumps(faults(ledger), indent=1)
    counts = result.report["counts"]
    assert counts["pending"] == 0
    assert counts["crawled"] == ledger["fetched"]["pages"]
    assert not list((result.folder / "warc").glob("*.open"))
    archived = set()
    for path in result.warcs:
        assert check(path) == []
        archived |= {each.url for each in records(path) if each.type in ("response", "revisit")}
    pages = {url for url in archived if not url.endswith("/robots.txt")}
    assert len(pages) == counts["crawled"], "a finished page is not in the archive"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_crawl_that_is_killed_at_random_is_one_crawl(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with running("--seed", str(seed), *WORLD, *PROMISES) as web:
        kills = 0
        for _ in range(12):
            crawl = start(tmp_path, web)
            time.sleep(0.6 + 1.5 * random.random())
            if crawl.process.poll() is not None:
                break
            crawl.process.send_signal(signal.SIGKILL)
            crawl.wait()
            kills += 1
        assert kills > 4
        assert_one_crawl(web, start(tmp_path, web).wait(), kills)


def test_a_crawl_that_is_killed_at_its_commits_is_one_crawl(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(*WORLD, *PROMISES) as web:
        kills = 0
        for at in (1, 2, 3, 4, 6, 9, 14, 20, 40):
            for side in ("before", "after"):
                monkeypatch.setenv("FAULT", f"{side} {at}")
                result = start(tmp_path, web, program="tests.crawl.faulty").wait()
                kills += result.exit_code == -signal.SIGKILL
        assert kills > 10
        assert_one_crawl(web, start(tmp_path, web).wait(), kills)


def test_a_crawl_that_is_stopped_goes_on(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        first = start(tmp_path, web)
        first.until("*** crawling")
        first.interrupt()
        stopped = first.wait(20)
        assert_clean(stopped)
        stopped_after_s = stopped.report["elapsed_s"]
        result = start(tmp_path, web).wait()
        assert_one_crawl(web, result, 1)
    assert "Goes on with" in result.log
    assert result.report["elapsed_s"] > stopped_after_s + 1


def test_a_second_crawl_of_a_folder_is_refused(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        first = start(tmp_path, web)
        first.until("*** crawling")
        (tmp_path / "second").mkdir()
        second = Crawl(tmp_path / "second", web=web, JOBDIR=tmp_path / "job", **DISK).wait(30)
        assert second.exit_code == 1
        (line,) = [line for line in second.log.splitlines() if " ERROR: " in line]
        assert f"in use by another crawl, process {first.process.pid}" in line
        assert "Traceback" not in second.log
        assert_one_crawl(web, first.wait(), 0)


def test_another_order_is_refused_and_another_scope_said(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        start(tmp_path, web, CLOSESPIDER_PAGECOUNT=5).wait()
        other = start(tmp_path, web, FRONTIER_ORDER="depth").wait(30)
        assert other.exit_code == 1
        assert "begun with FRONTIER_ORDER = 'level'" in other.log
        wider = start(tmp_path, web, SCOPE_DENY="example.net", CLOSESPIDER_PAGECOUNT=6).wait()
    assert wider.exit_code == 0
    assert "SCOPE_DENY is ['example.net'], and was []" in wider.log


@pytest.mark.parametrize("case", ["foreign", "torn"])
def test_a_folder_that_cannot_be_is_told_in_one_line(tmp_path: Path, case: str) -> None:
    job = tmp_path / "job"
    with running(*WORLD, *PROMISES) as web:
        if case == "foreign":
            (job / "frontier").mkdir(parents=True)
            (job / "frontier" / "thesis.txt").touch()
        else:
            start(tmp_path, web, CLOSESPIDER_PAGECOUNT=5).wait()
            (job / "frontier" / "CURRENT").write_text("MANIFEST-999999\n")
        asked = web.ledger()["totals"].get("requests", 0)
        result = start(tmp_path, web).wait(30)
        assert web.ledger()["totals"].get("requests", 0) == asked
    assert result.exit_code == 1
    assert "Traceback" not in result.log, result.log[-3000:]
    (line,) = [line for line in result.log.splitlines() if " ERROR: " in line]
    assert line.partition("JOBDIR: ")[2].startswith(str(job))


def test_a_frontier_can_be_looked_into_while_its_crawl_runs(tmp_path: Path) -> None:
    def scrapy(*words: str) -> str:
        command = [sys.executable, "-m", "scrapy", *words]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    job = tmp_path / "job"
    with running(*WORLD, "--host-delay", "2") as web:
        crawl = start(tmp_path, web, DOWNLOAD_DELAY=2)
        crawl.until("*** crawling")
        time.sleep(1)
        summary = scrapy("frontier", str(job))
        pending = scrapy("frontier", str(job), "--export", "-").split()
        explained = scrapy("explain", pending[-1], "-s", f"JOBDIR={job}")
        unknown = scrapy("explain", "http://elsewhere.br/", "-s", f"JOBDIR={job}")
        crawl.interrupt()
        assert_clean(crawl.wait(30))
    assert "in order level" in summary
    assert " active" in summary
    assert len(pending) > 5
    assert "It was never put" in unknown
    assert "with 0 URLs of its host before it" in explained or "It waits, with" in explained


def test_a_full_disk_ends_the_crawl_in_one_line_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        first = start(tmp_path, web, WARC_ENABLED=0)
        first.until("*** crawling")
        resource.prlimit(first.process.pid, resource.RLIMIT_FSIZE, (30_000, 30_000))
        result = first.wait(60)
        assert result.exit_code == 1
        assert "Traceback" not in result.log, result.log[-3000:]
        (line,) = [line for line in result.log.splitlines() if " ERROR: " in line]
        assert "The frontier failed" in line
        assert str(tmp_path / "job") in line
        result = start(tmp_path, web, WARC_ENABLED=0).wait()
        assert_clean(result)
        ledger = web.ledger()
        assert ledger["violations"].pop("twice")["count"] <= UNDER_WAY_MAX
        assert not faults(ledger), faults(ledger)
