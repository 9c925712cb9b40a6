"""Which shard has a host: by the hash of its registered domain, in 4,096 buckets.

All hosts of a registered domain are in one shard, so its cap and its place in the order are exact,
and most links stay in the shard. The number of shards is fixed when a crawl begins. Nothing else
decides, except the Public Suffix List: all nodes must have the same `SUFFIX_LIST`.

Addresses and names without a dot are their own domain (`parse.domains`).
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.parse.domains import registered_domain

BUCKETS: Final = 4096
SUFFIX_LIST: Final = f"tldextract {version('tldextract')}"  # it ships the list (parse.domains)


def bucket_of(host: str) -> int:
    """The bucket of a canonical `host`. 0.4 µs if its domain is cached, else 4 µs."""
    return xxh3_64_intdigest(registered_domain(host).encode()) % BUCKETS


class Buckets:
    """The buckets of each of `shards` shards: as many for each, give or take one.

    ranges -- by shard: its first bucket, and the first one behind it
    """

    def __init__(self, shards: int) -> None:
        if not 1 <= shards <= BUCKETS:
            raise ValueError(f"{shards} shards: allowed are 1 to {BUCKETS}")
        ends = [shard * BUCKETS // shards for shard in range(shards + 1)]
        self.ranges: Final = tuple(pairwise(ends))
        self._shards = [
            shard for shard, (first, end) in enumerate(self.ranges) for _ in range(first, end)
        ]

    def shard_of(self, host: str) -> int:
        """The shard that has a canonical `host`. O(1), see `bucket_of`."""
        return self._shards[bucket_of(host)]

    def abroad(self, shard: int) -> Abroad:
        """The other shards, as `shard` sees them."""
        return Abroad(self, shard)


class Abroad:
    """A `frontier.mailbox.Abroad`: the shards of `buckets` except `shard`."""

    def __init__(self, buckets: Buckets, shard: int) -> None:
        self._shards = buckets._shards
        self._shard = shard

    def shard_of(self, host: str) -> int | None:
        """The shard that has a canonical `host`; None if it is our own."""
        shard = self._shards[bucket_of(host)]
        return None if shard == self._shard else shard
