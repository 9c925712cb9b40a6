"""A hub and its fetchers, built from settings: what a fetcher is told, and what it makes of it.

A fetcher takes values from the hub, and never code: a setting that names a class or a function must
be the same on both machines, and no value names a file.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
import time
from secrets import token_hex
from typing import Any, Final, cast

from msgspec import MsgspecError, json
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl import __version__
from webcrawl.config.build import domains_of
from webcrawl.config.kinds import SettingError
from webcrawl.config.table import TABLE, read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.hub.address import Address
from webcrawl.hub.bus import NatsBus
from webcrawl.hub.fetching import HubFrontier
from webcrawl.hub.packets import SILENCE_S, Brief
from webcrawl.hub.records import CrawlRecord, Ownership
from webcrawl.scope.hostrules import HostRules
from webcrawl.scope.rules import entries_of

PRIORITY: Final = 100  # above every setting of a user
# Settings of each machine, or of the hub alone.
_OWN: Final = frozenset(
    {
        *("JOBDIR", "WARC_DIR", "REPORT_DIR", "DEDUP_INDEX", "RULES", "BOT_AUTH_KEY", "PROXY"),
        *("WARC_PREFIX", "WARC_MAX_SIZE", "WARC_MAX_TOTAL", "DISK_FREE_MIN", "WARC_OMIT_HEADERS"),
        *("CONCURRENT_REQUESTS", "CRAWL_PROCESSES", "KEEP_ALIVE", "CLOSE_GRACE"),
        *("DNS_SERVERS", "OUTAGE_TIMEOUT"),
        *("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT", "STATS_INTERVAL", "LIVE", "OWN_NAMES"),
        *(name for name in TABLE if name.startswith(("CLUSTER", "FRONTIER_"))),
    }
) - {"FRONTIER_ORDER"}
# Settings that name code.
_CODE: Final = frozenset({"SCOPE_RULES", "PARSERS", "ROBOTS_PARSER", "SCHEDULER"})
_MIDDLEWARE: Final = "webcrawl.extensions.fetcher.FetcherMiddleware"
_MARGIN_S: Final = 1.0  # of a request that is being sent at the end of a session


def bus_from(settings: BaseSettings) -> NatsBus:
    """The bus of CLUSTER, not connected. The URL was checked before."""
    return NatsBus(Address.parse(str(settings["CLUSTER"])))


def longest_fetch_s(settings: BaseSettings) -> float:
    """From a request to the end of its fetch."""
    return read(settings, "DOWNLOAD_TIMEOUT", float) + _MARGIN_S


def brief_of(crawler: Crawler) -> Brief:
    """What fetchers need to know of the crawl of `crawler`. SettingError."""
    settings, crawl = crawler.settings, crawl_of(crawler)
    _, arguments = getattr(crawler.spider, "crawl_arguments", ((), {}))
    arguments = {name: value for name, value in arguments.items() if name != "seeds"}
    told = _told(settings)
    try:
        content = json.encode([told, arguments, domains_of(crawler)], order="deterministic")
    except (MsgspecError, TypeError) as error:
        allowed = f"values that are plain, in the settings and the spider's arguments: {error}"
        shown = TABLE["CLUSTER"].kind.typed(settings["CLUSTER"])  # without the password
        raise SettingError("CLUSTER", shown, allowed) from None
    return Brief(
        crawl=crawl.crawl_id,
        spider=str(crawler.spidercls.name),
        settings=told,
        settings_hash=hashlib.sha256(content).hexdigest()[:16],
        arguments=arguments,
        domains=domains_of(crawler),
        has_rules=crawl.rules is not None,
    )


def _told(settings: BaseSettings) -> dict[str, Any]:
    """The settings that a fetcher is told, and those that it must have by itself.

    SettingError for a file: fetchers read none.
    """
    told = {name: row.kind.typed(settings[name]) for name, row in TABLE.items() if name not in _OWN}
    for name in ("SCOPE_ALLOW", "SCOPE_DENY"):
        told[name] = list(entries_of(name, cast("list[str]", told[name])))
    for name, value in told.items():
        if _names_file(value):
            allowed = "without CLUSTER; a hub's fetchers cannot read its files: write a list"
            raise SettingError(name, settings[name], allowed)
    return told


def _names_file(value: object) -> bool:
    items = value if isinstance(value, list | tuple) else [value]
    return any(isinstance(each, str) and each.startswith("@") for each in items)


def follow(settings: BaseSettings, brief: Brief) -> list[str]:
    """Set what the hub tells. One line for each setting that must be changed on this machine."""
    problems = []
    for name, value in brief.settings.items():
        row = TABLE.get(name)
        if name in _CODE:  # the check of such a value would import it
            if TABLE[name].kind.typed(settings[name]) != value:
                own = f"{name} = {settings[name]!r}"
                problems.append(f"{own}, and the hub has {value!r}: set the same")
        elif row is None or name in _OWN or not row.kind.fits(value) or _names_file(value):
            problems.append(f"the hub's {name} = {value!r} cannot be used")
        else:
            settings.set(name, value, PRIORITY)
    middlewares = settings.getdict("SPIDER_MIDDLEWARES_BASE")
    values = {
        "CRAWL_PROCESSES": 1,
        "CLOSESPIDER_PAGECOUNT": 0,
        "CLOSESPIDER_TIMEOUT": 0,
        "SPIDER_MIDDLEWARES_BASE": middlewares | {_MIDDLEWARE: -1},
        "STATS_DUMP": False,
    }
    for name, value in values.items():
        settings.set(name, value, PRIORITY)
    return problems


def hub_frontier(settings: BaseSettings, brief: Brief, rules: HostRules | None) -> HubFrontier:
    """The frontier of a fetcher; its bus is not connected."""
    frontier = HubFrontier(
        bus_from(settings), brief, new_name(), place(), clock=time.monotonic, new_name=new_name,
        rules=rules,
    )  # fmt: skip
    frontier.crawl_id = brief.crawl
    return frontier


def ownership_from(
    settings: BaseSettings, bus: NatsBus, brief: Brief, *, is_new: bool
) -> Ownership:
    """The claim of this process on the hub."""
    return Ownership(
        bus,
        CrawlRecord(__version__, brief.crawl, brief.settings_hash),
        f"{place()}-{new_name()}",
        pause_s=SILENCE_S + longest_fetch_s(settings),
        is_new=is_new,
        clock=time.monotonic,
    )


def new_name() -> str:
    return token_hex(6)


def place() -> str:
    """This process, for users."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:80]
    return f"{host}-{os.getpid()}"
