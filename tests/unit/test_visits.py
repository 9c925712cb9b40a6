"""What a request that ended in the errback tells the frontier."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError, IgnoreRequest, StopDownload

from tests.exchanges import exchange
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lease, Link, Outcome, Returned, Step
from webcrawl.visits import AskedAgain, failed

URL = "http://a.example/"
NOW = 50.0


def outcome(error: Exception, *, refused: str = "", **meta: Any) -> Outcome:
    link = Link(URL, "a.example", payload=b"a Request")
    lease = Lease("a.example", Step.PAGE, URL, "10.0.0.1", link, refused=refused)
    return failed(lease, Request(URL, meta=meta), error, NOW)


def test_no_answer() -> None:
    asked = FetchFailed("reset", asked=True, ended_at=9.0)
    assert outcome(asked, fetch_failed=asked) == Failed("reset", 9.0, 9.0)
    unasked = FetchFailed("connect", ended_at=9.0)
    assert outcome(unasked, fetch_failed=unasked) == Failed("connect", 0.0, 9.0)
    cut = FetchFailed("cancelled", asked=True, ended_at=9.0)
    assert outcome(cut, fetch_failed=cut) == Returned(9.0, 9.0, "cancelled")


def test_no_answer_by_another_handler() -> None:
    assert outcome(DownloadTimeoutError()) == Failed("timeout", NOW, NOW)
    assert outcome(TimeoutError("Page.goto: Timeout 30000ms")) == Failed("timeout", NOW, NOW)


@pytest.mark.parametrize(
    "error", [TimeoutError(), StopDownload(), ValueError("of a middleware")], ids=repr
)
def test_a_fault_after_the_answer_is_none_of_the_servers(error: Exception) -> None:
    answer = replace(exchange(), asked_at=8.0, ended_at=9.0)
    ended = outcome(error, exchange=answer)
    assert isinstance(ended, Fetched)
    assert (ended.status, ended.asked_at, ended.ended_at, ended.links) == (200, 8.0, 9.0, ())


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
