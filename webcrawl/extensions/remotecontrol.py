"""Scrapy's RemoteControl, imported only if it is switched on: its web server takes 8 MB."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import build_from_crawler, load_object


class RemoteControl:
    """A stand-in: `from_crawler` returns Scrapy's own extension."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if not crawler.settings.getbool("REMOTE_CONTROL_ENABLED"):
            raise NotConfigured
        scrapys = load_object("scrapy.extensions.remote_control.RemoteControl")
        return build_from_crawler(scrapys, crawler)
