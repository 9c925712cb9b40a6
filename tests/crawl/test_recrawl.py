"""A crawl that visits its pages again, killed in between, on a web that changes (RECRAWL)."""

from __future__ import annotations

import socket
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from string import ascii_lowercase

import pytest

from simweb import Running, faults
from tests.adapters.rawserver import RawServer, path_of, read_request
from tests.crawl.crawling import Crawl, assert_clean, until
from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import answer
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
    assert result.exit_code == 0
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


CHANGES_S = (5.0, 21.0)  # of a dated site, after its first request
DATED_CYCLE_S = 16


@dataclass
class DatedSite:
    """Six pages that only a sitemap gives, with the date of their last change.

    All change at CHANGES_S. asked -- by path, when: seconds after the first request
    """

    began_time: float = 0.0
    asked: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def paths(self) -> list[str]:
        return [f"/page-{n}" for n in range(6)]

    def serve(self, connection: socket.socket) -> None:
        path = path_of(read_request(connection))
        self.began_time = self.began_time or time.time()
        now_s = time.time() - self.began_time
        self.asked[path].append(now_s)
        connection.sendall(answer(self._body(path, now_s)))

    def _body(self, path: str, now_s: float) -> bytes:
        past = [change_s for change_s in CHANGES_S if change_s <= now_s]
        if path == "/robots.txt":
            return b"Sitemap: /map.xml"
        if path == "/map.xml":
            changed_time = self.began_time + max(past, default=-100.0)
            date = datetime.fromtimestamp(changed_time, UTC).isoformat(timespec="seconds")
            each = (f"<url><loc>{to}</loc><lastmod>{date}</lastmod></url>" for to in self.paths)
            return f"<urlset>{''.join(each)}</urlset>".encode()
        random = Random(f"{path} {len(past)}")
        words = ("".join(random.choices(ascii_lowercase, k=6)) for _ in range(300))
        return f"<html><p>{' '.join(words)}".encode()


@pytest.mark.slow
def test_a_sitemap_is_read_again_and_brings_visits_forward(tmp_path: Path) -> None:
    """The dates are trusted once those of the first change have proved right."""
    site = DatedSite()
    with RawServer(site.serve) as server:
        crawl = Crawl(
            tmp_path,
            f"http://127.0.0.1:{server.port}/",
            JOBDIR=tmp_path / "job",
            ALLOW_PRIVATE_ADDRESSES=1,
            RECRAWL="fixed",
            RECRAWL_CYCLE=f"{DATED_CYCLE_S}s",
        )
        crawl.until_true(lambda: all(len(site.asked[path]) > 2 for path in site.paths))
        crawl.interrupt()
        result = crawl.wait()
    assert_clean(result)
    for path in site.paths:
        first, second, third, *_ = site.asked[path]
        assert second - first >= DATED_CYCLE_S, "the host is not trusted yet"
        assert third > CHANGES_S[1]
    assert len(site.asked["/map.xml"]) >= 6
    counts = result.report["counts"]
    assert counts["visits/brought_forward"] == len(site.paths)
    assert counts["visits/sitemap"] == len(site.asked["/map.xml"]) - 1
    assert counts["in_cycle"] == len(site.paths) + 2, "the seed and the sitemap too"
