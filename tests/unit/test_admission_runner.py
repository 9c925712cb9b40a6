"""Admissions: the meaning of an answer to a HEAD, and where a robots.txt is read."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from tests.cases import each_of
from tests.exchanges import exchange
from webcrawl.admission.outage import Outage
from webcrawl.admission.runner import Admissions, read_robots
from webcrawl.fetch.exchange import Exchange
from webcrawl.fetch.room import HostTimes, Room
from webcrawl.frontier.lease import Fetched, Lease, Link, Step
from webcrawl.parse.robots import LARGE_BODY_BYTES, RobotsRules

LINK = Link("http://a.test/page", "a.test")
LEASE = Lease("a.test", Step.HEAD, LINK.url, "192.0.2.1", link=LINK)


class OneAnswer:
    """A client: each fetch returns the same exchange."""

    def __init__(self, answer: Exchange) -> None:
        self.answer = answer

    async def fetch(self, *arguments: Any) -> Exchange:
        return self.answer


async def keep_nothing(exchange: Exchange) -> None:
    """No archive."""


def admissions_with(answer: Exchange) -> Admissions:
    stub: Any = None
    return Admissions(
        resolver=stub,
        guard=stub,
        client=OneAnswer(answer),  # type: ignore[arg-type]
        headers=[],
        read_rules=stub,
        read_signals=stub,
        wants=lambda status, headers: (b"content-type", b"text/html") in headers,
        outlink=lambda url, link: Link(url, link.host, redirects=1),
        record=keep_nothing,
        outage=Outage(stub, stub, max_s=0.0),
    )


def outcome_of(head: bytes) -> Fetched:
    """The outcome of a HEAD that is answered with `head`."""
    admissions = admissions_with(exchange(head, b"", method="HEAD"))
    outcome = asyncio.run(admissions.run(LEASE))
    assert isinstance(outcome, Fetched)
    return outcome


def test_the_room_of_a_large_answer_is_free_in_the_end() -> None:
    room = Room(HostTimes(), 10)
    answer = exchange(b"HTTP/1.1 200 OK\r\n\r\n", b"", method="HEAD")
    answer.share = room.ask("a.test", 10, lambda: None)
    asyncio.run(admissions_with(answer).run(LEASE))
    assert repr(room) == "<Room 0 of 10 bytes, 0 waiting>"


@each_of(
    ("head", "wanted"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n\r\n", False),
        (b"HTTP/1.1 405 Method Not Allowed\r\n\r\n", True),
        (b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\r\n", False),
    ],
)
def test_which_answers_to_head_are_worth_a_get(head: bytes, wanted: bool) -> None:
    assert outcome_of(head).wanted is wanted


def test_a_redirect_is_a_link() -> None:
    moved = outcome_of(b"HTTP/1.1 301 Moved\r\nLocation: /new\r\n\r\n")
    assert [link.url for link in moved.links] == ["http://a.test/new"]
    assert not moved.wanted


def test_retry_after_is_part_of_the_outcome() -> None:
    busy = outcome_of(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\n\r\n")
    assert busy.retry_after_s == 7.0


@each_of(("size", "in_place"), [(100, True), (LARGE_BODY_BYTES + 1, False)])
def test_a_large_robots_txt_is_read_on_a_thread(size: int, in_place: bool) -> None:
    threads = []

    def read_rules(body: bytes) -> RobotsRules:
        threads.append(threading.current_thread() is threading.main_thread())
        return RobotsRules.parse(body, "webcrawl")

    body = b"User-agent: *\nDisallow: /a\n" + b"#" * size
    rules = asyncio.run(read_robots(body, read_rules))
    assert (rules.literals, threads) == ("-/a", [in_place])
