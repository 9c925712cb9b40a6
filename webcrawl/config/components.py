"""The crawler's own parts among Scrapy's components, and what a crawl loses without each.

A user may switch each off: `None` under EXTENSIONS and the like, or a `..._BASE` of their own. A
crawl that would lose its pages is refused. Anything else that a crawl promises and a part keeps is
one line of the log. A subclass of a part stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from webcrawl.config.build import processes_from
from webcrawl.config.fetch import ProxyError, has_proxy

Wanted = Callable[[BaseSettings], Any]


def _on(name: str) -> Wanted:
    return lambda settings: settings.getbool(name)


def _any_of(*names: str) -> Wanted:
    return lambda settings: any(
        settings.get(name) not in (None, "0") and settings[name] for name in names
    )


class Part(NamedTuple):
    """A part of the crawler.

    setting -- of Scrapy, which may switch it off
    path -- of its class, as `webcrawl.settings` has it
    without -- what the crawl loses
    wanted -- whether the settings ask for it; None: always
    is_vital -- without it pages are lost
    """

    setting: str
    path: str
    without: str
    wanted: Wanted | None = None
    is_vital: bool = False


_AROUND = "Requests that go around the frontier (engine.download_async) are not held to"
PARTS = (
    Part(
        "ITEM_PIPELINES",
        "webcrawl.pipelines.warc.WarcPipeline",
        "no page is archived; to crawl without an archive, set WARC_ENABLED = False",
        _on("WARC_ENABLED"),
        is_vital=True,
    ),
    Part(
        "SPIDER_MIDDLEWARES",
        "webcrawl.crawl.spidermiddleware.PageFetchMiddleware",
        "no page ends",
        is_vital=True,
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.hub.Hub",
        "no other machine can fetch for this hub of the CLUSTER",
        _any_of("CLUSTER"),
        is_vital=True,
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.startcheck.StartCheck",
        "settings are not checked if a script starts the crawl",
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.processes.Processes",
        "CRAWL_PROCESSES starts no other process, and their share of CONCURRENT_REQUESTS is unused",
        lambda settings: processes_from(settings) > 1,
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.budgets.Budgets",
        "WARC_MAX_TOTAL and DISK_FREE_MIN end no crawl",
        _any_of("WARC_MAX_TOTAL", "DISK_FREE_MIN"),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.closespider.CloseSpider",
        "CLOSESPIDER_TIMEOUT and the like end no crawl",
        _any_of(
            *("CLOSESPIDER_TIMEOUT", "CLOSESPIDER_ITEMCOUNT", "CLOSESPIDER_ERRORCOUNT"),
            *("CLOSESPIDER_TIMEOUT_NO_ITEM", "CLOSESPIDER_PAGECOUNT_NO_ITEM"),
        ),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.feeds.FeedExporter",
        "FEEDS and -o export no item",
        _any_of("FEEDS"),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.spiderstate.SpiderState",
        "spider.state is not kept",
        _any_of("JOBDIR"),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.earlier.EarlierArchives",
        "DEDUP_INDEX has no effect",
        _any_of("DEDUP_INDEX"),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.rules.RulesWatch",
        "a change of the file of RULES has no effect while the crawl runs",
        _any_of("RULES"),
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.live.Live",
        "no live page, and scrapy ctl and scrapy top find no crawl",
    ),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.steering.SteeringExtension",
        "scrapy ctl cannot steer the crawl",
    ),
    Part("EXTENSIONS", "webcrawl.extensions.statslines.StatsLines", "no stats lines"),
    Part("EXTENSIONS", "webcrawl.extensions.report.CrawlReport", "no report.json and report.txt"),
    Part("EXTENSIONS", "webcrawl.extensions.series.Series", "no time series for scrapy report"),
    Part(
        "EXTENSIONS",
        "webcrawl.extensions.card.CrawlCard",
        "scrapy report does not find the crawl's files by its JOBDIR",
        _any_of("JOBDIR"),
    ),
    Part(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.domainfilter.DomainFilter",
        f"{_AROUND} the scope",
    ),
    Part(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.hostuniqueness.HostUniqueness",
        f"{_AROUND} MAX_PAGES_PER_HOST and MAX_PAGES_PER_DOMAIN",
        _any_of("MAX_PAGES_PER_HOST", "MAX_PAGES_PER_DOMAIN"),
    ),
    Part(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.ipuniqueness.IpUniqueness",
        f"{_AROUND} MAX_PAGES_PER_IP and public addresses",
    ),
    Part(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.robotstxt.RobotsTxt",
        f"{_AROUND} robots.txt",
        _on("ROBOTSTXT_OBEY"),
    ),
    Part(
        "DOWNLOADER_MIDDLEWARES",
        "webcrawl.middlewares.stats.DownloaderStats",
        "no stats of downloader/",
        _on("DOWNLOADER_STATS"),
    ),
)


def refusals(settings: BaseSettings) -> list[str]:
    """One line for each part without which pages are lost, or go past PROXY."""
    lines = [_line(part) for part in PARTS if part.is_vital and _is_missing(part, settings)]
    for each in _fetching(settings):
        if each.value is None:
            lines.append(f"{each.name} = None cannot be used: no page is fetched")
        elif has_proxy(settings) and not _stands_in(each.value, each.ours):
            why = f"{each.name} = {each.value!r} would send requests past it"
            lines.append(str(ProxyError(why)))
    return lines


def losses(settings: BaseSettings) -> Iterator[str]:
    """One line for each other part that is off. Imports the user's own classes."""
    for part in PARTS:
        if not part.is_vital and _is_missing(part, settings):
            yield _line(part)
    for each in _fetching(settings):
        if not _stands_in(each.value, each.ours):
            yield f"{each.name} is {_path_of(each.value)}: {each.without}"


