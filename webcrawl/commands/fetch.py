"""`scrapy fetch`: Scrapy's own, and it leaves nothing in the crawl's folders."""

from __future__ import annotations

from scrapy.commands import fetch

from webcrawl.looks import Look


class Command(Look, fetch.Command):
    """Fetches a URL; see `scrapy fetch --help`."""
