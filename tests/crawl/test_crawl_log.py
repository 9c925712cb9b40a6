"""The crawl log of whole crawls, held against the servers' ledger, the counts and the archive."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from pathlib import Path

from tests.crawl.crawling import Crawl, assert_clean, assert_faultless, crawl
from tests.crawl.crawllog import Line, assert_log, log_lines
from tests.crawl.knownsite import records
from tests.forked import running

# 69 kinds of hosts and pages, and no host much larger than the others.
WORLD = (
    *("--seed", "172", "--hosts", "60", "--pages-per-host", "5"),
    *("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2"),
)
# Every request that is sent gets an answer, so it is in the ledger.
ANSWERED = "none,page-30*,page-404,page-503,page-chunked,page-gzip,robots-none,robots-crawl-delay"


def test_each_turn_has_one_line(tmp_path: Path) -> None:
    with running(*WORLD) as web:
        quick = {"DOWNLOAD_TIMEOUT": 3, "RETRY_TIMES": 1, "JOBDIR": tmp_path / "job"}
        result = crawl(tmp_path, web=web, CRAWL_PROCESSES=2, **quick)
        assert_faultless(web)
    assert_clean(result)
    for path in result.warcs:  # of both processes
        warcinfo, about, *_ = records(path)
        assert f"isPartOf: {result.report['crawl']}\r\n" in warcinfo.block.decode()
        found = dict(line.split(": ", 1) for line in about.block.decode().splitlines() if line)
        assert json.loads(found["crawl"]) == result.report["crawl"]
        assert json.loads(found["settings"])["RETRY_TIMES"] == 1
        assert json.loads(found["seeds"])[0]["list"] == "seeds.txt"
    lines = assert_log(result)
    assert {"dns", "robots"} <= {line.get("reason") for line in lines}
    read = [line for line in lines if line["end"] == "done" and "links" in line]
    assert Counter(line.get("lang") for line in read)["pt-br"] > len(read) / 2
    assert all(line["total_ms"] >= line["first_byte_ms"] >= 0 for line in read)


def test_the_log_agrees_with_the_ledger_of_the_servers(tmp_path: Path) -> None:
    with running(*WORLD, "--features", ANSWERED) as web:
        result = crawl(tmp_path, web=web, LOG_LEVEL="DEBUG")
        ledger = assert_faultless(web)
    assert result.log.count(" DEBUG: 200 ") == ledger["totals"]["pages_2xx"] > 50, "a line per page"
    counts, totals = result.report["counts"], ledger["totals"]
    assert counts["links"] == totals["links"]
    assert counts["robots_attempted"] == totals["robots"]
    lines = assert_log(result)
    turns = [line for line in lines if line["end"] != "retried"]
    pages = [line for line in turns if line["kind"] == "page"]
    robots = [line for line in lines if line["kind"] == "robots"]
    assert len(robots) == ledger["totals"]["robots"]
    assert sum(line.get("tries", 0) for line in pages) == ledger["totals"]["pages"]
    statuses = Counter(str(line["status"]) for line in lines if "status" in line)
    retried = sum(line["tries"] - 1 for line in pages if line["end"] == "done")
    assert len(lines) - len(turns) == retried > 0, "each superseded answer has a line"
    assert statuses == Counter({str(code): n for code, n in ledger["statuses"].items()})
    assert sum(line["size_bytes"] for line in robots) == ledger["totals"]["bytes_robots"]


def test_a_running_crawl_has_plain_lines_and_a_kill_tears_none(tmp_path: Path) -> None:
    job = {"JOBDIR": tmp_path / "job"}
    with running(*WORLD, "--features", ANSWERED) as web:
        first = Crawl(tmp_path, web=web, **job)
        first.until("*** crawling", 2)
        os.kill(first.process.pid, signal.SIGKILL)
        first.wait()
        assert list((tmp_path / "warc").glob("crawl-*-00001.jsonl"))
        before = keys(log_lines(tmp_path / "warc"))
        assert before
        result = crawl(tmp_path, web=web, **job)
    lines = assert_log(result)
    # Only lines whose commit was lost by the kill are gone, and their turns come again.
    assert before <= keys(lines)


def keys(lines: list[Line]) -> set[tuple[str, str]]:
    return {(line["url"], line["end"]) for line in lines if line["kind"] == "page"}
