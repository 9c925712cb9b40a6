"""`scrapy ctl JOBDIR COMMAND [ARG...]`: steers a running crawl (docs/watching.md)."""

from __future__ import annotations

import argparse
import os
import sys

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from webcrawl.base.textfile import named_folder
from webcrawl.crawl.steering import COMMANDS, SteeringError, check
from webcrawl.live.client import NotRunning, Refused, ask_for


class Command(ScrapyCommand):
    """Sends a command to the crawl that runs in a JOBDIR, and prints its answer."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<JOBDIR> <COMMAND> [ARG ...]"

    def short_desc(self) -> str:
        return (
            "Steer a running crawl: pause, resume, stop, seeds, allow, deny, target, retry, status"
        )

    def long_desc(self) -> str:
        commands = "; ".join(f"{name} {wanted}".strip() for name, wanted in COMMANDS.items())
        return (
            f"Steer the crawl that runs in JOBDIR. The commands: {commands}. Exit codes: 0 done,"
            " 1 no crawl runs there, 2 refused or wrong usage."
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        if len(args) < 2:
            raise UsageError(f"give a JOBDIR and one of {', '.join(COMMANDS)}")
        name, command, *arguments = args
        jobdir = named_folder(name)
        try:
            check(command, arguments)
        except SteeringError as error:
            raise UsageError(str(error), print_help=False) from None
        body = {"command": command, "arguments": [_from_here(command, each) for each in arguments]}
        try:
            print(ask_for(jobdir, "/command", body))
        except NotRunning as error:
            print(error, file=sys.stderr)
            self.exitcode = 1
        except Refused as error:
            print(error, file=sys.stderr)
            self.exitcode = 2


def _from_here(command: str, argument: str) -> str:
    """`argument` with absolute paths: the crawl may run in another folder."""
    if command == "seeds":
        if os.path.isfile(argument):
            return os.path.abspath(argument)
        parts = argument.split(",")
        return ",".join(os.path.abspath(each) if os.path.isfile(each) else each for each in parts)
    if command in ("allow", "deny") and argument.startswith("@"):
        return f"@{os.path.abspath(argument[1:])}"
    return argument
