"""The stats lines of a running crawl: on time, on the right stream, in Scrapy's stats."""

from __future__ import annotations

import gc
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from weakref import ref

import pytest
from scrapy.utils.test import get_crawler
from stock_crawl import Run, command, environment, read_stats, run

from tests.forked import Forked
from webcrawl.extensions.report import _keep_earlier
from webcrawl.extensions.tuning import THRESHOLD, MemoryTuning
from webcrawl.report.lines import LEGEND

COUNTING_SPIDER = """
    import asyncio, time
    from collections import Counter
    from types import SimpleNamespace
    import scrapy
    from scrapy.core.scheduler import Scheduler
    from webcrawl.crawl import crawl_of
    from webcrawl.extensions import statslines
    from webcrawl.frontier.counters import Counters
    from webcrawl.report import lines

    SAID = []  # per pair of lines: seconds since the start, new pages, interval

    def stats_line(elapsed_s, counters):
        line = lines.stats_line(elapsed_s, counters)
        SAID.append([elapsed_s])
        return line

    def speed_line(pages, bits, over_s):
        SAID[-1] += [pages, over_s]
        return lines.speed_line(pages, bits, over_s)

    statslines.stats_line, statslines.speed_line = stats_line, speed_line

    class CountingScheduler(Scheduler):
        def open(self, spider):
            counters = Counters(
                under_way=3, pending=7, extracted=60, host_passed=50, lookups=45, resolved=40,
                ip_passed=30, robots_attempted=25, robots_passed=20, crawled=10, links=2500,
                page_bytes=3_000_000, fetch_s=5.0, html_pages=8, html_bytes=2_000_000,
                codes=Counter({"2xx": 8, "4xx": 2}), dropped=Counter(host_cap=10),
            )
            crawl = crawl_of(spider.crawler)
            frontier = SimpleNamespace(counters=counters, crawl_id="20261123-of-a-test")
            crawl.scheduler, crawl.frontier = self, frontier
            return super().open(spider)

    class S(scrapy.Spider):
        name = "s"

        async def start(self):
            self.counters = crawl_of(self.crawler).counters
            await self.work()
            self.crawler.stats.set_value("said", SAID)
            return
            yield

        async def until(self, true):
            while not true():
                await asyncio.sleep(0.01)

        def count(self):
            self.counters.crawled += 5
            self.counters.dropped["ip_cap"] += 1
"""
WORK = {
    "waits": """
        async def work(self):
            await self.until(lambda: SAID)
            self.count()
            before = len(SAID)
            await self.until(lambda: len(SAID) > before + 2)
            stats = self.crawler.stats
            await self.until(lambda: stats.get_value("webcrawl/crawled") == 15)
            stats.set_value("seen/ip_cap", stats.get_value("webcrawl/dropped/ip_cap"))
    """,
    "says one": """
        async def work(self):
            await self.until(lambda: SAID)
            self.count()
    """,
    "blocks": """
        async def work(self):
            end = time.monotonic() + 30
            while len(SAID) < 4 and time.monotonic() < end:
                pass
            self.crawler.stats.set_value("seen/lines", len(SAID))
    """,
    "long": """
        async def work(self):
            await asyncio.sleep(1000)  # longer than a test may take
    """,
    "short": """
        async def work(self):
            await asyncio.sleep(0)
    """,
}
INTERVAL_S = 0.1
SETTINGS = {
    "SCHEDULER": "spider.CountingScheduler",
    "EXTENSIONS": {"webcrawl.extensions.statslines.StatsLines": 100},
    "STATS_INTERVAL": INTERVAL_S,
}
LINE = re.compile(
    r"\[ *(\d+)\] 3 Q      7 E      60 H     50 D     40 I    30 R    20 C +(\d+) L    \dK"
)
SPEED = re.compile(r"    \*\*\* crawling (\d+\.\d) pps @ (\d+\.\d) Mbps")
SUMMARY = re.compile(
    r"\nExtracted 60 URLs @ \d+/s\nLooked up 45 DNS names @ \d+/s\nAttempted 25 robots @ \d+/s\n"
    r"Crawled 1[05] pages @ \d+/s \(3\.00 MB\)\nParsed 2500 links @ \d+/s\n"
    r"HTTP codes: 2xx = 8, 3xx = 0, 4xx = 2, 5xx = 0, other = 0\n\Z"
)


def without_legend(out: str) -> str:
    """`out` after its legend, which must be at the start."""
    legend = "\n".join(LEGEND) + "\n\n"
    assert out.startswith(legend)
    return out.removeprefix(legend)


def spider(work: str) -> str:
    return COUNTING_SPIDER + WORK[work]


def assert_on_time(crawl: Run) -> None:
    """No pair of lines was early, and the intervals add up to the whole time."""
    said = crawl.stats["said"]
    over_s = [0.0, *(each[2] for each in said)]
    for number, (at_s, *_) in enumerate(said, 1):
        assert at_s >= INTERVAL_S * (number - 0.1)
        assert sum(over_s[: number + 1]) == pytest.approx(at_s)


