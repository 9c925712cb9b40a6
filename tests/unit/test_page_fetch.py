"""What a request that ended in the errback tells the frontier."""

from __future__ import annotations

import asyncio
from copy import copy, deepcopy
from dataclasses import replace
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest, StopDownload

from tests.cases import each_of
from tests.exchanges import exchange
from webcrawl.crawl.outcomes import AskedAgain, failed, fetched
from webcrawl.crawl.page_fetch import (
    META_KEY,
    PageFetch,
    RequestState,
    is_users,
    lease_of,
    note,
    page_fetch_of,
    state_of,
    strip,
)
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lease, Link, Outcome, Returned, Step

URL = "http://a.example/"
NOW = 50.0


def outcome(error: Exception, *, refused: str = "", **state: Any) -> Outcome:
    link = Link(URL, "a.example", payload=b"a Request")
    lease = Lease("a.example", Step.PAGE, URL, "10.0.0.1", link, refused=refused)
    request = Request(URL, meta={META_KEY: RequestState(**state)})
    return failed(lease, request, error, NOW)


def test_no_answer() -> None:
    asked = FetchFailed("reset", asked=True, ended_at=9.0)
    assert outcome(asked, failure=asked) == Failed("reset", 9.0, 9.0)
    unasked = FetchFailed("connect", ended_at=9.0)
    assert outcome(unasked, failure=unasked) == Failed("connect", 0.0, 9.0)
    cut = FetchFailed("cancelled", asked=True, ended_at=9.0)
    assert outcome(cut, failure=cut) == Returned(9.0, 9.0, "cancelled")


def test_no_answer_by_another_handler() -> None:
    assert outcome(DownloadTimeoutError()) == Failed("timeout", NOW, NOW)
    assert outcome(TimeoutError("Page.goto: Timeout 30000ms")) == Failed("timeout", NOW, NOW)


@each_of("error", [TimeoutError(), StopDownload(), ValueError("of a middleware")])
def test_a_fault_after_the_answer_is_none_of_the_servers(error: Exception) -> None:
    answer = replace(exchange(), asked_at=8.0, ended_at=9.0)
    ended = outcome(error, exchange=answer)
    assert isinstance(ended, Fetched)
    assert (ended.status, ended.asked_at, ended.ended_at, ended.links) == (200, 8.0, 9.0, ())
    assert not ended.archived


def test_the_frontier_hears_of_a_page_that_it_is_archived() -> None:
    assert fetched(exchange()).archived is False
    assert fetched(replace(exchange(), archived=True)).archived is True


def test_a_request_dropped_after_the_answer_stops_the_clock_too() -> None:
    answer = replace(exchange(), asked_at=8.0, ended_at=9.0)
    assert outcome(IgnoreRequest(), exchange=answer) == Dropped("middleware", 8.0, 9.0)
    assert outcome(IgnoreRequest()) == Dropped("middleware", 0.0, 0.0)


def test_no_request_at_all() -> None:
    assert outcome(IgnoreRequest(), refused="robots") == Dropped("robots")
    assert outcome(ValueError()) == Failed("error", NOW, NOW)


def test_an_answer_that_is_not_the_last() -> None:
    busy = Fetched(503, 8.0, 9.0)
    assert outcome(AskedAgain(busy)) is busy


def visit_with(payload: bytes = b"") -> tuple[PageFetch, Request]:
    link = Link(URL, "a.example", payload=payload)
    page_fetch = PageFetch(Lease("a.example", Step.PAGE, URL, "10.0.0.1", link))
    return page_fetch, page_fetch.bind(
        Request(URL, meta={"verbatim_url": True} if not payload else {})
    )


def test_a_lease_is_that_of_the_one_request_made_for_it() -> None:
    page_fetch, request = visit_with()
    assert lease_of(request) is page_fetch.lease
    assert not is_users(lease_of(request))
    for copied in (Request(URL, meta=request.meta), request.copy(), copy(request)):
        assert lease_of(copied) is None
        assert is_users(lease_of(copied))
    page_fetch.end()
    assert lease_of(request) is None


@each_of("payload", [b"", b"a Request"])
def test_what_was_copied_of_a_meta_is_taken_out_and_the_first_one_keeps_it(payload: bytes) -> None:
    page_fetch, request = visit_with(payload)
    note(request, exchange=exchange())
    request.meta["mine"] = 1
    for copied in (Request(URL, meta=request.meta), request.copy(), copy(request), request):
        assert strip(copied).meta == {"mine": 1}
        assert lease_of(request) is page_fetch.lease
        assert state_of(request).exchange is not None


def test_a_url_that_was_taken_as_it_is_is_made_safe() -> None:
    _, request = visit_with()
    copied = Request("http://a.example/a b", meta=request.meta)
    assert copied.url == "http://a.example/a b"
    assert strip(copied).url == "http://a.example/a%20b"


def test_a_users_own_value_under_our_key_stays() -> None:
    own = {META_KEY: "my crawl", "exchange": "NYSE"}
    request = Request(URL, meta=own)
    assert strip(request) is request
    assert request.meta == own
    assert page_fetch_of(request) is None


async def test_who_waits_for_items_is_told_that_the_visit_is_over() -> None:
    page_fetch, _ = visit_with()
    page_fetch.items_open = 1
    waiting = asyncio.create_task(page_fetch.items_ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    page_fetch.end()
    await waiting
    after = page_fetch.items_ended()
    with pytest.raises(StopIteration):  # at once
        after.send(None)


async def test_a_meta_that_is_copied_deeply_has_the_one_visit() -> None:
    page_fetch, request = visit_with()
    request.meta["mine"] = [1]

    task = asyncio.current_task()
    request.callback = lambda response: task
    page_fetch.settled = asyncio.get_running_loop().create_future()
    copied = deepcopy(request.meta)
    assert copied[META_KEY].page_fetch is page_fetch
    assert copied["mine"] is not request.meta["mine"]
    assert lease_of(Request(URL, meta=copied)) is None
