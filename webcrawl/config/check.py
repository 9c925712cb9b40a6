"""The checks before a crawl: every value by the table of settings, every name, and the contact.

A value that passes here is accepted by the core. `names` checks the names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from webcrawl.admission.dns import read_server
from webcrawl.base.wording import SettingError, needs_extra
from webcrawl.config import components
from webcrawl.config.build import (
    compares_texts,
    domains_of,
    recrawl_from,
    report_folder,
    robots_token,
    rules_from,
    scope_from,
    warc_folder,
)
from webcrawl.config.fetch import (
    ProxyError,
    content_type_test,
    proxy_from,
    signer_from,
    user_agent_of,
)
from webcrawl.config.languagemodel import language_problems
from webcrawl.config.names import check_names
from webcrawl.config.scrapysown import unusable
from webcrawl.config.table import TABLE, read
from webcrawl.crawl.crawl import has_our_scheduler
from webcrawl.scope.rules import domain_of, named_host

_OURS = "webcrawl.scheduler.Scheduler"


def check(settings: BaseSettings) -> list[str]:
    """One line for each setting that cannot be used: its name, its value and what is allowed."""
    problems = [
        _problem(name, settings.get(name), why)
        for name, kind in TABLE.items()
        if (why := kind.problem(settings.get(name)))
    ]
    problems += unusable(settings)
    if problems:
        return problems
    if settings.get("CLUSTER"):
        try:
            import_module("nats")
        except ModuleNotFoundError:
            return [needs_extra("CLUSTER", "nats-py", "cluster")]
    if settings.get("ARCHIVE_STORE") and find_spec("obstore") is None:
        return [needs_extra("ARCHIVE_STORE", "obstore", "store")]
    problems += _conflicts(settings)
    problems += text_problems(settings)
    problems += language_problems(settings)
    for build in (scope_from, robots_token, rules_from, proxy_from, signer_from):
        try:
            build(settings)
        except SettingError as error:
            problems.append(str(error))
    return problems


def text_problems(settings: BaseSettings) -> list[str]:
    """Why this machine cannot compare the texts of pages, in a line; [] if it can, or need not."""
    if compares_texts(settings) and find_spec("rensa") is None:
        return [needs_extra("FOLLOW_NEAR_DUPLICATES=False", "rensa", "corpus")]
    return []


def _conflicts(settings: BaseSettings) -> Iterator[str]:
    """One line for each setting that cannot be used beside the others."""

    def wrong(name: str, allowed: str) -> str:
        return str(SettingError(name, settings[name], allowed))

    jobdir = settings.get("JOBDIR")
    if not has_our_scheduler(settings):
        yield wrong("SCHEDULER", f"{_OURS}, or a class made from it")
    if read(settings, "LIVE", int) and settings.get("LOG_FILE") and not jobdir:
        yield wrong("LIVE", "with LOG_FILE it needs a JOBDIR, which keeps the token out of the log")
    scheme, _, path, _, _ = urlsplit(str(settings.get("ARCHIVE_STORE")))
    own = {warc_folder(settings).resolve(), report_folder(settings).resolve()}
    if scheme == "file" and Path(unquote(path)).resolve() in own:
        yield wrong("ARCHIVE_STORE", "another folder than WARC_DIR and REPORT_DIR")
    if settings["FRONTIER_ORDER"] == "language" and not read(settings, "LANGUAGES", list):
        yield wrong("FRONTIER_ORDER", "it needs LANGUAGES, such as LANGUAGES=pt")
    if settings.get("CLUSTER"):
        if jobdir and settings["FRONTIER_STORE"] != "disk":
            yield wrong("FRONTIER_STORE", "'disk' for a hub of the CLUSTER")
        return
    if read(settings, "CLUSTER_HUBS", int) > 1:  # each would crawl the same hosts
        yield wrong("CLUSTER_HUBS", "1 without CLUSTER")
    if settings.get("CLUSTER_CHECKPOINTS"):  # none would be made
        yield wrong("CLUSTER_CHECKPOINTS", "unset without CLUSTER")


def _problem(name: str, value: object, why: str) -> str:
    """Of a setting that may have a password, the line does not have the value."""
    if name == "CLUSTER":
        return why  # it names the setting
    if name == "ARCHIVE_STORE":  # its text may be a login
        return f"{name} cannot be used: {why}"
    return str(ProxyError(why) if name == "PROXY" else SettingError(name, value, why))


def problems_of(
    settings: BaseSettings,
    spider: type[Spider],
    arguments: Mapping[str, Any] | None = None,
    *,
    is_broad: bool = False,
) -> list[str]:
    """One line for each misspelt name, each value that cannot be used, and each vital part off.

    A plain Scrapy spider with another scheduler than ours reads no setting of the table, and only
    names are checked. `is_broad`: it is a broad spider.
    """
    problems = check_names(settings, spider, arguments or {}).misspelt
    if is_broad or has_our_scheduler(settings):
        problems += check(settings) or components.refusals(settings)
    return problems


def warnings_of(settings: BaseSettings) -> list[str]:
    """A line for each setting that has no effect, or less than its user expects, beside others."""
    if not has_our_scheduler(settings):
        names = [name for name in ("LIVE", "RULES") if str(settings.get(name) or 0) != "0"]
        return [f"{name} has no effect: SCHEDULER is not {_OURS}" for name in names]
    lines: list[str] = []
    if recrawl_from(settings) is not None and not settings.get("JOBDIR"):
        lines.append(
            f"RECRAWL = {settings['RECRAWL']!r} without a JOBDIR: what is known of the pages is"
            " lost when this run ends"
        )
    if not read(settings, "ROBOTSTXT_OBEY", bool):
        lines.append(
            "ROBOTSTXT_OBEY = False: pages that robots.txt disallows are fetched, which owners may"
            " answer with a ban"
        )
    if settings.get("BOT_AUTH_AGENT") and not settings.get("BOT_AUTH_KEY"):
        lines.append("BOT_AUTH_AGENT has no effect without BOT_AUTH_KEY: no request is signed")
    # Set by the spider or on the command line: a settings module may have it for other crawls.
    given = (settings.getpriority("RECRAWL_CYCLE") or 0) > SETTINGS_PRIORITIES["project"]
    if given and recrawl_from(settings) is None:
        lines.append("RECRAWL_CYCLE has no effect without RECRAWL: no page is visited again")
    wants = content_type_test(settings)
    for media_type, parser in read(settings, "PARSERS", dict).items():
        if parser and not wants(200, [(b"content-type", media_type.encode())]):
            lines.append(f"PARSERS has no effect for {media_type}: CONTENT_TYPES does not name it")
    return lines


def domain_warnings(crawler: Crawler) -> list[str]:
    """A line for each entry of the spider's `allowed_domains` that is not a plain host."""
    return [
        f"allowed_domains has {entry!r}: "
        + (f"the host {host} is meant" if (host := domain_of(entry)) else "no URL matches it")
        for entry in domains_of(crawler)
        if not named_host(entry.strip())
    ]


