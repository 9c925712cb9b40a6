"""A lease on its way through Scrapy: from the Request made of it to its outcome.

A Request can end in many ways: a callback that yields items for a while, an errback, a user's
middleware that drops it or puts another in its place. Here each of them becomes one outcome,
given back once. The spider middleware is the outermost, so what passes it reaches the engine.

Invariant: a user's code may copy `request.meta` to any other Request. A lease belongs to the one
Request object that was made for it (`lease_of`); on all others what `meta` says of it is ignored,
and taken out when they are enqueued (`strip`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol, Self, cast, runtime_checkable
from weakref import WeakKeyDictionary

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DropItem, IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name
from twisted.python.failure import Failure

from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.fetch.exchange import OURS, Exchange, FailureReason, FetchFailed
from webcrawl.fetch.mediatypes import media_type_test
from webcrawl.fetch.retryafter import asked_to_wait_s
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lease, Link, Outcome, Returned
from webcrawl.items import Page

logger = logging.getLogger(__name__)

# What Scrapy's download handlers and others raise, as our own client says it; by name, not to
# import them for it.
SCRAPYS_FAILURES: dict[str, FailureReason] = {
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


class NotSent(IgnoreRequest):
    """A user's Request that is no HTTP: its errback hears of it, and no server did."""


class PageFetch:
    """One PAGE lease in the engine: `request.meta["page_fetch"]`."""

    __slots__ = (
        *("begun_at", "done", "duplicate_of", "errback", "items_open", "lease"),
        *("links", "logged", "request", "settled", "unarchived"),
    )

    def __init__(self, lease: Lease, begun_at: float = 0.0) -> None:
        self.lease = lease
        self.begun_at = begun_at
        self.request: Request | None = None  # the one made for the lease, until it is done
        self.logged = False  # its line of the log is written
        self.errback: Callable[[Failure], Any] | None = None  # the user's own
        self.links: list[Link] = []
        self.duplicate_of = ""
        self.items_open = 0  # yielded to the item pipelines and not through them yet
        self.settled: asyncio.Future[None] | None = None  # set when items_open falls to 0
        self.done = False
        self.unarchived = False  # its page could not be kept, so it is to be fetched again

    def __deepcopy__(self, memo: object) -> Self:
        """A user may copy `meta` deeply; there is one visit, and its tasks cannot be copied."""
        return self

    def made(self, request: Request) -> Request:
        """`request`, which is the one for the lease from now on."""
        self.request = request
        request.meta.update(page_fetch=self, lease=self.lease)
        return request

    def end(self) -> None:
        """The lease has been given back: nothing waits for this visit any more."""
        self.done = True
        self.request = None  # whose meta holds this: it would be a cycle
        self.settle()

    def item_ended(self) -> None:
        self.items_open -= 1
        if self.items_open == 0:
            self.settle()

    async def items_ended(self) -> None:
        """Wait until the item pipelines are through with all that the callback yielded."""
        if self.items_open and not self.done:
            self.settled = asyncio.get_running_loop().create_future()
            await self.settled

    def settle(self) -> None:
        """Have who waits for items go on."""
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(None)


@runtime_checkable
class LeaseKeeper(Protocol):
    """Who hears of a visit: the scheduler."""

    async def page_found(self, page_fetch: PageFetch, page: Page) -> None: ...

    def finish(self, page_fetch: PageFetch, outcome: Outcome) -> None: ...

    def comes_again(self, link: Link, outcome: Outcome) -> bool: ...

    def counts(self, page_fetch: PageFetch) -> bool: ...


