"""Which URLs only a sitemap has given so far: for the count of pages that no page links to.

Memory: nothing before the first such URL, then 4 MB. Exact for some 100,000 URLs at a time; beyond,
a URL may replace another one, whose page then stays counted. It is of one run: a page stays
counted if it is fetched in one run and linked in another.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import LISTED, Link

_BUCKETS: Final = 1 << 17
_WAYS: Final = 4  # slots of a bucket
_FETCHED, _LINKED = 1, 2  # the lowest bits of a slot
_BITS: Final = _FETCHED | _LINKED


class ListedUrls:
    """Hashes of URLs, in buckets of four slots. 1 µs per call. `has_any`: there was a URL."""

    __slots__ = ("_counters", "_slots", "has_any")

    def __init__(self, counters: Counters) -> None:
        """`counters.sitemaps` gets "found" and "only"."""
        self._counters = counters
        self.has_any = False
        self._slots: array[int] | None = None

    def count(self, links: Sequence[Link], added: Sequence[bool]) -> None:
        """Note which of `links`, and whether each was new, are of a sitemap or of a page."""
        for link, new in zip(links, added, strict=True):
            if link.sitemap != LISTED:
                if not new and self.linked(link.url):
                    self._counters.sitemaps["only"] -= 1
            elif new:
                self._counters.sitemaps["found"] += 1
                self.add(link.url)

    def add(self, url: str) -> None:
        """A sitemap gave `url`, which was new."""
        if self._slots is None:
            self._slots, self.has_any = array("q", bytes(8 * _BUCKETS * _WAYS)), True
        key, start = _place(url)
        slots = self._slots
        free = (n for n in range(start, start + _WAYS) if not slots[n])
        slots[next(free, start + (key >> 40) % _WAYS)] = key

    def linked(self, url: str) -> bool:
        """A page links to `url`. Returns whether its page was counted (`fetched`)."""
        at = self._find(url)
        if at < 0:
            return False
        assert self._slots is not None
        was_fetched = bool(self._slots[at] & _FETCHED)
        self._slots[at] = 0 if was_fetched else self._slots[at] | _LINKED
        return was_fetched

    def fetched(self, url: str) -> None:
        """The page `url`, of a sitemap, was answered: count it unless a page links to it."""
        at = self._find(url)
        if at < 0:  # of an earlier run
            self.add(url)
            at = self._find(url)
        assert self._slots is not None
        if self._slots[at] & _LINKED:
            self._slots[at] = 0
        else:
            self._slots[at] |= _FETCHED
            self._counters.sitemaps["only"] += 1

    def _find(self, url: str) -> int:
        """The slot of `url`, -1 if it has none."""
        slots = self._slots
        if slots is None:
            return -1
        key, start = _place(url)
        for at in range(start, start + _WAYS):
            if slots[at] & ~_BITS == key:
                return at
        return -1


def _place(url: str) -> tuple[int, int]:
    """(a hash without the lowest bits and never 0, the first slot of its bucket)."""
    key = hash(url) & ~_BITS or _BITS + 1
    return key, (key >> 2) % _BUCKETS * _WAYS
