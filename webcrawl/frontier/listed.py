"""Which URLs only a sitemap has given so far: for the count of pages that no page links to.

Memory: nothing before the first such URL, then 4 MB. Exact for some 100,000 URLs that wait for a
link; beyond, a URL may replace another one, whose page is then not counted. It is of one run: a
page that a link gives in a later run stays counted.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import LISTED, Link

_BUCKETS: Final = 1 << 17
_WAYS: Final = 4  # slots of a bucket
_FETCHED: Final = 1  # the lowest bit of a slot


class ListedUrls:
    """Hashes of URLs, in buckets of four slots; false before the first. 1 µs per call."""

    __slots__ = ("_counters", "_slots")

    def __init__(self, counters: Counters) -> None:
        """`counters.sitemaps` gets "found" and "only"."""
        self._counters = counters
        self._slots: array[int] | None = None

    def __bool__(self) -> bool:
        return self._slots is not None

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
            self._slots = array("q", bytes(8 * _BUCKETS * _WAYS))
        key, start = _place(url)
        slots = self._slots
        free = (n for n in range(start, start + _WAYS) if not slots[n])
        slots[next(free, start + (key >> 40) % _WAYS)] = key

    def linked(self, url: str) -> bool:
        """A page links to `url`: forget it. Returns whether its page was counted (`fetched`)."""
        at = self._find(url)
        if at < 0:
            return False
        assert self._slots is not None
        was_fetched = bool(self._slots[at] & _FETCHED)
        self._slots[at] = 0
        return was_fetched

    def fetched(self, url: str) -> None:
        """The page `url` was answered: count it, if only a sitemap gave it."""
        at = self._find(url)
        if at >= 0:
            assert self._slots is not None
            self._slots[at] |= _FETCHED
            self._counters.sitemaps["only"] += 1

    def _find(self, url: str) -> int:
        """The slot of `url`, -1 if it has none."""
        slots = self._slots
        if slots is None:
            return -1
        key, start = _place(url)
        for at in range(start, start + _WAYS):
            if slots[at] & ~_FETCHED == key:
                return at
        return -1


def _place(url: str) -> tuple[int, int]:
    """(a hash without the lowest bit and never 0, the first slot of its bucket)."""
    key = hash(url) & ~_FETCHED or 2 * _FETCHED
    return key, (key >> 1) % _BUCKETS * _WAYS
