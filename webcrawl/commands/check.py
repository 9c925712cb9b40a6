"""`scrapy check`: Scrapy's own, and it leaves nothing in the crawl's folders."""

from __future__ import annotations

from scrapy.commands import check

from webcrawl.looks import Look


class Command(Look, check.Command):
    """Checks spiders' contracts; see `scrapy check --help`."""