def _line(part: Part) -> str:
    return f"{part.setting}: {part.path.rpartition('.')[2]} is off: {part.without}"


class _Fetching(NamedTuple):
    """What fetches pages: `value` by the settings, `ours`, and what is lost without ours."""

    name: str
    value: Any
    ours: str
    without: str


def _fetching(settings: BaseSettings) -> Iterator[_Fetching]:
    yield _Fetching(
        "DOWNLOADER",
        settings["DOWNLOADER"],
        "webcrawl.downloader.Downloader",
        "a pause, a deny and the page target hold back no request that is about to be sent",
    )
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS")
    for scheme in ("http", "https"):
        yield _Fetching(
            f"DOWNLOAD_HANDLERS[{scheme!r}]",
            handlers.get(scheme),
            "webcrawl.downloader.DownloadHandler",
            "its pages are archived as reconstructed, from any address, at any size",
        )


def _is_missing(part: Part, settings: BaseSettings) -> bool:
    """Whether the settings want `part`, and neither it nor a subclass is on."""
    if part.wanted is not None and not part.wanted(settings):
        return False
    base, users = settings[f"{part.setting}_BASE"] or {}, settings[part.setting] or {}
    places = dict(base) | {_path_of(each): place for each, place in users.items()}
    if places.get(part.path) is not None:
        return False
    others = [each for each, place in users.items() if place is not None]
    return not any(_stands_in(each, part.path) for each in others)


def _path_of(component: Any) -> str:
    """The path of a component's class, as `..._BASE` has it.

    Only this project's own modules are imported: a user's may import the reactor, too early.
    """
    if isinstance(component, str) and not component.startswith("webcrawl."):
        return component
    try:
        return global_object_name(load_object(component))
    except (ImportError, NameError, TypeError, ValueError):  # Scrapy reports it
        return str(component)


def _stands_in(component: Any, path: str) -> bool:
    """Whether `component` is the class at `path` or a subclass. One that cannot be imported is not.

    Scrapy reports an import that fails.
    """
    try:
        found = load_object(component)
    except (ImportError, NameError, TypeError, ValueError):
        return False
    return isinstance(found, type) and issubclass(found, load_object(path))
