"""Scrapy's settings without effect in this crawler, and the replacement of each.

A crawl begins with a line for each of them that is set. docs/extending.md has the same table. A
test compares it with Scrapy's own list: every setting of Scrapy is honoured, or listed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.python import global_object_name


class Unused(NamedTuple):
    """Settings that no code reads, except a component that is off by default."""

    names: Mapping[str, tuple[str, ...]]  # each with the values that give no line
    instead: str
    component: str = ""  # a middleware that reads them, once it is set back to its number


_DOWNLOADER = "scrapy.downloadermiddlewares."
_SPIDER = "scrapy.spidermiddlewares."

# Values, as texts, that ask for what the crawl does anyway.
OFF = ("0", "0.0", "false", "")
ON = ("1", "1.0", "true")
NEVER: tuple[str, ...] = ()

UNUSED = (
    Unused(
        {
            "AUTOTHROTTLE_DEBUG": OFF,
            "AUTOTHROTTLE_ENABLED": OFF,
            "AUTOTHROTTLE_MAX_DELAY": NEVER,
            "AUTOTHROTTLE_START_DELAY": NEVER,
            "AUTOTHROTTLE_TARGET_CONCURRENCY": NEVER,
        },
        "delays are the frontier's: DOWNLOAD_DELAY, DELAY_FACTOR, IP_DELAY, CRAWL_DELAY_MAX",
    ),
    Unused(
        {"CONCURRENT_REQUESTS_PER_DOMAIN": ON, "CONCURRENT_REQUESTS_PER_IP": ON},
        "a host and an address have one request at a time; CONCURRENT_REQUESTS is for all hosts",
    ),
    Unused(
        {"DOWNLOAD_DELAY_JITTER": OFF, "DOWNLOAD_SLOTS": NEVER, "RANDOMIZE_DOWNLOAD_DELAY": OFF},
        "a delay is never shorter than DOWNLOAD_DELAY, and the same for all hosts",
    ),
    Unused(
        {"DUPEFILTER_CLASS": NEVER, "DUPEFILTER_DEBUG": OFF},
        "the frontier knows each URL once, by its canonical form",
    ),
    Unused(
        {
            "DEPTH_PRIORITY": NEVER,
            "SCHEDULER_DEBUG": OFF,
            "SCHEDULER_DISK_QUEUE": NEVER,
            "SCHEDULER_MEMORY_QUEUE": NEVER,
            "SCHEDULER_PRIORITY_QUEUE": NEVER,
            "SCHEDULER_START_DISK_QUEUE": NEVER,
            "SCHEDULER_START_MEMORY_QUEUE": NEVER,
        },
        "the order is the frontier's: FRONTIER_ORDER",
    ),
    Unused(
        {"DEPTH_STATS_VERBOSE": OFF},
        "report.json and the stats say how far the crawl came",
        _SPIDER + "depth.DepthMiddleware",
    ),
    Unused(
        {
            "DNSCACHE_ENABLED": NEVER,
            "DNSCACHE_SIZE": NEVER,
            "DNS_RESOLVER": NEVER,
            "DNS_TIMEOUT": NEVER,
            "TWISTED_DNS_RESOLVER": NEVER,
        },
        "the crawl has its own DNS: DNS_SERVERS",
    ),
    Unused(
        {"DOWNLOADER_CLIENTCONTEXTFACTORY": NEVER, "DOWNLOADER_CLIENT_TLS_METHOD": NEVER},
        "TLS is Python's: DOWNLOAD_TLS_MIN_VERSION, DOWNLOAD_TLS_MAX_VERSION",
    ),
    Unused(
        {"HTTP2_MAX_FRAME_SIZE": NEVER, "HTTPX_HTTP2_ENABLED": OFF},
        "the crawl's handler speaks HTTP/1.1; DOWNLOAD_HANDLERS takes another",
    ),
    Unused(
        {"COMPRESSION_ENABLED": ON},
        "the handler always asks for gzip and removes it; DEFAULT_REQUEST_HEADERS can say"
        " Accept-Encoding",
        _DOWNLOADER + "httpcompression.HttpCompressionMiddleware",
    ),
    Unused(
        {"COOKIES_DEBUG": OFF, "COOKIES_ENABLED": OFF},
        "the crawl keeps no cookies; DOWNLOADER_MIDDLEWARES can have CookiesMiddleware: 700",
        _DOWNLOADER + "cookies.CookiesMiddleware",
    ),
    Unused(
        {"HTTPERROR_ALLOWED_CODES": NEVER, "HTTPERROR_ALLOW_ALL": ON},
        "every answer reaches the spider, whatever its status",
        _SPIDER + "httperror.HttpErrorMiddleware",
    ),
    Unused(
        {
            "METAREFRESH_ENABLED": OFF,
            "METAREFRESH_IGNORE_TAGS": NEVER,
            "METAREFRESH_MAXDELAY": NEVER,
        },
        "a refresh, of a `<meta>` or a header, is a link of its page",
        _DOWNLOADER + "redirect.MetaRefreshMiddleware",
    ),
    Unused(
        {"REDIRECT_ENABLED": OFF, "REDIRECT_PRIORITY_ADJUST": NEVER},
        "a redirect is a page, and its target another: REDIRECT_MAX_TIMES, FOLLOW_LINKS",
        _DOWNLOADER + "redirect.RedirectMiddleware",
    ),
    Unused(
        {"REFERER_ENABLED": OFF, "REFERRER_POLICIES": NEVER, "REFERRER_POLICY": NEVER},
        "no Referer is sent; SPIDER_MIDDLEWARES can have RefererMiddleware: 700, for a spider's own"
        " Requests",
        _SPIDER + "referer.RefererMiddleware",
    ),
    Unused(
        {
            "RETRY_EXCEPTIONS": NEVER,
            "RETRY_GIVE_UP_LOG_LEVEL": NEVER,
            "RETRY_PRIORITY_ADJUST": NEVER,
        },
        "the frontier tries again: RETRY_TIMES, RETRY_HTTP_CODES",
        _DOWNLOADER + "retry.RetryMiddleware",
    ),
    Unused(
        {"ROBOTSTXT_PARSER": NEVER},
        "robots.txt is read as RFC 9309 has it; ROBOTSTXT_OBEY says whether it is obeyed",
        _DOWNLOADER + "robotstxt.RobotsTxtMiddleware",
    ),
)


def unused(settings: BaseSettings) -> Iterator[str]:
    """One line for each setting of the user's that has no effect."""
    enabled = _enabled(settings)
    for names, instead, component in UNUSED:
        if component in enabled:
            continue
        for name, as_here in names.items():
            if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["project"]:
                continue
            value = settings[name]  # `get` warns of a deprecated name
            is_empty = value is None or (isinstance(value, Mapping | BaseSettings) and not value)
            if not is_empty and str(value).lower() not in as_here:
                yield f"{name} has no effect here: {instead}"


def _enabled(settings: BaseSettings) -> set[str]:
    """Import paths of the middlewares that are switched on."""
    both = (
        settings.get_component_priority_dict_with_base(name)
        for name in ("DOWNLOADER_MIDDLEWARES", "SPIDER_MIDDLEWARES")
    )
    return {
        each if isinstance(each, str) else global_object_name(each)
        for components in both
        for each, number in components.items()
        if number is not None
    }
