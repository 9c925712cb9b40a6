"""Explains a URL in sentences, by settings and frontier: for `scrapy explain` and the live page.

Reads the settings' files; `frontierexplanation` reads the frontier.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import NamedTuple

from scrapy.settings import BaseSettings

from webcrawl.config import rulesfile
from webcrawl.config.build import rules_path, scope_from
from webcrawl.crawl.keptcommands import Steered, steered_by
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.disk.inspection import Inspection
from webcrawl.live.frontierexplanation import explain, is_requisite
from webcrawl.parse.urls import host_of, port_of
from webcrawl.scope import HostsAndPatterns
from webcrawl.scope.hostrules import HEADER, NO_VALUES, HostRules, Values
from webcrawl.scope.rules import entries_of

SCOPE_SETTINGS = {
    *("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW", "TRAPS", "ALLOW_PORTS", "RULES"),
}


class Known(NamedTuple):
    """What a frontier knows of a URL: also the commands of `scrapy ctl` and `allowed_domains`."""

    lines: list[str]
    steered: Steered
    domains: Sequence[str]
    is_requisite: bool


def explained(settings: BaseSettings, frontier: Inspection, url: str) -> list[str]:
    """Canonical `url`, then all that decides about it, a line each. O(URLs queued of its host).

    StoreError; SettingError if a file cannot be read.
    """
    lines, values = of_rules(settings, url)
    known = known_of(frontier, url, values)
    return [url, *_of_scope(settings, url, known), *known.lines, *lines]


async def explained_by_crawl(
    settings: BaseSettings, frontier: LocalFrontier, url: str
) -> list[str]:
    """As `explained`, of the frontier of this process, which waits for no file of a setting."""
    lines, values = await asyncio.to_thread(of_rules, settings, url)
    known = await frontier.inspect(lambda seen: known_of(seen, url, values))
    out_of_scope = await asyncio.to_thread(_of_scope, settings, url, known)
    return [url, *out_of_scope, *known.lines, *lines]


def _of_scope(settings: BaseSettings, url: str, known: Known) -> list[str]:
    """`of_scope`; a requisite may be anywhere."""
    if known.is_requisite:
        return []
    return of_scope(settings, url, known.steered, known.domains)


def known_of(frontier: Inspection, url: str, values: Values) -> Known:
    """`values` are those of RULES for the host of `url`. StoreError."""
    return Known(
        explain(frontier, url, time.time(), values),
        steered_by(frontier.commands()),
        frontier.settings.get("allowed_domains", []),
        is_requisite(frontier, url),
    )


def of_scope(
    settings: BaseSettings,
    url: str,
    steered: Steered | None = None,
    domains: Sequence[str] = (),
) -> list[str]:
    """One line with the reason if `url` is out of scope; else an empty list.

    `steered` has the commands of `scrapy ctl`, `domains` are the spider's `allowed_domains`. Reads
    the lists of the settings again: SettingError if a file of them cannot be read.
    """
    scope, steered = scope_from(settings, domains), steered or Steered()
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
        case "allowed_domains":
            why = f"its host is in none of the spider's allowed_domains = {', '.join(domains)}"
        case "suffix":
            suffixes = ", ".join(settings.getlist("SCOPE_SUFFIXES"))
            why = f"its host ends in none of SCOPE_SUFFIXES = {suffixes}"
        case "length":
            why = f"it is longer than URLLENGTH_LIMIT = {settings['URLLENGTH_LIMIT']}"
        case "port":
            why = f"port {port_of(url)} is one of another protocol, and not in ALLOW_PORTS"
        case "path_depth":
            why = "its path has more segments than a path limit allows (TRAPS)"
        case "repeated_path":
            why = "its path repeats a segment more often than a path limit allows (TRAPS)"
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


def of_rules(settings: BaseSettings, url: str) -> tuple[list[str], Values]:
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
