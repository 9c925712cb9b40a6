"""`scrapy explain JOBDIR URL`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.explain`."""

    summary = "Explain why a URL was fetched, refused or is waiting"
