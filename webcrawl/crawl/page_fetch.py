"""A lease on its way through Scrapy, and our one key in `request.meta`.

`PageFetch` is one PAGE lease, from the Request made for it to its outcome. `RequestState` is the
state of one Request: its page fetch, and the exchange or failure that it ended with. It is written
by `note` and read by `state_of`. (The drop-in middlewares have a text of their own in
`request.meta`: `middlewares.verifier`.)

Invariant: a user's code may copy `request.meta` to any other Request, or empty it. So a state is
replaced and never changed; and a lease belongs to the one Request object that was made for it
(`lease_of`). A copied state is ignored, and removed when its Request is enqueued (`strip`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace
from scrapy import Request
from twisted.python.failure import Failure

from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.room import Share
from webcrawl.frontier.lease import Lease, Link
from webcrawl.items import Page

META_KEY = "webcrawl"


class PageFetch:
    """One PAGE lease in the engine. Made by the scheduler; `done` once its lease is given back."""

    __slots__ = (
        *("begun_at", "done", "errback", "exchange", "is_cut", "items_open", "lease", "link"),
        *("links", "logged", "page", "request", "requisites", "settled", "share", "unarchived"),
    )

    def __init__(self, lease: Lease, begun_at: float = 0.0) -> None:
        self.lease = lease
        self.link: Link = lease.link  # type: ignore[assignment]  # a PAGE lease has one
        self.begun_at = begun_at  # monotonic
        self.is_cut = False  # ended as a time-out, since the target waits for it
        self.request: Request | None = None  # the one made for the lease, until it is done
        self.logged = False  # its line was written to the log
        self.errback: Callable[[Failure], Any] | None = None  # the user's own
        self.exchange: Exchange | None = None  # of the answer that the spider gets
        self.links: list[Link] = []  # outlinks in scope, put into the frontier at the end
        self.requisites: tuple[Link, ...] = ()  # the files that its page shows
        self.page: Page | None = None  # that the spider made of the answer
        self.items_open = 0  # items that are still in the item pipelines
        self.settled: asyncio.Future[None] | None = None  # set when items_open falls to 0
        self.done = False
        self.unarchived = False  # it could not be kept or read, so it is fetched again
        self.share: Share | None = None  # of the room for large answers

    def __deepcopy__(self, memo: object) -> Self:
        """Return itself: a deep copy of `meta` names the same lease."""
        return self

    def bind(self, request: Request) -> Request:
        """Make `request` the one Request of this page fetch, and note that in its state."""
        self.request = request
        request.meta[META_KEY] = RequestState(self)
        return request

    def end(self) -> None:
        """The lease has been released: nothing waits for this page fetch now."""
        self.done = True
        self.request = None  # its meta refers to this object: that would be a cycle
        self.page = None
        if self.share is not None:
            self.share.release()
        self.wake()

    def item_ended(self) -> None:
        self.items_open -= 1
        if self.items_open == 0:
            self.wake()

    async def items_ended(self) -> None:
        """Wait until all items of the callback have left the item pipelines."""
        if self.items_open and not self.done:
            self.settled = asyncio.get_running_loop().create_future()
            await self.settled

    def wake(self) -> None:
        """Wake `items_ended`."""
        if self.settled is not None and not self.settled.done():
            self.settled.set_result(None)


class RequestState(Struct, frozen=True):
    """The state of one Request: the value of `request.meta["webcrawl"]`.

    | field | written by | when |
    | --- | --- | --- |
    | `page_fetch` | scheduler | the Request is made for a lease |
    | `exchange` | download handler; `reconstruction` for other answers | it was answered |
    | `failure` | download handler; `outcomes` for faults of other handlers | it was not answered |
    | `robots_url` | drop-in middlewares | the Request asks for that robots.txt |
    """

    page_fetch: PageFetch | None = None
    exchange: Exchange | None = None
    failure: FetchFailed | None = None
    robots_url: str = ""

    def lease_of(self, request: Request) -> Lease | None:
        """The lease that `request`, whose state this is, was made for. None for a copy of it."""
        page_fetch = self.page_fetch
        return None if page_fetch is None or page_fetch.request is not request else page_fetch.lease


_NOTHING = RequestState()


def state_of(request: Request | None) -> RequestState:
    """The state of `request`; an empty state if none of our parts has handled `request`."""
    if request is None:
        return _NOTHING
    try:
        state = request.meta[META_KEY]
    except KeyError:
        return _NOTHING
    return state if type(state) is RequestState else _NOTHING


def note(request: Request, **changes: Any) -> None:
    """Replace the fields of the state of `request` that `changes` names."""
    request.meta[META_KEY] = replace(state_of(request), **changes)


def page_fetch_of(request: Request | None) -> PageFetch | None:
    """The page fetch that the answer to `request` is for; None if its lease was released.

    A middleware may have sent a copy of the Request, so copies count. A spider gets no other
    answers with a page fetch, since the scheduler strips the Requests that users enqueue.
    """
    page_fetch = state_of(request).page_fetch
    return None if page_fetch is None or page_fetch.done else page_fetch


def lease_of(request: Request) -> Lease | None:
    """The lease that `request` was made for. None for another Request with a copy of its meta."""
    page_fetch = state_of(request).page_fetch
    return None if page_fetch is None or page_fetch.request is not request else page_fetch.lease


def is_users(lease: Lease | None) -> bool:
    """Whether a user made the request with `lease_of(request)`, and not the crawl for a link."""
    return lease is None or bool(lease.link and lease.link.payload)


def strip(request: Request) -> Request:
    """`request` without a state that was copied from another Request.

    The same object, or a copy if the other Request still uses the dict. A user's own value under
    the same key stays.
    """
    meta = request.meta
    if not isinstance(meta.get(META_KEY), RequestState):
        return request
    page_fetch = meta[META_KEY].page_fetch
    if page_fetch is not None and not page_fetch.link.payload:
        # A page's URL is canonical; the copy's may not be.
        ours = (META_KEY, "verbatim_url")
        return request.replace(meta={key: meta[key] for key in meta if key not in ours})
    original = page_fetch.request if page_fetch is not None else None
    if original is not None and original.meta is meta:
        request = request.copy()
    del request.meta[META_KEY]
    return request
