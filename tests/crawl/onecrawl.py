"""Several runs, or several processes, that must be one crawl to the servers and in the archive."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence

from tests.crawl.crawling import Result, assert_clean
from tests.crawl.knownsite import records
from webcrawl.simweb import Running, faults
from webcrawl.warc.check import check

HOST_DELAY_S = 0.1  # promised by all crawls that are killed


def assert_one_crawl(
    web: Running,
    result: Result,
    may_come_again: int,
    *,
    whole: bool = True,
    unheard: Sequence[str] = (),
) -> Counter[str]:
    """As if it had never been killed, save that what was leased may be asked for again.

    `unheard` are the hosts whose robots.txt was leased: of a Crawl-delay in it the next run cannot
    know (docs/durability.md), and asks again after its own delay.

    The pages in the archive, and how often each is there with an answer that is final.
    """
    assert result.exit_code == 0, result.log[-3000:]
    assert_clean(result)
    ledger = web.ledger()
    violations = ledger["violations"]
    again = violations.pop("twice")
    assert again["count"] <= may_come_again, again
    early = violations["early_host"]
    excused = [example for example in early["examples"] if is_excused(example, unheard)]
    early["count"] -= len(excused)
    early["examples"] = [each for each in early["examples"] if each not in excused]
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


def is_excused(early: str, unheard: Sequence[str]) -> bool:
    """Whether it was one of `unheard`, for its robots.txt, after the crawl's own delay."""
    waited_s, *_, host, target = early.split()
    return host in unheard and target == "/robots.txt" and float(waited_s) >= HOST_DELAY_S
