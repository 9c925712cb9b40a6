"""`scrapy view`: Scrapy's own, and it leaves nothing in the crawl's folders."""

from __future__ import annotations

from scrapy.commands import view

from webcrawl.looks import Look


class Command(Look, view.Command):
    """Opens a URL in a browser; see `scrapy view --help`."""