def contact_warning(settings: BaseSettings) -> list[str]:
    """The warning for a crawl of public servers whose User-Agent names no contact.

    Empty if the User-Agent has a URL or a mail address, with FROM, and for a crawl of a test web:
    private addresses are allowed and all name servers are on loopback.
    """
    agent = user_agent_of(settings)
    if _CONTACT.search(agent) or settings.get("FROM") or _is_test_web(settings):
        return []
    return [
        "*" * 78,
        f"USER_AGENT = {agent!r} names no contact.",
        "The owners of the servers that you crawl cannot reach you, and may block you.",
        'Set it to a name with a URL or a mail address: "mycrawl/1.0 (+https://example.org/crawl)"',
        "*" * 78,
    ]


# A URL or "+" and a host, but not of this machine; a host that begins with www; a mail address.
_CONTACT = re.compile(
    r"https?://(?!localhost(?![\w.-])|127\.|0\.0\.0\.0|\[::1?\])\[?\w"
    r"|\+(?:[a-z0-9-]+\.)+[a-z][a-z0-9-]+(?![\w.])"
    r"|\bwww\.\w"
    r"|[^\s@]+@[^\s@]+\.\w",
    re.IGNORECASE,
)


def _is_test_web(settings: BaseSettings) -> bool:
    if not read(settings, "ALLOW_PRIVATE_ADDRESSES", bool):
        return False
    servers = settings.getlist("DNS_SERVERS")
    try:
        return bool(servers) and all(
            ip_address(read_server(each).address).is_loopback for each in servers
        )
    except ValueError:
        return False


def try_store(settings: BaseSettings) -> None:
    """SettingError if ARCHIVE_STORE takes no objects now."""
    url = read(settings, "ARCHIVE_STORE", str)
    if not url:
        return
    from webcrawl.warc.objects import Objects  # noqa: PLC0415  (it loads obstore)

    try:
        Objects(url, is_start=True).probe()
    except OSError as error:
        raise SettingError("ARCHIVE_STORE", url, error.strerror or str(error)) from None
