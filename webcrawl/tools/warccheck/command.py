"""`scrapy warccheck FILE...`: prints the problems of WARC files, one line per problem."""

from __future__ import annotations

import argparse
from pathlib import Path

from webcrawl.base.textfile import NotAFile
from webcrawl.base.wording import printable
from webcrawl.tools import command
from webcrawl.tools.warccheck.check import check


class Command(command.Command):
    """Checks files with `check`. Exit code 1 if any file has a problem."""

    arguments = "FILE..."

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if not args:
            raise command.WrongUse("give one or more WARC files")
        for name in args:
            try:
                problems = check(Path(name))
            except OSError as error:
                problems = [error.strerror or str(error)]
            except NotAFile as error:
                print(error)
                problems, self.exitcode = [], 1
            for problem in problems:
                print(printable(f"{name}: {problem}"))  # it may have text of the record
                self.exitcode = 1
