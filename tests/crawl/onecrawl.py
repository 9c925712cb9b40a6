"""Asserts that several runs or processes look like one crawl, to the servers and in the archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from simweb import Running, faults
from tests.crawl.crawling import Result, assert_clean
from tests.crawl.crawllog import assert_log
from tests.crawl.joined import assert_joined
from tests.crawl.knownsite import records
from webcrawl.parse.urls import host_of
from webcrawl.tools.warccheck.check import check
from webcrawl.warc.index import index_path

HOST_DELAY_S = 0.1  # the delay of all crawls that are killed


def assert_one_crawl(
    web: Running,
    result: Result,
    may_come_again: int,
    *,
    whole: bool = True,
    leased: Sequence[str] | None = None,
) -> Counter[str]:
    """Assert that a killed crawl looks as if it had never been killed, except for leased URLs.

    Leased URLs may be requested again. `leased` has these URLs, as far as they are known; a DNS
    look-up has "". The next run cannot know a Crawl-delay or a Retry-After in the answer to such a
    URL (docs/durability.md), and waits its own delay.

    Returns the pages in the archive, and how often each is there with a final answer.
    """
    assert_clean(result)
    ledger = assert_no_fault_but_of_kills(web, may_come_again, whole=whole, leased=leased)
    counts = result.report["counts"]
    dropped = sum(n for name, n in counts.items() if name.startswith("dropped/"))
    assert counts["pending"] == 0, "nothing failed in a way that may pass"
    assert counts["crawled"] == ledger["fetched"]["pages"]
    assert counts["extracted"] == counts["crawled"] + dropped
    assert_log(result)
    assert_joined(result.folder / "warc")
    assert not list((result.folder / "warc").glob("*.open"))
    assert len(list((result.folder / "warc").glob("*.cdxj"))) == len(result.warcs)
    pages: Counter[str] = Counter()
    for path in result.warcs:
        assert check(path) == []
        assert index_path(path).exists()
        for each in records(path):
            if each.type in ("response", "revisit") and not each.url.endswith("/robots.txt"):
                pages[each.url] += not each.block.startswith(b"HTTP/1.1 503")  # a 503 is retried
    assert len(pages) == counts["crawled"], "a finished page is not in the archive"
    return pages


def assert_no_fault_but_of_kills(
    web: Running,
    may_come_again: int,
    *,
    whole: bool = True,
    leased: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Assert that the ledger has no fault but those of so many lost leases; return the ledger."""
    ledger = web.ledger()
    violations = ledger["violations"]
    again = violations["twice"]["count"]
    assert again <= may_come_again, violations["twice"]
    violations["twice"]["count"] = 0
    for kind in ("early_host", "early_retry"):
        early = violations[kind]
        excused = [each for each in early["examples"] if is_excused(kind, each, leased)]
        early["count"] -= min(len(excused), may_come_again)
        early["examples"] = [each for each in early["examples"] if each not in excused]
    if not whole:
        ledger["missing"]["count"] = 0
    assert not faults(ledger), json.dumps(faults(ledger), indent=1)
    ledger["again"] = again
    return ledger


def is_excused(kind: str, early: str, leased: Sequence[str] | None) -> bool:
    """Whether the answer with the longer delay can be lost, and the crawl waited its own delay.

    A Crawl-delay is lost together with its robots.txt, which is then requested again.
    """
    waited_s, *_, host, target = early.split()
    urls = leased
    if kind == "early_host":
        if target != "/robots.txt":
            return False
        urls = leased and [url for url in leased if url.endswith(target)]
    lost = urls is None or host in map(host_of, filter(None, urls))
    return lost and float(waited_s) >= HOST_DELAY_S
