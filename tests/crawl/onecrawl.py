"""Several runs, or several processes, that must be one crawl to the servers and in the archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from simweb import Running, faults
from tests.crawl.crawling import Result, assert_clean
from tests.crawl.knownsite import records
from webcrawl.parse.urls import host_of
from webcrawl.warc.check import check

HOST_DELAY_S = 0.1  # promised by all crawls that are killed


def assert_one_crawl(
    web: Running,
    result: Result,
    may_come_again: int,
    *,
    whole: bool = True,
    leased: Sequence[str] | None = None,
) -> Counter[str]:
    """As if it had never been killed, save that what was leased may be asked for again.

    `leased` are the URLs of which that is known; a look-up in DNS has "". Of a Crawl-delay or a
    Retry-After in an answer to one of these the next run cannot know (docs/durability.md), and
    waits its own delay.

    The pages in the archive, and how often each is there with an answer that is final.
    """
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    ledger = web.ledger()
    violations = ledger["violations"]
    again = violations.pop("twice")
    assert again["count"] <= may_come_again, again
    for kind in ("early_host", "early_retry"):
        early = violations[kind]
        excused = [each for each in early["examples"] if is_excused(kind, each, leased)]
        early["count"] -= min(len(excused), may_come_again)
        early["examples"] = [each for each in early["examples"] if each not in excused]
    if not whole:
        ledger["missing"]["count"] = 0
    assert not faults(ledger), json.dumps(faults(ledger), indent=1)
    counts = result.report["counts"]
    dropped = sum(n for name, n in counts.items() if name.startswith("dropped/"))
    assert counts["pending"] == 0, "nothing failed in a way that may pass"
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


def is_excused(kind: str, early: str, leased: Sequence[str] | None) -> bool:
    """Whether the answer that asked to wait can have been lost, and the crawl's own delay is over.

    A Crawl-delay is lost with a robots.txt, which is then asked for again.
    """
    waited_s, *_, host, target = early.split()
    urls = leased
    if kind == "early_host":
        if target != "/robots.txt":
            return False
        urls = leased and [url for url in leased if url.endswith(target)]
    lost = urls is None or host in map(host_of, filter(None, urls))
    return lost and float(waited_s) >= HOST_DELAY_S
