"""A crawl that visits its pages again, killed in between, on a web that changes (RECRAWL)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from simweb import Running, faults
from tests.crawl.crawling import Crawl, assert_clean, until
from tests.crawl.crawllog import log_lines
from tests.forked import running
from webcrawl.frontier.counters import NO_VISITS

CYCLE_S = 3
WORLD = (
    *("--seed", "7", "--hosts", "5", "--pages-per-host", "6"),
    *("--page-bytes", "3000", "--host-delay", "0.1", "--partial", "--changes", str(CYCLE_S)),
)


def until_visited(web: Running, times: int) -> None:
    """Wait until the ledger has seen each page `times` times more, on the average."""
    begun = web.ledger()["changes"]["visits"]

    def are_visited() -> bool:
        seen = web.ledger()["changes"]
        return bool(seen["pages"] > 20 and seen["visits"] >= begun + times * seen["pages"])

    until(are_visited)


PLAIN, WITH_MAPS = "none,page-404", "none,page-404,robots-some=1,map-none=0.1,map-plain=1"


@pytest.mark.parametrize(
    ("mode", "processes", "features"),
    [("fixed", 2, WITH_MAPS), ("adaptive", 1, PLAIN)],
    ids=["fixed", "adaptive"],
)
def test_pages_are_visited_again_also_after_a_kill(
    tmp_path: Path, mode: str, processes: int, features: str
) -> None:
    with running(*WORLD, "--features", features) as web:

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
        crawl.kill()
        crawl = start()
        until_visited(web, 1)
        crawl.interrupt()
        result = crawl.wait()
        report = web.ledger()
    assert_clean(result)
    assert faults(report) == []
    changes = report["changes"]
    assert changes["visited"] > 0.8 * changes["pages"], "a kill loses no page"
    assert 0.3 < changes["fresh_s"] / changes["watched_s"] <= 1
    counts = result.report["counts"]
    sitemaps = 5 if features == WITH_MAPS else 0
    assert 0 < counts["in_cycle"] <= changes["pages"] + sitemaps
    assert (counts.get("visits/sitemap", 0) > 0) == (features == WITH_MAPS)
    lines = [line for line in log_lines(tmp_path / "warc") if line["kind"] in ("page", "sitemap")]
    visits = Counter(line["visit"] for line in lines if "visit" in line)
    of_counts = {name[7:]: n for name, n in counts.items() if name.startswith("visits/")}
    assert visits == {kind: n for kind, n in of_counts.items() if kind not in NO_VISITS}
    assert all(line["last_visit"] < line["time"] for line in lines if "visit" in line)
    assert "Visited again: " in result.output
