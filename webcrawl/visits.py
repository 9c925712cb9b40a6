"""A lease on its way through Scrapy: from the Request made of it to its outcome.

A Request can end in many ways: a callback that yields items for a while, an errback, a user's
middleware that drops it or puts another in its place. Here each of them becomes one outcome,
given back once. The spider middleware is the outermost, so what passes it reaches the engine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, Self, cast

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, IgnoreRequest, NotConfigured
from scrapy.http import Response
from twisted.python.failure import Failure

from webcrawl.fetch.exchange import OURS, Exchange, FetchFailed
from webcrawl.fetch.retryafter import asked_to_wait_s
from webcrawl.fetch_settings import content_type_test
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lease, Link, Outcome, Returned
from webcrawl.items import Page
from webcrawl.own_requests import is_own
from webcrawl.reconstruction import exchange_of

logger = logging.getLogger(__name__)

# What Scrapy's download handlers and others raise, as our own client says it; by name, not to
# import them for it.
SCRAPYS_FAILURES = {
    "CannotResolveHostError": "connect",  # through a proxy: the proxy's own name
    "DownloadConnectionRefusedError": "connect",
    "TunnelError": "connect",
    "DownloadTimeoutError": "timeout",
    "TimeoutError": "timeout",  # Python's, and playwright's
    "DownloadFailedError": "reset",
    "ResponseDataLossError": "bad_response",
    "DownloadCancelledError": "too_large",
}


class NotArchived(DropItem):
    """A pipeline raises it to have the page fetched again, by this run or the next."""


class TargetMet(IgnoreRequest):
    """Keeps an answer beyond the crawl's target from the spider."""

    def __init__(self, outcome: Returned) -> None:
        super().__init__()
        self.outcome = outcome


class AskedAgain(IgnoreRequest):
    """Keeps an answer that is not the last one from a user's callback."""

    def __init__(self, outcome: Fetched) -> None:
        super().__init__()
        self.outcome = outcome


class Visit:
    """One PAGE lease in the engine. `request.meta["visit"]` holds it, `meta["lease"]` its lease."""

    __slots__ = (
        *("begun_at", "done", "duplicate_of", "errback", "items_open", "lease", "links"),
        *("settled", "unarchived"),
    )

    def __init__(self, lease: Lease, begun_at: float = 0.0) -> None:
        self.lease = lease
        self.begun_at = begun_at
        self.errback: Callable[[Failure], Any] | None = None  # the user's own
        self.links: list[Link] = []
        self.duplicate_of = ""
        self.items_open = 0  # yielded to the item pipelines and not through them yet
        self.settled: asyncio.Future[None] | None = None  # set when items_open falls to 0
        self.done = False
        self.unarchived = False  # its page could not be kept, so it is to be fetched again

    def item_ended(self) -> None:
        self.items_open -= 1
        if self.items_open == 0 and self.settled is not None and not self.settled.done():
            self.settled.set_result(None)

    async def items_ended(self) -> None:
        """Wait until the item pipelines are through with all that the callback yielded."""
        if self.items_open:
            self.settled = asyncio.get_running_loop().create_future()
            await self.settled


class LeaseKeeper(Protocol):
    """Who hears of a visit: the scheduler."""

    async def page_found(self, visit: Visit, page: Page) -> None: ...

    def finish(self, visit: Visit, outcome: Outcome) -> None: ...

    def comes_again(self, link: Link, outcome: Outcome) -> bool: ...

    def counts(self, visit: Visit) -> bool: ...


