"""Feeds of crawls that go wrong: killed, full disk, unwritable folder, closed pipe."""

from __future__ import annotations

import csv
import json
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from simweb import Running
from tests.crawl.crawling import ROOT, Crawl, Result, assert_clean, crawl
from tests.crawl.joined import assert_joined
from tests.crawl.onecrawl import assert_one_crawl
from tests.crawl.userscode import run
from tests.forked import running

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, so that none makes each crawl long.
WORLD = (
    *("--seed", "6", "--hosts", "25", "--pages-per-host", "8"),
    *("--features", "none,page-404,page-chunked"),
)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")
QUICK: dict[str, Any] = {"DOWNLOAD_DELAY": 0.01, "IP_DELAY": 0}


@pytest.fixture(scope="module")
def web() -> Iterator[Running]:
    """A web so large that a crawl is still running when the test stops it."""
    world = ("--hosts", "500", "--pages-per-host", "50", "--features", "none")
    with running(*world, "--host-delay", "0", "--partial") as web:
        yield web


FORMATS = {".jsonl": "jsonlines", ".csv": "csv"}


def feeds(*paths: Path) -> str:
    """FEEDS with one file per name; the ending of the name is the format."""
    return json.dumps({str(path): {"format": FORMATS[path.suffix]} for path in paths})


def urls_in(path: Path, ends: tuple[str, ...] = ("\n",)) -> Counter[str]:
    """How often each URL is in a feed with an answer that no later one supersedes. The feed must be
    whole: empty if its process had no page.
    """
    text = path.read_text()
    if not text:
        return Counter()
    assert text.endswith(ends)
    if path.suffix == ".csv":
        rows = list(csv.reader(text.splitlines(keepends=True)))
        assert len({len(row) for row in rows}) == 1
        at = rows[0].index("superseded")  # each run writes a header line
        return Counter(row[0] for row in rows if row != rows[0] and row[at] == "False")
    items = [json.loads(line) for line in text.splitlines()]
    return Counter(item["url"] for item in items if not item.get("superseded"))


def only_error(result: Result) -> str:
    assert "Traceback" not in result.log, result.log[-4000:]
    (line,) = [line for line in result.log.splitlines() if " ERROR: " in line]
    return line


def test_feeds_of_two_processes_have_every_page_after_kills(tmp_path: Path) -> None:
    kills = tmp_path / "kills.jsonl"
    # On a busy machine the second process fetches most pages. The first releases all of them.
    points = "within-flush:2,before-release:4,after-flush:2,before-release:40,random:900"
    paths = [tmp_path / "pages.jsonl", tmp_path / "pages.csv"]
    chosen = {
        "JOBDIR": tmp_path / "job", "CONCURRENT_REQUESTS": 8, "CRAWL_PROCESSES": 2,
        "FEEDS": feeds(*paths), "WARC_MAX_SIZE": 30_000,  # some files a run
    }  # fmt: skip
    retried = ("--features", "none,page-404,page-chunked,page-flaky=3")
    with running(*WORLD, *retried, *PROMISES) as web:
        program = ("tests.crawl.faulty", points, str(kills), str(web.port), "--")
        result = Crawl(tmp_path, web=web, program=program, **chosen).wait()
        # A second process logs that it has lost the first, in addition to the lines about the kill.
        whole_log, result.log = result.log, result.log.rpartition("Resumes with")[2]
        kills_seen = [json.loads(line)["leased"] for line in kills.read_text().splitlines()]
        assert len(kills_seen) >= 4, result.log[-4000:]
        leased = [url for urls in kills_seen for url in urls]
        pages = assert_one_crawl(web, result, len(leased), leased=leased)
    ends = assert_joined(tmp_path / "warc", feeds=tmp_path.glob("pages*.jsonl"))
    assert ends["retried"] > 1
    assert ends["lost"] > 1
    assert "bytes of a torn last record were cut off" in whole_log
    for path in paths:
        found: Counter[str] = Counter()
        for part in path.parent.glob(f"{path.stem}*{path.suffix}"):
            found += urls_in(part)
        assert set(found) == set(pages)
        assert {url for url, times in found.items() if times > 1} <= set(leased)


