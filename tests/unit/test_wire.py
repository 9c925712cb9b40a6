"""What goes over the socket comes out as it went in, in whatever pieces it arrives."""

from __future__ import annotations

import socket
from dataclasses import asdict
from typing import Any

import pytest

from webcrawl.frontier.lease import (
    Dropped,
    Failed,
    Fetched,
    Lease,
    Link,
    Outcome,
    Resolved,
    Returned,
    RobotsFetched,
    RobotsMoved,
    RobotsTask,
    RobotsUnreachable,
    Step,
    Unresolved,
)
from webcrawl.frontier.shared.wire import (
    Channel,
    frame,
    pack_lease,
    pack_outcome,
    receive,
    unpack_lease,
    unpack_outcome,
)
from webcrawl.parse.robots import RobotsRules

LINK = Link("http://a/1", "a", 3, 1, "http://a/", 2, head_done=True, payload=b"request")
ERRAND = RobotsTask("http://a", "a", "http://b/robots.txt", 1, 2)
OUTCOMES: list[Outcome] = [
    Resolved(("10.0.0.1", "::1"), 5.0),
    Unresolved("dns", again=True),
    RobotsFetched(RobotsRules.parse(b"User-agent: *\nDisallow: /x", "a"), 9.0, 1.0, 2.0, "4xx"),
    RobotsMoved("http://b/robots.txt", "b", 1.0, 2.0),
    RobotsUnreachable("timeout", 1.0, 2.0, 3.0),
    Fetched(200, 1.0, 2.0, (LINK, LINK._replace(url="http://a/2")), 3.0, 4, 5.0, wanted=False),
    Fetched(200, 1.0, 2.0, archived=False),
    Failed("reset", 1.0, 2.0),
    Returned(1.0, 2.0),
    Dropped("middleware", 1.0, 2.0),
]


@pytest.mark.parametrize("outcome", OUTCOMES, ids=lambda each: type(each).__name__)
def test_an_outcome_is_the_same(outcome: Outcome) -> None:
    assert unpack_outcome(pack_outcome(outcome)) == outcome


@pytest.mark.parametrize(
    "lease",
    [
        Lease("a", Step.RESOLVE, "", ""),
        Lease("b", Step.ROBOTS, "http://b/robots.txt", "10.0.0.1", robots_task=ERRAND),
        Lease("a", Step.PAGE, "http://a/1", "10.0.0.1", LINK, refused="robots"),
    ],
    ids=lambda lease: lease.step.value,
)
def test_a_lease_is_the_same(lease: Lease) -> None:
    key, found = unpack_lease(pack_lease(5, lease))
    assert key == 5
    assert asdict(found) == asdict(lease)


@pytest.mark.parametrize("size", [1, 3, 7, 1000])
def test_messages_come_in_pieces_of_any_size(size: int) -> None:
    messages: list[Any] = ["a", ("b", b"x" * 300), [], {"c": 1.5}]
    data = b"".join(map(frame, messages))
    heard: list[Any] = []
    channel = Channel(heard.append, lambda: None)
    for at in range(0, len(data), size):
        channel.data_received(data[at : at + size])
    assert heard == messages


def test_the_first_message_is_read_and_no_more() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(frame("first") + frame("second"))
        assert receive(theirs) == "first"
        assert receive(theirs) == "second"


@pytest.mark.parametrize("data", [b"", b"\0\0", frame("first")[:-1]])
def test_an_end_before_the_first_message_is_told(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(data)
        with pytest.raises(EOFError):
            receive(theirs)