class VisitMiddleware:
    """Spider middleware: gathers a visit's outlinks and gives its lease back at its end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._wants = content_type_test(crawler.settings)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if crawler.settings["SCHEDULER"] != "webcrawl.scheduler.Scheduler":
            raise NotConfigured("only the frontier's scheduler hands out leases")
        middleware = cls(crawler)
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(middleware.item_ended, signal)
        crawler.signals.connect(middleware.spider_error, signals.spider_error)
        return middleware

    @property
    def _keeper(self) -> LeaseKeeper:
        return cast("LeaseKeeper", self._crawler.engine.scheduler)

    def process_spider_input(self, response: Response) -> None:
        visit = visit_of(response.request)
        link = visit.lease.link if visit is not None else None
        if visit is None or link is None:
            return
        if not self._keeper.counts(visit):
            raise beyond_target(cast("Request", response.request))
        exchange = exchange_of(response)
        if not link.payload:
            if exchange.reconstructed and not self._wants(exchange.status, exchange.headers):
                exchange.body_skipped = True  # as the download handler has it
                response.flags.append("content_type_dropped")
            return
        outcome = answered(visit, response)
        if isinstance(outcome, Fetched) and self._keeper.comes_again(link, outcome):
            raise AskedAgain(outcome)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        visit = visit_of(response.request)
        if visit is None:
            async for output in result:
                yield output
            return
        link = visit.lease.link
        assert link is not None
        try:
            async for output in result:
                if isinstance(output, Request):
                    output.meta.setdefault("depth", link.depth + 1)
                elif output is not None:  # of which Scrapy makes nothing, and tells nobody
                    visit.items_open += 1
                    if isinstance(output, Page):
                        await self._keeper.page_found(visit, output)
                yield output
        finally:
            await visit.items_ended()
            self._keeper.finish(visit, answered(visit, response))

    def item_ended(self, response: Response | None, exception: BaseException | None = None) -> None:
        """A signal handler: an item of `response` is through the pipelines, however."""
        visit = visit_of(response.request) if isinstance(response, Response) else None
        if visit is not None:
            visit.unarchived |= isinstance(exception, NotArchived)
            visit.item_ended()

    def spider_error(self, response: Response | Failure) -> None:
        """A signal handler: the callback raised at once. Scrapy logs it; the page was fetched."""
        if isinstance(response, Response):
            visit = visit_of(response.request)
            if visit is not None and not visit.items_open:
                self._keeper.finish(visit, answered(visit, response))


def visit_of(request: Request | None) -> Visit | None:
    visit = request.meta.get("visit") if request is not None else None
    return visit if isinstance(visit, Visit) and not visit.done else None


def answered(visit: Visit, response: Response) -> Fetched | Returned:
    """The outcome of a visit whose request was answered."""
    exchange = exchange_of(response)
    if visit.unarchived:
        return Returned(exchange.asked_at, exchange.ended_at)
    return fetched(exchange, tuple(visit.links), visit.duplicate_of)


def beyond_target(request: Request) -> TargetMet:
    """For an answer that has no place of the target: its URL stays in line."""
    asked_at, ended_at = _times(request)
    now = time.monotonic()  # for an answer that did not come by our own client
    return TargetMet(Returned(asked_at or now, ended_at or now))


def replaced(request: Request) -> Dropped:
    """The outcome of a visit for which a middleware made another Request."""
    return Dropped("replaced", *_times(request))


def failed(request: Request, error: BaseException | None, now: float) -> Outcome:
    """The outcome of a visit whose request ended in the errback."""
    lease: Lease = request.meta["lease"]
    if lease.refused:
        return Dropped(lease.refused)
    if isinstance(error, AskedAgain | TargetMet):
        return error.outcome
    if isinstance(error, IgnoreRequest):
        return Dropped("middleware", *_times(request))
    failure = request.meta.get("fetch_failed")
    if failure is None and "exchange" not in request.meta:
        failure = _fault_of_another_handler(request, error, now)
    if isinstance(failure, FetchFailed):
        asked_at = failure.ended_at if failure.asked else 0.0
        if failure.reason in OURS:
            return Returned(asked_at, failure.ended_at, failure.reason)
        return Failed(failure.reason, asked_at, failure.ended_at)
    if not is_own(request):  # of those Scrapy says so
        logger.error("Error while fetching %s", request.url, exc_info=error)
    exchange = request.meta.get("exchange")
    if isinstance(exchange, Exchange):  # the fault came after it
        return fetched(exchange)
    return Failed("error", now, now)


def _fault_of_another_handler(
    request: Request, error: BaseException | None, now: float
) -> FetchFailed | None:
    """What our own handler would have said; kept where it keeps it."""
    reason = SCRAPYS_FAILURES.get(type(error).__name__)
    if reason is None:
        return None
    failure = request.meta["fetch_failed"] = FetchFailed(reason, str(error), True, now)
    return failure


def fetched(exchange: Exchange, links: tuple[Link, ...] = (), duplicate_of: str = "") -> Fetched:
    """The outcome of an answer."""
    return Fetched(
        exchange.status,
        exchange.asked_at,
        exchange.ended_at,
        links,
        asked_to_wait_s(exchange),
        len(exchange.head) + len(exchange.body),
        exchange.total_s,
        duplicate_of=duplicate_of,
    )


def _times(request: Request) -> tuple[float, float]:
    """When `request` was asked, and when that ended; zeros when no server can have heard of it."""
    exchange = request.meta.get("exchange")
    if isinstance(exchange, Exchange):
        return exchange.asked_at, exchange.ended_at
    failure = request.meta.get("fetch_failed")
    if isinstance(failure, FetchFailed) and failure.asked:
        return failure.ended_at, failure.ended_at
    return 0.0, 0.0
