"""`scrapy view`: Scrapy's command, which writes nothing to the crawl's folders."""

from scrapy.commands import view

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, view.Command):
    """Opens a URL in a browser; see `scrapy view --help`."""