class PageFetchMiddleware:
    """Spider middleware: gathers a visit's outlinks and gives its lease back at its end."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._wants = media_type_test(crawler.settings.getlist("CONTENT_TYPES"))
        # Of answers with the spider, whose code may take the visit out of `meta`: as many as there
        # are responses.
        self._page_fetches: WeakKeyDictionary[Response, PageFetch] = WeakKeyDictionary()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        if not issubclass(load_object(crawler.settings["SCHEDULER"]), LeaseKeeper):
            raise NotConfigured("only the frontier's scheduler hands out leases")
        middleware = cls(crawler)
        for signal in (signals.item_scraped, signals.item_dropped, signals.item_error):
            crawler.signals.connect(middleware.item_ended, signal)
        crawler.signals.connect(middleware.spider_error, signals.spider_error)
        return middleware

    @classmethod
    def missing_in(cls, crawler: Crawler) -> str:
        """Why no page of `crawler` would be counted; "" for nothing. A spider's own Requests are
        called back all the same. SPIDER_MIDDLEWARES of a user's own stands for the project's.
        """
        if any(isinstance(each, cls) for each in crawler.engine.scraper.spidermw.middlewares):
            return ""
        return f"SPIDER_MIDDLEWARES lacks {global_object_name(cls)}: 0: without it no page ends"

    @classmethod
    def hidden_in(cls, crawler: Crawler) -> str:
        """Why a page of `crawler` might wait for ever: what stands before this middleware may drop
        an item that it waits for. "" for nothing.
        """
        before: list[object] = []
        for middleware in crawler.engine.scraper.spidermw.middlewares:
            if isinstance(middleware, cls):
                for outer in before:
                    name = global_object_name(type(outer))
                    return f"SPIDER_MIDDLEWARES: {name} stands before {global_object_name(cls)}: 0"
            if hasattr(middleware, "process_spider_output"):
                before.append(middleware)
        return ""

    @property
    def _keeper(self) -> LeaseKeeper:
        return cast("LeaseKeeper", self._crawler.engine.scheduler)

    def process_spider_input(self, response: Response) -> None:
        page_fetch = page_fetch_of(response.request)
        if page_fetch is None:
            return
        link = page_fetch.lease.link
        if link is None:
            return
        if not self._keeper.counts(page_fetch):
            raise beyond_target(cast("Request", response.request))
        self._page_fetches[response] = page_fetch
        exchange = exchange_of(response)
        if not link.payload:
            if exchange.reconstructed and not self._wants(exchange.status, exchange.headers):
                exchange.body_skipped = True  # as the download handler has it
                response.flags.append("content_type_dropped")
            return
        outcome = answered(page_fetch, response)
        if isinstance(outcome, Fetched) and self._keeper.comes_again(link, outcome):
            raise AskedAgain(outcome)

    async def process_spider_output(
        self, response: Response, result: AsyncIterator[Any]
    ) -> AsyncIterator[Any]:
        page_fetch = self._page_fetch_for(response)
        if page_fetch is None or page_fetch.done:
            async for output in result:
                yield output
            return
        link = page_fetch.lease.link
        assert link is not None
        try:
            async for output in result:
                if isinstance(output, Request):
                    output = _at_depth(output, link.depth + 1, response)
                elif output is not None:  # of which Scrapy makes nothing, and tells nobody
                    page_fetch.items_open += 1
                    if isinstance(output, Page):
                        await self._keeper.page_found(page_fetch, output)
                yield output
        finally:
            await page_fetch.items_ended()
            self._keeper.finish(page_fetch, answered(page_fetch, response))

    def item_ended(self, response: Response | None, exception: BaseException | None = None) -> None:
        """A signal handler: an item of `response` is through the pipelines, however."""
        page_fetch = self._page_fetch_for(response) if isinstance(response, Response) else None
        if page_fetch is not None:  # also one that is done: somebody may wait for its items
            page_fetch.unarchived |= isinstance(exception, NotArchived)
            page_fetch.item_ended()

    def spider_error(self, response: Response | Failure) -> None:
        """A signal handler: the callback raised at once. Scrapy logs it; the page was fetched."""
        if isinstance(response, Response):
            page_fetch = self._page_fetch_for(response)
            if page_fetch is not None and not page_fetch.items_open:
                self._keeper.finish(page_fetch, answered(page_fetch, response))

    def _page_fetch_for(self, response: Response) -> PageFetch | None:
        """The visit that `response` is for, also one that is done."""
        return self._page_fetches.get(response) or _named_by(response.request)


def _named_by(request: Request | None) -> PageFetch | None:
    page_fetch = request.meta.get("page_fetch") if request is not None else None
    return page_fetch if isinstance(page_fetch, PageFetch) else None


def page_fetch_of(request: Request | None) -> PageFetch | None:
    """The visit that the answer to `request` is for; None when its lease was given back.

    Only answers reach the spider here whose Request came out of the scheduler, which hands out none
    with another's visit. A middleware may have asked by a copy of it.
    """
    page_fetch = _named_by(request)
    return None if page_fetch is None or page_fetch.done else page_fetch


def lease_of(request: Request) -> Lease | None:
    """The lease that `request` was made for. None for any other, also with a copy of its meta."""
    page_fetch = request.meta.get("page_fetch")
    return (
        page_fetch.lease
        if isinstance(page_fetch, PageFetch) and page_fetch.request is request
        else None
    )


def is_users(request: Request) -> bool:
    """Whether `request` is a user's, and not the crawl's for a link."""
    lease = lease_of(request)
    return lease is None or bool(lease.link and lease.link.payload)


def strip(request: Request) -> Request:
    """`request` without what a copied meta says of another one: itself, or a copy where that one
    still needs the dict. Values of a user's own under the same keys stay.
    """
    meta, page_fetch = request.meta, _named_by(request)
    ours = [key for key, kind in _OF_A_PAGE_FETCH if isinstance(meta.get(key), kind)]
    link = page_fetch.lease.link if page_fetch is not None else None
    if link is not None and not link.payload:
        ours.append("verbatim_url")  # true of a page's URL; so the copy's is made safe below
        return request.replace(meta={key: meta[key] for key in meta if key not in ours})
    if (
        page_fetch is not None
        and page_fetch.request is not None
        and page_fetch.request.meta is meta
    ):
        request = request.copy()
    for key in ours:
        del request.meta[key]
    return request


_OF_A_PAGE_FETCH = (
    ("page_fetch", PageFetch),
    ("lease", Lease),
    ("exchange", Exchange),
    ("fetch_failed", FetchFailed),
)


def _at_depth(request: Request, depth: int, response: Response) -> Request:
    """What the callback yielded, at its depth: as Scrapy's DepthMiddleware, whatever was copied."""
    if request.meta is response.meta:  # `yield response.request`
        request = request.copy()
    request.meta["depth"] = depth
    return request


