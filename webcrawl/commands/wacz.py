"""`scrapy wacz FILE_OR_FOLDER... -o FILE.wacz`: the WARC files of a crawl as a WACZ."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.wacz`."""

    summary = "Make a WACZ, one file to hand on, of the WARC files of a crawl"
