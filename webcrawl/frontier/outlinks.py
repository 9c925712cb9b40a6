"""Turns the URLs of a page into links for the frontier.

Owns the first refusals: URLs out of scope, and URLs at the end of too long a sequence of numbered
pages, are counted and dropped here. A sequence depends on the hops that led to a URL, so it is
tested before the URL-seen test: the same URL may be accepted later, when fewer hops lead to it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from webcrawl.frontier.lease import LAST_REQUISITE, LISTED, REQUISITE, Link
from webcrawl.frontier.requisites import NAME_END
from webcrawl.frontier.sitemapnames import host_of_naming
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.parse.urls import host_of
from webcrawl.scope import Scope, is_numbered

SITEMAP_MARK: Final = "sitemap:"  # before a URL of a seed list
Listed = tuple[str, int]  # canonical URL and lastmod of an entry
_SITEMAP_PATH = re.compile(
    r".*(?:\.(?:xml|rss|atom)(?:\.gz)?|/[^/]*sitemap[^/]*\.txt(?:\.gz)?)", re.IGNORECASE
)


class OfSitemap(NamedTuple):
    """`foreign`: entries of hosts whose robots.txt does not name the file."""

    links: list[Link]
    foreign: int


def looks_like_sitemap(url: str) -> bool:
    """Whether a seed is read as a sitemap or feed, by the end of its path."""
    return _SITEMAP_PATH.fullmatch(url.partition("?")[0]) is not None


class Outlinks:
    """Turns canonical URLs into links.

    dropped -- counts the refusals
    sequence_max -- numbered pages in a row at most (`scope.traps`); 0: no limit
    url_cache -- URLs in it are left out of a page's links; None: the ordering needs all links
    reads_sitemaps -- SITEMAPS
    """

    def __init__(
        self,
        scope: Scope,
        dropped: Counter[str],
        sequence_max: int = 0,
        url_cache: UrlCache | None = None,
        *,
        reads_sitemaps: bool = False,
    ) -> None:
        self._scope = scope
        self._dropped = dropped
        self._sequence_max = sequence_max
        self.reads_sitemaps = reads_sitemaps
        self.url_cache = url_cache
        self.requisites: Counter[str] = Counter()  # counts the refused requisites

    def refuses(self, url: str, host: str) -> bool:
        """Whether scope refuses `url`. Counts each refusal."""
        reason = self._scope.refuses(url, host)
        if reason:
            self._dropped["scope_" + reason] += 1
        return bool(reason)

    def of_seeds(self, urls: Iterable[str]) -> list[Link]:
        """The links of a seed list, without those out of scope.

        A URL behind SITEMAP_MARK is a sitemap, and so is one that looks like one.
        """
        seeds = []
        for text in urls:
            url = text.removeprefix(SITEMAP_MARK)
            is_sitemap = self.reads_sitemaps and (url != text or looks_like_sitemap(url))
            seeds.append(Link(url, host_of(url), sitemap=int(is_sitemap)))
        return [seed for seed in seeds if not self.refuses(seed.url, seed.host)]

    def of_sitemap(self, entries: Iterable[Listed], sitemap: Link, *, is_index: bool) -> OfSitemap:
        """The links of a sitemap. About 2 µs per entry.

        An entry is followed if it is of the sitemap's own host, or of the host whose robots.txt
        names it. The pages are one hop further than the sitemap; the files of an index are as deep
        as it is, and are read for the same host.
        """
        hosts = {sitemap.host, host_of_naming(sitemap)}
        depth = sitemap.depth if is_index else sitemap.depth + 1
        kind = sitemap.sitemap + 1 if is_index else LISTED
        via = (sitemap.via or sitemap.url) if is_index else sitemap.url
        links, foreign = [], 0
        for url, lastmod in entries:
            host = host_of(url)
            if host not in hosts:
                foreign += 1
            elif not self.refuses(url, host):
                links.append(Link(url, host, depth, via=via, sitemap=kind, lastmod=lastmod))
        return OfSitemap(links, foreign)

    def of_moved_sitemap(self, url: str, sitemap: Link) -> Link | None:
        """The link of a redirect from `sitemap` to `url`, read for the same host; None if scope
        refuses it.
        """
        host = host_of(url)
        if self.refuses(url, host):
            return None
        via = sitemap.via or sitemap.url
        hops = sitemap.redirects + 1
        return Link(url, host, sitemap.depth, hops, via, sitemap=sitemap.sitemap)

    def of_page(self, urls: Sequence[str], page: Link) -> list[Link]:
        """The links from `page` to `urls`. O(length) per URL: about 1 µs for a new one."""
        return self._links_to(urls, page, page.depth + 1, 0)

    def of_redirect(self, url: str, page: Link) -> Link | None:
        """The link of a redirect from `page` to `url`; None if it is refused, or in the cache."""
        return next(iter(self._links_to((url,), page, page.depth, page.redirects + 1)), None)

    def of_requisites(self, urls: Sequence[str], page: Link) -> list[Link]:
        """The links to the files that `page` shows, which may be a style sheet: on any host.

        They are as deep as `page`: only what denies a URL for all kinds refuses one
        (`Scope.denies`).
        """
        kind = min(page.sitemap, REQUISITE + 1) - 1
        if kind < LAST_REQUISITE:
            return []
        return self._requisites(urls, page, kind, 0)

    def of_moved_requisite(self, url: str, requisite: Link) -> list[Link]:
        """The link of a redirect from `requisite` to `url`, as `of_requisites`."""
        return self._requisites((url,), requisite, requisite.sitemap, requisite.redirects + 1)

    def _requisites(self, urls: Sequence[str], page: Link, kind: int, redirects: int) -> list[Link]:
        names = [url + NAME_END for url in urls]
        links = []
        for name in names if self.url_cache is None else self.url_cache.maybe_new(names):
            url = name.removesuffix(NAME_END)
            host = host_of(url)
            if reason := self._scope.denies(url, host):
                self.requisites["scope_" + reason] += 1
                continue
            links.append(Link(url, host, page.depth, redirects, page.url, sitemap=kind))
        return links

    def _links_to(self, urls: Sequence[str], page: Link, depth: int, redirects: int) -> list[Link]:
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
            links.append(Link(url, host, depth, redirects, via, sequence=sequence))
        return links
