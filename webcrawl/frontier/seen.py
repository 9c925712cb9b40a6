"""The URL-seen test: has this URL been put before?

Owns the fingerprints of all URLs ever put. 128-bit XXH3, keyed by a number drawn for each crawl:
a hostile page cannot compute two URLs that collide, and by the birthday bound a billion honest
ones collide with probability 1.5e-21.
"""

from __future__ import annotations

import secrets

from xxhash import xxh3_128_digest


class SeenSet:
    """In memory: about 100 bytes a URL."""

    __slots__ = ("_key", "_seen")

    def __init__(self) -> None:
        self._key = secrets.randbits(64)
        self._seen: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, url: str) -> bool:
        """True when `url` (canonical) is new; it is then known."""
        fingerprint = xxh3_128_digest(url.encode(), self._key)
        before = len(self._seen)
        self._seen.add(fingerprint)
        return len(self._seen) > before
