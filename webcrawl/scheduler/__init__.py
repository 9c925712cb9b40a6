"""Scrapy's scheduler interface on the frontier."""

from webcrawl.scheduler.scheduler import Scheduler

__all__ = ["Scheduler"]
