"""`scrapy simweb`: the simulated web of a checkout (the package `simweb`), from the command line.

Scrapy imports all command modules before it runs one command. The simulated web takes 9 MB, so it
is imported only when this command runs. An installed package has no `simweb`: then this command
ends with an error line, and the other commands work.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module
from types import ModuleType

from scrapy.commands import ScrapyCommand

from webcrawl.report.console import discard_output


class Command(ScrapyCommand):
    """Connects Scrapy's command line to `simweb.cli`, which has the options and the exit code."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def short_desc(self) -> str:
        return "Serve a simulated web on loopback, to try a crawler on (in a checkout)"

    def long_desc(self) -> str:
        return str(_cli().DESCRIPTION)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        _cli().add_arguments(parser)
        parser.prog = "scrapy simweb"
        parser.usage = None  # argparse writes a usage line with options, Scrapy's does not

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        try:
            self.exitcode = _cli().run(opts)
            sys.stdout.flush()
        except BrokenPipeError:  # the reader of standard output has exited, as `head` does
            discard_output()


def _cli() -> ModuleType:
    try:
        return import_module("simweb.cli")
    except ModuleNotFoundError as error:
        if error.name != "simweb":
            raise
        message = "scrapy simweb needs a checkout of webcrawl: run it at the checkout's root"
        print(message, file=sys.stderr)
        raise SystemExit(2) from None