def test_lines_and_summary_on_standard_output_and_all_counts_in_scrapys_stats(
    tmp_path: Path,
) -> None:
    began = time.monotonic()
    crawl = run(tmp_path, spider("waits"), SETTINGS)
    took_s = time.monotonic() - began
    lines = without_legend(crawl.out).partition("\nExtracted")[0].splitlines()
    assert crawl.code == 0
    pages, speeds = [], []
    for line, speed in zip(lines[0::2], lines[1::2], strict=True):
        match = LINE.fullmatch(line)
        assert match, line
        pages.append(int(match[2]))
        match = SPEED.fullmatch(speed)
        assert match, speed
        speeds.append(match[1])
    assert sorted(pages) == pages
    assert (pages[0], pages[-1]) == (10, 15)
    said = crawl.stats["said"]
    assert sum(new for _, new, _ in said) == 5
    assert speeds == [f"{new / over_s:.1f}" for _, new, over_s in said]
    assert_on_time(crawl)
    assert SUMMARY.search(crawl.out), crawl.out
    assert re.search(r"15 pages in \d+\.\d s", crawl.log)
    assert "0.333 s a request on average, 8 HTML pages kept (2.00 MB)" in crawl.log
    stats = crawl.stats
    assert stats["seen/ip_cap"] == 1  # during the crawl
    assert stats["webcrawl/pending"] == 7
    assert stats["webcrawl/extracted"] == 60
    assert stats["webcrawl/codes/2xx"] == 8
    assert stats["webcrawl/codes/other"] == 0
    assert stats["webcrawl/dropped/host_cap"] == 10
    assert stats["webcrawl/mean_request_s"] == 5.0 / 15
    assert 60 / took_s < stats["webcrawl/extracted_per_s"] < 60 / (3 * INTERVAL_S)
    assert 3 * INTERVAL_S < stats["webcrawl/elapsed_s"] < took_s
    assert {"webcrawl/pages_per_s", "webcrawl/mbps"} <= stats.keys()


def test_lines_come_on_time_while_the_event_loop_is_blocked(tmp_path: Path) -> None:
    crawl = run(tmp_path, spider("blocks"), SETTINGS)
    assert crawl.stats["seen/lines"] >= 4  # before the loop was free again
    assert len(LINE.findall(crawl.out)) >= 4
    assert_on_time(crawl)
    assert SUMMARY.search(crawl.out)


