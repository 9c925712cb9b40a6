"""`scrapy warccheck FILE...`: prints the problems of WARC files, one line per problem."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.warccheck`."""

    summary = "Check WARC files against WARC 1.1 and HTTP"
