"""Names by which the URL-seen test knows sitemaps. Pure.

A sitemap may list URLs of its own host, and those of the host whose robots.txt names it
(sitemaps.org, "Sitemaps & Cross Submits"). So each host that names a file has a name of its own for
it, beside the file's own URL. The names have blanks, so no URL is equal to one.
"""

from __future__ import annotations

from typing import NamedTuple

from webcrawl.frontier.lease import Link
from webcrawl.parse.urls import host_of


class SitemapName(NamedTuple):
    """The names of one sitemap.

    text -- of the file, as it is read for one host
    own_only -- known once it has turned out that the file lists only URLs of its own host
    is_foreign -- it is read for another host than its own
    """

    text: str
    own_only: str
    is_foreign: bool


def host_of_naming(sitemap: Link) -> str:
    """The host whose robots.txt, or whose index, named `sitemap`; its own if a seed list did."""
    return host_of(sitemap.via) if sitemap.via else sitemap.host


def name_of(sitemap: Link) -> SitemapName:
    url, naming = sitemap.url, host_of_naming(sitemap)
    is_foreign = naming != sitemap.host
    text = f"{url} sitemap of {naming}" if is_foreign else f"{url} sitemap"
    return SitemapName(text, f"{url} sitemap, own only", is_foreign)
