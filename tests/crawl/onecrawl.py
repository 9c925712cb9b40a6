"""Several runs, or several processes, that must be one crawl to the servers and in the archive."""

from __future__ import annotations

import json
from collections import Counter

from tests.crawl.crawling import Result, assert_clean
from tests.crawl.knownsite import records
from webcrawl.simweb import Running, faults
from webcrawl.warc.check import check

HOST_DELAY_S = 0.1  # promised by all crawls that are killed


def assert_one_crawl(
    web: Running, result: Result, may_come_again: int, *, whole: bool = True
) -> Counter[str]:
    """As if it had never been killed, save that what was leased may be asked for again.

    The pages in the archive, and how often each is there with an answer that is final.
    """
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    ledger = web.ledger()
    violations = ledger["violations"]
    again = violations.pop("twice")
    assert again["count"] <= may_come_again, again
    early = violations["early_host"]
    if 0 < early["count"] <= may_come_again and all(map(is_unheard, early["examples"])):
        del violations["early_host"]
    if not whole:
        ledger["missing"]["count"] = 0
    assert not faults(ledger), json.dumps(faults(ledger), indent=1)
    counts = result.report["counts"]
    dropped = sum(n for name, n in counts.items() if name.startswith("dropped/"))
    assert counts["pending"] == 0
    assert counts["crawled"] == ledger["fetched"]["pages"]
    assert counts["extracted"] == counts["crawled"] + dropped
    assert not list((result.folder / "warc").glob("*.open"))
    pages: Counter[str] = Counter()
    for path in result.warcs:
        assert check(path) == []
        for each in records(path):
            if each.type in ("response", "revisit") and not each.url.endswith("/robots.txt"):
                pages[each.url] += not each.block.startswith(b"HTTP/1.1 503")  # that is retried
    assert len(pages) == counts["crawled"], "a finished page is not in the archive"
    return pages


def is_unheard(early: str) -> bool:
    """Whether who asked too early could not know: it was killed before it had committed the
    robots.txt with the Crawl-delay, and asked for that again after its own delay.
    """
    waited_s, *_, target = early.split()
    return target == "/robots.txt" and float(waited_s) >= HOST_DELAY_S
