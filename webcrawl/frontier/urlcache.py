"""Links that a frontier need not be given: it has their URLs already.

Most links of a page are on the other pages of its host too. Whoever makes links asks here first,
and saves their way through scope, to the frontier and through its URL-seen test. Nothing is lost by
it: a URL comes in here when the frontier has kept it, and for a URL that it has seen it does
nothing. Not for an order in which a known link counts (opic).
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Link

_SLOTS = 1 << 19


class UrlCache:
    """URLs that were put lately. 4 MB.

    A table of hashes, one place a slot: a URL is forgotten when another comes to its slot. It is
    taken for another when they have the same 64 bits, which of a billion look-ups one has with a
    probability of 3e-5; a page cannot bring it about, since Python draws the key of its hash for
    each process (where PYTHONHASHSEED does not set it).
    """

    __slots__ = ("_hashes", "_policy")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._hashes = array("q", bytes(8 * _SLOTS))

    def maybe_new(self, urls: Iterable[str]) -> list[str]:
        """Those of `urls` that may be new. 0.1 us each."""
        hashes, last = self._hashes, _SLOTS - 1
        return [url for url in urls if hashes[(key := hash(url)) & last] != key]

    def add(self, links: Iterable[Link]) -> None:
        """The frontier has kept `links`. What was refused for the way it was reached is not known:
        by another way it may come in.
        """
        for link in links:
            if not self._policy.refuses_way(link):
                key = hash(link.url)
                self._hashes[key & _SLOTS - 1] = key
