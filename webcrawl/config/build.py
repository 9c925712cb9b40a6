"""Core objects made from settings: the one place where a setting's name meets the core.

The scheduler and the drop-in middlewares build the same parts from the same settings here. A
setting that cannot be used is a `SettingError`, one line that names it.
"""

from __future__ import annotations

import math
import os
import socket
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.spider import DefaultSpider

from webcrawl.admission.dns import Resolver
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.outage import Outage, connects
from webcrawl.admission.runner import Admissions
from webcrawl.config.fetch import (
    client_from,
    content_type_test,
    headers_from,
    limits_from,
    user_agent_of,
)
from webcrawl.fetch.exchange import Exchange
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.disk.frontier import DiskFrontier
from webcrawl.frontier.disk.identity import Identity
from webcrawl.frontier.lease import Link
from webcrawl.frontier.memory import MemoryFrontier
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.shared.client import RemoteFrontier
from webcrawl.frontier.shared.server import FrontierServer
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.parse.robots import MAX_BODY_BYTES, RobotsRules, product_token
from webcrawl.parse.robotsparsers import OURS, PROTEGO, reader
from webcrawl.scope import PathLimits, Scope

DEBUG_COMMAND = (
    "DEBUG_COMMAND"  # the setting of commands that look at a page: `looks.Look` makes it
)
SOCKET_STORE = "socket:"  # and a file descriptor: the FRONTIER_STORE of a worker
_OTHERS_SHARE = 8  # fetches of each other process for one of the first
END_S = 10.0  # beyond CLOSE_GRACE, for a worker to hand back what it has


class SettingError(ValueError):
    """The user's fault: a setting's name, its value and what is allowed."""

    def __init__(self, name: str, value: object, allowed: str) -> None:
        super().__init__(f"{name} = {value!r} cannot be used: {allowed}")


def whole_number(settings: BaseSettings, name: str) -> int:
    """A setting that counts something: 0 or more."""
    value = settings.get(name)
    try:
        number = int(value or 0)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise SettingError(name, value, "a whole number, 0 or more")
    return number


def seconds(settings: BaseSettings, name: str) -> float:
    """A setting that is a time: 0 or more seconds."""
    value = settings.get(name)
    try:
        number = float(value or 0)
    except (TypeError, ValueError):
        number = -1.0
    if not 0 <= number < math.inf:
        raise SettingError(name, value, "a number of seconds, 0 or more")
    return number


def scope_from(settings: BaseSettings) -> Scope:
    """What belongs to the crawl. `SCOPE_RULES` are import paths of scope rules, or rules.

    A limit of 0 is none, as in Scrapy.
    """
    traps = PathLimits(
        whole_number(settings, "PATH_DEPTH_LIMIT"), whole_number(settings, "PATH_REPEAT_LIMIT")
    )
    rules = [load_object(rule) for rule in settings.getlist("SCOPE_RULES")]
    return Scope(
        suffixes=settings.getlist("SCOPE_SUFFIXES"),
        deny=settings.getlist("SCOPE_DENY"),
        allow=settings.getlist("SCOPE_ALLOW"),
        max_length=whole_number(settings, "URLLENGTH_LIMIT") or sys.maxsize,
        rules=[traps, *rules],
    )


def outlinks_from(settings: BaseSettings, dropped: Counter[str]) -> Outlinks:
    """What makes links of URLs; refusals are counted in `dropped`.

    Links to known URLs are left out, save in an order that they would move.
    """
    ordering = ORDERINGS[settings["FRONTIER_ORDER"]]
    known = None if ordering.moves_links else UrlCache(policy_from(settings))
    sequence_max = whole_number(settings, "SEQUENCE_LIMIT")
    return Outlinks(scope_from(settings), dropped, sequence_max, known)


def caps_from(settings: BaseSettings) -> Caps:
    """The caps on pages a host, a registered domain and an IP address."""
    return Caps(
        per_host=whole_number(settings, "MAX_PAGES_PER_HOST"),
        per_domain=whole_number(settings, "MAX_PAGES_PER_DOMAIN"),
        per_ip=whole_number(settings, "MAX_PAGES_PER_IP"),
    )


def processes_from(settings: BaseSettings) -> int:
    """How many processes crawl: `CRAWL_PROCESSES`, 0 is one for each core. None without a fetch."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    processes = whole_number(settings, "CRAWL_PROCESSES") or cores or 1
    return min(processes, settings.getint("CONCURRENT_REQUESTS"))


def share_of(settings: BaseSettings, name: str, number: int = 1) -> int:
    """What process `number` of the crawl gets of a setting that counts for all together.

    The first, which also keeps the frontier, gets an eighth of what each other does.
    """
    total, others = settings.getint(name), processes_from(settings) - 1
    first = max(1, total // (_OTHERS_SHARE * others + 1))
    if number == 1:
        return first
    return (total - first) // others + (number - 2 < (total - first) % others)


def is_worker(settings: BaseSettings) -> bool:
    """Whether this process is one that the crawl's main process has started."""
    return str(settings.get("FRONTIER_STORE")).startswith(SOCKET_STORE)


def frontier_from(settings: BaseSettings) -> Frontier:
    """All state of the crawl, in the store and the order that were asked for.

    Served where there are other processes or a target; in one of the others, the way to it.
    """
    if is_worker(settings):
        descriptor = int(settings["FRONTIER_STORE"].removeprefix(SOCKET_STORE))
        return RemoteFrontier(socket.socket(fileno=descriptor))
    frontier = _own_frontier_from(settings)
    target = settings.getint("CLOSESPIDER_PAGECOUNT")
    if processes_from(settings) == 1 and not target:
        return frontier
    return FrontierServer(
        frontier,
        target=target,
        grace_s=settings.getfloat("CLOSE_GRACE") + END_S,
    )


