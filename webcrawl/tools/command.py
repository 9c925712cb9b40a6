"""The common base of the tools' commands. `webcrawl.commands` has their names and summaries."""

from __future__ import annotations

import sys

from scrapy.commands import ScrapyCommand


class Command(ScrapyCommand):
    """`long_desc` goes on after the summary."""

    def short_desc(self) -> str:
        return ""

    def fail(self, line: object, exitcode: int) -> None:
        """Say what is wrong; the command goes on, and ends with `exitcode`."""
        print(line, file=sys.stderr)
        self.exitcode = exitcode
