"""Scrapy's stats collector without the shim for the deprecated `spider` argument."""

from __future__ import annotations

from scrapy.statscollectors import MemoryStatsCollector


class StatsCollector(MemoryStatsCollector):
    """`STATS_CLASS` setting.

    Scrapy's looks up each attribute twice and wraps each method, to warn of that argument.
    """

    __getattribute__ = object.__getattribute__
