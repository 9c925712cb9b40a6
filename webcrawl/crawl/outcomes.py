"""Turns each end of a request in Scrapy into one outcome of its lease.

A Request can end in many ways: an answer that the spider read, an errback, a user's middleware that
drops it or replaces it by another. This module makes one value of each for the frontier.
"""

from __future__ import annotations

import logging

from scrapy import Request
from scrapy.exceptions import DropItem, IgnoreRequest
from scrapy.http import Response

from webcrawl.crawl.page_fetch import PageFetch, note, state_of
from webcrawl.crawl.reconstruction import exchange_of
from webcrawl.crawl.visits import visited_of
from webcrawl.crawllog.details import details_of
from webcrawl.fetch.exchange import OURS, Exchange, FailureReason, FetchFailed
from webcrawl.fetch.retryafter import asked_to_wait_s
from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Returned,
    Visited,
)
from webcrawl.items import Page

logger = logging.getLogger(__name__)

# Exceptions of other download handlers, and the reason that our own client would give. By name, so
# that no handler needs to be imported.
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
    """Raised by a pipeline: the page must be fetched again, by this run or the next."""


class AskedAgain(IgnoreRequest):
    """Raised for an answer that will be retried, so that a user's callback does not get it."""

    def __init__(self, outcome: Fetched) -> None:
        super().__init__()
        self.outcome = outcome


class NotSent(IgnoreRequest):
    """A user's Request that cannot be written as HTTP. No server was asked."""


def answered(page_fetch: PageFetch, response: Response) -> Fetched | Returned:
    """The outcome of a page fetch whose request was answered."""
    exchange = page_fetch.exchange or exchange_of(response)
    if page_fetch.unarchived:
        details = details_of(exchange, page_fetch.page)
        return Returned(exchange.asked_at, exchange.ended_at, details=details)
    visited = visited_of(page_fetch.lease.visit, exchange, page_fetch.page)
    links = tuple(page_fetch.links)
    return fetched(exchange, links, page_fetch.page, visited, page_fetch.requisites)


def replaced_by(request: Request, engine: object) -> Request | None:
    """The Request that a middleware's `request` replaces, while the engine enqueues `request`.

    None for any other Request. Scrapy's own engine does not give this information: with it, the
    pump finds the lease without a Request later (`Pump._drop_orphans`).
    """
    replacement = getattr(engine, "replacement", None)
    return replacement[1] if replacement is not None and replacement[0] is request else None


def replaced(request: Request) -> Dropped:
    """The outcome of the page fetch of `request`, for which a middleware made another Request."""
    return Dropped("replaced", *_times(request))


def failed(lease: Lease, request: Request, error: BaseException | None, now: float) -> Outcome:
    """The outcome of a page fetch whose request ended in the errback."""
    if lease.refused:
        return Dropped(lease.refused)
    if isinstance(error, AskedAgain):
        return error.outcome
    if isinstance(error, NotSent):
        return Dropped("unsendable")
    if isinstance(error, IgnoreRequest):
        return Dropped("middleware", *_times(request))
    state = state_of(request)
    failure = state.failure
    if failure is None and state.exchange is None:
        failure = _fault_of_another_handler(request, error, now)
    if failure is not None:
        asked_at = failure.ended_at if failure.asked else 0.0
        is_cut = failure.asked and state.page_fetch is not None and state.page_fetch.is_cut
        reason: FailureReason = "timeout" if is_cut else failure.reason
        if reason in OURS:
            return Returned(asked_at, failure.ended_at, reason)
        began_at = state.page_fetch.begun_at if state.page_fetch is not None else failure.ended_at
        took_s = max(0.0, failure.ended_at - began_at)
        return Failed(reason, asked_at, failure.ended_at, took_s=took_s)
    if not (lease.link and lease.link.payload):  # Scrapy logs the errors of users' own Requests
        logger.error("Error while fetching %s", request.url, exc_info=error)
    if state.exchange is not None:  # the error came after the answer
        return fetched(state.exchange)
    return Failed("error", now, now)


def _fault_of_another_handler(
    request: Request, error: BaseException | None, now: float
) -> FetchFailed | None:
    """Note the failure that our own handler would have noted, and return it."""
    reason = SCRAPYS_FAILURES.get(type(error).__name__)
    if reason is None:
        return None
    failure = FetchFailed(reason, str(error), True, now)
    note(request, failure=failure)
    return failure


def fetched(
    exchange: Exchange,
    links: tuple[Link, ...] = (),
    page: Page | None = None,
    visited: Visited | None = None,
    requisites: tuple[Link, ...] = (),
) -> Fetched:
    """The outcome of an answer. `page` is what was made of it."""
    return Fetched(
        exchange.status,
        exchange.asked_at,
        exchange.ended_at,
        links,
        asked_to_wait_s(exchange),
        exchange.size_bytes,
        exchange.total_s,
        duplicate_of=str(page.duplicate_of or "") if page is not None else "",
        archived=exchange.archived,
        details=details_of(exchange, page),
        first_byte_s=exchange.total_s if exchange.reconstructed else exchange.first_byte_s,
        visited=visited,
        wall=exchange.wall,
        requisites=requisites,
        declared_language=str(page.lang or "") if page is not None else "",
        detected_language=str(page.detected_language or "") if page is not None else "",
        near_duplicate_of=str(page.near_duplicate_of or "") if page is not None else "",
    )


def _times(request: Request) -> tuple[float, float]:
    """When `request` was asked, and when that ended; zeros if no server can have received it."""
    state = state_of(request)
    if state.exchange is not None:
        return state.exchange.asked_at, state.exchange.ended_at
    if state.failure is not None and state.failure.asked:
        return state.failure.ended_at, state.failure.ended_at
    return 0.0, 0.0
