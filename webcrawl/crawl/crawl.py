"""The object that the Scrapy parts of one crawl share: `crawler.webcrawl`, read by `crawl_of`.

Scrapy makes scheduler, handler, middlewares, pipelines and extensions one by one, and gives each of
them only the crawler. So their shared state is one typed object on the crawler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Never, Protocol, runtime_checkable

from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from webcrawl.admission.runner import Admissions
from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.crawl.steering import Steering
from webcrawl.crawllog.files import CrawlLog
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.room import HostTimes, Room
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.counters import Counters, CrawlTotals
from webcrawl.frontier.disk.frontier import LocalFrontier
from webcrawl.frontier.lease import Link, Outcome
from webcrawl.items import Page
from webcrawl.scope import Scope
from webcrawl.scope.hostrules import HostRule, HostRules
from webcrawl.warc.earlier import Earlier

if TYPE_CHECKING:  # only a crawl with CLUSTER loads webcrawl.cluster
    from scrapy.core.downloader.handlers.base import BaseDownloadHandler

    from webcrawl.cluster.checkpoints import Checkpoints
    from webcrawl.cluster.claims import Claim
    from webcrawl.cluster.packets import Brief
    from webcrawl.cluster.several import SeveralHubs
    from webcrawl.cluster.whole import WholeCrawl

logger = logging.getLogger(__name__)

FATAL_ERROR_STAT = "webcrawl/problem"
# Reasons for which a crawl ends: a budget is used up (`extensions.budgets`).
BUDGETS = frozenset({"warc_max_total", "disk_free_min"})


Explain = Callable[[str], Awaitable[list[str]]]


@runtime_checkable
class CrawlScheduler(Protocol):
    """The scheduler, as the other parts call it."""

    async def put_seeds(self, urls: Iterable[str]) -> tuple[int, int]: ...

    async def page_found(self, page_fetch: PageFetch, page: Page) -> bool: ...

    def leads_on(self, link: Link) -> bool: ...

    def finish(self, page_fetch: PageFetch, outcome: Outcome) -> None: ...

    def comes_again(self, link: Link, outcome: Outcome) -> bool: ...

    def wake(self) -> None: ...

    def holds_work(self) -> bool: ...

    def puts_large(self) -> bool: ...

    def give_back(self, has_changed: Callable[[str], bool]) -> None: ...

    async def end_admissions(self) -> None: ...


def has_our_scheduler(settings: BaseSettings) -> bool:
    """Whether SCHEDULER is `webcrawl.scheduler.Scheduler`, or a class made from it."""
    try:
        return issubclass(load_object(settings["SCHEDULER"]), CrawlScheduler)
    except (ImportError, NameError, TypeError, ValueError):  # Scrapy reports it
        return False


class Assignment(NamedTuple):
    """What a process that fetches for another one is told at its start, beside its settings.

    descriptor -- of a worker's socket to the first process
    rules -- those in force (RULES); None without a file of rules
    earlier_folder -- the index that DEDUP_INDEX has made; None without one
    domains -- `allowed_domains` of the first process's spider
    brief -- of the hub on another machine, in place of the socket; None for a worker
    crawl, seeds -- its ID, and its seeds as the archive describes them
    """

    descriptor: int
    rules: Sequence[HostRule] | None
    earlier_folder: Path | None
    domains: Sequence[str]
    brief: Brief | None = None
    crawl: str = ""
    seeds: Sequence[dict[str, Any]] = ()


class Crawl:
    """The shared state of one crawl. The scheduler sets its attributes when Scrapy makes it."""

    def __init__(self) -> None:
        self.scheduler: CrawlScheduler | None = None  # None: SCHEDULER is not ours
        self.frontier: Frontier | None = None  # None also when it could not be opened
        self.admissions: Admissions | None = None
        self.rules: HostRules | None = None  # RULES; None: no file of rules
        self.steering: Steering | None = None  # None: the crawl cannot be steered
        self.workers: dict[int, int] = {}  # the other processes of the crawl: number and pid
        self.assignment: Assignment | None = None  # of a worker; None in the first process
        self.is_checked = False  # the command has checked the settings
        self.is_debugging = False  # `webcrawl.commands.debugging`: no file is written
        self.earlier_folder: Path | None = None  # where DEDUP_INDEX has its index
        self.seeds: Sequence[dict[str, Any]] = ()  # as the archive describes them
        self.describe_seeds: Callable[[], list[dict[str, Any]]] | None = None  # of a broad spider
        self.is_closing = False  # no new request is sent
        self.began_at = time.monotonic()  # this run: set again when the spider is opened
        self.claim: Claim | None = None  # which of several hubs this process is
        self.several: SeveralHubs | None = None  # that hub among the others
        self.whole: WholeCrawl | None = None  # the crawl of several hubs; None: there is one
        self.scope: Scope | None = None  # with what `allow` and `deny` have added
        self.earlier: Earlier | None = None  # DEDUP_INDEX; None: no earlier archives
        self.checkpoints: Checkpoints | None = None  # CLUSTER_CHECKPOINTS
        self.gate = Gate()
        self.handlers: dict[type, BaseDownloadHandler] = {}  # the project's, by their classes
        self.room = Room(HostTimes())  # for large answers
        self.explain: Explain | None = None  # why a URL is fetched or not (`live`)
        self.unsent: int | None = None  # files that ARCHIVE_STORE has not; None: it is not set
        self.held = ""  # why the crawl pauses by itself; "": it does not
        self.end_task: asyncio.Future[None] | None = None  # the crawl is ending: `end_crawl`
        self.is_refused = False  # this process must not serve its crawl (CLUSTER): exit code 2
        self.fatal_error = ""  # the error of the crawl, even if something else ended it; or ""

    @property
    def local(self) -> LocalFrontier | None:
        """The frontier, in the process that has it; None also when it could not be opened."""
        return self.frontier.local if self.frontier is not None else None

    @property
    def counters(self) -> Counters | None:
        return self.frontier.counters if self.frontier is not None else None

    @property
    def totals(self) -> CrawlTotals | None:
        """The crawl of all hubs; None: there is one hub."""
        return self.whole.views.whole() if self.whole is not None else None

    @property
    def log(self) -> CrawlLog | None:
        """The crawl log; None without one, and in a worker."""
        return self.local.log if self.local is not None else None

    @property
    def crawl_id(self) -> str:
        """The same in all its runs, and on all machines; "" before it is known."""
        return self.frontier.crawl_id if self.frontier is not None else ""

    @property
    def state(self) -> Literal["running", "paused", "outage", "closing"]:
        if self.is_closing:
            return "closing"
        if self.held or (self.steering is not None and self.steering.is_paused):
            return "paused"
        if self.gate.is_cut_off or (self.admissions and self.admissions.outage.is_on):
            return "outage"
        return "running"

    @property
    def elapsed_s(self) -> float:
        """Seconds of all runs of the crawl."""
        earlier_s = self.frontier.counters.earlier_s if self.frontier is not None else 0.0
        return earlier_s + time.monotonic() - self.began_at


def crawl_of(crawler: Crawler) -> Crawl:
    """The one `Crawl` of `crawler`, made at the first call."""
    crawl = getattr(crawler, "webcrawl", None)
    if not isinstance(crawl, Crawl):
        crawl = crawler.webcrawl = Crawl()  # type: ignore[attr-defined]
    return crawl


def set_fatal_error(crawler: Crawler, problem: object) -> None:
    """Make the crawl end as an error: exit code 1, `problem` the last line on standard error.

    The first problem stays. It is also the stat `webcrawl/problem`.
    """
    crawl = crawl_of(crawler)
    if not crawl.fatal_error:
        crawl.fatal_error = str(problem)
        crawler.stats.set_value(FATAL_ERROR_STAT, crawl.fatal_error)


def report_error(crawler: Crawler, problem: object, fault: Exception | None = None) -> None:
    """As `set_fatal_error`, and log the problem, with the traceback of a `fault` of our own."""
    set_fatal_error(crawler, problem)
    logger.error("%s", problem, exc_info=fault)


def refuse(crawler: Crawler, reason: str, problem: object) -> Never:
    """End the crawl before it has begun, as an error: for handlers of `spider_opened`."""
    report_error(crawler, problem)
    raise CloseSpider(reason) from None


def end_crawl(crawler: Crawler, reason: str) -> None:
    """Begin to end the crawl, from any place. The first reason counts."""
    crawl = crawl_of(crawler)
    if crawl.end_task is None:
        crawl.end_task = asyncio.ensure_future(crawler.engine.close_spider_async(reason=reason))
