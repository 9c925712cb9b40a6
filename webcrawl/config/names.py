"""Finds misspelt names among a crawl's settings and its spider's arguments.

A name that a user gave is compared with the names that Scrapy and this project have, and with the
parameters of the spider. One that is nearly such a name is refused, unless OWN_NAMES lists it. Any
other unknown name is taken for the user's own, and passes. No code is searched: 2 ms.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any, NamedTuple

from scrapy import Spider
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings, default_settings

from webcrawl import settings as project_settings
from webcrawl.config.table import TABLE, read

# difflib's ratio, without "_": SCOPE_SUFFIX and SCOPE_SUFFIXES have .92. Of the 40,000 pairs of
# Scrapy's and the project's own names, only 17 have this ratio or more.
MISSPELT = 0.865
NEAR = 0.75  # near enough for a hint
_ARGUMENT_MISSPELT = 0.8  # lower, as they are short: "seed" and "seeds" have .89
# Settings of the last release, and what to use in their place.
_GONE = {
    "ADAPTIVE_DELAY_MAX": "CRAWL_DELAY_MAX holds for the adaptive delay too",
    "BOT_ADDRESSES": "it is `scrapy botpage --address`",
    "CLOSE_GRACE": "fetches under way have 5 s to end",
    "CLUSTER_CHECKPOINT_INTERVAL": "a checkpoint is made every ten minutes, and at a clean end",
    "CLUSTER_NAME": "write it behind the hosts of CLUSTER, as in nats://host:4222/name",
    "CLUSTER_REBALANCE": "fetchers take work from all hubs",
    "CLUSTER_SHARDS": "CLUSTER_HUBS is the number of machines with a part of the frontier",
    "CONCURRENT_ADMISSIONS": "CONCURRENT_REQUESTS holds for admissions too",
    "CRAWL_LOG": "the crawl log is always written, to REPORT_DIR",
    "CRAWL_PROCESS_TIMEOUT": "a process without a heartbeat for 120 s is replaced",
    "DOWNLOAD_MAXHEADERSIZE": "it is 32 KiB",
    "FOLLOW_REL_NOFOLLOW": "rel=nofollow is no reason not to follow",
    "HOST_MAX_FAILURES": "it is 20",
    "KEEP_ALIVE": "an idle connection is kept for 15 s, if no delay is as long",
    "MAX_SITEMAPS_PER_HOST": "it is 100",
    "OUTAGE_TIMEOUT": "the crawl waits for 6 hours",
    "PATH_DEPTH_LIMIT": "use TRAPS, and SCOPE_RULES for other limits",
    "PATH_REPEAT_LIMIT": "use TRAPS, and SCOPE_RULES for other limits",
    "RECRAWL_BUDGET": "half of the requests are visits, if new pages wait too",
    "ROBOTS_ALSO": "ROBOTSTXT_USER_AGENT takes several names, your own first",
    "ROBOTS_PARSER": "robots.txt is read as RFC 9309 has it",
    "SEQUENCE_LIMIT": "use TRAPS",
    "WARC_CDXJ": "the index is always written",
}
_USERS = {SETTINGS_PRIORITIES[name] for name in ("project", "spider", "cmdline")}
_OWN = "(OWN_NAMES lists names of your own)"


class Names(NamedTuple):
    """One line per name: misspelt ones, which end the crawl, and those that may be misspelt."""

    misspelt: list[str]
    doubtful: list[str]


def check_names(
    settings: BaseSettings, spider: type[Spider], arguments: Mapping[str, Any]
) -> Names:
    """Check the names of `settings` that users gave, and of the spider's `arguments`."""
    found, own = Names([], []), _own(settings)
    for name in sorted(_given(settings) - _known() - own):
        if name in _parameters(spider):
            found.misspelt.append(f"{name} is an argument, not a setting: -a {name}= {_OWN}")
        else:
            _settings_line(found, name)
    for name in arguments:
        if not (name[:1] == "_" or name in own or _takes(spider, name)):
            _arguments_line(found, name, spider)
    return found


def _settings_line(found: Names, name: str) -> None:
    if name in _GONE:
        found.misspelt.append(f"{name} is not a setting any more: {_GONE[name]} {_OWN}")
        return
    known = {_squeezed(each): each for each in sorted(_known())}
    near = [each for each in known if _is_swapped(each, _squeezed(name))]
    near = near or get_close_matches(_squeezed(name), known, 1, MISSPELT)
    if near:
        found.misspelt.append(f"{name} is not a setting; did you mean {known[near[0]]}? {_OWN}")
        return
    near = get_close_matches(_squeezed(name), known, 1, NEAR)
    if near:
        found.doubtful.append(f"{name} is no setting; the nearest is {known[near[0]]} {_OWN}")


def _arguments_line(found: Names, name: str, spider: type[Spider]) -> None:
    near = get_close_matches(name.lower(), _parameters(spider), 1, _ARGUMENT_MISSPELT)
    if name in _known():  # a scope or a cap without effect would crawl the whole web
        found.misspelt.append(f"{name} is a setting, not an argument: -s {name}= {_OWN}")
    elif near:
        found.misspelt.append(f"-a {name}= is not an argument; did you mean -a {near[0]}=? {_OWN}")
    elif spider.__module__.startswith("webcrawl."):  # a spider of the user's may read it
        found.doubtful.append(f"-a {name}= is given, but spider {spider.name!r} does not read it")


def _own(settings: BaseSettings) -> set[str]:
    """OWN_NAMES; empty if it cannot be used, which the check of values reports."""
    value = settings.get("OWN_NAMES")
    return set(read(settings, "OWN_NAMES", list)) if TABLE["OWN_NAMES"].fits(value) else set()


@cache
def _known() -> frozenset[str]:
    """The names in Scrapy's and the project's default settings."""
    modules = default_settings, project_settings
    return frozenset(name for module in modules for name in dir(module) if name.isupper())


def _given(settings: BaseSettings) -> set[str]:
    """Names that users gave: with -s, in custom_settings, in a settings module or a script."""
    names = {name for name in settings if settings.getpriority(name) in _USERS}
    return {name for name in names if name[:1] != "_"} - {"SETTINGS_MODULE"}  # set by Scrapy


def _squeezed(name: str) -> str:
    return name.upper().replace("_", "")


def _is_swapped(one: str, other: str) -> bool:
    """Whether two adjacent letters are swapped: one mistake, but a low ratio in a short name."""
    swaps = (one[:at] + one[at : at + 2][::-1] + one[at + 2 :] for at in range(len(one) - 1))
    return len(one) == len(other) and other in swaps


def _takes(spider: type[Spider], argument: str) -> bool:
    return argument in _parameters(spider) or hasattr(spider, argument)


def _parameters(spider: type[Spider]) -> list[str]:
    """Names of the parameters of the spider and its bases, and the attributes that Scrapy reads."""
    return ["allowed_domains", "start_urls", "user_agent"] + [
        parameter.name
        for base in spider.__mro__[:-1]
        for method in ("__init__", "from_crawler")
        if method in vars(base)
        for parameter in inspect.signature(getattr(base, method)).parameters.values()
        if parameter.kind is not parameter.VAR_KEYWORD and parameter.name != "self"
    ]
