"""`scrapy report DIR`: what a crawl collected and what it missed, as a page, CSV files and JSON."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.report`."""

    summary = "Report on a running, finished or killed crawl"
