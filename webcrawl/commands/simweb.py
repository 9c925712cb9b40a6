"""`scrapy simweb`: the simulated web (see `simweb`) from the project's command line.

Scrapy imports all commands before it runs one. No crawl is to hold the 9 MB of a web that it does
not serve, so that is imported when it is asked for.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from types import ModuleType

from scrapy.commands import ScrapyCommand


class Command(ScrapyCommand):
    """Wiring only: the options and the exit code are the module's own."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def short_desc(self) -> str:
        return str(_cli().DESCRIPTION)

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        _cli().add_arguments(parser)
        parser.prog = "scrapy simweb"
        parser.usage = None  # Scrapy's has no options; argparse makes one that has

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self.exitcode = _cli().run(opts)


def _cli() -> ModuleType:
    return import_module("simweb.cli")
