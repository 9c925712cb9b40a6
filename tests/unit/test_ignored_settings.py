"""Each of Scrapy's settings is honoured, or a log line says that it has no effect."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from scrapy.settings import default_settings

from tests.cases import each_of
from tests.projectsettings import of_a_crawl
from webcrawl import settings as project
from webcrawl.config.ignored import UNUSED, unused

ROOT = Path(__file__).parents[2]
NAMES = {name for name in dir(default_settings) if name.isupper()} | {"CONCURRENT_REQUESTS_PER_IP"}
LISTED = [name for each in UNUSED for name in each.names.split()]

# Read by Scrapy's parts that run here as they are, or by the parts that stand in for them.
HONOURED = set(
    re.findall(
        r"\w+",
        """
    ADDONS ASYNCIO_EVENT_LOOP AWS_ACCESS_KEY_ID AWS_ENDPOINT_URL AWS_MAX_POOL_CONNECTIONS
    AWS_REGION_NAME AWS_SECRET_ACCESS_KEY AWS_SESSION_TOKEN AWS_USE_SSL AWS_VERIFY BOT_NAME
    CLOSESPIDER_ERRORCOUNT CLOSESPIDER_ITEMCOUNT CLOSESPIDER_PAGECOUNT
    CLOSESPIDER_PAGECOUNT_NO_ITEM CLOSESPIDER_TIMEOUT CLOSESPIDER_TIMEOUT_NO_ITEM
    COMMANDS_MODULE CONCURRENT_ITEMS CONCURRENT_REQUESTS CRAWLSPIDER_FOLLOW_LINKS
    DEFAULT_DROPITEM_LOG_LEVEL DEFAULT_ITEM_CLASS DEFAULT_REQUEST_HEADERS DEPTH_LIMIT DOWNLOADER
    DOWNLOADER_CLIENT_TLS_CIPHERS DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING DOWNLOADER_MIDDLEWARES
    DOWNLOADER_MIDDLEWARES_BASE DOWNLOADER_STATS DOWNLOAD_BIND_ADDRESS DOWNLOAD_DELAY
    DOWNLOAD_FAIL_ON_DATALOSS DOWNLOAD_HANDLERS DOWNLOAD_HANDLERS_BASE DOWNLOAD_MAXSIZE
    DOWNLOAD_TIMEOUT DOWNLOAD_TLS_MAX_VERSION DOWNLOAD_TLS_MIN_VERSION
    DOWNLOAD_VERIFY_CERTIFICATES DOWNLOAD_WARNSIZE EDITOR EXTENSIONS EXTENSIONS_BASE FEEDS
    FEED_EXPORTERS FEED_EXPORTERS_BASE FEED_EXPORT_BATCH_ITEM_COUNT FEED_EXPORT_ENCODING
    FEED_EXPORT_FIELDS FEED_EXPORT_INDENT FEED_FORMAT FEED_STORAGES FEED_STORAGES_BASE
    FEED_STORAGE_FTP_ACTIVE FEED_STORAGE_GCS_ACL FEED_STORAGE_S3_ACL FEED_STORE_EMPTY
    FEED_TEMPDIR FEED_URI FEED_URI_PARAMS FILES_STORE FILES_STORE_GCS_ACL FILES_STORE_S3_ACL
    FORCE_CRAWLER_PROCESS FTP_PASSIVE_MODE FTP_PASSWORD FTP_USER GCS_PROJECT_ID HTTPAUTH_DOMAIN
    HTTPAUTH_PASS HTTPAUTH_USER HTTPCACHE_ALWAYS_STORE HTTPCACHE_DBM_MODULE HTTPCACHE_DIR
    HTTPCACHE_ENABLED HTTPCACHE_EXPIRATION_SECS HTTPCACHE_GZIP HTTPCACHE_IGNORE_HTTP_CODES
    HTTPCACHE_IGNORE_MISSING HTTPCACHE_IGNORE_RESPONSE_CACHE_CONTROLS HTTPCACHE_IGNORE_SCHEMES
    HTTPCACHE_POLICY HTTPCACHE_STORAGE HTTPPROXY_AUTH_ENCODING HTTPPROXY_ENABLED IMAGES_STORE
    IMAGES_STORE_GCS_ACL IMAGES_STORE_S3_ACL ITEM_PIPELINES ITEM_PIPELINES_BASE ITEM_PROCESSOR
    JOBDIR LOGSTATS_INTERVAL LOG_COLOR LOG_DATEFORMAT LOG_ENABLED LOG_ENCODING LOG_FILE
    LOG_FILE_APPEND LOG_FORMAT LOG_FORMATTER LOG_INSTALL_ROOT_HANDLER LOG_LEVEL LOG_SHORT_NAMES
    LOG_STDOUT LOG_VERSIONS MAIL_FROM MAIL_HOST MAIL_PASS MAIL_PORT MAIL_SSL MAIL_TLS MAIL_USER
    MEMDEBUG_ENABLED MEMUSAGE_CHECK_INTERVAL_SECONDS MEMUSAGE_ENABLED MEMUSAGE_LIMIT_MB
    MEMUSAGE_NOTIFY_MAIL MEMUSAGE_WARNING_MB NEWSPIDER_MODULE PERIODIC_LOG_DELTA
    PERIODIC_LOG_STATS PERIODIC_LOG_TIMING_ENABLED REACTOR_THREADPOOL_MAXSIZE REDIRECT_MAX_TIMES
    REMOTE_CONTROL_ENABLED REMOTE_CONTROL_JOBS_DIR REMOTE_CONTROL_OUTPUT_MAX_BYTES
    REMOTE_CONTROL_TIMEOUT_DEFAULT REMOTE_CONTROL_TIMEOUT_MAX REMOTE_CONTROL_TRACEBACK_MAX_BYTES
    REQUEST_FINGERPRINTER_CLASS RETRY_ENABLED RETRY_HTTP_CODES RETRY_TIMES ROBOTSTXT_OBEY
    ROBOTSTXT_USER_AGENT SCHEDULER SCRAPER_SLOT_MAX_ACTIVE_SIZE SPIDER_CONTRACTS
    SPIDER_CONTRACTS_BASE SPIDER_LOADER_CLASS SPIDER_LOADER_WARN_ONLY SPIDER_MIDDLEWARES
    SPIDER_MIDDLEWARES_BASE SPIDER_MODULES STATSMAILER_RCPTS STATS_CLASS STATS_DUMP
    TELNETCONSOLE_ENABLED TELNETCONSOLE_HOST TELNETCONSOLE_PASSWORD TELNETCONSOLE_PORT
    TELNETCONSOLE_USERNAME TEMPLATES_DIR TWISTED_REACTOR TWISTED_REACTOR_ENABLED URLLENGTH_LIMIT
    USER_AGENT WARN_ON_GENERATOR_RETURN_VALUE
    """,
    )
)


def test_each_of_scrapys_settings_is_honoured_or_listed() -> None:
    assert len(LISTED) == len(set(LISTED))
    assert set(LISTED) & HONOURED == set()
    assert set(LISTED) | HONOURED == NAMES


def test_the_docs_list_them() -> None:
    text = (ROOT / "docs" / "extending.md").read_text()
    section = text.partition("## Settings without effect")[2].partition("\n## ")[0]
    assert re.findall(r"`([A-Z][A-Z0-9_]+)`", section.partition("| --- |")[2]) == LISTED
    for each in UNUSED:
        assert each.instead in section


def test_the_defaults_give_no_line() -> None:
    ours = {name: getattr(project, name) for name in LISTED if hasattr(project, name)}
    assert ours
    assert list(unused(of_a_crawl(**ours))) == []


@each_of(
    "chosen",
    [
        {"AUTOTHROTTLE_ENABLED": "0"},
        {"CONCURRENT_REQUESTS_PER_DOMAIN": "1"},
        {"COOKIES_ENABLED": False},
        {"DNS_RESOLVER": None},
        {"DOWNLOAD_SLOTS": {}},
        {"HTTPERROR_ALLOW_ALL": "true"},
    ],
)
def test_no_line_for_what_the_crawl_does_anyway(chosen: dict[str, Any]) -> None:
    assert list(unused(of_a_crawl(**chosen))) == []


DICTIONARIES = {name for name, value in vars(default_settings).items() if isinstance(value, dict)}


@each_of(
    ("name", "value"),
    [
        *((name, {"some": {}} if name in DICTIONARIES else "something") for name in LISTED),
        # Also for Scrapy's default: a user who sets it expects an effect.
        ("COOKIES_ENABLED", 1), ("REFERER_ENABLED", "1"), ("REDIRECT_ENABLED", True),
        ("METAREFRESH_ENABLED", 1), ("CONCURRENT_REQUESTS_PER_DOMAIN", 8), ("DNS_TIMEOUT", 60),
        ("DOWNLOAD_DELAY_JITTER", 0.5), ("DUPEFILTER_CLASS", "scrapy.dupefilters.RFPDupeFilter"),
    ],
)  # fmt: skip
def test_each_setting_without_effect_gives_a_line(name: str, value: object) -> None:
    (line,) = unused(of_a_crawl(**{name: value}))
    assert line.startswith(f"{name} has no effect here: ")


@each_of(
    ("name", "kind", "component"),
    [
        ("REFERER_ENABLED", "SPIDER", "scrapy.spidermiddlewares.referer.RefererMiddleware"),
        ("COOKIES_DEBUG", "DOWNLOADER", "scrapy.downloadermiddlewares.cookies.CookiesMiddleware"),
    ],
)
def test_no_line_if_the_middleware_that_reads_it_is_on(
    name: str, kind: str, component: str
) -> None:
    on = {f"{kind}_MIDDLEWARES": {**getattr(project, f"{kind}_MIDDLEWARES"), component: 700}}
    assert list(unused(of_a_crawl(**{name: "something"}, **on))) == []
    assert len(list(unused(of_a_crawl(**{name: "something"})))) == 1
