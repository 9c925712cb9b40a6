"""Downloader middlewares that hold every request to the rules, in any Scrapy project."""

from webcrawl.middlewares.domainfilter import DomainFilter
from webcrawl.middlewares.hostuniqueness import HostUniqueness
from webcrawl.middlewares.ipuniqueness import IpUniqueness
from webcrawl.middlewares.robotstxt import RobotsTxt
from webcrawl.middlewares.stats import DownloaderStats

__all__ = ["DomainFilter", "DownloaderStats", "HostUniqueness", "IpUniqueness", "RobotsTxt"]
