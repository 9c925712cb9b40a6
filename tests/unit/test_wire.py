"""What goes over the socket comes out as it went in, in whatever pieces it arrives."""

from __future__ import annotations

import socket

import pytest
from msgspec import DecodeError
from msgspec.structs import asdict, replace

from tests.cases import each_of
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
    Text,
    Unresolved,
)
from webcrawl.hub.wire import (
    Accepted,
    Answers,
    CallFailed,
    Calls,
    Channel,
    ContentSeen,
    End,
    Exit,
    FirstSeen,
    Heartbeat,
    Leased,
    Message,
    Orders,
    Put,
    Release,
    Status,
    Steer,
    decode,
    encode,
    frame,
    receive,
    valid_text,
)
from webcrawl.parse.jointrules import joint_rules
from webcrawl.parse.robots import RobotsRules
from webcrawl.warc.records import Original

LINK = Link("http://a/1", "a", 3, 1, "http://a/", 2, head_done=True, payload=b"request")
ROBOTS_TXT = b"User-agent: *\nDisallow: /x"
ROBOTS_TASK = RobotsTask("http://a", "a", "http://b/robots.txt", 1, 2)
OUTCOMES: list[Outcome] = [
    Resolved(("10.0.0.1", "::1"), 5.0),
    Unresolved("dns", again=True),
    RobotsFetched(RobotsRules.parse(ROBOTS_TXT, "a"), 9.0, 1.0, 2.0, "4xx"),
    RobotsFetched(joint_rules(ROBOTS_TXT + b"y\nUser-agent: b", "a,b"), 9.0, 1.0, 2.0),
    RobotsMoved("http://b/robots.txt", "b", 1.0, 2.0),
    RobotsUnreachable("timeout", 1.0, 2.0, 3.0),
    Fetched(200, 1.0, 2.0, (LINK, replace(LINK, url="http://a/2")), 3.0, 4, 5.0, wanted=False),
    Fetched(200, 1.0, 2.0, archived=False),
    Failed("reset", 1.0, 2.0),
    Returned(1.0, 2.0),
    Dropped("middleware", 1.0, 2.0),
]


STATUS = Status(1.0, float("inf"), is_finished=False, has_spare=True)
ORIGINAL = Original("http://a/", 1.5, "sha1:A")
MESSAGES: list[Message] = [
    Calls(7, [Put([LINK], 1.0, force=True), Release([(5, OUTCOMES[0])], 2.0)], {}, 0.5),
    Calls(8, [ContentSeen(b"\0\xff", ORIGINAL, None)], {"links": 3, "codes": {"2xx": 1}}, 0.5),
    Calls(9, [ContentSeen(b"", ORIGINAL, Text(b"\0\xff", is_leaf=True))], {}, 0.5),
    Heartbeat({"fetch_s": 1.5}),
    Answers(7, [Accepted(1), None, CallFailed("why")], STATUS),
    Answers(8, [FirstSeen(ORIGINAL, "http://a/"), FirstSeen(None), Leased([])], STATUS),
    Exit("finished", {"item_scraped_count": 3, "webcrawl/problem": "disk"}, {}),
    End("shutdown"),
]


def sent(message: Message) -> Message:
    """`message` as the other end has it."""
    return decode(encode(message))


@each_of("message", MESSAGES)
def test_a_message_is_the_same(message: Message) -> None:
    assert sent(message) == message


@each_of("outcome", OUTCOMES)
def test_an_outcome_is_the_same(outcome: Outcome) -> None:
    message = Calls(1, [Release([(5, outcome)], 1.0)], {}, 0.0)
    assert sent(message) == message


@each_of(
    "lease",
    [
        Lease("a", Step.RESOLVE, "", ""),
        Lease("b", Step.ROBOTS, "http://b/robots.txt", "10.0.0.1", robots_task=ROBOTS_TASK),
        Lease("a", Step.PAGE, "http://a/1", "10.0.0.1", LINK, refused="robots"),
    ],
)
def test_a_lease_is_the_same(lease: Lease) -> None:
    message = sent(Answers(1, [Leased([(5, lease)])], STATUS))
    assert isinstance(message, Answers)
    (answer,) = message.answers
    assert isinstance(answer, Leased)
    ((key, found),) = answer.leases
    assert key == 5
    assert asdict(found) == asdict(lease)


def test_text_that_is_not_unicode_can_be_sent() -> None:
    """A message of the operating system may name a file whose name is not UTF-8."""
    assert sent(End(valid_text("/tmp/\udcff"))) == End(r"/tmp/\udcff")


@each_of("size", [1, 3, 7, 1000])
def test_messages_come_in_pieces_of_any_size(size: int) -> None:
    data = b"".join(frame(encode(message)) for message in MESSAGES)
    received: list[Message] = []
    channel = Channel(received.append, lambda: None)
    for at in range(0, len(data), size):
        channel.data_received(data[at : at + size])
    assert received == MESSAGES


@each_of("number", [-1, 1 << 62])
def test_orders_with_a_number_that_no_hub_can_report_are_refused(number: int) -> None:
    steer = Steer(1, Orders(number=number), Status(0.0, 0.0, is_finished=False, has_spare=False))
    with pytest.raises(DecodeError):
        decode(encode(steer))


def test_only_the_first_frame_is_read() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(frame(b"first") + frame(b"second"))
        assert receive(theirs) == b"first"
        assert receive(theirs) == b"second"


@each_of("data", [b"", b"\0\0", frame(b"first")[:-1]])
def test_a_socket_that_ends_before_the_first_frame_is_an_error(data: bytes) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        with ours:
            ours.sendall(data)
        with pytest.raises(EOFError):
            receive(theirs)
