"""The IP addresses of a node: one clock and one lease for each, whichever shards have hosts there.

Owns who of the node's shards asks at an address, and when. Knows nothing of the bus: `tenancy` says
which addresses the node holds, and is told which ones it wants.

A shard that may not ask yet stands in line. When its turn has come, the address is among its
`freed` ones, so a turn begins at the moment the clock is due. The shards take turns, however many
hosts each has there. One that does not come within GRACE_S of its turn has left the line.

Shards call from the threads of their batches: each method is one step under a lock (0.5 µs).

Memory: 500 bytes for each address that is held, leased or waited for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from ipaddress import ip_address, ip_network
from math import inf
from threading import Lock
from typing import Final

AGAIN_S: Final = 5.0  # a shard that waits asks again so often, if it is not told before
WISH_S: Final = 15.0  # a wish that nobody has repeated for so long is forgotten
GRACE_S: Final = 2.0
TURN_S: Final = 5.0  # a node has an address for so long, at least, also if others want it
# An address that no node wants is kept for so long: longer than the default DOWNLOAD_DELAY, so that
# a host that is asked once in that time does not cost a taking each time.
IDLE_S: Final = 60.0
_SOON_S: Final = 0.2  # as AGAIN_S, where a shard has no line to stand in


class _Address:
    """An address. `taker`: the shard that has leased it. See the methods for the rest."""

    __slots__ = (
        "asked_at",
        "is_full",
        "is_held",
        "is_shared",
        "line",
        "next_at",
        "offered_at",
        "pages",
        "stops_at",
        "taken_at",
        "taker",
        "used",
        "used_at",
    )

    def __init__(self, now: float, *, is_shared: bool) -> None:
        self.is_shared = is_shared  # several nodes may ask at a time
        self.is_held = is_shared  # the node may ask
        self.taker: int | None = None
        self.next_at = -inf  # the politeness clock
        self.line: deque[int] = deque()  # shards that wait
        self.offered_at = inf  # when the turn of the first of them began
        self.asked_at = now  # when a shard wanted it last
        self.used_at = now
        self.taken_at = now  # when the node got it
        self.stops_at = inf  # another node wants it: no lease from then on
        # MAX_PAGES_PER_IP
        self.pages: dict[int, int] = {}  # by shard: what its count may reach
        self.used: dict[int, int] = {}  # by shard: its count, as far as it has asked
        self.is_full = False  # no shard gets more


class NodeAddresses:
    """The addresses of all shards of a node.

    ip_delay_s -- IP_DELAY; 0: no clocks, several shards may ask at a time
    pages_max -- MAX_PAGES_PER_IP, 0: no cap
    shared -- CLUSTER_SHARED_ADDRESSES: prefixes that several nodes may ask at a time
    on_work -- called from any thread, under the lock: there are new `wishes` or `page_wishes`
    on_hold -- called when the node has got an address, for which a shard may wait
    """

    def __init__(
        self,
        *,
        ip_delay_s: float,
        longest_fetch_s: float,
        pages_max: int = 0,
        shared: Sequence[str] = (),
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        self.on_work = on_work
        self.on_hold: Callable[[], None] = lambda: None
        self._ip_delay_s = ip_delay_s
        self._fetch_s = longest_fetch_s
        self._has_cap = pages_max > 0
        self._shared = [ip_network(prefix, strict=False) for prefix in shared]
        self._lock = Lock()
        self._addresses: dict[str, _Address] = {}
        self._freed: defaultdict[int, list[tuple[float, str]]] = defaultdict(list)  # heaps
        self._checks: list[tuple[float, str]] = []  # heap: when to look whether it is idle
        self._wishes: set[str] = set()
        self._page_wishes: set[tuple[str, int]] = set()

    def __repr__(self) -> str:
        held = sum(each.is_held for each in list(self._addresses.values()))
        return f"<NodeAddresses: {held} held of {len(self._addresses)}>"

    def of(self, shard: int) -> ShardAddresses:
        return ShardAddresses(self, shard)

    # For a shard: see `frontier.addresses`

    def take(self, shard: int, address: str, now: float, pages: int) -> float:
        with self._lock:
            entry = self._entry(address, now)
            entry.asked_at = now
            if self._has_cap:
                entry.used[shard] = pages
            if not entry.is_held:
                self._wish(address)
                return self._join(entry, shard, now)
            if now >= entry.stops_at:
                return self._join(entry, shard, now)
            is_exclusive = self._ip_delay_s > 0
            if is_exclusive and (entry.taker is not None or now < entry.next_at):
                return self._join(entry, shard, now)
            if is_exclusive and self._first(entry, now) not in (None, shard):
                return self._join(entry, shard, now)
            if not self._has_page(entry, shard, pages) and not entry.is_full:
                self._wish_page(address, shard)
                return self._join(entry, shard, now)
            if is_exclusive:
                _leave(entry, shard)
                entry.taker = shard
            entry.used_at = now
            return 0.0

    def give_back(self, shard: int, address: str, now: float) -> None:
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and entry.taker == shard:
                entry.taker = None
                self._offer(address, entry, now)

    def release(self, shard: int, address: str, next_at: float) -> None:
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and entry.taker == shard:
                entry.taker = None
                entry.next_at = max(entry.next_at, next_at)
                entry.used_at = max(entry.used_at, next_at)
                self._offer(address, entry, next_at)

    def leave(self, shard: int, address: str, now: float) -> None:
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and _leave(entry, shard):
                self._offer(address, entry, now)

    def freed(self, shard: int, now: float) -> list[str]:
        with self._lock:
            due, found = self._freed[shard], []
            while due and due[0][0] <= now:
                found.append(heappop(due)[1])
            return found

    def next_at(self, shard: int) -> float:
        """When `freed` has an address."""
        with self._lock:
            due = self._freed.get(shard)
            return due[0][0] if due else inf

    def take_page(self, shard: int, address: str, pages: int) -> bool:
        with self._lock:
            entry = self._addresses.get(address)
            if entry is None or not self._has_page(entry, shard, pages):
                return False
            entry.used[shard] = pages + 1
            return True

    def is_full(self, shard: int, address: str, pages: int) -> bool:
        with self._lock:
            entry = self._addresses.get(address)
            return entry is not None and entry.is_full and not self._has_page(entry, shard, pages)

    # For the node

    def expect(self, address: str, now: float) -> None:
        """A host was found at the address: it will be asked soon."""
        with self._lock:
            entry = self._entry(address, now)
            entry.asked_at = now
            if not entry.is_held:
                self._wish(address)

    def forget(self, shard: int, now: float) -> None:
        """`shard` is closed. A request of its that still runs ends in time. O(addresses)."""
        with self._lock:
            self._freed.pop(shard, None)
            for address, entry in self._addresses.items():
                entry.pages.pop(shard, None)
                entry.used.pop(shard, None)  # another node counts on, beyond it
                has_left = _leave(entry, shard)
                if entry.taker == shard:
                    entry.taker = None
                    entry.next_at = max(entry.next_at, now + self._fetch_s + self._ip_delay_s)
                elif not has_left:
                    continue
                self._offer(address, entry, now)

    def wishes(self) -> set[str]:
        """Addresses that are wanted and not held; each is returned once for each wish."""
        with self._lock:
            wishes, self._wishes = self._wishes, set()
            return wishes

    def page_wishes(self) -> set[tuple[str, int]]:
        """(address, shard) that want pages; each is returned once for each wish."""
        with self._lock:
            wishes, self._page_wishes = self._page_wishes, set()
            return wishes

    def is_wanted(self, address: str, now: float) -> bool:
        """Whether a shard wants the address, which is not held."""
        with self._lock:
            entry = self._addresses.get(address)
            return entry is not None and not entry.is_held and now < entry.asked_at + WISH_S

    def is_at_rest(self, address: str, now: float) -> bool:
        """Whether no request is under way and the clock is due."""
        with self._lock:
            entry = self._addresses.get(address)
            return entry is None or (entry.taker is None and entry.next_at <= now)

    def hold(self, address: str, from_at: float, now: float) -> None:
        """The node has the address from now on; nothing is asked before `from_at`."""
        with self._lock:
            entry = self._entry(address, now)
            entry.is_held, entry.stops_at = True, inf
            entry.next_at = max(entry.next_at, from_at)
            entry.taken_at = entry.used_at = now
            self._offer(address, entry, now)
        self.on_hold()

    def lose(self, address: str) -> None:
        """The node must not ask there any more, from now on."""
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and not entry.is_shared:
                self._lose(address, entry)

    def stop(self, address: str, now: float) -> None:
        """Another node wants the address: it can be given after this turn."""
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and entry.is_held:
                waits = _is_waited_for(entry, now)
                end = max(entry.taken_at + TURN_S, now) if waits else now
                entry.stops_at = min(entry.stops_at, end)

    def give_up(self, address: str, now: float, *, is_wanted: bool) -> dict[int, int] | None:
        """Give the address to the bus, if no shard uses it: by shard, the count of its URLs.

        None: it is in use, and its turn is not over. Cost: O(shards).
        """
        with self._lock:
            entry = self._addresses.get(address)
            if entry is None or not entry.is_held or entry.is_shared:
                return None
            if entry.taker is not None or now < entry.next_at:
                return None
            waits = _is_waited_for(entry, now)
            is_idle = not waits and (is_wanted or now >= entry.used_at + IDLE_S)
            if now < entry.stops_at and not is_idle:
                return None
            self._lose(address, entry)
            return dict(entry.used)

    def idle(self, now: float) -> list[str]:
        """Held addresses that were not used for IDLE_S. Forgets what is of no use any more."""
        found = []
        with self._lock:
            checks = self._checks
            while checks and checks[0][0] <= now:
                address = heappop(checks)[1]
                entry = self._addresses[address]
                used_at = max(entry.used_at, entry.asked_at, entry.next_at)
                is_idle = entry.taker is None and now >= used_at + IDLE_S
                if is_idle and (entry.is_shared or not entry.is_held):
                    del self._addresses[address]
                    continue
                if is_idle:
                    found.append(address)
                heappush(checks, (max(used_at + IDLE_S, now + 1.0), address))
        return found

    # MAX_PAGES_PER_IP

    def counts(self, address: str) -> dict[int, int]:
        """By shard, the count of its URLs at the address, as far as it has asked."""
        with self._lock:
            entry = self._addresses.get(address)
            return dict(entry.used) if entry is not None else {}

    def set_pages(self, address: str, shard: int, pages: int, *, is_full: bool) -> None:
        """The count of `shard` at the address may reach `pages`. `is_full`: no shard gets more."""
        with self._lock:
            entry = self._addresses.get(address)
            if entry is not None and entry.is_held:
                entry.pages[shard] = pages
                entry.is_full = entry.is_full or is_full
                self._offer(address, entry, -inf)

    def trim(self, address: str, shard: int) -> dict[int, int]:
        """Take what the other shards do not use: by shard, its count, which is all that it may."""
        with self._lock:
            entry = self._addresses.get(address)
            if entry is None:
                return {}
            others = {other: used for other, used in entry.used.items() if other != shard}
            entry.pages.update(others)
            return others

    def _has_page(self, entry: _Address, shard: int, pages: int) -> bool:
        return not self._has_cap or entry.is_shared or pages < entry.pages.get(shard, 0)

    def _wish_page(self, address: str, shard: int) -> None:
        self._page_wishes.add((address, shard))
        self.on_work()

    # Under the lock

    def _entry(self, address: str, now: float) -> _Address:
        entry = self._addresses.get(address)
        if entry is None:
            parsed = ip_address(address) if self._shared else None
            is_shared = any(parsed in network for network in self._shared)
            entry = self._addresses[address] = _Address(now, is_shared=is_shared)
            heappush(self._checks, (now + IDLE_S, address))
        return entry

    def _wish(self, address: str) -> None:
        if address not in self._wishes:
            self._wishes.add(address)
            self.on_work()

    def _join(self, entry: _Address, shard: int, now: float) -> float:
        """Put `shard` in line: when it is to ask again."""
        if not self._ip_delay_s:
            return now + _SOON_S
        is_free = entry.is_held and entry.taker is None
        if not entry.line:
            entry.offered_at = max(now, entry.next_at) if is_free else inf
        if shard not in entry.line:
            entry.line.append(shard)
        if entry.line[0] == shard and is_free and now < entry.next_at < entry.stops_at:
            return entry.next_at
        return now + AGAIN_S

    def _first(self, entry: _Address, now: float) -> int | None:
        """The shard whose turn it is."""
        while entry.line:
            if now < entry.offered_at + GRACE_S:
                return entry.line[0]
            entry.line.popleft()
            entry.offered_at = now
        return None

    def _offer(self, address: str, entry: _Address, at: float) -> None:
        """Tell the first in line when its turn is."""
        if entry.line and entry.is_held and entry.taker is None:
            entry.offered_at = max(at, entry.next_at)
            heappush(self._freed[entry.line[0]], (entry.offered_at, address))

    def _lose(self, address: str, entry: _Address) -> None:
        entry.is_held = entry.is_full = False
        entry.stops_at = inf
        entry.pages.clear()
        if entry.line:
            self._wish(address)


def _is_waited_for(entry: _Address, now: float) -> bool:
    return bool(entry.line) and now < entry.asked_at + WISH_S


def _leave(entry: _Address, shard: int) -> bool:
    """Take `shard` out of the line; whether it was the first."""
    if shard not in entry.line:
        return False
    was_first = entry.line[0] == shard
    entry.line.remove(shard)
    return was_first


class ShardAddresses:
    """What a shard sees of the addresses of its node (`frontier.addresses.Addresses`)."""

    def __init__(self, node: NodeAddresses, shard: int) -> None:
        self._node = node
        self._shard = shard

    def take(self, address: str, now: float, pages: int) -> float:
        return self._node.take(self._shard, address, now, pages)

    def give_back(self, address: str, now: float) -> None:
        self._node.give_back(self._shard, address, now)

    def release(self, address: str, next_at: float) -> None:
        self._node.release(self._shard, address, next_at)

    def leave(self, address: str, now: float) -> None:
        self._node.leave(self._shard, address, now)

    def freed(self, now: float) -> Sequence[str]:
        return self._node.freed(self._shard, now)

    def next_at(self) -> float:
        return self._node.next_at(self._shard)

    def take_page(self, address: str, pages: int) -> bool:
        return self._node.take_page(self._shard, address, pages)

    def is_full(self, address: str, pages: int) -> bool:
        return self._node.is_full(self._shard, address, pages)
