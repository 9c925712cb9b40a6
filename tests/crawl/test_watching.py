"""What a crawl says about itself while it runs, held against the servers' ledger and its report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.crawl.crawling import assert_clean, assert_faultless
from tests.crawl.watched import Watched
from tests.forked import running
from tests.unit.snapshots import snapshot
from webcrawl.report.series import read_series

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, so that none makes each crawl long.
WORLD = (
    *("--seed", "6", "--hosts", "20", "--seeds", "20"),
    *("--pages-per-host", "8", "--slowness", "0.3"),
)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")
# Every page that is linked is answered or disallowed, so the ledger knows the numbers.
KINDS = "none,page-slow=50,page-302,page-404,page-503,page-gzip,robots-none,host-mirror=40"
KNOWN = ("--features", KINDS)
PLAIN = ("--features", "none,host-slow=100")  # each answer takes 0.3 s


@pytest.fixture(scope="module")
def slow_web() -> Iterator[Running]:
    """With pages for minutes: on a busy machine the processor is the limit at first."""
    with running(*WORLD, "--pages-per-host", "80", *PLAIN) as web:
        yield web


def levels(look: dict[str, Any]) -> tuple[int, int]:
    return sum(look["levels"]["found"]), sum(look["levels"]["ended"])


def test_snapshots_agree_with_the_ledger(tmp_path: Path) -> None:
    processes = 2
    few = {"CONCURRENT_REQUESTS": 16, "CRAWL_PROCESSES": processes}
    with running(*WORLD, *PROMISES, *KNOWN) as web:
        crawl = Watched(tmp_path, web=web, JOBDIR=tmp_path / "job", **few)
        result, looks = crawl.wait(), crawl.looks
        assert_clean(result)
        ledger = assert_faultless(web)
    last = crawl.looks[-1]
    counts = result.report["counts"]
    assert last["counts"]["crawled"] == counts["crawled"] == ledger["fetched"]["pages"]
    found, ended = levels(last)
    assert found - ended == counts["pending"]
    assert ended == counts["crawled"] + sum(last["drops"].values())
    assert last["hosts"]["leased"] == 0
    assert last["counts"]["pending"] == sum(last["kept"].values())
    assert all(stage["under_way"] == 0 for stage in last["stages"])
    ended_by = {name: counts.get(f"stage_ended/{name}", 0) for name in ("dns", "robots", "page")}
    assert ended_by["page"] >= counts["crawled"]
    assert min(ended_by.values()) > 0
    for look in looks:
        assert look["processes"] == processes
        for stage in look["stages"]:
            assert stage["under_way"] >= 0
            assert stage["limit"] == 0 or stage["under_way"] <= stage["limit"]
        assert (
            sum(host["urls"] for host in look["largest_queues"]) <= look["counts"]["pending"] + 20
        )
        assert levels(look)[0] >= levels(look)[1]
        assert "main" in look["rss_bytes"]
    during = looks[len(looks) // 2]
    # The tests of page, metrics and screen use a made-up snapshot: it has the shape of a real one.
    made_up = snapshot()
    assert made_up.keys() == during.keys()
    assert made_up["hosts"].keys() == during["hosts"].keys()
    assert [each.keys() for each in made_up["stages"]] == [each.keys() for each in during["stages"]]
    assert made_up["limited_by"].keys() == during["limited_by"].keys()
    assert during["state"] == "running"
    assert any(look["pages_per_s"] > 0 for look in looks)
    assert during["disk"].keys() == {"free_bytes", "warc_bytes", "jobdir_bytes"}
    assert {len(look["rss_bytes"]) for look in looks} >= {processes}
    assert crawl.looks[-1]["state"] == "closing"


# Settings under which one stage is the limit. `test_limit` has all stages.
AT_ONCE = {"DOWNLOAD_DELAY": 0, "IP_DELAY": 0}
LIMITS: dict[str, dict[str, Any]] = {
    "page": AT_ONCE | {"CONCURRENT_REQUESTS": 2},
    "places": {"DOWNLOAD_DELAY": 3, "IP_DELAY": 0, "FRONTIER_ACTIVE_HOSTS": 2},
    "servers": AT_ONCE,
}


@pytest.mark.parametrize("stage", LIMITS)
def test_the_limit_of_a_crawl_is_named(stage: str, tmp_path: Path, slow_web: Running) -> None:
    watch_until(stage, tmp_path, slow_web, **LIMITS[stage])


def test_hosts_that_share_an_address_wait_for_it(tmp_path: Path) -> None:
    with running(*WORLD, "--features", "none,host-mirror=100") as web:
        parked = watch_until("address", tmp_path, web, DOWNLOAD_DELAY=0, IP_DELAY=2)
    assert "IP_DELAY = 2 s" in parked["limited_by"]["text"]
    assert parked["hosts"]["parked"] > 1


def watch_until(stage: str, folder: Path, web: Running, **settings: Any) -> dict[str, Any]:
    """Crawl until `stage` is named as the limit; that snapshot. At first another may be it."""
    crawl = Watched(folder, web=web, **settings)

    def named() -> list[dict[str, Any]]:
        return [each for each in crawl.looks if each["limited_by"]["stage"] == stage]

    crawl.until_true(named)
    crawl.interrupt()
    assert_clean(crawl.wait())
    return named()[0]


def series_of(folder: Path) -> Path:
    (path,) = (folder / "warc").glob("series-*.jsonl")
    return path


def test_the_time_series_continues_after_a_kill(tmp_path: Path) -> None:
    job = {"JOBDIR": tmp_path / "job", "RETRY_TIMES": 0}
    with running(*WORLD, *PROMISES) as web:
        first = Watched(tmp_path, web=web, **job)
        first.until("*** crawling", times=2)
        first.kill()
        path = series_of(tmp_path)
        assert {point["run"] for point in read_series(path)} == {1}
        with path.open("a") as file:
            file.write('{"t": 3.5, "counts": {"cra')
        result = Watched(tmp_path, web=web, **job).wait()
    assert result.exit_code == 0
    points = list(read_series(path))
    assert [json.loads(line) for line in path.read_text().splitlines()] == points
    runs = [point["run"] for point in points]
    assert runs == sorted(runs)
    assert set(runs) == {1, 2}
    assert len(points) >= 3
    assert points[-1]["counts"] == result.report["counts"]
    assert points[-1]["under_way"] == dict.fromkeys(("dns", "robots", "head", "page", "archive"), 0)
    for run in (1, 2):  # the time between the last commit and the kill does not count
        times = [point["t"] for point in points if point["run"] == run]
        assert times == sorted(times)
    assert points[-1]["t"] > points[0]["t"]
    crawled = [point["counts"]["crawled"] for point in points]
    assert crawled == sorted(crawled)
    assert points[-1]["hosts"]["leased"] == 0


def test_a_time_series_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    job = {"JOBDIR": tmp_path / "job"}
    with running(*WORLD, *PROMISES, "--features", "none") as web:
        Watched(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=10, **job).wait()
        path = series_of(tmp_path)
        path.unlink()
        path.mkdir()
        crawl = Watched(tmp_path, web=web, **job)
        result = crawl.wait()
    assert result.log.count("the time series misses points") == 1
    assert result.exit_code == 0
    assert crawl.looks[-1]["counts"]["crawled"] == result.report["counts"]["crawled"] > 10
