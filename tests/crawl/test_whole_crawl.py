"""Whole crawls of a simulated web, judged by its ledger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from simweb import running
from tests.crawl.crawling import Crawl, assert_clean, assert_faultless, crawl
from webcrawl.tools.warccheck.check import check

pytestmark = pytest.mark.slow

# No host of this world is much larger than the others, so that none makes each crawl long.
SMALL = ("--seed", "33", "--hosts", "40", "--pages-per-host", "6", "--page-bytes", "3000")
# More hosts with fewer pages: the three worlds together have 86 kinds of hosts and pages.
MIXED = ("--hosts", "60", "--pages-per-host", "4", "--page-bytes", "3000")
PROMISES = ("--host-delay", "0.1", "--ip-delay", "0.02", "--slowness", "0.2")
LIES = (
    "chunked over a plain body",
    "Content-Length is",
)  # false framing, as sent
STATS_LINE = re.compile(
    r"\[ *\d+\] \d+ Q +\d+ E +\d+ H +\d+ D +\d+ I +\d+ R +\d+ C +\d+ L +\d+K$", re.MULTILINE
)


@pytest.mark.parametrize("seed", [27, 54])
def test_every_page_is_fetched_once_and_politely(tmp_path: Path, seed: int) -> None:
    with running("--seed", str(seed), *MIXED, *PROMISES) as web:
        result = crawl(tmp_path, web=web, DOWNLOAD_TIMEOUT=3)
        ledger = assert_faultless(web)
    assert result.exit_code == 0
    assert_clean(result)
    assert STATS_LINE.search(result.output)
    assert ledger["fetched"]["pages"] > 100
    problems = [problem for path in result.warcs for problem in check(path)]
    assert [problem for problem in problems if not any(lie in problem for lie in LIES)] == []


@pytest.mark.parametrize(
    ("order", "store"), [("depth", "memory"), ("least-visited", "memory"), ("opic", "disk")]
)
def test_other_orderings_fetch_the_same_pages(tmp_path: Path, order: str, store: str) -> None:
    with running(*SMALL, *PROMISES) as web:
        result = crawl(tmp_path, web=web, FRONTIER_ORDER=order, FRONTIER_STORE=store)
        assert_faultless(web)
    assert_clean(result)


@pytest.mark.parametrize("processes", [1, 2])
def test_protego_reads_robots_txt_for_a_polite_crawl(tmp_path: Path, processes: int) -> None:
    """With two processes its rules travel from the worker to the frontier.

    Only kinds of robots.txt that Protego reads as RFC 9309 has them.
    """
    features = "none,robots-some=5,robots-token=2,robots-other-token,robots-disallow-all"
    with running(*SMALL, *PROMISES, "--seed=18", "--hosts=120", f"--features={features}") as web:
        settings = {"ROBOTS_PARSER": "protego", "CRAWL_PROCESSES": processes}
        result = crawl(tmp_path, web=web, **settings)
        ledger = assert_faultless(web)
    assert_clean(result)
    assert ledger["fetched"]["pages"] > 100
    assert result.report["counts"]["dropped/robots"] > 0


def test_a_scope_suffix_limits_the_crawl(tmp_path: Path) -> None:
    with running(*SMALL, *PROMISES, "--scope-suffix", ".br") as web:
        result = crawl(tmp_path, web=web, SCOPE_SUFFIXES=".br")
        assert_faultless(web)
    assert_clean(result)


def test_the_numbers_agree_with_the_ledger(tmp_path: Path) -> None:
    features = "none,page-redirect*,page-404,page-chunked,page-gzip,dns-nxdomain,robots-none"
    with running(*SMALL, *PROMISES, "--features", features) as web:
        result = crawl(tmp_path, web=web)
        ledger = assert_faultless(web)
    counts, totals = result.report["counts"], ledger["totals"]
    assert counts["crawled"] == totals["pages"]
    assert counts["codes/2xx"] == totals["pages_2xx"]
    assert counts["links"] == totals["links"]
    assert counts["robots_attempted"] == totals["robots"]
    assert counts["resolved"] == ledger["fetched"]["hosts"]
    assert counts["page_bytes"] + counts["robots_bytes"] >= totals["bytes"]
    assert counts["pending"] == 0


def test_head_first_asks_each_page_twice_and_politely(tmp_path: Path) -> None:
    with running("--hosts", "10", "--pages-per-host", "4", "--features", "none", *PROMISES) as web:
        result = crawl(tmp_path, web=web, HEAD_FIRST=1)
        assert_faultless(web)
    assert_clean(result)


def test_a_debug_log_has_one_line_per_page(tmp_path: Path) -> None:
    with running("--hosts", "5", "--pages-per-host", "4", "--features", "none", *PROMISES) as web:
        quiet = crawl(tmp_path / "a", web=web)
        web.reset()
        loud = crawl(tmp_path / "b", web=web, LOG_LEVEL="DEBUG")
        pages = web.ledger()["totals"]["pages"]
    assert "http://" not in quiet.log
    lines = [line for line in loud.log.splitlines() if " DEBUG: 200 " in line]
    assert len(lines) == pages


def test_an_empty_frontier_before_the_target_is_a_bad_seed(tmp_path: Path) -> None:
    with running("--hosts", "2", "--pages-per-host", "2", "--features", "none", *PROMISES) as web:
        result = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=1000)
    assert result.exit_code == 1
    assert "bad seed" in result.log


def test_ctrl_c_ends_the_crawl_before_hanging_downloads_end(tmp_path: Path) -> None:
    features = "default,page-hang=300"
    with running("--hosts", "2000", "--features", features, "--partial", *PROMISES) as web:
        running_crawl = Crawl(tmp_path, web=web, DOWNLOAD_TIMEOUT=60, CLOSE_GRACE=1)
        running_crawl.until("*** crawling", times=3)  # by now some fetches hang
        running_crawl.interrupt()
        result = running_crawl.wait(40)
    assert_clean(result)
    assert "HTTP codes:" in result.output
    assert result.report["counts"]["under_way"] == 0
    assert not list((tmp_path / "warc").glob("*.open"))
    assert result.warcs


def test_a_second_ctrl_c_ends_the_crawl_at_once(tmp_path: Path) -> None:
    with running("--hosts", "500", "--features", "none,page-hang", "--partial", *PROMISES) as web:
        running_crawl = Crawl(tmp_path, web=web, DOWNLOAD_TIMEOUT=60, CLOSE_GRACE=60)
        running_crawl.until("*** crawling", times=3)  # by now some fetches hang
        running_crawl.interrupt_twice()
        result = running_crawl.wait(40)  # CLOSE_GRACE alone is longer
    assert result.exit_code == 0
    assert "Received SIGINT twice, forcing unclean shutdown" in result.log
    assert "Traceback" not in result.log


def test_a_cap_of_one_page_makes_a_survey(tmp_path: Path) -> None:
    with running("--survey", "3000", *PROMISES) as web:
        result = crawl(tmp_path, web=web, FOLLOW_LINKS=0, MAX_PAGES_PER_HOST=1, MAX_PAGES_PER_IP=1)
        ledger = web.ledger()
    assert_clean(result)
    counts, truth = result.report["counts"], ledger["survey"]
    assert counts["extracted"] == len(set((tmp_path / "seeds.txt").read_text().split()))
    assert counts["host_passed"] == counts["lookups"] == truth["hosts"]
    assert counts["resolved"] == truth["hosts_in_dns"]
    assert counts["ip_passed"] == counts["robots_attempted"] == truth["addresses"]
    assert counts["robots/4xx"] == truth["robots_4xx"]
    assert counts["robots_passed"] == counts["crawled"] == truth["robots_allowed"]
    for family in ("2xx", "3xx", "4xx", "5xx"):
        assert counts[f"codes/{family}"] == truth[f"pages_{family}"]


def test_seeds_come_from_standard_input(tmp_path: Path) -> None:
    with running("--hosts", "5", "--pages-per-host", "3", "--features", "none", *PROMISES) as web:
        seeds = "# a comment\n\n" + "\n".join(web.seeds) + "\nnot a url\n"
        result = Crawl(tmp_path, "-", web=web, stdin=seeds.encode()).wait()
        assert_faultless(web)
    assert "not a url" in result.log
