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

    names: str
    instead: str
    component: str = ""  # a middleware that reads them, once it is set back to its number


_DOWNLOADER = "scrapy.downloadermiddlewares."
_SPIDER = "scrapy.spidermiddlewares."

# Values, as texts, that ask for what the crawl does anyway, and give no line.
_OFF = ("0", "0.0", "false", "")
_ON = ("1", "1.0", "true")
_ALWAYS_ON = {
    *("COMPRESSION_ENABLED", "CONCURRENT_REQUESTS_PER_DOMAIN", "CONCURRENT_REQUESTS_PER_IP"),
    "HTTPERROR_ALLOW_ALL",
}

UNUSED = (
    Unused(
        "AUTOTHROTTLE_DEBUG AUTOTHROTTLE_ENABLED AUTOTHROTTLE_MAX_DELAY"
        " AUTOTHROTTLE_START_DELAY AUTOTHROTTLE_TARGET_CONCURRENCY",
        "delays are the frontier's: DOWNLOAD_DELAY, DELAY_FACTOR, IP_DELAY, CRAWL_DELAY_MAX",
    ),
    Unused(
        "CONCURRENT_REQUESTS_PER_DOMAIN CONCURRENT_REQUESTS_PER_IP",
        "a host and an address have one request at a time; CONCURRENT_REQUESTS is for all hosts",
    ),
    Unused(
        "DOWNLOAD_DELAY_JITTER DOWNLOAD_SLOTS RANDOMIZE_DOWNLOAD_DELAY",
        "a delay is never shorter than DOWNLOAD_DELAY, and the same for all hosts",
    ),
    Unused(
        "DUPEFILTER_CLASS DUPEFILTER_DEBUG",
        "the frontier knows each URL once, by its canonical form",
    ),
    Unused(
        "DEPTH_PRIORITY SCHEDULER_DEBUG SCHEDULER_DISK_QUEUE SCHEDULER_MEMORY_QUEUE"
        " SCHEDULER_PRIORITY_QUEUE SCHEDULER_START_DISK_QUEUE SCHEDULER_START_MEMORY_QUEUE",
        "the order is the frontier's: FRONTIER_ORDER",
    ),
    Unused(
        "DEPTH_STATS_VERBOSE",
        "report.json and the stats say how far the crawl came",
        _SPIDER + "depth.DepthMiddleware",
    ),
    Unused(
        "DNSCACHE_ENABLED DNSCACHE_SIZE DNS_RESOLVER DNS_TIMEOUT TWISTED_DNS_RESOLVER",
        "the crawl has its own DNS: DNS_SERVERS",
    ),
    Unused(
        "DOWNLOADER_CLIENTCONTEXTFACTORY DOWNLOADER_CLIENT_TLS_METHOD",
        "TLS is Python's: DOWNLOAD_TLS_MIN_VERSION, DOWNLOAD_TLS_MAX_VERSION",
    ),
    Unused(
        "HTTP2_MAX_FRAME_SIZE HTTPX_HTTP2_ENABLED",
        "the crawl's handler speaks HTTP/1.1; DOWNLOAD_HANDLERS takes another",
    ),
    Unused(
        "COMPRESSION_ENABLED",
        "the handler always asks for gzip and removes it; DEFAULT_REQUEST_HEADERS can say"
        " Accept-Encoding",
        _DOWNLOADER + "httpcompression.HttpCompressionMiddleware",
    ),
    Unused(
        "COOKIES_DEBUG COOKIES_ENABLED",
        "the crawl keeps no cookies; DOWNLOADER_MIDDLEWARES can have CookiesMiddleware: 700",
        _DOWNLOADER + "cookies.CookiesMiddleware",
    ),
    Unused(
        "HTTPERROR_ALLOWED_CODES HTTPERROR_ALLOW_ALL",
        "every answer reaches the spider, whatever its status",
        _SPIDER + "httperror.HttpErrorMiddleware",
    ),
    Unused(
        "METAREFRESH_ENABLED METAREFRESH_IGNORE_TAGS METAREFRESH_MAXDELAY",
        "a refresh, of a `<meta>` or a header, is a link of its page",
        _DOWNLOADER + "redirect.MetaRefreshMiddleware",
    ),
    Unused(
        "REDIRECT_ENABLED REDIRECT_PRIORITY_ADJUST",
        "a redirect is a page, and its target another: REDIRECT_MAX_TIMES, FOLLOW_LINKS",
        _DOWNLOADER + "redirect.RedirectMiddleware",
    ),
    Unused(
        "REFERER_ENABLED REFERRER_POLICIES REFERRER_POLICY",
        "no Referer is sent; SPIDER_MIDDLEWARES can have RefererMiddleware: 700, for a"
        " spider's own Requests",
        _SPIDER + "referer.RefererMiddleware",
    ),
    Unused(
        "RETRY_EXCEPTIONS RETRY_GIVE_UP_LOG_LEVEL RETRY_PRIORITY_ADJUST",
        "the frontier tries again: RETRY_TIMES, RETRY_HTTP_CODES",
        _DOWNLOADER + "retry.RetryMiddleware",
    ),
    Unused(
        "ROBOTSTXT_PARSER",
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
        for name in names.split():
            if (settings.getpriority(name) or 0) < SETTINGS_PRIORITIES["project"]:
                continue
            value = settings[name]  # `get` warns of a deprecated name
            is_empty = value is None or (isinstance(value, Mapping | BaseSettings) and not value)
            as_here = _ON if name in _ALWAYS_ON else _OFF
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
