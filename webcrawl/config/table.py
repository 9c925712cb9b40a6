"""The table of settings: the kind of each. docs/settings.md says what they mean.

The check before a crawl, every reader of a setting and report.json use this table; a test holds the
page to it. It has no defaults: these are in `webcrawl.settings` and in Scrapy. A setting that is
not in this table is Scrapy's own, or may have any value. A new setting needs a default in
`webcrawl.settings`, a row here, and one of the page.
"""

from __future__ import annotations

from typing import TypeVar

from scrapy.settings import BaseSettings

from webcrawl.base.wording import SettingError
from webcrawl.config import kinds
from webcrawl.config.kinds import BOOL, FAULTS, Kind, one_of, seconds, whole
from webcrawl.frontier.orderings import ORDERINGS

T = TypeVar("T")

TABLE: dict[str, Kind] = {
    # What is crawled
    "SCOPE_SUFFIXES": kinds.SUFFIXES,
    "SCOPE_DENY": kinds.NAMES,
    "SCOPE_ALLOW": kinds.NAMES,
    "SCOPE_RULES": kinds.FUNCTIONS,
    "FOLLOW_LINKS": BOOL,
    "PAGE_REQUISITES": BOOL,
    "SITEMAPS": kinds.SITEMAPS,
    "FOLLOW_NEAR_DUPLICATES": BOOL,
    "OBEY_NOFOLLOW": BOOL,
    "OBEY_NOARCHIVE": BOOL,
    "DEPTH_LIMIT": whole(0),
    "URLLENGTH_LIMIT": whole(0),
    "TRAPS": BOOL,
    "MAX_PAGES_PER_HOST": whole(0),
    "MAX_PAGES_PER_DOMAIN": whole(0),
    "MAX_PAGES_PER_IP": whole(0),
    "MAX_BYTES_PER_HOST": kinds.SIZE,
    "RULES": kinds.RULES_FILE,
    "CONTENT_TYPES": kinds.MEDIA_TYPES,
    "PARSERS": kinds.PARSERS,
    "HEAD_FIRST": BOOL,
    "CLOSESPIDER_PAGECOUNT": whole(0),
    "CLOSESPIDER_TIMEOUT": seconds(),
    # Manners
    "USER_AGENT": kinds.USER_AGENT,
    "DEFAULT_REQUEST_HEADERS": kinds.HEADERS,
    "FROM": kinds.MAIL_ADDRESS,
    "BOT_AUTH_KEY": kinds.PATH,
    "BOT_AUTH_AGENT": kinds.HTTPS_URL,
    "ROBOTSTXT_OBEY": BOOL,
    "ROBOTSTXT_USER_AGENT": kinds.AGENTS,
    "DOWNLOAD_DELAY": seconds(),
    "CRAWL_DELAY_MAX": seconds(),
    "DELAY_FACTOR": kinds.NUMBER,
    "IP_DELAY": seconds(),
    "RETRY_TIMES": whole(0),
    "RETRY_HTTP_CODES": kinds.HTTP_CODES,
    "REDIRECT_MAX_TIMES": whole(0),
    # How it is fetched
    "CONCURRENT_REQUESTS": whole(1),
    "CRAWL_PROCESSES": kinds.PROCESSES,
    "CLUSTER": kinds.BUS,
    "CLUSTER_HUBS": kinds.HUBS,
    "CLUSTER_CHECKPOINTS": kinds.FOLDER_OR_UNSET,
    "CLUSTER_SHARED_ADDRESSES": kinds.PREFIXES,
    "DOWNLOAD_TIMEOUT": seconds(0.001),
    "DOWNLOAD_MAXSIZE": whole(0),
    "DOWNLOAD_VERIFY_CERTIFICATES": BOOL,
    "PROXY": kinds.PROXY,
    "DNS_SERVERS": kinds.DNS_SERVERS,
    "ALLOW_PRIVATE_ADDRESSES": BOOL,
    "ALLOW_PORTS": kinds.PORTS,
    "FRONTIER_ORDER": one_of(*ORDERINGS),
    "LANGUAGES": kinds.LANGUAGES,
    "LANGUAGE_MODEL": kinds.LANGUAGE_MODEL,
    "FRONTIER_STORE": one_of("memory", "disk"),
    "RECRAWL": one_of("off", "fixed", "adaptive"),
    "RECRAWL_CYCLE": kinds.DURATION,
    "JOBDIR": kinds.FOLDER_OR_UNSET,
    "FRONTIER_ACTIVE_HOSTS": whole(1),
    # What is left behind
    "WARC_DIR": kinds.FOLDER,
    "WARC_PREFIX": kinds.FILE_PREFIX,
    "WARC_MAX_SIZE": kinds.size(1),
    "WARC_MAX_TOTAL": kinds.SIZE,
    "DISK_FREE_MIN": kinds.SIZE,
    "WARC_OMIT_HEADERS": kinds.HEADER_NAMES,
    "WARC_COLLECTION": kinds.ONE_LINE,
    "WARC_OPERATOR": kinds.ONE_LINE,
    "WARC_DESCRIPTION": kinds.ONE_LINE,
    "WARC_PAYLOAD_DIGEST": one_of("wire", "payload", "none"),
    "WARC_ENABLED": BOOL,
    "DEDUP_INDEX": kinds.INDEXES,
    "ARCHIVE_STORE": kinds.STORE,
    "REPORT_DIR": kinds.FOLDER_OR_UNSET,
    "STATS_INTERVAL": seconds(),
    "LIVE": kinds.LIVE,
    "OWN_NAMES": kinds.NAMES,
}

