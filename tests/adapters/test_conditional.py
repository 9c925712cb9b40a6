"""Which requests of the download handler are conditional, and what it counts of the answers."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace
from scrapy import Request

from tests.adapters.test_handler import OK, Server, crawler_with, download
from tests.contracts.frontier import memory_frontier
from webcrawl.crawl.crawl import crawl_of
from webcrawl.crawl.page_fetch import PageFetch, state_of
from webcrawl.fetch.conditions import Validators
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Capture, Lease, Link, Step, Visit

DATE = "Sat, 01 Aug 2026 10:00:00 GMT"
VISIT = Visit(Capture(Validators('"1"', DATE), 5, 1000.0, "sha1:A"), is_conditional=True)
NOT_MODIFIED = b"HTTP/1.1 304 Not Modified\r\n\r\n"


def last_visit(etag: str = "", changed: str = "", *, captured_at: float = 1.0) -> Visit:
    return Visit(Capture(Validators(etag, changed), captured_at=captured_at), is_conditional=True)


def asked(
    server: Server,
    visit: Visit | None = VISIT,
    *,
    payload: bytes = b"",
    settings: dict[str, Any] | None = None,
    **request: Any,
) -> tuple[list[str], dict[str, int], bool]:
    """The conditions of the request, the counts, and whether its answer is a 304 asked for."""
    url = f"http://page.invalid:{server.port}/"
    link = Link(url, "page.invalid", payload=payload)
    lease = Lease("page.invalid", Step.PAGE, url, "127.0.0.1", link, visit=visit)
    scrapys = PageFetch(lease).bind(Request(request.pop("url", url), **request))
    crawler = crawler_with(**settings or {})
    crawl_of(crawler).frontier = memory_frontier(Policy())
    download(scrapys, crawler)
    lines = server.requests[-1].decode().split("\r\n")
    counters, exchange = crawl_of(crawler).counters, state_of(scrapys).exchange
    assert counters is not None
    assert exchange is not None
    counts = {name: count for name, count in counters.conditional.items() if count}
    return [line for line in lines if line.startswith("If-")], counts, exchange.is_not_modified


def test_a_visit_is_conditional() -> None:
    with Server(NOT_MODIFIED) as server:
        assert asked(server) == (
            ['If-None-Match: "1"', f"If-Modified-Since: {DATE}"],
            {"asked": 1, "not_modified": 1},
            True,
        )


@pytest.mark.parametrize(
    ("visit", "arguments"),
    [
        (None, {}),
        (replace(VISIT, is_conditional=False), {}),
        (last_visit(), {}),
        (VISIT, {"method": "POST"}),
        (VISIT, {"payload": b"a user's own"}),
        (VISIT, {"headers": {"If-None-Match": ""}, "method": "HEAD"}),
        (last_visit('"1"', DATE, captured_at=0.0), {}),  # not in the archive
    ],
)
def test_other_requests_are_not(visit: Visit | None, arguments: dict[str, Any]) -> None:
    with Server(OK + b"Content-Length: 0\r\n\r\n") as server:
        conditions, counts, _ = asked(server, visit, **arguments)
    assert [each for each in conditions if not each.endswith(": ")] == []
    assert counts == {}


def test_a_condition_of_the_user_stays_alone() -> None:
    with Server(NOT_MODIFIED) as server:
        for own in ({"If-None-Match": '"mine"'}, {"If-Modified-Since": DATE}):
            (line,), counts, is_not_modified = asked(server, headers=own)
            assert line in ('If-None-Match: "mine"', f"If-Modified-Since: {DATE}")
            assert (counts, is_not_modified) == ({"unasked": 1}, False)
        settings = {"DEFAULT_REQUEST_HEADERS": {"If-None-Match": '"all"'}}
        assert asked(server, settings=settings)[0] == ['If-None-Match: "all"']


def test_without_an_archive_no_capture_is_needed() -> None:
    visit = last_visit('"1"', captured_at=0.0)
    with Server(NOT_MODIFIED) as server:
        assert asked(server, visit, settings={"WARC_ENABLED": False})[2]
