"""`scrapy explain URL -s JOBDIR=...`: why a URL was fetched, refused, or is waiting."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import cast

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError
from scrapy.settings import Settings

from webcrawl.config.build import scope_from
from webcrawl.crawl.steeringfile import Steered, SteeringFileError, read_steering
from webcrawl.frontier.disk.explanation import explain
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.scope import HostsAndPatterns, ScopeError
from webcrawl.scope.rules import entries_of

SCOPE_SETTINGS = {
    *("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW"),
    *("PATH_DEPTH_LIMIT", "PATH_REPEAT_LIMIT"),
}


class Command(ScrapyCommand):
    """Prints how scope, caps, robots.txt, the queue and the delays have decided on one URL."""

    requires_crawler_process = False
    default_settings = {"LOG_ENABLED": False}

    def syntax(self) -> str:
        return "<URL> -s JOBDIR=..."

    def short_desc(self) -> str:
        return "Explain why a URL was fetched, refused or is waiting"

    def long_desc(self) -> str:
        return (
            f"{self.short_desc()}: its outcome and the time, the scope rule, cap or robots.txt"
            " rule that decided, its level, the page it was found on, its place in the queue, and"
            " when its host may be asked next. Times are UTC. Reads the last commit, also while"
            " the crawl runs, and changes nothing."
        )

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        settings = cast("Settings", self.settings)
        if len(args) != 1 or not settings.get("JOBDIR"):
            raise UsageError("give one URL, and the folder of the crawl with -s JOBDIR=...")
        url = canonicalize(args[0])
        if url is None:
            raise UsageError(f"{args[0]} is not an http(s) URL", print_help=False)
        try:
            frontier = Inspection(Path(settings["JOBDIR"]) / FOLDER)
            # Of the crawl's last run, whose command line may have set them.
            for name in SCOPE_SETTINGS & frontier.settings.keys():
                settings.set(name, frontier.settings[name], "cmdline")
            steered = read_steering(Path(settings["JOBDIR"]))
            print(url, *of_scope(settings, url, steered), sep="\n")
            print(*explain(frontier, url, time.time()), sep="\n")
            frontier.close()
        except (StoreError, ScopeError, SteeringFileError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1


def of_scope(settings: Settings, url: str, steered: Steered | None = None) -> list[str]:
    """One line with the reason if `url` is out of scope; else an empty list."""
    scope, steered = scope_from(settings), steered or Steered()
    scope.extend(steered.allow, steered.deny)
    match scope.refuses(url, host_of(url)):
        case "":
            return []
        case "deny":
            entries = entries_of("SCOPE_DENY", settings.getlist("SCOPE_DENY"))
            why = next((f"SCOPE_DENY has {entry}" for entry in entries if _denies(entry, url)), "")
            why = why or _of_command(steered, url)
        case "allow":
            why = "nothing in SCOPE_ALLOW matches it"
        case "suffix":
            suffixes = ", ".join(settings.getlist("SCOPE_SUFFIXES"))
            why = f"its host ends in none of SCOPE_SUFFIXES = {suffixes}"
        case "length":
            why = f"it is longer than URLLENGTH_LIMIT = {settings['URLLENGTH_LIMIT']}"
        case "path_depth":
            why = f"its path is deeper than PATH_DEPTH_LIMIT = {settings['PATH_DEPTH_LIMIT']}"
        case "repeated_path":
            why = f"its path repeats itself: PATH_REPEAT_LIMIT = {settings['PATH_REPEAT_LIMIT']}"
        case reason:
            why = f"a rule of SCOPE_RULES refuses it: {reason}"
    return [f"Out of scope: {why}."]


def _denies(entry: str, url: str) -> bool:
    return HostsAndPatterns([entry], "deny").matches(url, host_of(url))


def _of_command(steered: Steered, url: str) -> str:
    """The command that denied `url`."""
    return next(
        f"{each.by} denied {entry} at {each.time}"
        for each in steered.commands
        if each.command == "deny"
        for entry in each.arguments
        if _denies(entry, url)
    )
