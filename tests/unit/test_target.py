"""Slow pages at the end of a target: which are ended as time-outs, and how many."""

from __future__ import annotations

from scrapy import Request

from tests.exchanges import exchange
from webcrawl.crawl.outcomes import failed
from webcrawl.crawl.page_fetch import PageFetch, note
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.frontier.lease import Failed, Lease, Link, Outcome, Returned, Step
from webcrawl.scheduler.target import SlowPages

NOW = 1000.0


def pages(count: int, *, begun_at: float = NOW, retries: int = 0) -> list[PageFetch]:
    links = [Link(f"http://h{n}.example/", f"h{n}.example", retries=retries) for n in range(count)]
    return [
        PageFetch(Lease(link.host, Step.PAGE, link.url, "10.0.0.1", link), begun_at)
        for link in links
    ]


def with_answers(*took_s: float, cuts_max: int = 9) -> SlowPages:
    slow = SlowPages(cuts_max)
    for each in took_s:
        slow.answered(each)
    return slow


def test_a_page_is_slow_after_a_second_and_three_times_the_usual_time() -> None:
    assert not with_answers(0.1).cut(pages(1), NOW + 0.9)
    assert with_answers(0.1).cut(pages(1), NOW + 1.1) == {"http://h0.example/"}
    usual = 0.1, 9.0, 0.5, 2.0, 2.0  # their median is 2 s
    assert not with_answers(*usual).cut(pages(1), NOW + 5.9)
    assert with_answers(*usual).cut(pages(1), NOW + 6.1)


def test_a_page_is_cut_once_and_not_after_its_answer() -> None:
    slow, under_way = with_answers(0.1, 0.1, 0.1), pages(2)
    under_way[1].exchange = exchange()
    assert slow.cut(under_way, NOW + 60) == {"http://h0.example/"}
    assert not slow.cut(under_way, NOW + 61)
    assert [each.is_cut for each in under_way] == [True, False]


def test_each_retry_has_four_times_as_long() -> None:
    for retries, slow_s in ((1, 4.0), (2, 16.0)):
        assert not with_answers(0.1).cut(pages(1, retries=retries), NOW + slow_s - 0.1)
        assert with_answers(0.1).cut(pages(1, retries=retries), NOW + slow_s + 0.1)
    assert not with_answers(0.1).cut(pages(1, retries=100_000), NOW + 60)


def test_no_more_pages_are_cut_than_were_answered_or_are_allowed() -> None:
    assert not with_answers().cut(pages(9), NOW + 60), "nobody knows the usual time"
    slow = with_answers(0.1, 0.1)
    assert len(slow.cut(pages(9), NOW + 60)) == 2
    slow.answered(0.1)
    assert len(slow.cut(pages(9), NOW + 60)) == 1
    assert len(with_answers(*[0.1] * 99, cuts_max=4).cut(pages(9), NOW + 60)) == 4


def outcome_of(*, asked: bool) -> Outcome:
    """Of a page that was cut: whether a server may have got its request."""
    page_fetch = pages(1)[0]
    request = page_fetch.bind(Request(page_fetch.lease.url))
    page_fetch.is_cut = True
    note(request, failure=FetchFailed("cancelled", "", asked, NOW + 2.0))
    return failed(page_fetch.lease, request, None, NOW + 2.0)


def test_a_page_that_is_cut_has_timed_out() -> None:
    assert outcome_of(asked=True) == Failed("timeout", NOW + 2.0, NOW + 2.0, took_s=2.0)


def test_a_page_that_is_cut_before_its_request_was_sent_is_given_back() -> None:
    assert outcome_of(asked=False) == Returned(0.0, NOW + 2.0, "cancelled")
