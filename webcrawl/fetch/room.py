"""The memory for large answers: their bytes wait for it at the server, not here.

An answer may have FREE_BYTES. Before it grows beyond, its transfer asks for a share of the room:
as many bytes as the answer may have. Without a share the transfer stops reading, and TCP holds the
server back. So large answers hold back the hosts that sent them, and no others. Whoever holds the
answer holds its share, and releases it with the answer.

The next share goes to the host that has used the least time (`HostTimes`): many hosts with large
answers cannot keep one host waiting.

Knows nothing of transfers. Invariant: shares have at most `size_bytes` together.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final

FREE_BYTES: Final = 512 << 10
ROOM_BYTES: Final = 128 << 20
_S_PER_BYTE: Final = 1e-6  # an estimate: reading 10 MiB of links takes some 10 s
_HOSTS_MAX: Final = 10_000


class HostTimes:
    """The order of hosts that wait: by the time that each has used, with small work first.

    Start-time fair queueing (Goyal, Vin, Cheng 1996), with an estimate of the work. The clock is
    virtual: it advances by the time that each waiting host could have had. A new host begins at
    this clock, so a host that has used much does not wait for ever.
    """

    def __init__(self) -> None:
        self._clock = 0.0
        self._used: dict[str, float] = {}  # by host: the clock up to which it has used its part

    def rank(self, host: str, size_bytes: int) -> float:
        """The place of work of this size for `host`: the lowest is next. O(1)."""
        return max(self._clock, self._used.get(host, 0.0)) + size_bytes * _S_PER_BYTE

    def charge(self, host: str, seconds: float, waiting: int) -> None:
        """Note that `host` has used `seconds` while so many others were `waiting`."""
        self._used[host] = max(self._clock, self._used.get(host, 0.0)) + seconds
        self._clock += seconds / (waiting + 1)
        if len(self._used) > _HOSTS_MAX:
            self._used = {host: used for host, used in self._used.items() if used > self._clock}
            if len(self._used) > _HOSTS_MAX // 2:
                self._used.clear()


class Room:
    """Gives shares, in the order of `times`. `repr` counts bytes in use and shares that wait.

    is_timed -- a transfer's time-out runs on while it waits: an answer that gets no share is cut
    """

    def __init__(
        self, times: HostTimes, size_bytes: int = ROOM_BYTES, *, is_timed: bool = False
    ) -> None:
        self.times = times
        self.size_bytes = size_bytes
        self.is_timed = is_timed
        self._used_bytes = 0
        self._waiting: list[tuple[float, int, Share]] = []
        self._asked = 0

    def __repr__(self) -> str:
        return f"<Room {self._used_bytes} of {self.size_bytes} bytes, {self.waiting} waiting>"

    @property
    def waiting(self) -> int:
        return sum(share.waits for _, _, share in self._waiting)

    def ask(self, host: str, size_bytes: int, granted: Callable[[], None]) -> Share:
        """A share for an answer of `host`. `granted` is called once it has it, perhaps at once."""
        share = Share(self, host, min(size_bytes, self.size_bytes), granted)
        self._asked += 1
        rank = self.times.rank(host, share.size_bytes)
        heappush(self._waiting, (rank, self._asked, share))
        self.give()
        return share

    def add(self, size_bytes: int) -> None:
        """Change the bytes in use. A negative size may let others in."""
        self._used_bytes += size_bytes
        if size_bytes < 0:
            self.give()

    def give(self) -> None:
        """Give shares to those next in line, as long as the room suffices."""
        while self._waiting:
            share = self._waiting[0][2]
            if share.waits and self._used_bytes + share.size_bytes > self.size_bytes:
                return
            heappop(self._waiting)
            if share.waits:
                share.grant()


class Share:
    """A part of the room, for one answer. It `waits` until it is granted or released.

    From then on it does not know its transfer: the two would be a cycle, and the bytes of each
    large answer stay in memory until Python's collector runs, which is seldom.
    """

    def __init__(self, room: Room, host: str, size_bytes: int, granted: Callable[[], None]) -> None:
        self.size_bytes = size_bytes
        self.waits = True
        self._room = room
        self._host = host
        self._granted: Callable[[], None] | None = granted

    def grant(self) -> None:
        granted, self._granted = self._granted, None
        assert granted is not None
        self.waits = False
        self._room.add(self.size_bytes)
        granted()

    def charge(self, size_bytes: int, seconds: float) -> None:
        """The answer is over, and has `size_bytes`. Its host has used `seconds` for it."""
        if self.waits:  # the server has ended it, and it is small
            self.release()
            return
        self._room.times.charge(self._host, seconds, self._room.waiting)
        self._resize(min(size_bytes, self.size_bytes))

    def release(self) -> None:
        """The answer is gone, or its transfer has failed. Only the first call counts."""
        if self.waits:
            self.waits, self.size_bytes, self._granted = False, 0, None
            self._room.give()
        else:
            self._resize(0)

    def _resize(self, size_bytes: int) -> None:
        freed, self.size_bytes = self.size_bytes - size_bytes, size_bytes
        self._room.add(-freed)
