"""The content-seen test: the first page with some content, and the first sent in the same bytes.

Pages are compared twice: by their content with codings removed, and by the body as it was sent,
since only pages sent in the same bytes can share one body in an archive. A page's digests are
stored at the release of its lease, so the next run has both the page and its digests, or neither.
Memory beside the store's: the digests of pages that are still leased.

A page that is not in the archive is stored as the first with its content, without a payload digest:
later pages are duplicates of it, but never WARC revisits.
"""

from __future__ import annotations

from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Fetched, Outcome
from webcrawl.warc.records import Original, raw_digest

# Prefix of the digest of a body as sent. A page without codings has one digest and one row, any
# other page at most two rows: 150 bytes each on disk, 100 in memory.
_SENT = b"w"


class Contents:
    """The first page of each digest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: dict[bytes, Original] = {}  # of pages that are still leased
        self._fresh_of: dict[str, list[bytes]] = {}  # their digests, by URL

    def content_seen(self, content: bytes, original: Original) -> Original | None:
        """See `base.Frontier`. Three look-ups at most."""
        url, digest = original.url, original.payload_digest
        same = self._first(content)
        sent_first = None
        if same is not None and same.payload_digest == digest:
            sent_first = same
        elif digest:
            sent = raw_digest(digest)
            sent_first = self._first(_SENT + sent)
            if sent_first is None and sent != content:
                plain = self._first(sent)
                sent_first = plain if plain and plain.payload_digest == digest else None
            if sent_first is None and (same is not None or sent != content):
                self._keep(_SENT + sent, original, url)
        if same is None:
            self._keep(content, sent_first or original, url)
        first = sent_first or same
        return None if first is None or first[:2] == original[:2] else first

    def page_ended(self, url: str, outcome: Outcome) -> None:
        """Store the digests that `url` had first, if it was fetched; else forget them."""
        for digest in self._fresh_of.pop(url, ()):
            original = self._fresh.pop(digest)
            if not isinstance(outcome, Fetched):
                continue
            if not outcome.archived and original.url == url:  # it is not an earlier page
                if _is_sent(digest, original):
                    continue
                original = original._replace(payload_digest="")
            self._store.keep_original(digest, original)

    def _first(self, digest: bytes) -> Original | None:
        return self._fresh.get(digest) or self._store.original(digest)

    def _keep(self, digest: bytes, original: Original, url: str) -> None:
        """Remember `original` as the first with `digest` until the lease of `url` ends."""
        self._fresh[digest] = original
        self._fresh_of.setdefault(url, []).append(digest)


def _is_sent(digest: bytes, original: Original) -> bool:
    """Whether `digest` is that of the body of `original` as sent."""
    sent = original.payload_digest
    return bool(sent) and digest == _SENT + raw_digest(sent)