def test_lines_are_log_records_when_the_log_is_a_file(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    crawl = run(tmp_path, spider("says one"), SETTINGS | {"LOG_FILE": str(log)})
    text = log.read_text(encoding="utf-8")
    assert crawl.out == ""
    assert text.count(f"INFO: {LEGEND[0]}\n") == 1
    assert re.search(r"\[webcrawl\.report\.console\] INFO: " + LINE.pattern, text)
    assert re.search(r"INFO: " + SPEED.pattern, text)
    assert "INFO: Extracted 60 URLs @" in text
    assert "INFO: HTTP codes: 2xx = 8" in text


def test_interval_zero_prints_the_summary_only(tmp_path: Path) -> None:
    crawl = run(tmp_path, spider("short"), SETTINGS | {"STATS_INTERVAL": 0})
    assert crawl.out.startswith("\nExtracted 60 URLs")
    assert SUMMARY.search(crawl.out)
    assert crawl.stats["webcrawl/extracted"] == 60


def test_another_scheduler_prints_no_line(tmp_path: Path) -> None:
    plain = "import scrapy\nclass S(scrapy.Spider):\n    name = 's'\n    start_urls = []\n"
    crawl = run(tmp_path, plain, {"EXTENSIONS": SETTINGS["EXTENSIONS"], "STATS_INTERVAL": 0.1})
    assert crawl.out == ""
    assert crawl.code == 0
    assert crawl.log.count("No stats lines: SCHEDULER is not webcrawl.scheduler.Scheduler") == 1
    assert "Traceback" not in crawl.log


@contextmanager
def piped(folder: Path, code: str) -> Iterator[tuple[Forked, IO[str]]]:
    """A crawl, and its standard output; its log is in `folder`."""
    os.mkfifo(pipe := folder / "out")
    arguments = command(folder, code, SETTINGS)[1:]
    files = (os.devnull, pipe, folder / "log")
    process = Forked(arguments, files=files, env=environment())
    with pipe.open() as stdout:
        yield process, stdout


def log_of(folder: Path) -> str:
    log = (folder / "log").read_text()
    assert not re.search("Traceback|Fatal|BrokenPipe", log), log
    return log


def test_a_closed_pipe_changes_nothing(tmp_path: Path) -> None:
    """`scrapy crawl ... | head -1`."""
    with piped(tmp_path, spider("waits")) as (process, stdout):
        assert stdout.readline() == LEGEND[0] + "\n"
    assert process.wait() == 0
    assert "Spider closed (finished)" in log_of(tmp_path)
    assert read_stats(tmp_path)["webcrawl/crawled"] == 15


def test_a_full_pipe_blocks_no_crawl(tmp_path: Path) -> None:
    """The pipe is full before the crawl begins. The crawl still ends cleanly."""
    fill = "\n    import os\n    os.set_blocking(1, False)\n    FULL = b'.' * 4096\n    try:\n"
    fill += "        while os.write(1, FULL):\n            pass\n    except BlockingIOError:\n"
    fill += "        os.set_blocking(1, True)\n"
    with piped(tmp_path, fill + spider("says one")) as (process, stdout):
        assert process.wait() == 0
        assert set(stdout.read()) == {"."}
    assert "Spider closed (finished)" in log_of(tmp_path)
    assert read_stats(tmp_path)["webcrawl/crawled"] == 15


def test_ctrl_c_prints_the_summary_and_ends(tmp_path: Path) -> None:
    with piped(tmp_path, spider("long")) as (process, stdout):
        first = [stdout.readline() for _ in (*LEGEND, "", "a stats line")][-1]
        process.send_signal(signal.SIGINT)
        out = stdout.read()
    assert process.wait() == 0
    assert LINE.match(first)
    assert SUMMARY.search(out), out
    assert "Received SIGINT" in log_of(tmp_path)


REPORTING = SETTINGS | {
    "EXTENSIONS": {"webcrawl.extensions.report.CrawlReport": 200},
    "MAX_PAGES_PER_HOST": 10,
    "WARC_DIR": "unused",
}


def test_the_report_has_the_counts_of_the_crawl(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "reports"
    began = time.monotonic()
    crawl = run(tmp_path, spider("short"), REPORTING | {"REPORT_DIR": str(folder)})
    took_s = time.monotonic() - began
    report = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    assert report["finish_reason"] == "finished"
    assert report["counts"]["extracted"] == 60
    assert report["counts"]["dropped/host_cap"] == 10
    assert report["rates"]["mean_request_s"] == 0.5
    assert report["settings"]["MAX_PAGES_PER_HOST"] == 10
    assert report["started"] <= report["finished"]
    assert 0 < report["elapsed_s"] < took_s
    text = (folder / "report.txt").read_text(encoding="utf-8")
    assert "10 pages in " in text
    assert "HTTP codes: 2xx = 8, 3xx = 0, 4xx = 2, 5xx = 0, other = 0" in text
    assert sorted(path.name for path in folder.iterdir()) == ["report.json", "report.txt"]
    assert f"Report: {folder / 'report.json'}" in crawl.log


def test_each_run_leaves_its_report_in_the_folder_of_the_archive(tmp_path: Path) -> None:
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "report.json").write_text('{"started": "2026-01-02T03:04:05Z"}', encoding="utf-8")
    (folder / "report.txt").write_text("first", encoding="utf-8")
    (folder / "report-20260102T030405Z.txt").write_text("earlier", encoding="utf-8")
    for cap in ("10", "11"):
        overrides = {"WARC_DIR": str(folder), "MAX_PAGES_PER_IP": cap, "SCOPE_SUFFIXES": ".br"}
        run(tmp_path, spider("short"), REPORTING | overrides)
    (folder / "report.json").unlink()
    _keep_earlier(folder)  # in a folder with half of a report
    texts = {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}
    assert texts["report-20260102T030405Z-2.txt"] == "first"
    assert texts["report-20260102T030405Z-2.json"] == '{"started": "2026-01-02T03:04:05Z"}'
    assert texts["report-20260102T030405Z.txt"] == "earlier"
    assert len(texts) == 6  # these, two of the first run, and one of the second
    (own,) = (texts[name] for name in texts if name[-5:] == ".json" and "20260102" not in name)
    assert json.loads(own)["settings"]["MAX_PAGES_PER_IP"] == 10
    assert json.loads(own)["settings"]["SCOPE_SUFFIXES"] == [".br"]


def test_a_disk_error_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    folder = tmp_path / "file" / "reports"
    crawl = run(tmp_path, spider("short"), REPORTING | {"REPORT_DIR": str(folder)})
    assert crawl.code == 0
    assert crawl.log.count(" ERROR: ") == 1
    assert f"ERROR: No report in REPORT_DIR = {folder}: " in crawl.log
    assert "Traceback" not in crawl.log


@pytest.fixture
def _gc_as_it_was() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("_gc_as_it_was")
def test_gc_is_tuned_while_the_spider_is_open() -> None:
    before = gc.get_threshold()
    extension = MemoryTuning.from_crawler(get_crawler())
    assert gc.get_threshold() == before
    extension.spider_opened()
    assert gc.get_threshold() == THRESHOLD
    assert gc.get_freeze_count() > 0
    extension.spider_closed()
    assert gc.get_threshold() == before


@pytest.mark.usefixtures("_gc_as_it_was")
def test_a_further_crawl_frees_what_the_first_has_left() -> None:
    spider: Any = type("Spider", (), {})()
    spider.itself, left = spider, ref(spider)
    first, second = (MemoryTuning.from_crawler(get_crawler()) for _ in range(2))
    first.spider_opened()
    first.spider_closed()
    del spider
    second.spider_opened()
    assert left() is None
