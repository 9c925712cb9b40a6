"""Errors while a crawl closes for another reason: the exit code is 1."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crawl.crawling import Result
from tests.crawl.crawllog import log_lines
from tests.crawl.onecrawl import assert_one_crawl
from tests.crawl.userscode import run
from tests.forked import running

pytestmark = pytest.mark.slow

WORLD = ("--hosts", "25", "--pages-per-host", "8", "--features", "none")
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02")

# After the crawl begins to close, a limit of the system is 0 while OWNER.METHOD runs.
LIMITED = """
    import asyncio
    import resource
    import signal
    from webcrawl.extensions import report, spiderstate
    from webcrawl.frontier.disk.database import Database
    from webcrawl.warc.files import WarcFiles

    class Spider(BroadSpider):
        name = "users"
        pages = 0

        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            real = {owner}.{method}

            def limited(*args, **kwargs):
                before = resource.getrlimit(resource.RLIMIT_{limit})
                if spider.is_closing():
                    resource.setrlimit(resource.RLIMIT_{limit}, (0, before[1]))
                try:
                    return real(*args, **kwargs)
                finally:
                    resource.setrlimit(resource.RLIMIT_{limit}, before)

            {owner}.{method} = limited
            return spider

        def is_closing(self):
            slot = self.crawler.engine._slot
            return slot is not None and slot.closing is not None

        async def parse(self, response):
            self.pages += 1
            if self.pages == 20 and {itself}:
                os.kill(os.getpid(), signal.SIGINT)
            while self.pages >= 20 and not self.is_closing():  # so that they are committed later
                await asyncio.sleep(0.01)
            async for each in super().parse(response):
                yield each
"""


def limited(limit: str, owner: str, method: str, *, itself: bool = False) -> str:
    return LIMITED.format(limit=limit, owner=owner, method=method, itself=itself)


def assert_an_error(result: Result, reason: str, problem: str) -> None:
    assert result.exit_code == 1
    assert "Traceback" not in result.log, result.log[-4000:]
    (line,) = [line for line in result.log.splitlines() if " ERROR: " in line]
    assert problem in line
    last = result.log.splitlines()[-1]
    assert last.startswith("the crawl ended by an error: ")
    assert result.report["finish_reason"] == reason
    assert result.report["problem"] == last.partition("error: ")[2]
    text = (result.folder / "warc" / "report.txt").read_text()
    assert f"It ended by an error: {result.report['problem']}\n" in text


def test_an_error_in_the_last_commit_sets_the_exit_code(tmp_path: Path) -> None:
    code = limited("FSIZE", "Database", "commit", itself=True)
    job = {"JOBDIR": tmp_path / "job"}
    with running(*WORLD, *PROMISES) as web:
        assert_an_error(run(tmp_path, web, code, **job), "shutdown", "File too large")
        result = run(tmp_path, web, "class Spider(BroadSpider):\n    name = 'users'", **job)
        assert_one_crawl(web, result, 600)


@pytest.mark.parametrize(
    ("limit", "owner", "method", "problem"),
    [
        ("NOFILE", "WarcFiles", "close", "cannot be written: Too many open files"),
        ("FSIZE", "spiderstate", "replace_file", "spider.state: File too large"),
        ("FSIZE", "report", "replace_file", "No report in REPORT_DIR"),
    ],
)
def test_an_error_while_closing_sets_the_exit_code(
    tmp_path: Path, limit: str, owner: str, method: str, problem: str
) -> None:
    settings = {"CLOSESPIDER_PAGECOUNT": 5, "JOBDIR": tmp_path / "job"}
    with running(*WORLD, *PROMISES) as web:
        result = run(tmp_path, web, limited(limit, owner, method), **settings)
    if owner == "report":
        assert result.exit_code == 1
        assert problem in result.log.splitlines()[-1]
    else:
        assert_an_error(result, "closespider_pagecount", problem)


# The engine is closing, and its pipelines too, before a robots.txt that was answered is archived.
LATE = """
    import asyncio
    import signal
    from webcrawl.admission import runner

    class Spider(BroadSpider):
        name = "users"

        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            read = runner.read_robots

            async def read_late(*given):
                runner.read_robots = read
                os.kill(os.getpid(), signal.SIGINT)
                while spider.crawler.engine._slot.closing is None:
                    await asyncio.sleep(0.01)
                for _ in range(100):
                    await asyncio.sleep(0)
                return await read(*given)

            runner.read_robots = read_late
            return spider
"""


def test_a_robots_txt_that_is_answered_as_the_crawl_ends_is_archived(tmp_path: Path) -> None:
    with running("--hosts", "1", "--seeds", "1", "--features", "none") as web:
        result = run(tmp_path, web, LATE)
    assert result.exit_code == 0, result.log
    (line,) = log_lines(tmp_path / "warc")
    assert (line["kind"], line["status"]) == ("robots", 200)
    assert line.get("warc") == result.warcs[0].name
