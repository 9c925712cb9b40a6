"""What each WARC file says of the crawl that made it: its warcinfo record, and one resource record.

Settings come from the project's table, which knows the secret ones; no setting of Scrapy or of a
user's own code is written. So a new kind of secret is left out until the table has it.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from typing import Any, Final

import scrapy
from msgspec.json import Encoder
from scrapy.settings import BaseSettings

from webcrawl import __version__
from webcrawl.config.fetch import user_agent_of
from webcrawl.config.table import typed_settings
from webcrawl.warc.captures import PART_OF

Line = tuple[str, str]

_SCOPE: Final = (
    *("SCOPE_SUFFIXES", "SCOPE_ALLOW", "SCOPE_DENY", "SCOPE_RULES"),
    *("FOLLOW_LINKS", "PAGE_REQUISITES", "SITEMAPS", "TRAPS", "CONTENT_TYPES"),
)
_LIMITS: Final = (
    *("CLOSESPIDER_PAGECOUNT", "CLOSESPIDER_TIMEOUT", "DEPTH_LIMIT", "URLLENGTH_LIMIT"),
    *("MAX_PAGES_PER_HOST", "MAX_PAGES_PER_DOMAIN", "MAX_PAGES_PER_IP", "MAX_BYTES_PER_HOST"),
    *("DOWNLOAD_MAXSIZE", "DOWNLOAD_TIMEOUT", "WARC_MAX_TOTAL"),
)
_LISTED_MAX: Final = 50  # entries of a list in a warcinfo record

_json = Encoder(order="deterministic", enc_hook=str).encode


def warcinfo(settings: BaseSettings, crawl: str, seeds: Any) -> tuple[Line, ...]:
    """The lines of a warcinfo record (WARC 1.1, 6.2). `seeds` is `SeedSource.described`."""
    values = typed_settings(settings)
    lines = (
        ("software", f"webcrawl/{__version__} Scrapy/{scrapy.__version__}"),
        ("hostname", socket.gethostname()),
        ("operator", settings.get("WARC_OPERATOR")),
        (PART_OF, settings.get("WARC_COLLECTION")),
        (PART_OF, crawl),
        ("description", settings.get("WARC_DESCRIPTION")),
        ("robots", "obey" if settings.getbool("ROBOTSTXT_OBEY") else "ignore"),
        ("http-header-user-agent", user_agent_of(settings)),
        ("scope", _chosen(values, _SCOPE)),
        ("limits", _chosen(values, _LIMITS)),
        ("seeds", _text(_brief(seeds)) if seeds else ""),
    )
    return tuple((name, str(value)) for name, value in lines if value)


def settings_lines(settings: BaseSettings, crawl: str, spider: str, seeds: Any) -> tuple[Line, ...]:
    """The lines of the resource record: all settings of the table and the seeds, as JSON."""
    values = crawl, spider, typed_settings(settings), seeds
    return tuple(zip(("crawl", "spider", "settings", "seeds"), map(_text, values), strict=True))


def _chosen(values: dict[str, Any], names: Iterable[str]) -> str:
    """Those of `names` that are set, as JSON; "" if none is."""
    chosen = {name: values[name] for name in names if values.get(name)}
    return _text(_brief(chosen)) if chosen else ""


def _brief(value: Any) -> Any:
    """`value` with the number of entries in place of long lists."""
    if isinstance(value, dict):
        return {name: _brief(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        if len(value) > _LISTED_MAX:
            return f"{len(value)} entries"
        return [_brief(each) for each in value]
    return value


def _text(value: Any) -> str:
    return _json(value).decode()
