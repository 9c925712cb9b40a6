"""Builds the core's parts from settings, as `fetch` does for the fetch client.

Only this module and `fetch` connect names of settings with the core. The scheduler and the drop-in
middlewares build the same parts from the same settings. A setting that cannot be used raises
`SettingError`, one line that names it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy.crawler import Crawler
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.spider import DefaultSpider

from webcrawl.admission.dns import Resolver
from webcrawl.admission.guard import AddressGuard
from webcrawl.admission.outage import OUTAGE_MAX_S, Outage, connects
from webcrawl.admission.proxied import ProxyGuard, ProxyProbe, ProxyResolver
from webcrawl.admission.runner import Admissions, Requisite
from webcrawl.admission.sitemaps import ROOM_BYTES, Sitemaps
from webcrawl.config import rulesfile
from webcrawl.config.fetch import (
    client_from,
    content_type_test,
    has_proxy,
    headers_from,
    limits_from,
    user_agent_of,
)
from webcrawl.config.kinds import DIRECT, GUESS
from webcrawl.config.languagemodel import model_path
from webcrawl.config.table import read
from webcrawl.crawl.crawl import crawl_of
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.room import HostTimes, Room
from webcrawl.frontier.base import Policy
from webcrawl.frontier.caps import Caps
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.disk.identity import Identity
from webcrawl.frontier.lease import Link
from webcrawl.frontier.orderings import ORDERINGS
from webcrawl.frontier.outlinks import Outlinks
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.revisit import Recrawl
from webcrawl.frontier.store import StoreError
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.parse.body import Options
from webcrawl.parse.jointrules import names_key, reader
from webcrawl.parse.ownersignals import robots_signals
from webcrawl.parse.page import XML_TYPES
from webcrawl.parse.robots import MAX_BODY_BYTES, RobotsRules, product_token
from webcrawl.scope import SEQUENCE_MAX, HostsAndPatterns, PathLimits, Scope, refused_ports
from webcrawl.scope.hostrules import HostRules

if TYPE_CHECKING:  # only a crawl with CLUSTER loads it
    from webcrawl.cluster.claims import Claim
    from webcrawl.cluster.several import SeveralHubs

_OTHERS_SHARE = 8  # fetches of each worker for one fetch of the first process
CLOSE_GRACE_S = 5.0  # for fetches under way when the crawl is stopped


def scope_from(settings: BaseSettings, domains: Sequence[str] = ()) -> Scope:
    """The scope of the crawl. `SCOPE_RULES` are import paths of scope rules, or the rules.

    `domains` are those of `domains_of`. A limit of 0 is no limit, as in Scrapy.
    """
    traps = [PathLimits()] if read(settings, "TRAPS", bool) else []
    rules = [load_object(rule) for rule in settings.getlist("SCOPE_RULES")]
    return Scope(
        suffixes=read(settings, "SCOPE_SUFFIXES", list),
        deny=read(settings, "SCOPE_DENY", list),
        allow=read(settings, "SCOPE_ALLOW", list),
        domains=domains,
        max_length=read(settings, "URLLENGTH_LIMIT", int) or sys.maxsize,
        ports=refused_ports(read(settings, "ALLOW_PORTS", list)),
        rules=[*traps, *rules],
    )


def domains_of(crawler: Crawler) -> list[str]:
    """The spider's `allowed_domains`; in a worker, those of the first process's spider.

    A text, as `-a allowed_domains=a.test,b.test` gives it, is a list with commas.
    """
    if (assignment := crawl_of(crawler).assignment) is not None:
        return [*assignment.domains]
    domains = getattr(crawler.spider, "allowed_domains", None) or ()
    if isinstance(domains, str):
        domains = domains.split(",")
    return [str(each) for each in domains if each is not None]


def rules_from(settings: BaseSettings) -> HostRules | None:
    """The rules by host, as the file of RULES has them now; None without RULES. RulesError.

    One object per process: all its parts follow a change together.
    """
    path = rules_path(settings)
    return HostRules(rulesfile.load(path)) if path is not None else None


def rules_path(settings: BaseSettings) -> Path | None:
    """The file of RULES; None without one."""
    value = read(settings, "RULES", str) if settings.get("RULES") else ""
    return Path(value[1:]).absolute() if value else None


def outlinks_from(
    settings: BaseSettings,
    dropped: Counter[str],
    scope: Scope | None = None,
    rules: HostRules | None = None,
) -> Outlinks:
    """Makes links of the URLs of a page that are in `scope`; refusals are counted in `dropped`.

    Leaves out links to known URLs, unless such links change the order (FRONTIER_ORDER=opic).
    """
    ordering = ORDERINGS[read(settings, "FRONTIER_ORDER", str)]
    known = None if ordering.moves_links else UrlCache(policy_from(settings, rules))
    sequence_max = SEQUENCE_MAX if read(settings, "TRAPS", bool) else 0
    return Outlinks(
        *(scope or scope_from(settings), dropped, sequence_max, known),
        reads_sitemaps=reads_sitemaps(settings),
    )


def reads_sitemaps(settings: BaseSettings) -> bool:
    """Whether sitemaps are links: SITEMAPS and FOLLOW_LINKS."""
    wanted = guesses_sitemaps(settings) or read(settings, "SITEMAPS", bool)
    return wanted and read(settings, "FOLLOW_LINKS", bool)


def guesses_sitemaps(settings: BaseSettings) -> bool:
    """Whether /sitemap.xml is tried where a robots.txt names no sitemap."""
    return bool(settings.get("SITEMAPS") == GUESS)


def caps_from(settings: BaseSettings, rules: HostRules | None = None) -> Caps:
    """The caps on pages per host, per registered domain and per IP address."""
    return Caps(
        per_host=read(settings, "MAX_PAGES_PER_HOST", int),
        per_domain=read(settings, "MAX_PAGES_PER_DOMAIN", int),
        per_ip=read(settings, "MAX_PAGES_PER_IP", int),
        rules=rules,
    )


def processes_from(settings: BaseSettings) -> int:
    """The number of processes: `CRAWL_PROCESSES`, 0 is one per core; at most one per fetch."""
    processes = read(settings, "CRAWL_PROCESSES", int) or processors()
    return min(processes, read(settings, "CONCURRENT_REQUESTS", int))


def processors() -> int:
    """The number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def share_of(settings: BaseSettings, number: int = 1) -> int:
    """The share of process `number` in CONCURRENT_REQUESTS, which is for all processes together.

    The first process also runs the frontier, so its share is an eighth of a worker's.
    """
    total, others = read(settings, "CONCURRENT_REQUESTS", int), processes_from(settings) - 1
    first = max(1, total // (_OTHERS_SHARE * others + 1))
    if number == 1:
        return first
    return (total - first) // others + (number - 2 < (total - first) % others)


def frontier_from(
    settings: BaseSettings,
    scope: Scope,
    rules: HostRules | None,
    several: SeveralHubs | None = None,
    log_folder: Path | None = None,
) -> LocalFrontier:
    """The frontier, by FRONTIER_STORE and FRONTIER_ORDER.

    Drops URLs in line that `scope` denies. `several`: this hub among the others. `log_folder`: of
    the crawl log; None: there is none.
    """
    now = time.monotonic()
    return LocalFrontier(
        job_folder(settings),
        replace(policy_from(settings, rules), denied=scope.denied),
        ordering=ORDERINGS[read(settings, "FRONTIER_ORDER", str)](),
        caps=caps_from(settings, rules),
        active_max=read(settings, "FRONTIER_ACTIVE_HOSTS", int),
        identity=identity_from(settings, scope),
        log_folder=log_folder,
        now=now,
        utc_s=utc_offset_s(),
        others_ask_s=_others_ask_s(settings),
        refuses_hubs=several is None,
        partition=several.partition if several is not None else None,
        addresses=several.addresses if several is not None else None,
        crawl=several.claim.crawl if several is not None else "",
        in_memory=read(settings, "FRONTIER_STORE", str) == "memory",
    )


def utc_offset_s() -> float:
    """What makes UTC of monotonic times, in seconds.

    If this process is held between its two clocks, the difference is too great, and hosts were
    asked that much too early after the next start. So it is the least of some differences.
    """
    return min(-time.monotonic() + time.time() for _ in range(5))


def _others_ask_s(settings: BaseSettings) -> float:
    """How long fetchers of an earlier run may send requests."""
    if not settings.get("CLUSTER"):
        return 0.0
    from webcrawl.cluster.packets import SILENCE_S  # noqa: PLC0415  (only CLUSTER needs it)

    return SILENCE_S


def hubs_from(settings: BaseSettings) -> int:
    """The number of frontiers of the crawl: CLUSTER_HUBS, and 1 without CLUSTER."""
    return read(settings, "CLUSTER_HUBS", int) if settings.get("CLUSTER") else 1


def hub_in(jobdir: Path) -> Claim | None:
    """Which hub has this JOBDIR; None in a crawl with one hub or without CLUSTER. StoreError."""
    if not (jobdir / "hub.json").exists():
        return None
    from webcrawl.cluster.claims import ClaimError, read_claim  # noqa: PLC0415  (it loads nats-py)

    try:
        return read_claim(jobdir)
    except ClaimError as error:
        raise StoreError(str(error)) from None


def job_folder(settings: BaseSettings) -> Path | None:
    """JOBDIR; None for a crawl that cannot be resumed."""
    return Path(settings["JOBDIR"]) if settings.get("JOBDIR") else None


def report_folder(settings: BaseSettings) -> Path:
    """The folder of the reports and the crawl log."""
    return Path(settings["REPORT_DIR"]) if settings.get("REPORT_DIR") else warc_folder(settings)


def warc_folder(settings: BaseSettings) -> Path:
    """The folder of the archive."""
    return Path(settings.get("WARC_DIR") or "warc")


def identity_from(settings: BaseSettings, scope: Scope) -> Identity:
    """The settings that define a crawl: a change of one of them on resume logs a warning.

    `allowed_domains` of the spider is one of them.
    """
    lists = {
        name: [getattr(item, "__qualname__", str(item)) for item in settings.getlist(name)]
        for name in ("SCOPE_SUFFIXES", "SCOPE_DENY", "SCOPE_ALLOW", "SCOPE_RULES")
    }
    caps = ("MAX_PAGES_PER_HOST", "MAX_PAGES_PER_DOMAIN", "MAX_PAGES_PER_IP")
    numbers = {name: read(settings, name, int) for name in (*caps, "DEPTH_LIMIT")}
    names = ("FOLLOW_LINKS", "ROBOTSTXT_OBEY", "TRAPS")
    switches = {name: read(settings, name, bool) for name in names}
    path = rules_path(settings)
    rules = {"RULES": f"@{path}"} if path is not None else {}  # `scrapy explain` reads the file
    order = {"FRONTIER_ORDER": settings["FRONTIER_ORDER"]}
    proxy = {"PROXY": "set" if has_proxy(settings) else DIRECT} if settings.get("PROXY") else {}
    domains = {"allowed_domains": scope.domains} if scope.domains else {}
    wanted = languages_from(settings)
    languages = {"LANGUAGES": sorted(wanted)} if wanted else {}
    allowed = read(settings, "ALLOW_PORTS", list)
    ports = {"ALLOW_PORTS": list(map(str, allowed))} if allowed else {}
    near = {"FOLLOW_NEAR_DUPLICATES": False} if compares_texts(settings) else {}
    limits = {**lists, **domains, **numbers, **switches, **ports, **near}
    return {**order, **languages, **limits, **rules, **proxy}


def policy_from(settings: BaseSettings, rules: HostRules | None = None) -> Policy:
    """The settings of the frontier for hosts, links and failures."""
    retry = settings.getbool("RETRY_ENABLED")
    return Policy(
        politeness=Politeness(
            delay_s=read(settings, "DOWNLOAD_DELAY", float),
            ip_delay_s=read(settings, "IP_DELAY", float),
            crawl_delay_max_s=read(settings, "CRAWL_DELAY_MAX", float),
            delay_factor=read(settings, "DELAY_FACTOR", float),
        ),
        obey_robots=read(settings, "ROBOTSTXT_OBEY", bool),
        agent=robots_names(settings),
        also=robots_also(settings),
        head_first=read(settings, "HEAD_FIRST", bool),
        depth_max=read(settings, "DEPTH_LIMIT", int),
        bytes_max=read(settings, "MAX_BYTES_PER_HOST", int),
        redirects_max=read(settings, "REDIRECT_MAX_TIMES", int),
        retry_times=read(settings, "RETRY_TIMES", int) if retry else 0,
        retry_codes=frozenset(read(settings, "RETRY_HTTP_CODES", list)),
        rules=rules,
        recrawl=recrawl_from(settings),
        languages=languages_from(settings),
    )


def recrawl_from(settings: BaseSettings) -> Recrawl | None:
    """RECRAWL and RECRAWL_CYCLE; None if it is off, or unset."""
    mode = read(settings, "RECRAWL", str) if settings.get("RECRAWL") else "off"
    if mode == "off":
        return None
    return Recrawl(mode, read(settings, "RECRAWL_CYCLE", float))


def reading_from(settings: BaseSettings) -> Options:
    """How pages are read. Plain values, since another process reads the large ones."""
    parsers, wants = read(settings, "PARSERS", dict), content_type_test(settings)
    feeds = [(b"content-type", each.encode()) for each in XML_TYPES]
    return Options(
        agent=robots_token(settings).lower(),
        also=robots_also(settings),
        obey_nofollow=read(settings, "OBEY_NOFOLLOW", bool),
        follow_feeds=any(wants(200, [each]) for each in feeds),
        parsers={media_type.strip().lower(): path for media_type, path in parsers.items()},
        revisits=recrawl_from(settings) is not None,
        requisites=read(settings, "PAGE_REQUISITES", bool),
        languages=bool(languages_from(settings)),
        language_model=model_path(settings),
        sketches=compares_texts(settings),
    )


def compares_texts(settings: BaseSettings) -> bool:
    """Whether the links of near-duplicates are left out: FOLLOW_NEAR_DUPLICATES is off."""
    follows_all = read(settings, "FOLLOW_NEAR_DUPLICATES", bool)
    return not follows_all and bool(read(settings, "FOLLOW_LINKS", bool))


def languages_from(settings: BaseSettings) -> frozenset[str]:
    """LANGUAGES, ISO 639-3; empty if it is off, or unset."""
    return frozenset(read(settings, "LANGUAGES", list))


def guard_from(settings: BaseSettings) -> AddressGuard:
    """Which addresses the crawl may connect to, or which names through its proxy."""
    kind = ProxyGuard if has_proxy(settings) else AddressGuard
    return kind(allow_private=read(settings, "ALLOW_PRIVATE_ADDRESSES", bool))


def robots_token(settings: BaseSettings) -> str:
    """The crawler's name in robots.txt (RFC 9309, 2.2.1): by default that of the User-Agent."""
    names = read(settings, "ROBOTSTXT_USER_AGENT", list)
    return product_token(str(names[0]) if names else user_agent_of(settings))


def robots_also(settings: BaseSettings) -> tuple[str, ...]:
    """The further names of ROBOTSTXT_USER_AGENT, for which robots.txt is read too."""
    names = read(settings, "ROBOTSTXT_USER_AGENT", list)[1:]
    return tuple(filter(None, (product_token(str(each)) for each in names)))


def robots_names(settings: BaseSettings, agent: str = "") -> str:
    """All names that robots.txt is read for; `agent` in place of our own."""
    return names_key((agent or robots_token(settings), *robots_also(settings)))


def robots_reader(settings: BaseSettings, agent: str = "") -> Callable[[bytes], RobotsRules]:
    """A function that reads a robots.txt for all names of ROBOTSTXT_USER_AGENT.

    `agent` in place of our own.
    """
    return reader(robots_names(settings, agent))


def is_worker(crawler: Crawler) -> bool:
    """Whether this process fetches for another one, on this machine or another."""
    return crawl_of(crawler).assignment is not None


def leads_machine(crawler: Crawler) -> bool:
    """Whether no other process of this machine has started this one."""
    assignment = crawl_of(crawler).assignment
    return assignment is None or assignment.brief is not None


def is_debugging(crawler: Crawler) -> bool:
    """Whether this is a debugging command (`webcrawl.commands.debugging`), which writes no files.

    A project with another COMMANDS_MODULE runs Scrapy's own commands: they use DefaultSpider.
    """
    return crawl_of(crawler).is_debugging or issubclass(crawler.spidercls, DefaultSpider)


def leads_crawl(crawler: Crawler) -> bool:
    """Whether this process speaks for a crawl: no other one, and no debugging command, does."""
    return not (is_worker(crawler) or is_debugging(crawler))


def resolver_from(settings: BaseSettings, gate: Gate | None = None) -> Resolver | ProxyResolver:
    """The crawl's DNS client, behind `gate`. With a proxy, no name is looked up."""
    if has_proxy(settings):
        return ProxyResolver()
    return Resolver(read(settings, "DNS_SERVERS", list), gate=gate)


def admissions_from(
    settings: BaseSettings,
    *,
    rules: HostRules | None = None,
    outlink: Callable[[str, Link], Link | None],
    record: Callable[[Exchange], Awaitable[None]],
    denied: HostsAndPatterns | None = None,
    gate: Gate | None = None,
    sitemaps: Sitemaps | None = None,
    requisite: Requisite | None = None,
    waits: bool = True,
) -> Admissions:
    """The runner of all requests beside the pages. They pass `gate`.

    `waits`: an outage of our own network pauses the crawl; else its failures are the hosts'.
    """
    # Mostly one request per host: keep-alive for the first page took more CPU than it saved.
    limits = replace(limits_from(settings), max_size_bytes=MAX_BODY_BYTES, keep_alive_s=0.0)
    resolver = resolver_from(settings, gate)
    # Timed: hosts with large sitemaps must not hold the admissions of all others.
    room = Room(HostTimes(), ROOM_BYTES, is_timed=True)
    client = client_from(settings, limits, gate, room)
    probe = ProxyProbe(client.proxy) if client.proxy is not None else None
    return Admissions(
        resolver=resolver,
        guard=guard_from(settings),
        client=client,
        headers=headers_from(settings),
        wants=content_type_test(settings),
        outlink=outlink,
        record=record,
        outage=Outage(
            resolver.is_answered,
            probe.connects if probe is not None else connects,
            max_s=OUTAGE_MAX_S if waits else 0.0,
            gate=gate,
            proxy_problem=(lambda: probe.problem) if probe is not None else None,
        ),
        denied=denied,
        rules=rules,
        # Worked out once for each name, not for each robots.txt.
        read_rules=cache(partial(robots_reader, settings)),
        read_signals=cache(
            lambda agent: partial(robots_signals, names=robots_names(settings, agent))
        ),
        sitemaps=sitemaps,
        page_limits=limits_from(settings),
        requisite=requisite,
    )
