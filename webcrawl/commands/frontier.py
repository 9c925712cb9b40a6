"""`scrapy frontier JOBDIR`: a summary of a crawl's frontier, also while the crawl runs."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.frontier`."""

    summary = "Show the state of the frontier of a crawl"
