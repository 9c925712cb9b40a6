"""`scrapy parse`: Scrapy's own, and it leaves nothing in the crawl's folders."""

from __future__ import annotations

import argparse

from scrapy.commands import parse

from webcrawl.commands.debugging import DebugCommand


class Command(DebugCommand, parse.Command):
    """Parses a URL by the spider's callback; see `scrapy parse --help`."""

    def is_short(self, opts: argparse.Namespace) -> bool:
        return int(opts.depth) <= 1  # with more it follows links: that is a crawl
