"""`scrapy corpus WARC... -o DIR`: tables and texts of the captures of WARC files."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand

from webcrawl.commands.tool import ToolCommand


class Command(ToolCommand, ScrapyCommand):
    """Carried out by `webcrawl.tools.corpus`."""

    summary = "Make a text corpus of WARC files: tables of captures and hosts, texts"
    extra = "corpus"