def _own_frontier_from(settings: BaseSettings) -> Frontier:
    order, store = settings.get("FRONTIER_ORDER"), settings.get("FRONTIER_STORE")
    if order not in ORDERINGS:
        raise SettingError("FRONTIER_ORDER", order, " or ".join(ORDERINGS))
    policy, ordering, caps = policy_from(settings), ORDERINGS[order](), caps_from(settings)
    if store == "memory":
        return MemoryFrontier(policy, ordering=ordering, caps=caps)
    if store != "disk":
        raise SettingError("FRONTIER_STORE", store, "memory or disk")
    now = time.monotonic()
    return DiskFrontier(
        Path(settings["JOBDIR"]) if settings.get("JOBDIR") else None,
        policy,
        ordering=ordering,
        caps=caps,
        active_max=whole_number(settings, "FRONTIER_ACTIVE_HOSTS"),
        identity=identity_from(settings),
        now=now,
        utc_s=time.time() - now,
    )


def identity_from(settings: BaseSettings) -> Identity:
    """The settings that make a crawl what it is: to change them within one is worth a word."""
    lists = {
        name: [getattr(item, "__qualname__", str(item)) for item in settings.getlist(name)]
        for name in ("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW", "SCOPE_RULES")
    }
    caps = ("MAX_PAGES_PER_HOST", "MAX_PAGES_PER_DOMAIN", "MAX_PAGES_PER_IP")
    limits = ("DEPTH_LIMIT", "PATH_DEPTH_LIMIT", "PATH_REPEAT_LIMIT", "SEQUENCE_LIMIT")
    numbers = {name: whole_number(settings, name) for name in caps + limits}
    switches = {name: settings.getbool(name) for name in ("FOLLOW_LINKS", "ROBOTSTXT_OBEY")}
    return {"FRONTIER_ORDER": settings["FRONTIER_ORDER"], **lists, **numbers, **switches}


def policy_from(settings: BaseSettings) -> Policy:
    """How the crawl treats links, hosts and failures."""
    retry = settings.getbool("RETRY_ENABLED")
    return Policy(
        politeness=Politeness(
            delay_s=seconds(settings, "DOWNLOAD_DELAY"),
            ip_delay_s=seconds(settings, "IP_DELAY"),
            crawl_delay_max_s=seconds(settings, "CRAWL_DELAY_MAX"),
        ),
        obey_robots=settings.getbool("ROBOTSTXT_OBEY"),
        head_first=settings.getbool("HEAD_FIRST"),
        depth_max=whole_number(settings, "DEPTH_LIMIT"),
        redirects_max=whole_number(settings, "REDIRECT_MAX_TIMES"),
        retry_times=whole_number(settings, "RETRY_TIMES") if retry else 0,
        retry_codes=frozenset(map(int, settings.getlist("RETRY_HTTP_CODES"))),
        failures_max=whole_number(settings, "HOST_MAX_FAILURES"),
    )


def guard_from(settings: BaseSettings) -> AddressGuard:
    """Which addresses the crawl may connect to."""
    return AddressGuard(allow_private=settings.getbool("ALLOW_PRIVATE_ADDRESSES"))


def robots_token(settings: BaseSettings) -> str:
    """The name that robots.txt knows us by (RFC 9309, 2.2.1): by default the one that is sent."""
    return product_token(settings.get("ROBOTSTXT_USER_AGENT") or user_agent_of(settings))


def robots_reader(settings: BaseSettings) -> Callable[[bytes], RobotsRules]:
    """What reads a robots.txt: the parser that ROBOTS_PARSER names, for our own name."""
    name = settings.get("ROBOTS_PARSER") or OURS
    parser = None if name in (OURS, PROTEGO) else load_object(name)
    if parser is not None and not isinstance(name, str):
        name = f"{parser.__module__}.{parser.__qualname__}"
    return reader(name, robots_token(settings), parser)


def is_debugging(crawler: Crawler) -> bool:
    """Whether this is a debugging command (`webcrawl.commands.debugging`), which leaves nothing.

    In a project with a COMMANDS_MODULE of its own these are seen by Scrapy's spider for them.
    """
    return crawler.settings.getbool(DEBUG_COMMAND) or issubclass(crawler.spidercls, DefaultSpider)


def counters_of(crawler: Crawler) -> Counters | None:
    """The counts of a crawl as its spider opens; None when its scheduler is not ours, or there is
    no frontier, so no crawl.
    """
    scheduler = crawler.engine.scheduler
    if getattr(scheduler, "problem", ""):
        return None
    counters = getattr(scheduler, "counters", None)
    return counters if isinstance(counters, Counters) else None


def resolver_from(settings: BaseSettings) -> Resolver:
    """DNS as the crawl asks it."""
    return Resolver(settings.getlist("DNS_SERVERS"))


def admissions_from(
    settings: BaseSettings,
    *,
    outlink: Callable[[str, Link], Link | None],
    record: Callable[[Exchange], Awaitable[None]],
) -> Admissions:
    """What runs DNS, robots.txt and HEAD beside the downloads."""
    # Mostly one request to a host; to keep its connection for a page has not paid.
    limits = replace(limits_from(settings), max_size_bytes=MAX_BODY_BYTES, keep_alive_s=0.0)
    resolver = resolver_from(settings)
    return Admissions(
        resolver=resolver,
        guard=guard_from(settings),
        client=client_from(settings, limits),
        headers=headers_from(settings),
        read_rules=robots_reader(settings),
        wants=content_type_test(settings),
        outlink=outlink,
        record=record,
        outage=Outage(resolver.is_answered, connects, max_s=seconds(settings, "OUTAGE_TIMEOUT")),
    )
