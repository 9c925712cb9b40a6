"""Which sitemaps a frontier has, and for which hosts each is read.

A sitemap may list URLs of its own host, and those of the host whose robots.txt names it
(sitemaps.org, "Sitemaps & Cross Submits"). So each host that names a file has a name of its own for
it, beside the file's own URL, for the URL-seen test. These names have blanks: no URL is equal to
one.

Memory: the URLs of sitemaps that were found as pages before, _ALSO_PAGES_MAX at most. In the store
a name for each file and host, and two numbers for each host.
"""

from __future__ import annotations

from typing import Final, Literal

from webcrawl.frontier.caps import CapReason, Caps
from webcrawl.frontier.disk.store import Store
from webcrawl.frontier.lease import Link, RobotsTask
from webcrawl.parse.robots import RobotsRules
from webcrawl.parse.urls import host_of

GUESSED: Final = "/sitemap.xml"  # in place of the URLs that a robots.txt names (SITEMAPS=guess)
_ALSO_PAGES_MAX: Final = 2_000  # beyond, such a file is asked for as a page too


def links_of_robots(robots_task: RobotsTask, rules: RobotsRules, depth_max: int) -> list[Link]:
    """The links to the sitemaps that a robots.txt names, or that are guessed: canonical and in
    scope already.

    None if all their pages would be deeper than `depth_max`; 0: no limit.
    """
    if depth_max and robots_task.depth >= depth_max:
        return []
    depth, via = robots_task.depth, robots_task.origin + "/robots.txt"
    guess = robots_task.origin + GUESSED
    urls = [guess if url == GUESSED else url for url in rules.sitemaps]
    return [Link(url, host_of(url), depth, via=via, sitemap=1) for url in urls]


def host_of_naming(sitemap: Link) -> str:
    """The host whose robots.txt, or whose index, named `sitemap`; its own if a seed list did."""
    return host_of(sitemap.via) if sitemap.via else sitemap.host


def name_of(sitemap: Link) -> str:
    """The name of a file, as it is read for one host."""
    naming = host_of_naming(sitemap)
    text = f"{sitemap.url} sitemap"
    return text if naming == sitemap.host else f"{text} of {naming}"


def own_only_of(sitemap: Link) -> str:
    """A name that is known once it has turned out that the file lists only URLs of its own host."""
    return f"{sitemap.url} sitemap, own only"


class SitemapFiles:
    """The test of links to sitemaps. `per_host`: files of a host at most."""

    def __init__(self, store: Store, caps: Caps, per_host: int) -> None:
        self._seen = store.seen
        self._caps = caps
        self._per_host = per_host
        self._counts = store.counts("sitemaps")  # by host
        self._also_pages: set[str] = set()  # may be queued as pages too

    def has_any(self, host: str) -> bool:
        """Whether a sitemap of `host` itself was queued, and so needs no guess."""
        return self._counts.get(host, 0) > 0

    def add(self, sitemap: Link) -> tuple[bool, bool]:
        """(whether `sitemap` is to be fetched for its host, whether its URL was known before).

        It is known from then on, as a page too. A file of which all URLs are of its own host is
        fetched once for all hosts.
        """
        is_foreign = host_of_naming(sitemap) != sitemap.host
        if is_foreign and self._seen.has(own_only_of(sitemap)):
            return False, True
        is_new, page_is_new = self._seen.add_each([name_of(sitemap), sitemap.url])
        if is_new and not page_is_new and len(self._also_pages) < _ALSO_PAGES_MAX:
            self._also_pages.add(sitemap.url)
        return is_new, not page_is_new

    def count(self, sitemap: Link) -> CapReason | Literal["sitemap_cap", ""]:
        """Count a file of its host; or the cap that refuses it.

        The caps on pages do not count it, but a full one refuses it: all its entries would be
        refused.
        """
        full = self._caps.is_full(sitemap.host)
        if full:
            return full
        # What other hosts name has a count of its own, so that they cannot use up the host's.
        is_foreign = host_of_naming(sitemap) != sitemap.host
        counted = f"{sitemap.host} for others" if is_foreign else sitemap.host
        count = self._counts.get(counted, 0)
        if self._per_host <= count:
            return "sitemap_cap"
        self._counts[counted] = count + 1
        return ""

    def has_also(self, page: Link) -> bool:
        """Whether `page` is read as a sitemap. A spider's own Request is not."""
        is_page = page.sitemap <= 0 and not page.payload
        return bool(self._also_pages) and page.url in self._also_pages and is_page

    def ended(self, sitemap: Link, *, own_only: bool) -> None:
        """`sitemap` was read."""
        if own_only:
            self._seen.add_each([own_only_of(sitemap)])
