"""The sessions between hubs, over the simulated bus: begin, order, end, loss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.sim.bus import Net, SimBus, keep_sessions, peers_of
from tests.sim.network import loop_random, seeds, simulated
from tests.sim.web import LONGEST_FETCH_S
from tests.unit.virtualtime import now
from webcrawl.cluster.claims import Claim
from webcrawl.cluster.packets import PACKET_BYTES, SILENCE_S, TICK_S, Letter, Packet
from webcrawl.cluster.peers import Listener, _encode, peer_subject
from webcrawl.hub.wire import frame

LOST_S = 2 * SILENCE_S + LONGEST_FETCH_S
A_BEGIN_S = 3 * TICK_S  # within which a session begins, if nothing is lost


class Number(Letter, frozen=True):
    number: int
    data: bytes = b""


class Text(Letter, frozen=True):
    text: str


class Hub:
    """A hub that tells the other ones 1, 2, 3, from the begin of each session."""

    def __init__(self, net: Net, number: int, hubs: int, crawl: str = "crawl") -> None:
        self.bus = SimBus(net)
        self.peers = peers_of(self.bus, Claim(crawl, number, hubs))
        self.happened: list[tuple[object, ...]] = []
        self.ended_at: dict[int, float] = {}
        self.heard: dict[int, int] = {}
        self._told: dict[int, int] = {}
        letters = {Number: self._hear, Text: lambda hub, letter: None}
        lost = lambda hub: self.happened.append(("lost", hub))  # noqa: E731
        self.peers.add(Listener(letters, self._begin, self._end, lost))
        self._life = asyncio.create_task(keep_sessions(self.bus, self.peers))

    def _begin(self, hub: int) -> None:
        self.happened.append(("begin", hub))
        self.heard[hub] = self._told[hub] = 0
        self.tell(hub)

    def _end(self, hub: int) -> None:
        self.happened.append(("end", hub))
        if self.heard[hub]:  # it had begun at the other end too
            self.ended_at[hub] = now()

    def _hear(self, hub: int, letter: Number) -> None:
        assert letter.number == self.heard[hub] + 1, "a letter is missing, or came twice"
        self.heard[hub] += 1

    def tell(self, hub: int, data: bytes = b"") -> None:
        if self.peers.is_connected(hub):
            self._told[hub] += 1
            self.peers.send(hub, Number(self._told[hub], data))

    @property
    def others(self) -> list[int]:
        return [hub for hub in range(self.peers.hubs) if hub != self.peers.number]

    @property
    def is_whole(self) -> bool:
        return all(map(self.peers.is_connected, self.others))

    def kill(self) -> None:
        self._life.cancel()
        self.bus.kill()


def calm_net() -> Net:
    net = Net(loop_random())
    net.lost = 0.0
    return net


async def pair() -> tuple[Net, Hub, Hub]:
    net = calm_net()
    hubs = Hub(net, 0, 2), Hub(net, 1, 2)
    await asyncio.sleep(A_BEGIN_S)
    return net, *hubs


def happened_of(*hubs: Hub) -> Iterator[list[tuple[object, ...]]]:
    """What has happened at each since the last look."""
    for hub in hubs:
        yield list(hub.happened)
        hub.happened.clear()


def spoiled(hub: Hub, data: bytes) -> bytes:
    """A packet with `data` as a letter, the second one that `hub` gets from hub 1."""
    return _encode(Packet(hub.peers._peers[1].session, 2, 0, now(), now(), frame(data)))


@simulated
async def test_a_session_begins_at_both_ends_and_stays_without_letters() -> None:
    _, *hubs = await pair()
    await asyncio.sleep(20 * SILENCE_S)
    assert [*happened_of(*hubs)] == [[("begin", 1)], [("begin", 0)]]
    assert [hub.heard for hub in hubs] == [{1: 1}, {0: 1}]


@simulated
async def test_letters_of_any_length_arrive_in_order() -> None:
    _, first, second = await pair()
    for size in (0, PACKET_BYTES, 3 * PACKET_BYTES, 1, 2 * PACKET_BYTES - 20):
        first.tell(1, b"x" * size)
        second.tell(0, b"y" * size)
    await asyncio.sleep(TICK_S)
    assert (first.heard[1], second.heard[0]) == (6, 6)


@pytest.mark.parametrize("cut", ["message", "bus", "process", "silence"])
@simulated
async def test_a_session_that_ends_ends_at_both_ends_and_the_next_one_begins_afresh(
    cut: str,
) -> None:
    net, first, second = await pair()
    [*happened_of(first, second)]
    match cut:
        case "message":
            net.lost = 1.0
            first.tell(1)
            net.lost = 0.0
            first.tell(1)
        case "bus":
            first.peers.end_all()
        case "process":
            first.kill()
            first = Hub(net, 0, 2)
        case "silence":
            second.bus.is_cut = True
            await asyncio.sleep(SILENCE_S + 2 * TICK_S)
            second.bus.is_cut = False
    await asyncio.sleep(A_BEGIN_S)
    there, here = happened_of(first, second)
    assert here == [("end", 0), ("begin", 0)]
    assert there == [("begin", 1)] if cut == "process" else [("end", 1), ("begin", 1)]
    assert (first.heard[1], second.heard[0]) == (1, 1)


@pytest.mark.parametrize("away", [0, 1])
@simulated
async def test_a_hub_that_was_away_for_too_long_was_lost(away: int) -> None:
    _, *hubs = await pair()
    [*happened_of(*hubs)]
    there, here = hubs[away], hubs[1 - away]
    there.bus.stop(SILENCE_S + LOST_S + 5 * TICK_S)
    await asyncio.sleep(LOST_S)
    assert here.happened == [("end", away)]  # its fetchers may still have something under way
    await asyncio.sleep(SILENCE_S + 4 * TICK_S)
    assert here.happened == [("end", away), ("lost", away)]
    await asyncio.sleep(A_BEGIN_S)
    # The one that was stopped has counted no tick: to it, the other one was not lost.
    assert ("lost", 1 - away) not in there.happened
    assert here.happened[-1] == ("begin", away)


@simulated
async def test_both_ends_of_a_cut_call_each_other_lost() -> None:
    _, first, second = await pair()
    second.bus.is_cut = True
    await asyncio.sleep(2 * LOST_S)
    second.bus.is_cut = False
    await asyncio.sleep(A_BEGIN_S)
    for hub, other in ((first, 1), (second, 0)):
        kinds = ["begin", "end", "lost", "begin"]
        assert hub.happened == [(kind, other) for kind in kinds]


@simulated
async def test_a_hub_that_never_comes_is_lost_once() -> None:
    only = Hub(calm_net(), 1, 2)
    await asyncio.sleep(3 * LOST_S)
    assert only.happened == [("lost", 0)]


@simulated
async def test_a_hub_that_does_not_serve_neither_hears_nor_counts() -> None:
    _, first, second = await pair()
    first.peers.serves_until = 0.0
    await asyncio.sleep(3 * LOST_S)
    assert not first.peers.serves
    assert first.happened == [("begin", 1), ("end", 1)]
    assert not first.peers.is_connected(1)
    first.peers.serves_until = float("inf")
    await asyncio.sleep(A_BEGIN_S)
    assert first.happened[-1] == ("begin", 1)
    assert second.is_whole


@simulated
async def test_a_hub_that_ends_tells_the_others() -> None:
    _, first, second = await pair()
    first.peers.close()
    await asyncio.sleep(TICK_S / 2)
    assert not first.is_whole
    assert second.happened == [("begin", 0), ("end", 0)]


@simulated
async def test_a_hub_that_sends_garbage_again_and_again_is_named_once_a_minute(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    _, first, _ = await pair()
    for _ in range(70):
        first.peers.receive(1, spoiled(first, b"garbage"))
        await asyncio.sleep(TICK_S)
    lines = [record.getMessage() for record in caplog.records]
    assert sum("cannot be carried out" in line for line in lines) == 2
    assert len(lines) == 2 + 2 * 4  # with the begin and the end of sessions, at both ends


@simulated
async def test_a_letter_whose_text_is_not_unicode_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    _, first, _ = await pair()
    data = _encode(Text("?")).replace(b"?", b"\xff")
    first.peers.receive(1, spoiled(first, data))
    assert not first.is_whole
    assert [record.exc_info for record in caplog.records] == [None]


@simulated
async def test_what_cannot_be_carried_out_ends_the_session_and_not_the_hub() -> None:
    _, first, second = await pair()
    for data in (
        b"\xc1",
        b"\x93\x01\x02\x03",
        _encode(Packet("1.x", 1, 0, 0.0, 0.0, b"data")),
    ):
        first.peers.receive(1, data)
    assert first.is_whole
    second.bus.publish(peer_subject(0, 1), spoiled(first, b"garbage"))
    second._told[0] += 1  # `first` misses a number
    second.tell(0)
    await asyncio.sleep(A_BEGIN_S)
    assert first.is_whole
    assert first.happened == [("begin", 1), ("end", 1), ("begin", 1)]


@simulated
async def test_a_hub_of_another_crawl_gets_no_session() -> None:
    net = calm_net()
    first, second = Hub(net, 0, 2), Hub(net, 1, 2, "other")
    await asyncio.sleep(A_BEGIN_S)
    assert not first.is_whole
    assert not second.is_whole


@pytest.mark.parametrize("seed", seeds(6))
@simulated
async def test_whatever_befalls_them_hubs_find_each_other_again(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Letters of a session arrive in order; a loss is called after the other end has ended."""
    random = loop_random()
    net = Net(random)
    net.lost = 0.02
    hubs = [Hub(net, number, 3) for number in range(3)]
    faults: list[str] = []

    def lost_by(number: int) -> Any:
        def handle(hub: int) -> None:
            there = hubs[hub]
            # A hub that was stopped notices the end late, and its gates were shut until then.
            if now() > there.bus.stopped_until + LONGEST_FETCH_S:
                is_on = there.peers.is_connected(number) and there.heard[number]
                ended_s = now() - there.ended_at.get(number, 0.0)
                if is_on or ended_s < LONGEST_FETCH_S:
                    faults.append(f"{number} has lost {hub} too early")

        return handle

    for number, hub in enumerate(hubs):
        hub.peers.add(Listener({}, lost=lost_by(number)))
    for _ in range(150):
        await asyncio.sleep(random.expovariate(1 / 3.0))
        number = random.randrange(3)
        victim = hubs[number]
        match random.choices(["stop", "cut", "kill", "tell"], [2, 2, 1, 20])[0]:
            case "stop":
                victim.bus.stop(random.expovariate(1 / 20))
            case "cut":
                victim.bus.cut(random.expovariate(1 / 20))
            case "kill":
                victim.kill()
                hubs[number] = Hub(net, number, 3)
                hubs[number].peers.add(Listener({}, lost=lost_by(number)))
            case "tell":
                for other in victim.others:
                    victim.tell(other)
    net.lost = 0.0
    await asyncio.sleep(200.0)
    assert all(hub.is_whole for hub in hubs)
    assert not faults
    assert "cannot be carried out" not in caplog.text
    for hub in hubs:
        for other in hub.others:
            hub.tell(other)
    await asyncio.sleep(TICK_S)
    for hub in hubs:
        for other in hub.others:
            assert hubs[other].heard[hub.peers.number] == hub._told[other]
