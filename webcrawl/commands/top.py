"""`scrapy top JOBDIR`: shows in a terminal what a running crawl does, once a second."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.top`."""

    summary = "Show what a running crawl does, in the terminal"
