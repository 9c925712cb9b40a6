"""Turns the URLs of a page into links for the frontier.

Owns the first refusals: URLs out of scope, and URLs at the end of too long a sequence of numbered
pages, are counted and dropped here. A sequence depends on the hops that led to a URL, so it is
tested before the URL-seen test: the same URL may be accepted later, when fewer hops lead to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from webcrawl.frontier.lease import Link
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.parse.urls import host_of
from webcrawl.scope import Scope, is_numbered

_link = Link._make  # takes 0.21 µs, Link(...) 0.37


class Outlinks:
    """Turns canonical URLs into links.

    dropped -- counts the refusals
    sequence_max -- SEQUENCE_LIMIT; 0: no limit
    url_cache -- URLs in it are left out of a page's links; None: the ordering needs all links
    """

    def __init__(
        self,
        scope: Scope,
        dropped: Counter[str],
        sequence_max: int = 0,
        url_cache: UrlCache | None = None,
    ) -> None:
        self._scope = scope
        self._dropped = dropped
        self._sequence_max = sequence_max
        self.url_cache = url_cache

    def refuses(self, url: str, host: str) -> bool:
        """Whether scope refuses `url`. Counts each refusal."""
        reason = self._scope.refuses(url, host)
        if reason:
            self._dropped["scope_" + reason] += 1
        return bool(reason)

    def of_seeds(self, urls: Iterable[str]) -> list[Link]:
        """The links of a seed list, without those out of scope."""
        seeds = (Link(url, host_of(url)) for url in urls)
        return [seed for seed in seeds if not self.refuses(seed.url, seed.host)]

    def of_page(self, urls: Iterable[str], page: Link) -> list[Link]:
        """The links from `page` to `urls`. O(length) per URL: about 1 µs for a new one."""
        return self._links_to(urls, page, page.depth + 1, 0)

    def of_redirect(self, url: str, page: Link) -> Link | None:
        """The link of a redirect from `page` to `url`; None if it is refused, or in the cache."""
        return next(iter(self._links_to((url,), page, page.depth, page.redirects + 1)), None)

    def _links_to(self, urls: Iterable[str], page: Link, depth: int, redirects: int) -> list[Link]:
        via, home, longest = page.url, page.host, self._sequence_max
        further = page.sequence + 1 if longest and is_numbered(via) else 0
        origin = via[: via.index("/", 8) + 1]
        refuses, dropped = self._scope.refuses, self._dropped
        links = []
        for url in urls if self.url_cache is None else self.url_cache.maybe_new(urls):
            host = home if url.startswith(origin) else host_of(url)
            if reason := refuses(url, host):
                dropped["scope_" + reason] += 1
                continue
            sequence = further if further and host == home and is_numbered(url) else 0
            if sequence > longest:
                dropped["scope_sequence"] += 1
                continue
            # The second 0 is Passed.NO_TEST: a plain number is quicker to send between processes.
            made = (url, host, depth, redirects, via, 0, False, 0, b"", sequence, "", 0, 0, b"")
            links.append(_link(made))
        return links
