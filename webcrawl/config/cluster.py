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
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import Any, Final, cast

from msgspec import MsgspecError, json
from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings

from webcrawl import __version__
from webcrawl.base.wording import SettingError
from webcrawl.cluster.address import Address
from webcrawl.cluster.addresses import HubAddresses
from webcrawl.cluster.allhubs import AllHubs
from webcrawl.cluster.bus import Bus
from webcrawl.cluster.checkpoints import Checkpoints
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.fetching import HubFrontier
from webcrawl.cluster.packets import SILENCE_S, Brief
from webcrawl.cluster.records import CrawlRecord, Ownership
from webcrawl.cluster.sentcheckpoints import send_checkpoint
from webcrawl.cluster.several import SeveralHubs
from webcrawl.config.build import domains_of, hubs_from, job_folder
from webcrawl.config.check import text_problems
from webcrawl.config.languagemodel import language_problems
from webcrawl.config.table import TABLE, read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.frontier.buckets import SUFFIX_LIST, hub_of
from webcrawl.frontier.disk.database import is_begun
from webcrawl.frontier.disk.frontier import FOLDER, LocalFrontier
from webcrawl.scope.hostrules import HostRules
from webcrawl.scope.rules import entries_of

PRIORITY: Final = 100  # above every setting of a user
# Settings of each machine, or of the hub alone.
_OWN: Final = frozenset(
    {
        *("JOBDIR", "WARC_DIR", "REPORT_DIR", "DEDUP_INDEX", "RULES", "BOT_AUTH_KEY", "PROXY"),
        "LANGUAGE_MODEL",
        *("WARC_PREFIX", "WARC_MAX_SIZE", "WARC_MAX_TOTAL", "DISK_FREE_MIN", "WARC_OMIT_HEADERS"),
        *("ARCHIVE_STORE", "CONCURRENT_REQUESTS", "CRAWL_PROCESSES", "DNS_SERVERS"),
        *("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT", "STATS_INTERVAL", "LIVE", "OWN_NAMES"),
        *(name for name in TABLE if name.startswith(("CLUSTER", "FRONTIER_"))),
    }
) - {"FRONTIER_ORDER"}
# Settings that name code.
_CODE: Final = frozenset({"SCOPE_RULES", "PARSERS"})
_MIDDLEWARE: Final = "webcrawl.extensions.fetcher.FetcherMiddleware"
_MARGIN_S: Final = 1.0  # of a request that is being sent at the end of a session


def bus_from(settings: BaseSettings) -> Bus:
    """The bus of CLUSTER, not connected. The URL was checked before."""
    return Bus(Address.parse(str(settings["CLUSTER"])))


def longest_fetch_s(settings: BaseSettings) -> float:
    """From a request to the end of its fetch."""
    return read(settings, "DOWNLOAD_TIMEOUT", float) + _MARGIN_S


def brief_of(crawler: Crawler) -> Brief:
    """What fetchers need to know of the crawl of `crawler`. SettingError."""
    settings, crawl = crawler.settings, crawl_of(crawler)
    _, arguments = getattr(crawler.spider, "crawl_arguments", ((), {}))
    told, arguments = _told(settings), _without_seeds(arguments)
    return Brief(
        crawl=crawl.crawl_id,
        spider=str(crawler.spidercls.name),
        settings=told,
        settings_hash=_hash(settings, told, arguments, domains_of(crawler)),
        arguments=arguments,
        domains=domains_of(crawler),
        has_rules=crawl.rules is not None,
        hubs=hubs_from(settings),
    )


def record_of(crawler: Crawler, arguments: dict[str, Any], crawl_id: str) -> CrawlRecord:
    """The crawl as its hubs agree on it. `arguments` are those of the spider. SettingError."""
    settings, spider = crawler.settings, str(crawler.spidercls.name)
    of_hubs = SUFFIX_LIST, settings.getlist("CLUSTER_SHARED_ADDRESSES")
    hashed = _hash(settings, spider, _told(settings), _without_seeds(arguments), *of_hubs)
    return CrawlRecord(__version__, crawl_id, hashed, hubs_from(settings))


def _without_seeds(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "seeds"}


