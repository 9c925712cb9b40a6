"""`scrapy fetch`: Scrapy's command, which writes nothing to the crawl's folders."""

from scrapy.commands import fetch

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, fetch.Command):
    """Fetches a URL; see `scrapy fetch --help`."""
