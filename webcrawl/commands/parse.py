"""`scrapy parse`: Scrapy's command, which writes nothing to the crawl's folders."""

from __future__ import annotations

import argparse

from scrapy.commands import parse

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, parse.Command):
    """Parses a URL by the spider's callback; see `scrapy parse --help`."""

    def is_short(self, opts: argparse.Namespace) -> bool:
        return int(opts.depth) <= 1  # a greater depth follows links, as a crawl does
