"""Crawls in several processes: one crawl to the servers, in its numbers and in its archive.

CONCURRENT_REQUESTS is low and some answers are slow, so that every process gets a share.
"""

from __future__ import annotations

import os
import re
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.crawling import (
    Crawl,
    Result,
    assert_clean,
    assert_faultless,
    crawl,
    until,
    wait_for_servers,
)
from tests.crawl.knownsite import Record, records
from tests.crawl.onecrawl import assert_one_crawl
from tests.crawl.userscode import items, run
from tests.forked import running
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path

pytestmark = pytest.mark.slow

FEATURES = "none,page-slow=90,page-302,page-404,page-503,page-gzip,robots-none,host-mirror=40"
WORLD = ("--hosts", "25", "--seeds", "25", "--pages-per-host", "6", "--features", FEATURES)
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2")
PIDS = re.compile(r"Crawls in \d+ processes: this one and ([\d, ]+)")

AGAIN = re.compile(r"Process 2 is started again, as (\d+)")


def few(processes: int) -> dict[str, Any]:
    """Settings under which no process can do all the work alone."""
    return {
        "CRAWL_PROCESSES": processes,
        "CONCURRENT_REQUESTS": processes,
    }


class Processes:
    """The workers that a crawl has started by the time it prints `when`."""

    def __init__(self, crawl: Crawl, when: str = "*** crawling") -> None:
        crawl.until(when)
        found = PIDS.search((crawl.folder / "err.txt").read_text())
        assert found
        self._folder = crawl.folder
        self.pids = [int(pid) for pid in found[1].split(", ")]

    def wait_for_work(self) -> None:
        """Wait until each has a page in its archive."""
        until(lambda: all(map(self._captured, self.pids)))

    def _captured(self, pid: int) -> bool:
        files = (self._folder / "warc").glob(f"*-{pid}.warc.gz.open")
        return any(file.stat().st_size > 2000 for file in files)  # warcinfo: some hundred bytes

    def wait_for_another(self) -> None:
        """Wait until the replacement of a dead worker has a page in its archive."""
        log = self._folder / "err.txt"
        until(lambda: AGAIN.search(log.read_text()))
        self.pids = [int(AGAIN.findall(log.read_text())[0])]
        self.wait_for_work()

    def kill_one(self, port: int) -> None:
        """Kill the first worker, once the servers have read all its requests."""
        os.kill(self.pids[0], signal.SIGSTOP)
        wait_for_servers(port)
        os.kill(self.pids[0], signal.SIGKILL)

    def wait_for_end(self) -> None:
        until(lambda: not any(map(is_alive, self.pids)))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def archived(result: Result) -> list[tuple[str, Record]]:
    """All records of the archive, which must be valid, each with the name of its file."""
    assert not list((result.folder / "warc").glob("*.open"))
    assert [problem for path in result.warcs for problem in check(path)] == []
    assert all(index_path(path).exists() for path in result.warcs)
    return [(path.name, each) for path in result.warcs for each in records(path)]


def answers(result: Result) -> dict[str, tuple[str, Record]]:
    """The file and the record of each page; asserts that each page has one record."""
    found = [
        (each.url, (name, each))
        for name, each in archived(result)
        if each.type in ("response", "revisit") and not each.url.endswith("/robots.txt")
    ]
    pages = dict(found)
    assert len(found) == len(pages)
    return pages