def answered(page_fetch: PageFetch, response: Response) -> Fetched | Returned:
    """The outcome of a visit whose request was answered."""
    exchange = exchange_of(response)
    if page_fetch.unarchived:
        return Returned(exchange.asked_at, exchange.ended_at)
    return fetched(exchange, tuple(page_fetch.links), page_fetch.duplicate_of)


def beyond_target(request: Request) -> TargetMet:
    """For an answer that has no place of the target: its URL stays in line."""
    asked_at, ended_at = _times(request)
    now = time.monotonic()  # for an answer that did not come by our own client
    return TargetMet(Returned(asked_at or now, ended_at or now))


def replaced_by(request: Request, engine: object) -> Request | None:
    """In whose place a middleware's `request` goes into line just now; None for any other.

    Scrapy's own engine does not say it. There the scheduler finds the lease that nobody has.
    """
    replacement = getattr(engine, "replacement", None)
    return replacement[1] if replacement is not None and replacement[0] is request else None


def replaced(request: Request) -> Dropped:
    """The outcome of a visit for which a middleware made another Request."""
    return Dropped("replaced", *_times(request))


def failed(lease: Lease, request: Request, error: BaseException | None, now: float) -> Outcome:
    """The outcome of a visit whose request ended in the errback."""
    if lease.refused:
        return Dropped(lease.refused)
    if isinstance(error, AskedAgain | TargetMet):
        return error.outcome
    if isinstance(error, NotSent):
        return Dropped("unsendable")
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
    if not (lease.link and lease.link.payload):  # of a user's own Scrapy says so
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
        archived=exchange.archived,
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
