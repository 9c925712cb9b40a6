"""`scrapy botpage`: the page that explains the crawler, its key directory and its addresses."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.botpage`."""

    summary = "Write the page that explains the crawler to the owners of sites"
