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

from webcrawl.config import rulesfile
from webcrawl.config.build import rules_path, scope_from
from webcrawl.config.kinds import SettingError
from webcrawl.frontier.disk.explanation import explain
from webcrawl.frontier.disk.frontier import FOLDER
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.frontier.store import StoreError
from webcrawl.parse.urls import canonicalize, host_of
from webcrawl.scope import Scope, ScopeError
from webcrawl.scope.hostrules import HEADER, NO_VALUES, HostRules, Values
from webcrawl.scope.rules import entries_of

SCOPE_SETTINGS = {
    *("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW"),
    *("PATH_DEPTH_LIMIT", "PATH_REPEAT_LIMIT"),
    "RULES",
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
            " rule that decided, the rules of its host (RULES), its level, the page it was found"
            " on, its place in the queue, and when its host may be asked next. Times are UTC. Reads"
            " the last commit, also while the crawl runs, and changes nothing."
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
            print(url, *of_scope(settings, url), sep="\n")
            lines, values = of_rules(settings, url)
            print(*explain(frontier, url, time.time(), values), *lines, sep="\n")
            frontier.close()
        except (StoreError, ScopeError, SettingError) as error:
            print(error, file=sys.stderr)
            self.exitcode = 1


def of_rules(settings: Settings, url: str) -> tuple[list[str], Values]:
    """A line for each value that RULES sets for the host of `url`, with its rule; the values.

    Reads the file as it is now.
    """
    path = rules_path(settings)
    if path is None:
        return [], NO_VALUES
    try:
        rules, host = HostRules(rulesfile.load(path)), host_of(url)
    except rulesfile.RulesError as error:
        return [f"The rules of its host are not known. {error}"], NO_VALUES
    values = rules.of(host)
    lines = []
    for name, (line, target) in rules.sources(host).items():
        where = f"{path.name}, line {line}" if line else path.name
        if name.startswith(HEADER):
            said = f"the header {name.removeprefix(HEADER)}"  # its value may be a secret
        else:
            said = f"{rulesfile.FIELD_NAMES[name]} = {_toml(getattr(values, name))}"
        lines.append(f"A rule sets {said} for {target} ({where}).")
    return lines, values


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(list(value)) if isinstance(value, tuple) else repr(value)


def of_scope(settings: Settings, url: str) -> list[str]:
    """One line with the reason if `url` is out of scope; else an empty list."""
    match scope_from(settings).refuses(url, host_of(url)):
        case "":
            return []
        case "deny":
            entries = entries_of("SCOPE_DENY", settings.getlist("SCOPE_DENY"))
            entry = next(e for e in entries if Scope(deny=[e]).refuses(url, host_of(url)))
            why = f"SCOPE_DENY has {entry}"
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
