"""Whole crawls of a simulated web, judged by its ledger."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.crawl.crawling import assert_clean, assert_faultless, crawl
from tests.forked import running
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
    assert_clean(result)
    assert STATS_LINE.search(result.output)
    assert ledger["fetched"]["pages"] > 100
    problems = [problem for path in result.warcs for problem in check(path)]
    assert [problem for problem in problems if not any(lie in problem for lie in LIES)] == []


# By level and by opic on disk: test_kill and test_sitemaps.
@pytest.mark.parametrize(("order", "store"), [("least-visited", "memory")])
def test_other_orderings_fetch_the_same_pages(tmp_path: Path, order: str, store: str) -> None:
    with running(*SMALL, *PROMISES) as web:
        result = crawl(tmp_path, web=web, FRONTIER_ORDER=order, FRONTIER_STORE=store)
        assert_faultless(web)
    assert_clean(result)


def test_a_scope_suffix_limits_the_crawl(tmp_path: Path) -> None:
    with running(*SMALL, *PROMISES, "--scope-suffix", ".br") as web:
        result = crawl(tmp_path, web=web, SCOPE_SUFFIXES=".br")
        assert_faultless(web)
    assert_clean(result)
    assert "http://" not in result.log


def test_a_cap_of_one_page_makes_a_survey(tmp_path: Path) -> None:
    with running("--survey", "1500", *PROMISES) as web:
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
