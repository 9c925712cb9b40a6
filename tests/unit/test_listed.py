"""listed: of more URLs than are remembered, the newest are."""

from __future__ import annotations

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.listed import ListedUrls


def test_the_newest_of_many_urls_of_sitemaps_are_known() -> None:
    counters = Counters()
    listed = ListedUrls(counters)
    for number in range(210_000):
        listed.fetched(str(number))
    assert counters.sitemaps["only"] == 210_000
    known = [listed.linked(str(number)) for number in range(210_000)]
    assert 50_000 <= sum(known) <= 100_000
    assert known == sorted(known), "the oldest are forgotten first"
