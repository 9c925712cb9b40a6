"""`scrapy warccheck FILE...`: prints the problems of WARC files, one line per problem."""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError


class Command(ScrapyCommand):
    """Checks files with `webcrawl.warc.check`. Exit code 1 if any file has a problem."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "FILE..."

    def short_desc(self) -> str:
        return "Check WARC files against WARC 1.1 and HTTP"

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise UsageError("give one or more WARC files", print_help=False)
        from webcrawl.warc.check import check  # noqa: PLC0415  (each command loads this one)

        for name in args:
            try:
                problems = check(Path(name))
            except OSError as error:
                problems = [error.strerror or str(error)]
            for problem in problems:
                print(f"{name}: {problem}")
                self.exitcode = 1
