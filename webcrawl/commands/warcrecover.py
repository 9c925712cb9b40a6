"""`scrapy warcrecover DIR`: finishes the WARC files of a killed crawl."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.warcrecover`."""

    summary = "Finish the WARC files of a killed crawl that will not be resumed"