def _hash(settings: BaseSettings, *values: object) -> str:
    """SettingError for values that are not plain."""
    try:
        content = json.encode(values, order="deterministic")
    except (MsgspecError, TypeError) as error:
        allowed = f"values that are plain, in the settings and the spider's arguments: {error}"
        shown = TABLE["CLUSTER"].typed(settings["CLUSTER"])  # without the password
        raise SettingError("CLUSTER", shown, allowed) from None
    return hashlib.sha256(content).hexdigest()[:16]


def _told(settings: BaseSettings) -> dict[str, Any]:
    """The settings that a fetcher is told, and those that it must have by itself.

    SettingError for a file: fetchers read none.
    """
    told = {name: kind.typed(settings[name]) for name, kind in TABLE.items() if name not in _OWN}
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
        kind = TABLE.get(name)
        if name in _CODE:  # the check of such a value would import it
            if TABLE[name].typed(settings[name]) != value:
                own = f"{name} = {settings[name]!r}"
                problems.append(f"{own}, and the hub has {value!r}: set the same")
        elif kind is None or name in _OWN or not kind.fits(value) or _names_file(value):
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
    return problems + language_problems(settings) + text_problems(settings)


def hub_frontier(
    settings: BaseSettings, brief: Brief, rules: HostRules | None
) -> HubFrontier | AllHubs:
    """The frontier of a fetcher; its bus is not connected."""
    bus = bus_from(settings)
    hubs = [
        HubFrontier(
            bus, brief, new_name(), place(), clock=time.monotonic, new_name=new_name, rules=rules,
            number=number,
        )
        for number in range(brief.hubs)
    ]  # fmt: skip
    frontier = AllHubs(hubs, partial(hub_of, hubs=len(hubs))) if len(hubs) > 1 else hubs[0]
    frontier.crawl_id = brief.crawl
    return frontier


def several_from(settings: BaseSettings, claim: Claim) -> SeveralHubs:
    """The hub of `claim` among the others; its bus is not connected, its frontier not open."""
    ip_delay_s = read(settings, "IP_DELAY", float)
    pages_max = read(settings, "MAX_PAGES_PER_IP", int)
    jobdir = job_folder(settings)
    assert jobdir is not None
    addresses = None
    if ip_delay_s or pages_max:
        addresses = HubAddresses(
            claim.number,
            claim.hubs,
            ip_delay_s=ip_delay_s,
            pages_max=pages_max,
            shared=read(settings, "CLUSTER_SHARED_ADDRESSES", list),
            is_new=not (is_begun(jobdir / FOLDER) or claim.has_begun_empty),
            clock=time.monotonic,
        )
    return SeveralHubs(
        bus_from(settings),
        claim,
        addresses,
        longest_fetch_s=longest_fetch_s(settings),
        clock=time.monotonic,
        new_name=new_name,
    )


def ownership_from(
    settings: BaseSettings, bus: Bus, record: CrawlRecord, number: int, *, is_new: bool
) -> Ownership:
    """The claim of this process on hub `number`."""
    return Ownership(
        bus,
        record,
        f"{place()}-{new_name()}",
        pause_s=SILENCE_S + longest_fetch_s(settings),
        is_new=is_new,
        clock=time.monotonic,
        number=number,
    )


def checkpoints_from(
    settings: BaseSettings,
    claim: Claim,
    frontier: LocalFrontier,
    *,
    serves: Callable[[], bool],
    on_made: Callable[[Mapping[int, int]], None],
) -> Checkpoints | None:
    """The checkpoints of the hub of `claim`; None without CLUSTER_CHECKPOINTS."""
    jobdir, root = job_folder(settings), settings.get("CLUSTER_CHECKPOINTS")
    if jobdir is None or not root:
        return None
    url = read(settings, "ARCHIVE_STORE", str)
    send = partial(send_checkpoint, url) if url else None
    return Checkpoints(
        Path(root), jobdir, claim, frontier, serves=serves, on_made=on_made, send=send
    )


def new_name() -> str:
    return token_hex(6)


def place() -> str:
    """This process, for users."""
    host = re.sub(r"[^A-Za-z0-9.-]", "_", socket.gethostname())[:80]
    return f"{host}-{os.getpid()}"
