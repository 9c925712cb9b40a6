"""Which URLs only a sitemap has given so far: for the count of pages that no page links to.

Memory: 100 bytes for each such URL, _URLS_MAX at most; then the older half is forgotten, and its
pages stay counted. It is of one run: a page stays counted if it is fetched in one run and linked in
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from itertools import islice
from typing import Final

from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import LISTED, Link

_URLS_MAX: Final = 100_000
_State = Enum("_State", "FOUND FETCHED LINKED")


class ListedUrls:
    """URLs by their hash. 1 µs per call. `has_any`: there was a URL."""

    def __init__(self, counters: Counters) -> None:
        """`counters.sitemaps` gets "found" and "only"."""
        self._counters = counters
        self.has_any = False
        self._urls: dict[int, _State] = {}  # by hash

    def count(self, links: Sequence[Link], added: Sequence[bool]) -> None:
        """Note which of `links`, and whether each was new, are of a sitemap or of a page."""
        for link, new in zip(links, added, strict=True):
            if link.sitemap != LISTED:
                if not new and self.linked(link.url):
                    self._counters.sitemaps["only"] -= 1
            elif new:
                self._counters.sitemaps["found"] += 1
                self.add(link.url)

    def add(self, url: str, state: _State = _State.FOUND) -> None:
        """A sitemap gave `url`, which was new."""
        self.has_any = True
        if len(self._urls) >= _URLS_MAX:  # one by one took 0.1 ms: a dict has gaps at its front
            self._urls = dict(islice(self._urls.items(), _URLS_MAX // 2, None))
        self._urls[hash(url)] = state

    def linked(self, url: str) -> bool:
        """A page links to `url`. Returns whether its page was counted (`fetched`)."""
        state = self._urls.pop(hash(url), None)
        if state in (_State.FOUND, _State.LINKED):
            self.add(url, _State.LINKED)
        return state is _State.FETCHED

    def fetched(self, url: str) -> None:
        """The page `url`, of a sitemap, was answered: count it unless a page links to it."""
        if self._urls.pop(hash(url), None) is not _State.LINKED:  # None: of an earlier run
            self.add(url, _State.FETCHED)
            self._counters.sitemaps["only"] += 1
