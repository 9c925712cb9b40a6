"""`scrapy sweep`: how fast, how large and how long, by experiment."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.sweep`."""

    summary = "Measure crawls by concurrency, by kind of frontier, or over time"
