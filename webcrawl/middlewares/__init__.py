"""Downloader middlewares that hold every request to the rules, in any Scrapy project.

In the crawl, the frontier has decided on a leased request before, so it passes. Any other request
is decided here, by the same core. In the order to read it: `verifier` (the common base), then
`domainfilter` (scope), `hostuniqueness` and `ipuniqueness` (caps, address guard), `robotstxt`.
`stats` counts for Scrapy's `downloader/*` statistics, and decides nothing.
"""

from webcrawl.middlewares.domainfilter import DomainFilter
from webcrawl.middlewares.hostuniqueness import HostUniqueness
from webcrawl.middlewares.ipuniqueness import IpUniqueness
from webcrawl.middlewares.robotstxt import RobotsTxt
from webcrawl.middlewares.stats import DownloaderStats

__all__ = ["DomainFilter", "DownloaderStats", "HostUniqueness", "IpUniqueness", "RobotsTxt"]
