"""The common base of the tools' commands. `webcrawl.commands` has their names and summaries."""

from __future__ import annotations

import sys

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError


class Command(ScrapyCommand):
    """`arguments` are those of its usage; `about` goes on after the summary of `--help`."""

    arguments = ""
    about = ""

    def short_desc(self) -> str:
        return ""

    def fail(self, line: object, exitcode: int) -> None:
        """Say what is wrong; the command goes on, and ends with `exitcode`."""
        print(line, file=sys.stderr)
        self.exitcode = exitcode


class WrongUse(UsageError):  # noqa: N818  (Scrapy's name of its kind)
    """A mistake of the user, in one line: exit code 2, without the list of options."""

    def __init__(self, line: str) -> None:
        super().__init__(line, print_help=False)