def test_a_feed_on_a_full_disk_ends_the_crawl_and_the_next_run_goes_on(
    tmp_path: Path, web: Running
) -> None:
    feed = tmp_path / "pages.jsonl"
    filler = json.dumps({"url": "http://filler.example/", "text": 1_000_000 * "x"}) + "\n"
    feed.write_text(30 * filler)  # larger than any other file
    files = {"JOBDIR": tmp_path / "job", "FEEDS": feeds(feed), "WARC_ENABLED": 0}
    one = Crawl(tmp_path, web=web, **QUICK, **files)
    one.until_true(lambda: feed.stat().st_size > 30 * len(filler) + 500_000)
    one.process.send_signal(signal.SIGSTOP)
    limit_bytes = feed.stat().st_size + 100_000
    resource.prlimit(one.process.pid, resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
    one.process.send_signal(signal.SIGCONT)
    result = one.wait()
    assert result.exit_code == 1
    problem = f"FEEDS: {feed} cannot be written: File too large"
    assert only_error(result).endswith(problem)
    assert result.log.splitlines()[-1] == f"the crawl ended by an error: {problem}"
    assert result.report["finish_reason"] == "feed_error"
    assert result.report["problem"] == problem
    pages = result.report["counts"]["crawled"]
    # The last record was cut off, or lacks its line break alone, which the next run adds.
    assert len(urls_in(feed, ("\n", "}"))) - 1 >= pages > 100
    target = {"CLOSESPIDER_PAGECOUNT": pages + 100}
    after = crawl(tmp_path, web=web, **QUICK, **files, **target)
    assert_clean(after)
    assert after.report["problem"] == ""
    assert after.report["counts"]["crawled"] == pages + 100
    assert len(urls_in(feed)) - 1 >= pages + 100


@pytest.mark.parametrize("place", ["seeds.txt/pages.jsonl", "", "pages.qqq"])
def test_an_unwritable_feed_is_refused_at_the_start(
    tmp_path: Path, web: Running, place: str
) -> None:
    chosen = json.dumps({str(tmp_path / place): {"format": Path(place).suffix[1:] or "csv"}})
    asked_before = web.ledger()["totals"].get("requests", 0)
    result = crawl(tmp_path, web=web, FEEDS=chosen)
    assert web.ledger()["totals"].get("requests", 0) == asked_before
    assert result.exit_code == 1
    assert only_error(result)
    assert "the crawl ended by an error: FEEDS: " in result.log.splitlines()[-1]
    assert result.report["finish_reason"] == "feed_error"


@pytest.mark.parametrize("format_", ["json", "xml", "gz"])
def test_a_feed_that_cannot_be_finished_is_an_error(
    tmp_path: Path, web: Running, format_: str
) -> None:
    options: dict[str, Any] = {"format": format_}
    if format_ == "gz":
        gzip = "scrapy.extensions.postprocessing.GzipPlugin"
        options = {"format": "jsonlines", "postprocessing": [gzip]}
    target = {"CLOSESPIDER_PAGECOUNT": 5, "FEEDS": json.dumps({"/dev/full": options})}
    result = crawl(tmp_path, web=web, **QUICK, **target)
    assert result.exit_code == 1
    assert "/dev/full cannot be written: No space left on device" in only_error(result)
    assert "No space left" in result.report["problem"]


def test_a_closed_pipe_ends_the_crawl(tmp_path: Path, web: Running) -> None:
    (tmp_path / "seeds.txt").write_text("\n".join(web.seeds))
    settings = QUICK | {
        "DNS_SERVERS": web.dns, "ALLOW_PRIVATE_ADDRESSES": 1, "WARC_DIR": tmp_path / "warc",
        "STATS_INTERVAL": 0,
    }  # fmt: skip
    command = [sys.executable, "-m", "scrapy", "crawl", "broad", "-o", "-:jsonl"]
    command += ["-a", f"seeds={tmp_path / 'seeds.txt'}"]
    command += [word for each in settings.items() for word in ("-s", "{}={}".format(*each))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout
        assert process.stderr
        lines = [process.stdout.readline() for _ in range(20)]  # items and other lines
        process.stdout.close()
        log = process.stderr.read()
    assert sum("url" in json.loads(line) for line in lines if line.startswith("{")) > 10
    assert process.returncode == 1
    problem = "FEEDS: stdout: cannot be written: Broken pipe"
    assert log.splitlines()[-1] == f"the crawl ended by an error: {problem}"
    assert "Traceback" not in log


def test_batches_filters_and_several_feeds_have_every_page(tmp_path: Path) -> None:
    code = """
        class Spider(BroadSpider):
            name = "users"

            async def parse(self, response):
                async for each in super().parse(response):
                    yield each
                yield {"url": response.url, "note": 1}
    """
    filtered = {"format": "jsonlines", "item_classes": ["webcrawl.items.Page"]}
    chosen = {
        str(tmp_path / "batch-%(batch_id)03d.jsonl"): filtered | {"batch_item_count": 7},
        str(tmp_path / "all.jsonl"): {"format": "jsonlines"},
    }
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, FEEDS=json.dumps(chosen))
    assert_clean(result)
    pages = result.report["counts"]["crawled"]
    batches = sorted(tmp_path.glob("batch-*.jsonl"))
    assert len(batches) == -(-pages // 7)
    found = sum(map(urls_in, batches), Counter())
    assert len(found) == found.total() == pages
    assert urls_in(tmp_path / "all.jsonl").total() == 2 * pages


def test_a_feed_that_a_kill_damages_gets_a_warning(tmp_path: Path) -> None:
    gzip = "scrapy.extensions.postprocessing.GzipPlugin"
    chosen = {
        "a.json": {"format": "json"},
        "b.jsonl": {"format": "jsonlines"},
        "c.csv": {"format": "csv", "overwrite": True},
        "d.gz": {"format": "csv", "postprocessing": [gzip]},
        "e.csv": {"format": "csv"},
    }
    expected = {"a.json": "one json document", "c.csv": "overwritten", "d.gz": "compressed"}
    text = json.dumps({str(tmp_path / name): options for name, options in chosen.items()})
    with running(*WORLD, *PROMISES) as web:
        for job, told in (("", {}), (tmp_path / "job", expected)):
            target = {"FEEDS": text, "CLOSESPIDER_PAGECOUNT": 2, "JOBDIR": job}
            result = crawl(tmp_path, web=web, **target)
            assert result.exit_code == 0
            warnings = [line for line in result.log.splitlines() if " WARNING: FEEDS: " in line]
            assert len(warnings) == len(told)
            for line, (name, words) in zip(warnings, told.items(), strict=True):
                assert f"{tmp_path / name} is " in line
                assert words in line
    assert os.path.getsize(tmp_path / "b.jsonl")
