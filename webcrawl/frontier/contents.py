"""The content-seen test: which page had a content first.

A content is kept with the end of its page's lease, so both are in the next run, or neither. Memory
beside the store's: the contents of pages that are still leased.
"""

from __future__ import annotations

from webcrawl.frontier.lease import Fetched, Outcome
from webcrawl.frontier.store import Store
from webcrawl.items import Original


class Contents:
    """Contents by digest, and whether the links of any copy were followed."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: dict[bytes, Original] = {}  # of pages that are still leased
        self._fresh_of: dict[str, tuple[bytes, Original]] = {}  # what each of them tells, by URL

    def first_with(self, content: bytes, original: Original) -> Original | None:
        """See `base.Frontier`."""
        first = self._fresh.get(content) or self._store.original(content)
        known = first or original
        if original.followed and not known.followed:
            known = known._replace(followed=True)
        if known is not first:
            self._fresh[content] = known
            self._fresh_of[original.url] = content, known
        return None if first is None or first.url == original.url else first

    def page_ended(self, url: str, outcome: Outcome) -> None:
        """Keep what `url` had to tell if it was fetched, forget it if not."""
        if url not in self._fresh_of:
            return
        content, known = self._fresh_of.pop(url)
        fresh = self._fresh.pop(content, None)
        if isinstance(outcome, Fetched):
            # While ours is the last word on a content, the store has heard of no other.
            first = known if fresh is known else self._store.original(content) or known
            followed = first.followed or known.followed
            self._store.keep_original(content, first._replace(followed=followed))
