"""A cache of URLs that the frontier got lately, so that links to them need not be put again.

Most links of a page are on the other pages of its host too. `outlinks` looks here first, which
saves the scope test, the hand-over to the frontier and its URL-seen test. No URL is lost: a URL is
added here only once the frontier has it, and the frontier ignores a URL that it has seen. Not used
with an ordering in which a known link counts (opic).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from mmap import mmap

from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import REQUISITE, Link
from webcrawl.frontier.requisites import name_of

_SLOTS = 1 << 19


class UrlCache:
    """Hashes of URLs that were put lately. 4 MB, which the system gives only as they are used.

    A table with one hash per slot: a URL replaces the one in its slot. A URL is mistaken for
    another if both have the same 64 bits. The probability of that in a billion look-ups is 3e-5. A
    page cannot cause it, since Python draws the key of its hash for each process (unless
    PYTHONHASHSEED sets it).
    """

    __slots__ = ("_hashes", "_policy")

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.clear()

    def clear(self) -> None:
        """Forget all URLs."""
        self._hashes = memoryview(mmap(-1, 8 * _SLOTS)).cast("q")

    def maybe_new(self, urls: Sequence[str]) -> list[str]:
        """The `urls` that may be new. 0.1 µs per URL."""
        hashes, last = self._hashes, _SLOTS - 1
        keys = zip(urls, map(hash, urls), strict=True)
        return [url for url, key in keys if hashes[key & last] != key]

    def add(self, links: Iterable[Link]) -> None:
        """Add `links`, which the frontier has got.

        Leaves out links beyond DEPTH_LIMIT or REDIRECT_MAX_TIMES: with fewer hops the frontier
        accepts the same URL later. Leaves out the links of sitemaps: the frontier counts the pages
        to which no page links (`listed`). A requisite is added by its name.
        """
        limits = self._policy.limits_ways
        for link in links:
            kind = link.sitemap
            if (not kind or kind <= REQUISITE) and not (
                (limits or link.redirects) and self._policy.refuses_way(link)
            ):
                key = hash(name_of(link) if kind else link.url)
                self._hashes[key & _SLOTS - 1] = key
