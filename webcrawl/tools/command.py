"""The common base of the tools' commands. `webcrawl.commands` has their names and summaries."""

from __future__ import annotations

from scrapy.commands import ScrapyCommand


class Command(ScrapyCommand):
    """`long_desc` goes on after the summary."""

    def short_desc(self) -> str:
        return ""
