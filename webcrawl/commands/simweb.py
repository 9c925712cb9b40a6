"""`scrapy simweb`: the simulated web (see `webcrawl.simweb`) from the project's command line."""

from __future__ import annotations

import argparse

from scrapy.commands import ScrapyCommand

from webcrawl.simweb import cli


class Command(ScrapyCommand):
    """Wiring only: the options and the exit code are the module's own."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def short_desc(self) -> str:
        return cli.DESCRIPTION

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        cli.add_arguments(parser)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        self.exitcode = cli.run(opts)