# The twelve that matter: why a user sets them. `scrapy crawl --help` and docs/settings.md begin so.
MOST_USED = {
    "USER_AGENT": "who you are, with a way to reach you: set it before any crawl of the web",
    "SCOPE_SUFFIXES": "which part of the web is crawled, such as `.br`",
    "SCOPE_DENY": "hosts and patterns that are left out",
    "MAX_PAGES_PER_HOST": "how much of each host is taken; 1 is one page per host, 0 no limit",
    "CLOSESPIDER_PAGECOUNT": "how many pages are enough; 0 is no limit",
    "DOWNLOAD_DELAY": "how long a host is left alone between two requests",
    "CONCURRENT_REQUESTS": "how many hosts are asked at a time",
    "CRAWL_PROCESSES": "how many cores the crawl uses",
    "FRONTIER_ORDER": "which pages come first; it cannot change later",
    "JOBDIR": "where the state is, so that a crawl can be resumed",
    "WARC_DIR": "where the archive goes",
    "LIVE": "a page in the browser that shows and steers the running crawl",
}


def read(settings: BaseSettings, name: str, type_: type[T]) -> T:
    """The value of setting `name` of the table, as a `type_`. SettingError if it cannot be used.

    A setting that is unset or empty is read as `type_()` (0, False, an empty list), unless it is a
    text. A drop-in middleware finds such settings in a project without the defaults of this one.
    """
    kind, value = TABLE[name], settings.get(name)
    if type_ is not str and (value is None or value == ""):
        return type_()
    try:
        typed = kind.typed(value)
    except FAULTS as error:
        raise SettingError(name, value, kind.reason(error)) from None
    assert isinstance(typed, type_), f"{name} is no {type_.__name__}"
    return typed


def typed_settings(settings: BaseSettings) -> dict[str, object]:
    """Every setting of the table with its type, for reports and archives: without secrets.

    Headers may be a login: only their names are there. A value that cannot be used may be anything.
    """
    values: dict[str, object] = {
        name: _shown(kind, settings[name]) for name, kind in TABLE.items() if name in settings
    }
    if isinstance(headers := values.get("DEFAULT_REQUEST_HEADERS"), dict):
        values["DEFAULT_REQUEST_HEADERS"] = sorted(headers)
    if values.get("BOT_AUTH_KEY"):  # a file; but a user may give the key itself
        values["BOT_AUTH_KEY"] = "set"
    return values


def _shown(kind: Kind, value: object) -> object:
    try:
        return kind.typed(value)
    except FAULTS:
        return "not shown"
