"""`scrapy shell`: Scrapy's command, which writes nothing to the crawl's folders."""

from __future__ import annotations

from scrapy.commands import shell

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, shell.Command):
    """The interactive shell; see `scrapy shell --help`."""
