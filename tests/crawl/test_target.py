"""Crawls with a target: they get exactly that many pages, whichever servers hang."""

from __future__ import annotations

from pathlib import Path

from simweb import Running, faults
from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.knownsite import records
from tests.forked import running

# Three pages in ten never answer, and a fetch of one would take longer than a test may. A home page
# always answers, so a target needs more pages than there are hosts.
WEB = (
    *("--hosts=30", "--seeds=30", "--pages-per-host=12", "--host-delay=0.1", "--partial"),
    "--features=page-plain=70,page-hang=30,robots-allow-all,host-plain,dns-a,origin-http,link-plain",
)
SETTINGS = {"DOWNLOAD_TIMEOUT": 900, "MAX_PAGES_PER_IP": 0, "IP_DELAY": 0}
TARGET = 60


def pages_of(result: Result) -> list[str]:
    """The URLs of the pages in the archive."""
    urls = [each.url for path in result.warcs for each in records(path)
            if each.type in ("response", "revisit")]  # fmt: skip
    return [url for url in urls if not url.endswith("/robots.txt")]


def assert_met(web: Running, result: Result, target: int, *, resumed: bool = False) -> None:
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
    assert asked == TARGET + counts["failed/timeout"], "each page too many was slow"


def test_a_page_that_was_cut_is_fetched_by_the_next_run(tmp_path: Path) -> None:
    """The last request of the first may be a HEAD."""
    more = SETTINGS | {"JOBDIR": tmp_path / "job"}
    with running(*WEB) as web:
        first = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=50, HEAD_FIRST=1, **more)
        assert_met(web, first, 50)
        web.reset()
        whole = crawl(tmp_path, web=web, CLOSESPIDER_PAGECOUNT=TARGET, **more)
        assert_met(web, whole, TARGET, resumed=True)
    assert first.report["counts"]["failed/timeout"]
