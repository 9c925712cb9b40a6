"""Every setting's allowed values, checked once before a crawl starts.

Owns what a value may be and its type, not what it means: a value that passes here is taken by the
core. A setting that is missing from the table is Scrapy's own, or anything goes. Of the names
`setting_names` knows.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import Any, NamedTuple

from scrapy import Spider
from scrapy.settings import BaseSettings, Settings
from scrapy.utils.misc import load_object

from webcrawl.admission.dns import read_server
from webcrawl.config.build import SettingError, robots_token, scope_from
from webcrawl.config.fetch import TLS_VERSIONS, headers_from, user_agent_of
from webcrawl.config.names import check_names
from webcrawl.crawl.page_fetch import LeaseKeeper
from webcrawl.parse.robotsparsers import OURS, PROTEGO
from webcrawl.scope import ScopeError


class Rule(NamedTuple):
    """What a value must be: a test of it, the words for it, and the value with its own type."""

    fits: Callable[[object], bool]
    allowed: str
    typed: Callable[[Any], object] = lambda value: value


def check(settings: BaseSettings, unread: Collection[str] = ()) -> list[str]:
    """One line for each setting that cannot be used: its name, its value and what is allowed.

    Those of `unread` may be anything.
    """
    problems = [
        str(SettingError(name, settings.get(name), rule.allowed))
        for name, rule in RULES.items()
        if name not in unread and not rule.fits(settings.get(name))
    ]
    if problems:
        return problems
    for build in (scope_from, robots_token):
        try:
            build(settings)
        except (ScopeError, SettingError) as error:
            problems.append(str(error))
    return problems


def problems_of(
    settings: BaseSettings, spider: type[Spider], unread: Collection[str] = ()
) -> list[str]:
    """One line for each misspelt name, and for each value that cannot be used.

    For a spider that may be a plain one: with another scheduler than ours it reads none of the
    settings in the table.
    """
    problems = check_names(settings, spider, {}).misspelt
    if RULES["SCHEDULER"].fits(settings["SCHEDULER"]):
        problems += check(settings, unread)
    return problems


def typed_settings(settings: BaseSettings) -> dict[str, object]:
    """The settings of the table as what they are: numbers, booleans, lists; of strings too."""
    values: dict[str, object] = {}
    for name, rule in RULES.items():
        if name in settings:
            value = settings.get(name)
            values[name] = rule.typed(value) if rule.fits(value) else value
    return values


def contact_warning(settings: BaseSettings) -> list[str]:
    """Lines for a crawl of public servers whose User-Agent does not say how to reach its owner.

    Empty where it names a URL or a mail address, and for a crawl of a test web: private addresses
    are allowed and all name servers are on loopback.
    """
    agent = user_agent_of(settings)
    if _CONTACT.search(agent) or _is_test_web(settings):
        return []
    return [
        "*" * 78,
        f"USER_AGENT = {agent!r} names no contact.",
        "Whoever runs a server that this crawl troubles cannot reach you, and may block you.",
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
    if not settings.getbool("ALLOW_PRIVATE_ADDRESSES"):
        return False
    servers = settings.getlist("DNS_SERVERS")
    try:
        return bool(servers) and all(
            ip_address(read_server(each).address).is_loopback for each in servers
        )
    except ValueError:
        return False


def _whole(least: int) -> Rule:
    def fits(value: Any) -> bool:
        try:
            return int(value) == float(value) and int(value) >= least
        except (TypeError, ValueError, OverflowError):
            return False

    return Rule(fits, f"a whole number, {least} or more", int)


def _seconds(least: float = 0) -> Rule:
    def fits(value: Any) -> bool:
        try:
            return least <= float(value) < math.inf
        except (TypeError, ValueError):
            return False

    return Rule(fits, f"a number of seconds, {least} or more", float)


def _one_of(*names: str, later: Iterable[str] = ()) -> Rule:
    words = " or ".join(names)
    absent = "".join(f"; {name} is not available yet" for name in later)
    return Rule(lambda value: value in names, f"{words}{absent}")


def _is_bool(value: object) -> bool:
    return str(value) in {"0", "1", "True", "False", "true", "false"}


def _is_list(value: object) -> bool:
    """A list, or the text of one with commas. JSON is a mistake that Scrapy would not see.

    A regular expression may begin with a bracket: it is JSON, or Python, where a quotation mark or
    the end follows.
    """
    if isinstance(value, str):
        return re.match(r"\s*[\[(]\s*(?:['\"]|[\])]\s*$)", value) is None
    return value is None or isinstance(value, list | tuple)


def _listed(value: Any) -> list[object]:
    """The items as Scrapy's `getlist` gives them; of functions and classes the import path."""
    items = (value.split(",") if value else []) if isinstance(value, str) else value or ()
    return [
        f"{item.__module__}.{item.__qualname__}" if hasattr(item, "__qualname__") else item
        for item in items
    ]


