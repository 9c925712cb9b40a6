"""The end of `scrapy crawl --help` and `scrapy runspider --help`, after the options."""

from __future__ import annotations

import argparse
from textwrap import fill

from scrapy.commands import ScrapyHelpFormatter

from webcrawl.config.table import MOST_USED, TABLE
from webcrawl.report.lines import LEGEND

EXIT_CODES = (
    "0  no URL is left, the target is met, or Ctrl-C stopped the crawl",
    "1  a bad seed or an error, named by the last line on standard error",
    "2  a setting that cannot be used, or a misspelt name",
)
_WIDTH = 76  # without the two spaces that the formatter puts before each line
_INDENT = 22  # to the column where the options' help begins


class _HelpFormatter(ScrapyHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Scrapy's, which keeps the line breaks of the sections below."""


def add_epilog(parser: argparse.ArgumentParser) -> None:
    """Add the most used settings, the legend of the stats lines and the exit codes to `--help`."""
    parser.formatter_class = _HelpFormatter
    parser.description = fill(parser.description or "", _WIDTH + 2)
    settings = [*map(_setting, MOST_USED), "docs/settings.md has all of them."]
    for title, lines in (
        ("most used settings", settings),
        ("stats lines", LEGEND),
        ("exit codes", EXIT_CODES),
    ):
        parser.add_argument_group(title, "\n".join(lines))


def _setting(name: str) -> str:
    """A setting, its use and what is allowed, laid out as argparse lays out an option."""
    use = f"{MOST_USED[name].replace('`', '')} ({TABLE[name].allowed})"
    column = " " * _INDENT
    return (
        name.ljust(_INDENT)
        + fill(use, _WIDTH, initial_indent=column, subsequent_indent=column).lstrip()
    )
