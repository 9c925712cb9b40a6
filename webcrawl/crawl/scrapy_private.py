"""The names of Scrapy that are not part of its documented interface, and their check.

Scrapy may rename a method or an attribute that begins with an underscore in any release, and the
attributes of its engine's parts too. PROMISES and FAST_PATH list all such names that this project
uses. A name that is only read is read here, by the functions below, and never with a default. A
method that must be overridden is overridden in the module that its row names.

Every crawl checks PROMISES before it starts, and is refused if one is missing. If only a name of
FAST_PATH is missing, Scrapy's own engine runs, which is slower.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import scrapy
from scrapy import Request

if TYPE_CHECKING:
    from scrapy.core.engine import ExecutionEngine

logger = logging.getLogger(__name__)

VERSION: Final = (2, 19)  # the Scrapy that this project is written for and tested with


class Names(NamedTuple):
    """Names of one class or module. The defaults are those of FAST_PATH.

    owner -- its import path
    names -- its methods, and the attributes that its `__init__` sets, as words
    user -- the module or package that overrides or reads them
    lost -- what does not work without them
    """

    owner: str
    names: str
    user: str = "webcrawl.fastpath.engine"
    lost: str = "each page takes more time"


_HERE: Final = "webcrawl.crawl.scrapy_private"
_FEEDS: Final = "webcrawl.extensions.feeds"
_END: Final = "no page and no crawl ends"
_ITEMS: Final = "feeds lose items of pages that are done"

PROMISES: Final = (
    Names(
        "scrapy.core.downloader.Downloader",
        "_enqueue_request",
        "webcrawl.downloader.downloader",
        "pause, deny, the page target and PROXY have no effect",
    ),
    Names("scrapy.core.engine.ExecutionEngine", "_slot scraper", _HERE, _END),
    Names("scrapy.core.engine.ExecutionEngine", "_start", _HERE, "seeds are lost"),
    Names("scrapy.core.engine._Slot", "closing inprogress nextcall", _HERE, _END),
    Names("scrapy.core.scraper.Scraper", "slot", _HERE, _END),
    Names("scrapy.core.scraper.Slot", "itemproc_size", _HERE, _END),
    Names("scrapy.extensions.feedexport.FeedExporter", "slots", _FEEDS, _ITEMS),
    Names(
        "scrapy.extensions.feedexport.FeedSlot",
        "feed_options file filter finish_exporting format itemcount start_exporting storage"
        " store_empty uri",
        _FEEDS,
        _ITEMS,
    ),
    Names("scrapy.extensions.feedexport.FileFeedStorage", "path write_mode", _FEEDS, _ITEMS),
    Names(
        "scrapy.extensions.closespider.CloseSpider",
        "close_on",
        "webcrawl.extensions.closespider",
        "CLOSESPIDER_PAGECOUNT is not exact",
    ),
    Names(
        "scrapy.commands.BaseRunSpiderCommand",
        "_create_crawler",
        "webcrawl.commands",
        "no crawl can be made",
    ),
    Names(
        "scrapy.commands.runspider",
        "_import_file",
        "webcrawl.commands.runspider",
        "no spider can be read",
    ),
    Names(
        "pydispatch.dispatcher",
        "Any WEAKREF_TYPES connections",
        "webcrawl.crawl.receivers",
        "no page can be fetched",
    ),
)

FAST_PATH: Final = (
    Names(
        "scrapy.core.engine.ExecutionEngine",
        "_slot _start_scheduled_request crawl downloader logformatter signals",
    ),
    Names("scrapy.core.engine._Slot", "add_request nextcall remove_request scheduler"),
    Names("scrapy.core.downloader.Downloader", "_enqueue_request active fetch middleware"),
    Names(
        "scrapy.core.scraper.Scraper",
        "_check_if_closing _process_spidermw_output_async _scrape call_spider_async"
        " concurrent_items handle_spider_error handle_spider_output_async",
    ),
    Names("scrapy.core.scraper.Slot", "MIN_RESPONSE_SIZE active active_size"),
    Names("scrapy.middleware.MiddlewareManager", "_mw_methods_requiring_spider methods"),
    Names("scrapy.core.spidermw.SpiderMiddlewareManager", "_process_callback_output"),
    Names(
        "scrapy.core.downloader.middleware.DownloaderMiddlewareManager",
        "_process_request _process_response",
    ),
    Names("scrapy.exceptions", "_InvalidOutput"),
    Names("scrapy.Spider", "_parse"),
)


def problem() -> str:
    """One line if the installed Scrapy lacks a name of PROMISES; "" if a crawl may start."""
    for row in PROMISES:
        for name in missing(row):
            return (
                f"Scrapy {scrapy.__version__} has no {name}, and without it {row.lost}:"
                f" install Scrapy {_version(VERSION)}"
            )
    return ""


def refuse_to_start(*, log: bool = False) -> None:
    """End a command that crawls, with one line and exit code 2, if there is a `problem`.

    `log`: the log is a file, and gets the line too.
    """
    if line := problem():
        print(line, file=sys.stderr)
        if log:
            logger.error("%s", line)
        raise SystemExit(2)


def no_fast_path() -> str:
    """The reason why the installed Scrapy must run its own engine; "" if the fast path works."""
    if scrapy.version_info[:2] != VERSION:
        return f"the fast path is for Scrapy {_version(VERSION)} only"
    names = [name for row in FAST_PATH for name in missing(row)]
    return f"it has no {', '.join(names)}" if names else ""


def missing(row: Names) -> Iterator[str]:
    """The full names of `row` that are not installed."""
    try:
        owner = resolve_name(row.owner)
    except (ImportError, AttributeError):
        yield row.owner
        return
    yield from (f"{row.owner}.{name}" for name in row.names.split() if not _has(owner, name))


def _has(owner: Any, name: str) -> bool:
    """Whether `owner` has `name`, or an `__init__` of it names it: there it is set."""
    if hasattr(owner, name):
        return True
    inits = [vars(each).get("__init__") for each in getattr(owner, "__mro__", ())]
    codes = [getattr(init, "__code__", None) for init in inits]
    return any(code is not None and name in code.co_names for code in codes)


def _version(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def is_closing(engine: ExecutionEngine) -> bool:
    """Whether the spider is not open yet, or is being closed."""
    return engine._slot is None or engine._slot.closing is not None


def reads_seeds(engine: ExecutionEngine) -> bool:
    """Whether the spider's `start` has not ended."""
    return engine._start is not None


def requests_under_way(engine: ExecutionEngine) -> set[Request]:
    """All Requests in the engine, in no other set: it changes. The spider is open."""
    assert engine._slot is not None
    return engine._slot.inprogress


def wake(engine: ExecutionEngine) -> None:
    """Make the engine ask for a Request now. After a None it would wait for 5 s."""
    if engine._slot is not None:
        engine._slot.nextcall.schedule()


def has_items_in_pipelines(engine: ExecutionEngine) -> bool:
    slot = engine.scraper.slot
    return slot is not None and slot.itemproc_size > 0


def class_of_request(values: dict[str, Any]) -> str:
    """The import path of the class of a Request, in the values of its `to_dict`.

    Scrapy leaves the key out for its own class. Another key of this kind may have taken its place:
    then the path is "".
    """
    others = [key for key in values if str(key).startswith("_") and key != "_class"]
    return "" if others else str(values.get("_class", "scrapy.Request"))
