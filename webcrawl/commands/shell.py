"""`scrapy shell`: Scrapy's own, and it leaves nothing in the crawl's folders."""

from __future__ import annotations

from scrapy.commands import shell

from webcrawl.looks import Look


class Command(Look, shell.Command):
    """The interactive shell; see `scrapy shell --help`."""