def _each(fits_one: Callable[[str], object]) -> Callable[[object], bool]:
    """A test of a list by a test of each of its items."""

    def fits(value: Any) -> bool:
        if not _is_list(value):
            return False
        items = value.split(",") if isinstance(value, str) else value or ()
        return all(fits_one(str(item).strip()) for item in items if item)

    return fits


def _is_header_value(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[\x20-\x7e]+", value) is not None


def _are_headers(value: Any) -> bool:
    try:
        headers_from(Settings({"DEFAULT_REQUEST_HEADERS": value, "USER_AGENT": ""}))
    except (TypeError, ValueError):
        return False
    return True


def _is_one_line(value: object) -> bool:
    return isinstance(value, str) and len(value.splitlines()) <= 1


def _is_dns_server(text: str) -> bool:
    try:
        read_server(text)
    except ValueError:
        return False
    return True


def _are_loadable(value: Any) -> bool:
    """Import paths, or the things themselves."""
    try:
        for item in (value.split(",") if isinstance(value, str) else value) if value else ():
            load_object(item)
    except (ImportError, NameError, TypeError, ValueError):
        return False
    return True


def _is_robots_parser(value: Any) -> bool:
    if value in (OURS, PROTEGO):
        return value == OURS or find_spec("protego") is not None
    try:
        return callable(load_object(value))
    except (ImportError, NameError, TypeError, ValueError):
        return False


def _is_scheduler(value: Any) -> bool:
    try:
        return issubclass(load_object(value), LeaseKeeper)
    except (ImportError, NameError, TypeError, ValueError):
        return False


def _is_path(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and str(value) != ""


def _is_writable(value: object) -> bool:
    """A folder that can be written, or made."""
    if not _is_path(value):
        return False
    folder = Path(str(value)).absolute()
    while not folder.exists():
        folder = folder.parent
    return folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)


def _is_file_prefix(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[^/\s\0]+", value) is not None


_BOOL = Rule(_is_bool, "True or False", lambda value: str(value) in {"1", "True", "true"})
_FOLDER = Rule(lambda value: not value or _is_writable(value), "a folder that can be written")
_LIST = Rule(_is_list, "names with commas between them, or a list in settings.py", _listed)

_TLS_VERSION = Rule(
    lambda value: value is None or value in TLS_VERSIONS, "None or " + " or ".join(TLS_VERSIONS)
)

RULES: dict[str, Rule] = {
    "USER_AGENT": Rule(_is_header_value, "one line of ASCII text, such as name/1.0 (+URL)"),
    "ROBOTSTXT_USER_AGENT": Rule(
        lambda value: value is None or _is_header_value(value), "one line of ASCII text"
    ),
    "DEFAULT_REQUEST_HEADERS": Rule(
        _are_headers,
        "a dictionary of header names and their values, each of one line",
        lambda value: Settings({"headers": value}).getdict("headers"),
    ),
    "ROBOTSTXT_OBEY": _BOOL,
    "ROBOTS_PARSER": Rule(_is_robots_parser, "webcrawl, protego, or the import path of a parser"),
    "DOWNLOAD_DELAY": _seconds(),
    "IP_DELAY": _seconds(),
    "CRAWL_DELAY_MAX": _seconds(),
    "HOST_MAX_FAILURES": _whole(1),
    "SCOPE_SUFFIXES": Rule(
        _each(re.compile(r"[^\s/:@]+").fullmatch),
        "ends of host names, such as .br,gov.pt",
        _listed,
    ),
    "SCOPE_DENY": _LIST,
    "SCOPE_ALLOW": _LIST,
    "SCOPE_RULES": Rule(
        _are_loadable, "import paths of functions, with commas between them", _listed
    ),
    "FOLLOW_LINKS": _BOOL,
    "OBEY_NOFOLLOW": _BOOL,
    "FOLLOW_REL_NOFOLLOW": _BOOL,
    "DEPTH_LIMIT": _whole(0),
    "URLLENGTH_LIMIT": _whole(0),
    "PATH_DEPTH_LIMIT": _whole(0),
    "PATH_REPEAT_LIMIT": _whole(0),
    "SEQUENCE_LIMIT": _whole(0),
    "MAX_PAGES_PER_HOST": _whole(0),
    "MAX_PAGES_PER_DOMAIN": _whole(0),
    "MAX_PAGES_PER_IP": _whole(0),
    "CONTENT_TYPES": Rule(
        _each(re.compile(r"[\w.+*-]+/[\w.+*-]+|\*").fullmatch),
        "media types, such as text/html,image/*, or * for all",
        _listed,
    ),
    "HEAD_FIRST": _BOOL,
    "CLOSESPIDER_PAGECOUNT": _whole(0),
    "CLOSESPIDER_TIMEOUT": _seconds(),
    "CONCURRENT_REQUESTS": _whole(1),
    "CONCURRENT_ADMISSIONS": _whole(1),
    "CRAWL_PROCESSES": _whole(0),
    "CRAWL_PROCESS_TIMEOUT": _seconds(2),
    "DOWNLOAD_TIMEOUT": _seconds(0.001),
    "KEEP_ALIVE": _seconds(),
    "DOWNLOAD_MAXSIZE": _whole(0),
    "DOWNLOAD_MAXHEADERSIZE": _whole(1),
    "DOWNLOAD_TLS_MIN_VERSION": _TLS_VERSION,
    "DOWNLOAD_TLS_MAX_VERSION": _TLS_VERSION,
    "REDIRECT_MAX_TIMES": _whole(0),
    "RETRY_TIMES": _whole(0),
    "RETRY_HTTP_CODES": Rule(
        _each(re.compile(r"[1-5]\d\d").fullmatch),
        "codes, such as 429,503",
        lambda value: [int(str(code)) for code in _listed(value)],
    ),
    "OUTAGE_TIMEOUT": _seconds(),
    "CLOSE_GRACE": _seconds(),
    "DNS_SERVERS": Rule(
        _each(_is_dns_server), "addresses, such as 127.0.0.1:5353,[::1]:53", _listed
    ),
    "ALLOW_PRIVATE_ADDRESSES": _BOOL,
    "FRONTIER_STORE": _one_of("memory", "disk", later=("redis://...",)),
    "FRONTIER_ACTIVE_HOSTS": _whole(1),
    "JOBDIR": _FOLDER,
    "FRONTIER_ORDER": _one_of("level", "depth", "least-visited", "opic"),
    "WARC_ENABLED": _BOOL,
    "WARC_DIR": Rule(_is_writable, "a folder that can be written"),
    "WARC_PREFIX": Rule(_is_file_prefix, "the start of a file name, without / and spaces"),
    "WARC_MAX_SIZE": _whole(1),
    "WARC_PAYLOAD_DIGEST": _one_of("wire", "payload", "none"),
    "WARC_COLLECTION": Rule(_is_one_line, "one line of text"),
    "WARC_OPERATOR": Rule(_is_one_line, "one line of text"),
    "WARC_DESCRIPTION": Rule(_is_one_line, "one line of text"),
    "REPORT_DIR": _FOLDER,
    "SCHEDULER": Rule(_is_scheduler, "webcrawl.scheduler.Scheduler, or a class made from it"),
    "STATS_INTERVAL": _seconds(),
}