def test_several_processes_look_like_one_crawl(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        result = crawl(tmp_path, web=web, **few(3))
        ledger = assert_faultless(web)
    assert_clean(result)
    counts, totals = result.report["counts"], ledger["totals"]
    assert counts["crawled"] == ledger["fetched"]["pages"]
    assert counts["codes/2xx"] == totals["pages_2xx"]
    assert counts["links"] > totals["pages_2xx"]
    assert counts["resolved"] == ledger["fetched"]["hosts"]
    assert counts["page_bytes"] + counts["robots_bytes"] >= totals["bytes"]
    assert counts["pending"] == counts["under_way"] == 0
    assert result.log.count("Dumping Scrapy stats") == 1
    assert f"'webcrawl/warc/records': {len(archived(result))}," in result.log
    assert f"'downloader/request_count': {totals['pages']}," in result.log
    assert len(result.warcs) == 3, "each has its part"
    contents = Counter(
        each.fields["warc-payload-digest"]
        for _, each in answers(result).values()
        if each.type == "response" and each.block.startswith(b"HTTP/1.1 200")
    )
    assert max(contents.values()) == 1, "a copy is a revisit, whoever had the first"


def test_a_killed_process_is_replaced(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES, "--pages-per-host", "12") as web:
        running_crawl = Crawl(tmp_path, web=web, **few(2))
        processes = Processes(running_crawl)
        processes.wait_for_work()
        processes.kill_one(web.port)
        processes.wait_for_another()
        result = running_crawl.wait()
        assert_one_crawl(web, result, may_come_again=1)  # its one lease
    assert "Process 2 ended by signal 9: its" in result.log


def test_a_hanging_process_is_replaced(tmp_path: Path) -> None:
    """Its leases keep the crawl from ending before. A worker starts in less than 10 s."""
    code = """
        import time
        from webcrawl.extensions import processes
        processes.SILENCE_MAX_S = 10
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                hung = Path(__file__).with_name("hung")
                if self.crawler.webcrawl.assignment and not hung.exists():
                    hung.touch()
                    time.sleep(100)
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, **few(2))
        assert_one_crawl(web, result, may_come_again=1)
    assert "Process 2 sent no heartbeat for 10 s" in result.log
    assert AGAIN.search(result.log)


def test_a_starting_worker_ends_with_the_first_process(tmp_path: Path) -> None:
    with running(*WORLD, *PROMISES) as web:
        first = Crawl(tmp_path, web=web, **few(2))
        processes = Processes(first, "[process 2] Scrapy")
        first.process.kill()
        processes.wait_for_end()
        assert "Traceback" not in first.wait().log


# Code of users


def test_a_closed_terminal_ends_the_crawl_as_ctrl_c_does(tmp_path: Path) -> None:
    """All processes get SIGHUP from the shell, and once more when the shell ends."""
    default = ("env", "--default-signal=HUP")  # nohup may have started pytest
    with running(*WORLD, *PROMISES) as web:
        first = Crawl(tmp_path, web=web, within=default, **few(2))
        processes = Processes(first)
        processes.wait_for_work()
        for pid in (*processes.pids, first.process.pid):
            os.kill(pid, signal.SIGHUP)
        first.until("Received SIGTERM")
        first.process.send_signal(signal.SIGHUP)
        result = first.wait()
    assert_clean(result)
    assert result.report["finish_reason"] == "shutdown"
    assert "Process 2" not in result.log


def test_requests_and_items_of_a_users_spider_cross_processes(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def start(self):
                async for each in super().start():
                    yield each
                yield {"started": os.getpid()}
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    page.links = []
                    yield page
                for href in response.css("a::attr(href)").getall():
                    own = {"found_by": os.getpid()}
                    yield response.follow(href, self.parse_own, cb_kwargs=own)
                yield response.follow("/own", lambda response: None)
            def parse_own(self, response, found_by):
                passed_on = found_by != os.getpid()
                yield {"own": response.url, "passed_on": passed_on, "mark": self.mark}
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, "-a", "mark=m", **few(2))
        ledger = web.ledger()
    assert result.exit_code == 0
    refused = result.log.count("cannot be pickled, and is dropped")
    assert 1 <= refused == result.log.count(" ERROR: ") <= 2, "once a process"
    assert "Traceback" not in result.log
    assert result.report["counts"]["dropped/unserialisable"] > refused
    assert not any(found["count"] for found in ledger["violations"].values()), ledger
    first, second = (items(tmp_path, name) for name in ("items.jsonl", "items-2.jsonl"))
    assert [each for each in first + second if "started" in each] == first[:1]
    own = [each for each in first + second if "own" in each]
    assert len({each["own"] for each in own}) == len(own)
    assert all(each["mark"] == "m" for each in own)
    assert any(each["passed_on"] for each in own), "the request of one is answered by another"
    assert second


def test_a_worker_that_closes_its_spider_ends_the_crawl(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                async for page in super().parse(response):
                    yield page
                if self.crawler.webcrawl.assignment:
                    raise CloseSpider("enough")
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, **few(2))
    assert_clean(result)
    assert result.report["finish_reason"] == "enough"


def test_an_error_of_a_worker_is_the_last_line(tmp_path: Path) -> None:
    code = """
        import resource
        class Users(BroadSpider):
            name = "users"
            async def parse(self, response, **kwargs):
                if self.crawler.webcrawl.assignment:
                    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
                async for page in super().parse(response):
                    yield page
    """
    with running(*WORLD, *PROMISES, "--page-bytes", "60000") as web:
        result = run(tmp_path, web, code, **few(2))
    assert result.exit_code == 1
    assert result.report["finish_reason"] == "warc_error"
    last = result.log.splitlines()[-1]
    assert last.startswith("the crawl ended by an error: WARC_DIR = ")
    assert last.endswith("cannot be written: File too large")


def test_a_worker_that_cannot_start_is_not_replaced(tmp_path: Path) -> None:
    code = """
        class Users(BroadSpider):
            name = "users"
            def __init__(self, **kwargs):
                super().__init__(**kwargs)
                begun = Path(__file__).with_name("begun")
                if begun.exists():
                    raise SystemExit(3)
                begun.touch()
    """
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, code, **few(2))
        assert_faultless(web)
    assert result.exit_code == 0
    assert "Process 2 ended with exit code 3" in result.log
    assert "Process 2 is not started again" in result.log
