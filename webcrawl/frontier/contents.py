"""The content-seen test: which page had a content first, and which was sent in the same bytes.

Pages are compared twice: by their content, codings removed, and by the body as it was sent, since
only pages that were sent in the same form can share one body in an archive. What a page was first
with is kept with the end of its lease, so both are in the next run, or neither. Memory beside the
store's: the digests of pages that are still leased.

A page that is not in the archive is kept as the first with its content, without a payload digest:
later pages are duplicates of it, and none is a revisit.
"""

from __future__ import annotations

from webcrawl.frontier.lease import Fetched, Outcome
from webcrawl.frontier.store import Store
from webcrawl.items import Original
from webcrawl.warc.records import raw_digest

# Stands before the digest of a body as sent. A plain page has the same digest as its content, and
# one row; any other two at most: 150 bytes on disk, and 100 in memory, each.
_SENT = b"w"


class Contents:
    """The first page of each digest."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._fresh: dict[bytes, Original] = {}  # of pages that are still leased
        self._fresh_of: dict[str, list[bytes]] = {}  # the digests of each of them, by URL

    def content_seen(self, content: bytes, original: Original) -> Original | None:
        """See `base.Frontier`. Three look-ups at most."""
        url, _, digest = original
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
        """Keep what `url` was the first to have if it was fetched, forget it if not."""
        for digest in self._fresh_of.pop(url, ()):
            original = self._fresh.pop(digest)
            if not isinstance(outcome, Fetched):
                continue
            if not outcome.archived and original.url == url:  # and not another page that is
                if _is_sent(digest, original):
                    continue
                original = original._replace(payload_digest="")
            self._store.keep_original(digest, original)

    def _first(self, digest: bytes) -> Original | None:
        return self._fresh.get(digest) or self._store.original(digest)

    def _keep(self, digest: bytes, original: Original, url: str) -> None:
        """Until the lease of `url` ends."""
        self._fresh[digest] = original
        self._fresh_of.setdefault(url, []).append(digest)


def _is_sent(digest: bytes, original: Original) -> bool:
    """Whether `digest`, which `original` was first with, is that of its body as sent."""
    sent = original.payload_digest
    return bool(sent) and digest == _SENT + raw_digest(sent)
