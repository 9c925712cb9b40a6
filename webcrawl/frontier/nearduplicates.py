"""The first page with nearly some text (FOLLOW_NEAR_DUPLICATES).

A page is compared with the first page of each band of its sketch (`parse.likeness`). If it is near
none of them, it is the first page of those of its bands that have none. As with digests
(`contents`), this is stored at the release of its lease, so the next run has both the page and its
sketch, or neither.

16 look-ups per page, and one more for each page found, 16 at most. A first page has 16 rows of 14
bytes in the store and one with its sketch and its URL, and so has each later text of a page that is
visited again, if it is near no earlier one. Memory beside the store's: the rows of pages that are
still leased, 3 KB each.
"""

from __future__ import annotations

from xxhash import xxh3_64_digest

from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Fetched, Outcome, Text
from webcrawl.parse.likeness import HASHES, bands, is_near


class NearDuplicates:
    """The first page of each band.

    fresh -- by URL, the rows of pages that are still leased
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows: dict[bytes, bytes] = {}  # all of `fresh`
        self.fresh: dict[str, list[bytes]] = {}

    def first(self, url: str, text: Text) -> str:
        """See `base.Frontier.content_seen`."""
        sketch = text.sketch
        known: dict[bytes, str] = {}  # pages with a band in common, "" if no more than that
        new = []
        for band in bands(sketch):
            key = self._row(band)
            if key is None:
                new.append(band)
            elif key not in known:
                row = self._row(key) or b""
                known[key] = row[HASHES:].decode() if is_near(row[:HASHES], sketch) else ""
        near = [each for each in known.values() if each]
        if not (near or text.is_leaf):
            key = xxh3_64_digest(sketch)
            kept = dict.fromkeys(new, key) | {key: sketch + url.encode()}
            self._rows |= kept
            self.fresh.setdefault(url, []).extend(kept)  # a spider may read an answer twice
        return "" if url in near or not near else near[0]

    def page_ended(self, url: str, outcome: Outcome) -> None:
        """Store the rows of `url`, if it was fetched; else forget them."""
        for key in self.fresh.pop(url, ()):
            row = self._rows.pop(key)
            if isinstance(outcome, Fetched):
                self._store.keep_sketch(key, row)

    def _row(self, key: bytes) -> bytes | None:
        return self._rows.get(key) or self._store.sketch(key)
