"""Scrapy's stats without what they do for callers of old."""

from __future__ import annotations

from scrapy.statscollectors import MemoryStatsCollector


class StatsCollector(MemoryStatsCollector):
    """`STATS_CLASS` setting.

    Scrapy's looks up each attribute twice and wraps each method, to warn of an argument `spider`.
    """

    __getattribute__ = object.__getattribute__
