"""A pytest plugin: Scrapy's defaults with this project's scheduler, downloader and handler.

The rest is Scrapy's: its middlewares for retries, redirects, cookies and so on are enabled.
"""

from __future__ import annotations

from scrapy.settings import default_settings

from webcrawl import settings

for _name in dir(settings):
    if _name.isupper() and not hasattr(default_settings, _name):
        setattr(default_settings, _name, getattr(settings, _name))

default_settings.SCHEDULER = settings.SCHEDULER
default_settings.DOWNLOADER = settings.DOWNLOADER
default_settings.DOWNLOAD_HANDLERS_BASE.update(settings.DOWNLOAD_HANDLERS_BASE)
default_settings.SPIDER_MIDDLEWARES_BASE["webcrawl.crawl.PageFetchMiddleware"] = 0
default_settings.EXTENSIONS_BASE["webcrawl.fastpath.FastPath"] = 910
_stats = "scrapy.downloadermiddlewares.stats.DownloaderStats"
_middlewares = default_settings.DOWNLOADER_MIDDLEWARES_BASE
_middlewares["webcrawl.middlewares.DownloaderStats"] = _middlewares.pop(_stats)
# These tests serve all kinds of content on one loopback address.
default_settings.ALLOW_PRIVATE_ADDRESSES = True  # type: ignore[attr-defined]
default_settings.IP_DELAY = 0  # type: ignore[attr-defined]
default_settings.CONTENT_TYPES = []  # type: ignore[attr-defined]
