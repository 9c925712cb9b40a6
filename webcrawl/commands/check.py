"""`scrapy check`: Scrapy's command, which writes nothing to the crawl's folders."""

from scrapy.commands import check

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, check.Command):
    """Checks spiders' contracts; see `scrapy check --help`."""
