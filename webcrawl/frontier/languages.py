"""Which hosts have pages in the languages that a crawl wants (LANGUAGES), by a sample of the pages.

A look at the text of a page costs a third of the page. So the text of a host's first pages is
looked at, then of one page in so many, by which hosts are found that turn late. For the other pages
the language counts that their HTML declares, if it was right for the pages that were looked at.

Owns the numbers of each host: a row of 8 bytes and some 40 of key and filter in the store, and in
memory a cache of 2 MB. The process that fetches a page finds its language, the outcome brings it.
All methods are O(1).
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from webcrawl.frontier.caps import Counts
from webcrawl.frontier.lease import Fetched
from webcrawl.parse.language import iso_639_3

FIRST: Final = 3  # pages of a host that are looked at
EVERY: Final = 10  # then one page in so many
_MEMORY: Final = 8  # at so many pages both numbers of a share are halved: a host may turn
_RIGHT: Final = 2  # so many declarations in a row must be right, until one counts by itself
_NO_PAGE: Final = 0.5  # the share of a host of which no page's language is known


class HostLanguages:
    """The share of wanted pages of each host.

    `counts`: by host five bytes. Looks, FIRST at most; pages of known language, and the wanted ones
    of them; pages since the last look, EVERY at most; right declarations in a row, _RIGHT at most.
    """

    def __init__(self, counts: Counts) -> None:
        self._counts = counts

    def is_sampled(self, host: str) -> bool:
        """Whether the text of the next page of `host` is to be looked at."""
        looks, _, _, since, _ = self._of(host)
        return looks < FIRST or since >= EVERY - 1

    def share(self, host: str) -> float:
        """Of wanted pages among those of known language, lately: 0 to 1, at first a little more."""
        _, known, wanted, _, _ = self._of(host)
        return (wanted + 0.5) / (known + 0.5) if known else _NO_PAGE

    def fetched(self, host: str, outcome: Fetched, wanted: Container[str]) -> None:
        """A page of `host` was answered. `wanted`: ISO 639-3."""
        looks, known, matching, since, right = self._of(host)
        code, declared = outcome.detected_language, iso_639_3(outcome.declared_language)
        if code:
            looks, since = min(looks + 1, FIRST), 0
            if declared:
                right = min(right + 1, _RIGHT) if declared == code else 0
        else:
            since = min(since + 1, EVERY)
            code = declared if right == _RIGHT else ""
        if code:
            known, matching = known + 1, matching + (code in wanted)
            if known == _MEMORY:
                known, matching = known // 2, matching // 2
        self._counts[host] = int.from_bytes((looks, known, matching, since, right))

    def _of(self, host: str) -> bytes:
        return self._counts.get(host, 0).to_bytes(5)
