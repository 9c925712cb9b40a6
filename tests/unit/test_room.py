"""The room for large answers, and the order of hosts that wait."""

from __future__ import annotations

import gc
import weakref

from tests.cases import each_of
from webcrawl.fetch.room import HostTimes, Room, Share

SIZE = 10_000_000


def test_an_answer_waits_until_the_room_suffices() -> None:
    room = Room(HostTimes(), 2 * SIZE)
    granted: list[str] = []
    shares = [room.ask(host, SIZE, lambda host=host: granted.append(host)) for host in "abc"]
    assert granted == ["a", "b"]
    assert repr(room) == f"<Room {2 * SIZE} of {2 * SIZE} bytes, 1 waiting>"
    shares[0].charge(SIZE - 1, 1.0)
    assert shares[2].waits, "a byte is missing"
    shares[1].release()
    shares[1].release()
    assert granted == ["a", "b", "c"]
    for share in shares:
        share.release()
    assert repr(room) == f"<Room 0 of {2 * SIZE} bytes, 0 waiting>"


def test_an_answer_larger_than_the_room_gets_all_of_it() -> None:
    room = Room(HostTimes(), SIZE)
    share = room.ask("a", 100 * SIZE, lambda: None)
    assert not share.waits
    assert room.ask("b", 1, lambda: None).waits
    share.release()
    assert repr(room) == f"<Room 1 of {SIZE} bytes, 0 waiting>"


def test_the_host_that_has_used_the_least_time_is_next() -> None:
    times = HostTimes()
    times.charge("slow", 5.0, waiting=9)
    assert times.rank("new", SIZE) < times.rank("slow", SIZE)
    assert times.rank("new", 1000) < times.rank("new", SIZE), "small work first"


class _Answer:
    """Holds its share and is called back by it, as a transfer is."""

    def __init__(self, room: Room) -> None:
        self.share: Share | None = None
        self.share = room.ask("a", SIZE, self.go_on)

    def go_on(self) -> None:
        pass


@each_of("is_granted", [True, False])
def test_a_share_that_no_longer_waits_does_not_keep_its_answer(*, is_granted: bool) -> None:
    """Else the bytes of each large answer stay in memory until Python's collector runs: 1.8 GB
    after 174 pages of 10 MB.
    """
    room = Room(HostTimes(), SIZE)
    first = None if is_granted else room.ask("b", SIZE, lambda: None)
    answer = _Answer(room)
    share, left = answer.share, weakref.ref(answer)
    assert share is not None
    assert share.waits is not is_granted
    if first is not None:
        share.release()
    gc.disable()
    try:
        del answer
        assert left() is None
    finally:
        gc.enable()


def test_no_host_waits_for_ever_for_new_hosts() -> None:
    times = HostTimes()
    times.charge("slow", 5.0, waiting=9)
    rank = times.rank("slow", SIZE)
    others = 0
    while times.rank(f"new{others}", SIZE) < rank:
        times.charge(f"new{others}", 5.0, waiting=9)
        others += 1
    assert others == 9, "each of those that waited had its part"


def test_the_memory_of_hosts_is_bounded() -> None:
    times = HostTimes()
    for number in range(50_000):
        times.charge(f"h{number}", 10.0, waiting=100)
    assert len(times._used) <= 10_000
