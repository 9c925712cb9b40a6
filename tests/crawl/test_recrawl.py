"""A crawl that visits its pages again, killed in between, on a web that changes (RECRAWL)."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from simweb import Running, faults, running
from tests.crawl.crawling import Crawl, assert_clean
from tests.crawl.crawllog import log_lines

CYCLE_S = 3
WORLD = (
    *("--seed", "7", "--hosts", "5", "--pages-per-host", "6", "--features", "none,page-404"),
    *("--page-bytes", "3000", "--host-delay", "0.1", "--partial", "--changes", str(CYCLE_S)),
)


def until_visited(web: Running, times: int) -> None:
    """Wait until the ledger has seen each page `times` times more, on the average."""
    deadline = time.monotonic() + 120
    begun = web.ledger()["changes"]["visits"]
    while True:
        seen = web.ledger()["changes"]
        if seen["pages"] > 20 and seen["visits"] >= begun + times * seen["pages"]:
            return
        assert time.monotonic() < deadline, seen
        time.sleep(0.2)


@pytest.mark.parametrize(("mode", "processes"), [("fixed", 2), ("adaptive", 1)])
def test_pages_are_visited_again_also_after_a_kill(
    tmp_path: Path, mode: str, processes: int
) -> None:
    with running(*WORLD) as web:

        def start() -> Crawl:
            return Crawl(
                tmp_path,
                web=web,
                JOBDIR=tmp_path / "job",
                RECRAWL=mode,
                RECRAWL_CYCLE=f"{CYCLE_S}s",
                CRAWL_PROCESSES=processes,
            )

        crawl = start()
        until_visited(web, 1)
        crawl.process.kill()
        crawl.process.wait()
        crawl = start()
        until_visited(web, 1)
        crawl.interrupt()
        result = crawl.wait()
        report = web.ledger()
    assert_clean(result)
    assert result.exit_code == 0
    assert faults(report) == []
    changes = report["changes"]
    assert changes["visited"] > 0.8 * changes["pages"], "a kill loses no page"
    assert 0.3 < changes["fresh_s"] / changes["watched_s"] <= 1
    counts = result.report["counts"]
    assert 0 < counts["in_cycle"] <= changes["pages"]
    lines = [line for line in log_lines(tmp_path / "warc") if line["kind"] == "page"]
    visits = Counter(line["visit"] for line in lines if "visit" in line)
    of_counts = {name[7:]: n for name, n in counts.items() if name.startswith("visits/")}
    assert visits == {kind: n for kind, n in of_counts.items() if kind != "gone"}
    assert all(line["last_visit"] < line["time"] for line in lines if "visit" in line)
    assert "Visited again: " in result.output
