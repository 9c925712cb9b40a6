"""Scrapy's RemoteControl, imported only where it is switched on: it brings a web server of 8 MB."""

from __future__ import annotations

from typing import Any

from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.utils.misc import build_from_crawler, load_object


class RemoteControl:
    """`from_crawler` gives Scrapy's own."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Any:
        if not crawler.settings.getbool("REMOTE_CONTROL_ENABLED"):
            raise NotConfigured
        scrapys = load_object("scrapy.extensions.remote_control.RemoteControl")
        return build_from_crawler(scrapys, crawler)
