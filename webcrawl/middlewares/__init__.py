"""Downloader middlewares that apply the crawl's rules to every request, in any Scrapy project.

In the crawl, the frontier has already decided on a leased request, so it passes. On any other
request the middlewares decide, with the same core. Read in this order: `verifier` (the base), then
`filters` (scope, caps, address guard), `robotstxt`.
`stats` counts for Scrapy's `downloader/*` statistics, and decides nothing.
"""

from webcrawl.middlewares.filters import DomainFilter, HostUniqueness, IpUniqueness
from webcrawl.middlewares.robotstxt import RobotsTxt
from webcrawl.middlewares.stats import DownloaderStats

__all__ = ["DomainFilter", "DownloaderStats", "HostUniqueness", "IpUniqueness", "RobotsTxt"]
