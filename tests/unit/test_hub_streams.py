"""One end of a stream against the other: numbers, gaps, sessions, clocks."""

from __future__ import annotations

from math import inf

from tests.cases import each_of
from webcrawl.cluster.packets import PACKET_BYTES, SILENCE_S, Packet
from webcrawl.cluster.streams import Stream, decode_shifted
from webcrawl.frontier.lease import Failed, Fetched, Resolved
from webcrawl.hub.wire import (
    Acquire,
    Answers,
    Calls,
    Channel,
    End,
    Lane,
    Message,
    Release,
    Status,
    encode,
)


class Side:
    """A stream, what it sends, and what its channel hears."""

    def __init__(self) -> None:
        self.now = 100.0
        self.out: list[Packet] = []
        self.heard: list[Message | None] = []  # None: the channel is lost
        self.stream = Stream(self.out.append, lambda: self.now)
        self.channel = Channel(self.heard.append, lambda: self.heard.append(None))
        self.stream.connect(self.channel)


def pair() -> tuple[Side, Side]:
    """Two ends in their first session."""
    one, two = Side(), Side()
    begin(one, two, "f.1")
    return one, two


def begin(one: Side, two: Side, session: str) -> None:
    received = one.stream.received
    one.stream.begin(session, two.stream.received, one.now, 0.0)
    two.stream.begin(session, received, 0.0, one.now)


def carry(one: Side, two: Side) -> None:
    """Everything that `one` has sent arrives."""
    packets, one.out[:] = one.out[:], []
    for packet in packets:
        two.stream.receive(packet)


def test_a_large_message_goes_in_several_packets() -> None:
    one, two = pair()
    one.channel.send(End("x" * (2 * PACKET_BYTES)))
    assert [len(packet.data) <= PACKET_BYTES for packet in one.out] == [True] * 3
    carry(one, two)
    assert two.heard == [End("x" * (2 * PACKET_BYTES))]


def test_a_gap_ends_the_session_and_the_next_one_brings_each_message_once() -> None:
    one, two = pair()
    for name in "abc":
        one.channel.send(End(name))
    del one.out[1]
    carry(one, two)
    assert two.heard == [End("a")]
    assert two.stream.session == ""
    begin(one, two, "f.2")
    carry(one, two)
    carry(two, one)
    assert two.heard == [End("a"), End("b"), End("c")]


def test_a_lost_last_message_is_noticed_by_the_next_tick() -> None:
    one, two = pair()
    one.channel.send(End("a"))
    one.out.clear()
    one.stream.tick()  # something was sent
    one.stream.tick()
    carry(one, two)
    assert two.stream.session == ""
    assert two.heard == []


def test_a_packet_that_confirms_what_was_never_sent_confirms_nothing() -> None:
    one, two = pair()
    one.channel.send(End("a"))
    for received, echo in ((2, 0.0), (0, 1e300), (0, inf)):
        one.stream.receive(Packet("f.1", 0, received, echo, 0.0, b""))
    assert one.stream.valid_until == one.now + SILENCE_S
    begin(one, two, "f.2")
    carry(one, two)
    assert two.heard == [End("a")]


def test_packets_of_another_session_and_repeated_ones_change_nothing() -> None:
    one, two = pair()
    one.channel.send(End("a"))
    packet = one.out[0]
    two.stream.receive(packet)
    two.stream.receive(packet)
    two.stream.receive(Packet("f.9", 2, 0, 0.0, 0.0, packet.data))
    assert two.heard == [End("a")]
    assert two.stream.session == "f.1"


def test_a_session_is_valid_from_the_last_packet_that_the_other_end_has_answered() -> None:
    one, two = pair()
    assert one.stream.valid_until == 100.0 + SILENCE_S
    one.now = 105.0
    one.stream.tick()
    one.out.clear()  # it is lost
    two.stream.tick()
    carry(two, one)
    assert one.stream.valid_until == 100.0 + SILENCE_S, "heard, but nothing later was answered"
    one.stream.tick()
    carry(one, two)
    two.stream.confirm()
    one.now = 109.0
    carry(two, one)
    assert one.stream.valid_until == 105.0 + SILENCE_S
    one.stream.end()
    assert one.stream.valid_until == -inf


def test_times_come_as_ages() -> None:
    one, two = pair()
    one.now, two.now = 1_000.0, 50.0
    outcome = Fetched(200, asked_at=998.0, ended_at=999.0)
    one.channel.send(Calls(1, [Release([(1, outcome)], 1_000.0)], {}, 0.0))
    two.now = 50.25  # a quarter of a second on its way
    carry(one, two)
    (message,) = two.heard
    assert isinstance(message, Calls)
    (release,) = message.calls
    assert isinstance(release, Release)
    ((_, seen),) = release.done
    assert (seen.asked_at, seen.ended_at, release.now) == (48.25, 49.25, 50.25)


@each_of(
    ("message", "expected"),
    [
        (
            Calls(1, [Acquire(10.0, 3, Lane.PAGES)], {}, 0.0),
            Calls(1, [Acquire(15.0, 3, Lane.PAGES)], {}, 0.0),
        ),
        (
            Calls(1, [Release([(1, Resolved(("10.0.0.1",), 20.0))], 10.0)], {}, 0.0),
            Calls(1, [Release([(1, Resolved(("10.0.0.1",), 25.0))], 15.0)], {}, 0.0),
        ),
        (
            Calls(1, [Release([(1, Failed("connect", 0.0, 9.0))], 10.0)], {}, 0.0),
            Calls(1, [Release([(1, Failed("connect", 0.0, 14.0))], 15.0)], {}, 0.0),
        ),
        (
            Answers(1, [], Status(0.0, inf, False, False)),
            Answers(1, [], Status(0.0, inf, False, False)),
        ),
        (
            Answers(1, [], Status(3.0, 4.0, False, False, 5.0)),
            Answers(1, [], Status(8.0, 9.0, False, False, 10.0)),
        ),
    ],
)
def test_each_time_of_a_message_is_shifted(message: Message, expected: Message) -> None:
    assert decode_shifted(encode(message), 5.0) == expected
