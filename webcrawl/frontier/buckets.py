"""Which hub has a host: by the hash of its registered domain, in 4,096 buckets.

All hosts of a registered domain are at one hub, so its cap and its place in the order are exact,
and most links stay at the hub. The number of hubs is fixed when a crawl begins. Nothing else
decides, except the Public Suffix List: all machines must have the same `SUFFIX_LIST`.

Addresses and names without a dot are their own domain (`parse.domains`).
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from typing import Final

from xxhash import xxh3_64_intdigest

from webcrawl.parse.domains import registered_domain

BUCKETS: Final = 4096
HUBS_MAX: Final = 256  # each has a session with each other one
SUFFIX_LIST: Final = f"tldextract {version('tldextract')}"  # it ships the list (parse.domains)


def bucket_of(host: str) -> int:
    """The bucket of a canonical `host`. 0.4 µs if its domain is cached, else 4 µs."""
    return xxh3_64_intdigest(registered_domain(host).encode()) % BUCKETS


def hub_of(host: str, hubs: int) -> int:
    """The hub, of `hubs` hubs, that has a canonical `host`. O(1), see `bucket_of`.

    Each hub has as many buckets in a row, give or take one: hub k begins at k * BUCKETS // hubs.
    """
    return ((bucket_of(host) + 1) * hubs - 1) // BUCKETS


def other_hubs(number: int, hubs: int) -> Callable[[str], int | None]:
    """A `frontier.mailbox.Partition`: which hub has a host, except hub `number`."""

    def hub(host: str) -> int | None:
        found = hub_of(host, hubs)
        return None if found == number else found

    return hub
