"""Downloader middlewares that hold every request to the rules, in any Scrapy project."""

from webcrawl.middlewares.domainfilter import DomainFilter
from webcrawl.middlewares.hostuniqueness import HostUniqueness
from webcrawl.middlewares.ipuniqueness import IpUniqueness
from webcrawl.middlewares.robotstxt import RobotsTxt

__all__ = ["DomainFilter", "HostUniqueness", "IpUniqueness", "RobotsTxt"]
