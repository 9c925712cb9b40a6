"""The object that the Scrapy parts of one crawl share: `crawler.webcrawl`, read by `crawl_of`.

Scrapy makes scheduler, handler, middlewares, pipelines and extensions one by one, and gives each of
them only the crawler. So their shared state is one typed object on the crawler.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from scrapy.crawler import Crawler

from webcrawl.admission.runner import Admissions
from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.crawl.steering import Steering
from webcrawl.frontier.base import Frontier
from webcrawl.frontier.counters import Counters
from webcrawl.frontier.lease import Link, Outcome
from webcrawl.items import Page
from webcrawl.scope.hostrules import HostRules

FATAL_ERROR_STAT = "webcrawl/problem"
# Reasons for which a crawl ends: a budget is used up (`extensions.budgets`).
BUDGETS = frozenset({"warc_max_total", "disk_free_min"})


@runtime_checkable
class CrawlScheduler(Protocol):
    """The scheduler, as the other parts call it."""

    async def put_seeds(self, urls: Iterable[str]) -> int: ...

    async def page_found(self, page_fetch: PageFetch, page: Page) -> None: ...

    def finish(self, page_fetch: PageFetch, outcome: Outcome) -> None: ...

    def comes_again(self, link: Link, outcome: Outcome) -> bool: ...

    def counts(self, page_fetch: PageFetch) -> bool: ...

    async def wait_to_count(self, page_fetch: PageFetch) -> bool: ...

    def wake(self) -> None: ...


class Crawl:
    """The shared state of one crawl. The scheduler sets its attributes when Scrapy makes it."""

    def __init__(self) -> None:
        self.scheduler: CrawlScheduler | None = None  # None: SCHEDULER is not ours
        self.frontier: Frontier | None = None  # None also when it could not be opened
        self.admissions: Admissions | None = None
        self.rules: HostRules | None = None  # RULES; None: no file of rules
        self.steering: Steering | None = None  # None: the crawl cannot be steered
        self.fatal_error = ""  # the error of the crawl, even if something else ended it; or ""

    @property
    def counters(self) -> Counters | None:
        return self.frontier.counters if self.frontier is not None else None


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
