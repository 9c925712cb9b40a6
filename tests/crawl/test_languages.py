"""LANGUAGES and FRONTIER_ORDER=language on a web of which some hosts are Portuguese, some declare
the wrong language, and some turn after four pages.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.crawl.crawling import Result, assert_clean, crawl
from tests.crawl.crawllog import log_lines
from tests.crawl.knownsite import records
from tests.forked import running
from webcrawl.warc.captures import lines_of

pytestmark = pytest.mark.slow

WEB = (
    *("--seed", "2", "--hosts", "50", "--ips", "50", "--seeds", "50", "--br-share", "0"),
    *("--pages-per-host", "40", "--page-bytes", "3000", "--features", "none,language-*"),
    *("--host-delay", "0", "--partial"),
)
# More hosts may be asked than are asked.
BUSY = {"DOWNLOAD_DELAY": 0, "IP_DELAY": 0, "CONCURRENT_REQUESTS": 4}
PAGES = 300


def crawled(folder: Path, **settings: Any) -> tuple[Result, int]:
    """A crawl of PAGES pages, and how many of them are Portuguese."""
    with running(*WEB) as web:
        result = crawl(folder, web=web, CLOSESPIDER_PAGECOUNT=PAGES, **BUSY, **settings)
        fetched = web.ledger()["fetched"]
    assert_clean(result)
    assert fetched["pages"] == PAGES
    return result, fetched["languages"]["pt"]


@pytest.fixture(scope="module")
def wanted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, int]:
    settings = {"FRONTIER_ORDER": "language", "LANGUAGES": "pt", "CRAWL_PROCESSES": 2}
    return crawled(tmp_path_factory.mktemp("wanted"), **settings)


def test_twice_as_many_wanted_pages_as_by_level(tmp_path: Path, wanted: tuple[Result, int]) -> None:
    _, by_level = crawled(tmp_path / "level")
    assert wanted[1] >= 2 * by_level, by_level


def test_each_look_is_counted_and_recorded(wanted: tuple[Result, int]) -> None:
    result, _ = wanted
    pages = {line["url"]: line for line in log_lines(result.folder / "warc")}
    found = {
        url: line.get("detected_language", "") for url, line in pages.items() if "lang" in line
    }
    looks = Counter(code for code in found.values() if code)
    assert looks.keys() == {"por", "eng"}
    assert PAGES / 5 < looks.total() < PAGES
    assert {f"languages/{code}": n for code, n in looks.items()}.items() <= (
        result.report["counts"].items()
    )
    assert f"Languages of the pages looked at: {looks.total()} (" in result.output
    recorded = {
        record.url: dict(lines_of(record.block)).get("detectedLanguage", "")
        for path in result.warcs
        for record in records(path)
        if record.type == "metadata"
    }
    assert {url: recorded[url] for url in found} == found
