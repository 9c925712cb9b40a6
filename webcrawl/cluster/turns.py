"""Who may ask at an IP address, and when: both sides of a turn, without a clock or a bus.

An address belongs to one hub for ever. Its owner has the clock, and the line of the hubs that want
it, its own included. The first in line gets a turn. A turn ends with the request that is under way
TURN_S after its first one. So hubs take turns, however many hosts each has there.

Invariants: of each address at most one hub has the turn, and it has one request under way at most.
The owner gives no turn before the clock of the last one is known: all requests that it does not
know of have ended, and IP_DELAY is over.

With MAX_PAGES_PER_IP a turn brings pages that were counted before, and takes back those that are
left when it ends. Pages of a turn that is lost count as used.

Memory: an owner's clock, 300 bytes for each address with a turn or a line, or asked within
IP_DELAY; an asker's turn, 300 bytes for each address in use, idle for GRACE_S, or waited for.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import Annotated, Final, NamedTuple

from msgspec import Meta

from webcrawl.cluster.packets import Letter

AGAIN_S: Final = 5.0  # a host that waits asks again so often, if it is not told before
SOON_S: Final = 0.2  # as AGAIN_S, without clocks of addresses: such a host is not told
WISH_S: Final = 15.0  # a wish that nobody has repeated for so long is forgotten
GRACE_S: Final = 2.0  # a turn that is not used for so long goes back
TURN_S: Final = 3.0  # turns of one request would slow an address down, each by 0.1 s
CHECK_S: Final = 0.25  # between two searches for turns and wishes that are over
PAGES_MAX: Final = 64  # that a turn brings

_Address = Annotated[str, Meta(pattern=r"\A[0-9A-Fa-f.:]{2,45}\Z")]
_Seconds = Annotated[float, Meta(ge=0.0, le=1e6)]
_Pages = Annotated[int, Meta(ge=0, le=PAGES_MAX)]


class Turn(NamedTuple):
    """What the owner gives.

    from_at -- when the first request may leave
    pages -- with MAX_PAGES_PER_IP: of so many URLs; 0: the address is full
    """

    address: _Address
    from_at: _Seconds
    pages: _Pages


class Ended(NamedTuple):
    """A turn that has ended, with `pages` left: the next request may leave at `next_at`."""

    address: _Address
    next_at: _Seconds
    pages: _Pages


class Turns(Letter, frozen=True):
    """What one hub tells another. On their way, times are seconds from now on.

    using -- addresses of the receiver's at which the sender has requests under way, and no others;
        None: this is not said
    ended, wishes -- to the owner: turns that have ended, and addresses for which hosts wait
    turns -- from the owner
    """

    using: list[_Address] | None = None
    ended: list[Ended] = []
    wishes: list[_Address] = []
    turns: list[Turn] = []


Out = defaultdict[int, Turns]  # by hub, our own too: what is to be told to it


@dataclass(slots=True, eq=False)
class _Clock:
    """An address of this hub.

    holder -- the hub that has the turn
    pages -- counted and not used: by the holder, or by nobody yet
    """

    next_at: float
    holder: int | None = None
    line: list[int] = field(default_factory=list)
    pages: int = 0
    is_full: bool = False


class Owner:
    """The addresses of this hub, for all hubs.

    unknown -- hubs whose requests of an earlier run are not known: no turn before each has told
    out -- what is to be told
    uncounted, returned -- addresses whose next turn needs pages, and pages that nobody uses
    """

    def __init__(
        self,
        *,
        ip_delay_s: float,
        has_cap: bool,
        unknown: Collection[int],
        out: Out,
    ) -> None:
        self.uncounted: set[str] = set()
        self.returned: dict[str, int] = {}
        self._ip_delay_s = ip_delay_s
        self._has_cap = has_cap
        self._unknown = set(unknown)
        self._out = out
        self._clocks: dict[str, _Clock] = {}
        self._known_at = -inf  # no request before it counts for the clock of a new entry
        self._idle: deque[tuple[float, str]] = deque()  # when to forget which

    def __repr__(self) -> str:
        held = sum(clock.holder is not None for clock in self._clocks.values())
        return f"<Owner of {len(self._clocks)} addresses, {held} with a turn>"

    def uses(self, hub: int, addresses: Collection[str], now: float) -> None:
        """`hub` has requests under way at `addresses`, and at no others. O(addresses)."""
        for address, clock in self._clocks.items():
            if clock.holder == hub and address not in addresses:
                clock.holder, clock.pages = None, 0
                clock.next_at = max(clock.next_at, now + self._ip_delay_s)
                self._offer(address, clock, now)
        for address in addresses:
            clock = self._clock(address)
            if clock.holder is None:
                clock.holder, clock.pages = hub, 0
        if hub in self._unknown:
            self._unknown.remove(hub)
            self._known_at = now
            if not self._unknown:
                for address, clock in self._clocks.items():
                    clock.next_at = max(clock.next_at, now + self._ip_delay_s)
                    self._offer(address, clock, now)

    def leaves(self, hub: int) -> None:
        """The session of `hub` has ended. Its turns stay its own until it tells. O(addresses)."""
        for clock in self._clocks.values():
            if hub in clock.line:
                clock.line.remove(hub)

    def wish(self, hub: int, address: str, now: float) -> None:
        """`hub` wants a turn."""
        clock = self._clock(address)
        if hub != clock.holder and hub not in clock.line:
            clock.line.append(hub)
            self._offer(address, clock, now)

    def end_turn(self, hub: int, ended: Ended, now: float) -> None:
        """A turn of `hub` has ended. A turn that `hub` does not have is none."""
        address, next_at, pages = ended
        clock = self._clocks.get(address)
        if clock is not None and clock.holder == hub:
            clock.holder, clock.pages = None, min(pages, clock.pages)
            clock.next_at = max(clock.next_at, min(next_at, now + self._ip_delay_s))
            self._offer(address, clock, now)

    def count(self, address: str, pages: int, now: float) -> None:
        """`pages` of an uncounted address are counted: none if it is full for good."""
        self.uncounted.discard(address)
        clock = self._clock(address)
        clock.pages, clock.is_full = pages, not pages
        self._offer(address, clock, now)

    def forget(self, now: float) -> None:
        """Forget the addresses that no hub wants, and whose clock is due."""
        while self._idle and self._idle[0][0] <= now:
            address = self._idle.popleft()[1]
            clock = self._clocks.get(address)
            if clock is None or clock.holder is not None or clock.line or clock.next_at > now:
                continue
            del self._clocks[address]
            if clock.pages:
                self.returned[address] = self.returned.get(address, 0) + clock.pages

    def _clock(self, address: str) -> _Clock:
        clock = self._clocks.get(address)
        if clock is None:
            clock = self._clocks[address] = _Clock(self._known_at + self._ip_delay_s)
        return clock

    def _offer(self, address: str, clock: _Clock, now: float) -> None:
        """Give the turn to the first in line, if nobody has it."""
        if clock.holder is not None or (clock.line and self._unknown):
            return
        if not clock.line:
            self._idle.append((now + self._ip_delay_s, address))
        elif self._has_cap and not clock.pages and not clock.is_full:
            self.uncounted.add(address)
        else:
            hub = clock.holder = clock.line.pop(0)
            self._out[hub].turns.append(Turn(address, max(clock.next_at, now), clock.pages))


@dataclass(slots=True, eq=False)
class _Asked:
    """An address at which hosts of this hub wait, or ask.

    from_at -- the clock
    asked_at, wished_at -- when a host wanted it last, and when the owner was told so
    is_known -- the session in which the owner gave the turn is on; else it ends with its request
    is_used -- a request is under way
    until -- TURN_S after the first request of the turn: it ends then
    """

    owner: int
    from_at: float
    asked_at: float
    wished_at: float = -inf
    has_turn: bool = False
    is_known: bool = True
    is_used: bool = False
    until: float = inf
    pages: int = 0
    is_full: bool = False


class Asker:
    """The addresses at which hosts of this hub ask, whichever hubs own them.

    out -- what is to be told
    """

    def __init__(
        self,
        *,
        ip_delay_s: float,
        has_cap: bool,
        owner_of: Callable[[str], int],
        out: Out,
    ) -> None:
        self._is_exclusive = ip_delay_s > 0
        self._has_cap = has_cap
        self._owner_of = owner_of
        self._out = out
        self._asked: dict[str, _Asked] = {}
        self._freed: list[tuple[float, str]] = []  # heap
        self._checked_at = 0.0

    def __repr__(self) -> str:
        used = sum(asked.is_used for asked in self._asked.values())
        return f"<Asker at {len(self._asked)} addresses, {used} in use>"

    # For the frontier: see `frontier.addresses`

    def acquire(self, address: str, now: float) -> float:
        asked = self._asked.get(address)
        if asked is not None and asked.has_turn and not asked.is_used and now >= asked.from_at:
            has_page = not self._has_cap or asked.pages > 0 or asked.is_full
            if not has_page or now >= asked.until:
                self._end(address, asked)
                asked = None
        if asked is None:
            asked = self._asked[address] = _Asked(self._owner_of(address), now, now)
        asked.asked_at = now
        if not asked.has_turn and now >= asked.wished_at + AGAIN_S:
            asked.wished_at = now
            self._out[asked.owner].wishes.append(address)
        if not asked.has_turn or asked.is_used:
            return now + (AGAIN_S if self._is_exclusive else SOON_S)
        if now < asked.from_at:
            return asked.from_at
        if self._is_exclusive:
            asked.is_used, asked.until = True, min(asked.until, now + TURN_S)
        else:
            asked.from_at = now
        return 0.0

    def cancel(self, address: str, now: float) -> None:
        self._unuse(address, now, now)

    def release(self, address: str, next_at: float) -> None:
        self._unuse(address, next_at, next_at)

    def stop_waiting(self, address: str, now: float) -> None:
        asked = self._asked.get(address)
        if asked is not None and not asked.is_used:
            self._end(address, asked)

    def freed(self, now: float) -> list[str]:
        found = []
        while self._freed and self._freed[0][0] <= now:
            address = heappop(self._freed)[1]
            asked = self._asked.get(address)
            if asked is not None and asked.has_turn and not asked.is_used:
                found.append(address)
        return found

    @property
    def next_at(self) -> float:
        return self._freed[0][0] if self._freed else inf

    def take_page(self, address: str) -> bool:
        asked = self._asked.get(address)
        if asked is None or not asked.pages:
            return False
        asked.pages -= 1
        return True

    def is_full(self, address: str) -> bool:
        asked = self._asked.get(address)
        return asked is not None and asked.is_full

    # For the owners

    def turn(self, owner: int, turn: Turn) -> None:
        """The owner gives a turn, which nobody may want any more."""
        address, from_at, pages = turn
        asked = self._asked.get(address)
        if asked is None:
            asked = self._asked[address] = _Asked(owner, from_at, from_at)
        elif asked.is_used:  # the owner is at fault
            return
        asked.has_turn, asked.is_used, asked.is_known = True, False, True
        asked.from_at, asked.until = from_at, inf
        asked.pages, asked.is_full = pages, self._has_cap and not pages
        if self._is_exclusive:  # else its hosts ask again soon
            heappush(self._freed, (from_at, address))

    def leaves(self, owner: int) -> bool:
        """The session of `owner` has ended: end its turns, but for requests under way.

        Whether there are any. O(addresses).
        """
        is_used = False
        for address, asked in tuple(self._asked.items()):
            if asked.owner == owner and asked.is_used:
                is_used, asked.is_known = True, False
            elif asked.owner == owner and asked.has_turn:
                self._end(address, asked)
        return is_used

    def begin(self, owner: int) -> tuple[list[str], list[str]]:
        """A session begins: addresses of `owner` with a request under way, and those wished for.

        O(addresses).
        """
        own = {each: asked for each, asked in self._asked.items() if asked.owner == owner}
        used = [address for address, asked in own.items() if asked.has_turn]
        return used, [address for address, asked in own.items() if not asked.has_turn]

    def check(self, now: float) -> None:
        """Give idle turns back, and forget old wishes. O(addresses), once each CHECK_S."""
        if now >= self._checked_at + CHECK_S:
            self._checked_at = now
            for address, asked in tuple(self._asked.items()):
                self._end_if_over(address, asked, now)

    def end_all(self) -> None:
        """Give all turns back that are not used: the crawl ends in this process."""
        for address, asked in tuple(self._asked.items()):
            if not asked.is_used:
                self._end(address, asked)

    def _unuse(self, address: str, next_at: float, now: float) -> None:
        asked = self._asked.get(address)
        if asked is not None and asked.is_used:
            asked.is_used = False
            asked.from_at = max(asked.from_at, next_at)
            self._end_if_over(address, asked, now)

    def _end_if_over(self, address: str, asked: _Asked, now: float) -> None:
        if asked.is_used:
            return
        if not asked.has_turn:
            over_at = asked.asked_at + WISH_S
        elif not asked.is_known:
            over_at = -inf
        else:
            over_at = min(asked.from_at + GRACE_S, asked.until)
        if over_at <= max(now, asked.from_at):
            self._end(address, asked)

    def _end(self, address: str, asked: _Asked) -> None:
        del self._asked[address]
        if asked.has_turn:
            self._out[asked.owner].ended.append(Ended(address, asked.from_at, asked.pages))
