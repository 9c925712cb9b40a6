"""Which hub has a host: by the hash of its registered domain, in 4,096 buckets.

All hosts of a registered domain are at one hub, so its cap and its place in the order are exact,
and most links stay at the hub. The number of hubs is fixed when a crawl begins. Nothing else
decides, except the Public Suffix List: all machines must have the same `SUFFIX_LIST`.

Addresses and names without a dot are their own domain (`parse.domains`).
"""

from __future__ import annotations

from importlib.metadata import version
from itertools import pairwise
from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.parse.domains import registered_domain

BUCKETS: Final = 4096
HUBS_MAX: Final = 256  # each has a session with each other one
SUFFIX_LIST: Final = f"tldextract {version('tldextract')}"  # it ships the list (parse.domains)


def bucket_of(host: str) -> int:
    """The bucket of a canonical `host`. 0.4 µs if its domain is cached, else 4 µs."""
    return xxh3_64_intdigest(registered_domain(host).encode()) % BUCKETS


class Buckets:
    """The buckets of each of `hubs` hubs: as many for each, give or take one.

    ranges -- by hub: its first bucket, and the first one behind it
    """

    def __init__(self, hubs: int) -> None:
        if not 1 <= hubs <= HUBS_MAX:
            raise ValueError(f"{hubs} hubs: allowed are 1 to {HUBS_MAX}")
        ends = [hub * BUCKETS // hubs for hub in range(hubs + 1)]
        self.ranges: Final = tuple(pairwise(ends))
        self._hubs = [
            hub for hub, (first, end) in enumerate(self.ranges) for _ in range(first, end)
        ]

    def hub_of(self, host: str) -> int:
        """The hub that has a canonical `host`. O(1), see `bucket_of`."""
        return self._hubs[bucket_of(host)]

    def abroad(self, hub: int) -> Abroad:
        """The other hubs, as `hub` sees them."""
        return Abroad(self, hub)


class Abroad:
    """A `frontier.mailbox.Abroad`: the hubs of `buckets` except `hub`."""

    def __init__(self, buckets: Buckets, hub: int) -> None:
        self._hubs = buckets._hubs
        self._hub = hub

    def hub_of(self, host: str) -> int | None:
        """The hub that has a canonical `host`; None if it is our own."""
        hub = self._hubs[bucket_of(host)]
        return None if hub == self._hub else hub
