"""The fast path of a request through Scrapy's engine."""

from webcrawl.fastpath.extension import FastPath
from webcrawl.fastpath.statscollector import StatsCollector

__all__ = ["FastPath", "StatsCollector"]
