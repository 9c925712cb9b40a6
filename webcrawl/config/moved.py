"""Finds import paths of an earlier version in settings. Knows only the paths that have moved.

Without this check, Scrapy ends with a traceback that names neither the setting nor the new path; a
download handler of an old path would even start a crawl.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from scrapy.settings import BaseSettings

MOVED = {  # CHANGELOG.md has the same table
    "webcrawl.visits.VisitMiddleware": "webcrawl.crawl.PageFetchMiddleware",
    "webcrawl.handler.DownloadHandler": "webcrawl.downloader.DownloadHandler",
    "webcrawl.extensions.shortway.ShortWay": "webcrawl.fastpath.FastPath",
    "webcrawl.statscollector.StatsCollector": "webcrawl.fastpath.StatsCollector",
    "webcrawl.logformatter.LogFormatter": "webcrawl.report.logformatter.LogFormatter",
}


def moved_paths(settings: BaseSettings) -> Iterator[str]:
    """One line per setting and old path in it. O(settings)."""
    for name in sorted(settings):
        for old in sorted(MOVED.keys() & set(_texts(settings[name]))):
            yield f"{name} names {old}, which is {MOVED[old]} in this version"


def _texts(value: Any) -> Iterable[str]:
    """A value that is text, and the texts in a list or a dictionary."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, Mapping | BaseSettings):
        value = [*value, *value.values()]
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else ()
