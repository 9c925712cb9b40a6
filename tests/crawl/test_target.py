"""Crawls with a target: they get exactly that many pages, whichever servers hang."""

from __future__ import annotations

from pathlib import Path

from simweb import Running, faults
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.knownsite import records
from tests.forked import running

# One page in ten never answers, and a fetch of it would take longer than a test may.
WEB = (
    *("--hosts=150", "--seeds=150", "--pages-per-host=4", "--host-delay=0.1", "--partial"),
    "--features=page-plain=90,page-hang=10,robots-allow-all,host-plain,dns-a,origin-http,link-plain",
)
SETTINGS = {"DOWNLOAD_TIMEOUT": 900, "MAX_PAGES_PER_IP": 0, "IP_DELAY": 0}
TARGET = 60


def pages_of(result: Result) -> list[str]:
    """The URLs of the pages in the archive."""
    urls = [each.url for path in result.warcs for each in records(path)
            if each.type in ("response", "revisit")]  # fmt: skip
    return [url for url in urls if not url.endswith("/robots.txt")]


def assert_met(web: Running, result: Result, target: int, *, resumed: bool = False) -> None:
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    assert result.report["finish_reason"] == "closespider_pagecount"
    assert result.report["counts"]["crawled"] == target
    pages = pages_of(result)
    assert len(pages) == len(set(pages)) == target, "beyond the target nothing is archived"
    ledger = web.ledger()
    if resumed:  # its robots rules are from before the ledger was cleared
        ledger["violations"]["before_robots"]["count"] = 0
    assert not faults(ledger), faults(ledger)


def test_other_pages_make_up_for_hanging_pages(tmp_path: Path) -> None:
    with running(*WEB) as web:
        result = crawl(
            tmp_path, web=web, CLOSESPIDER_PAGECOUNT=TARGET, CRAWL_PROCESSES=2, **SETTINGS
        )
        assert_met(web, result, TARGET)
        counts = result.report["counts"]
        asked = web.ledger()["totals"]["requests"] - web.ledger()["totals"]["robots"]
    assert asked == TARGET + counts.get("failed/timeout", 0), "each page too many was slow"


def test_a_page_that_was_cut_is_fetched_by_the_next_run(tmp_path: Path) -> None:
    """The last request of the first may be a HEAD."""
    more = SETTINGS | {"JOBDIR": tmp_path / "job"}
    with running(*WEB) as web:
        first = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=30, HEAD_FIRST=1, **more)
        assert_met(web, first, 30)
        web.reset()
        whole = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=TARGET, **more)
        assert_met(web, whole, TARGET, resumed=True)


def test_hosts_beyond_the_target_are_not_admitted(tmp_path: Path) -> None:
    """The first hosts that are admitted can meet the target alone."""
    with running(*WEB) as web:
        result = crawl(
            tmp_path,
            web=web,
            CLOSESPIDER_PAGECOUNT=20,
            CONCURRENT_REQUESTS=20,
            **SETTINGS,
        )
        assert_met(web, result, 20)
        assert web.ledger()["totals"]["robots"] < 100, "of 150 hosts"


def test_a_target_is_met_while_hanging_pages_take_all_slots(tmp_path: Path) -> None:
    settings = SETTINGS | {"CONCURRENT_REQUESTS": 4, "DOWNLOAD_TIMEOUT": 5}
    with running(*WEB) as web:
        result = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=TARGET, **settings)
        assert_met(web, result, TARGET)
