"""The state of one host and of one IP address.

Plain data, changed by the frontier's core modules only. Memory: about 500 bytes per host, its
links, and the robots.txt rules of its origins (`parse.robots` bounds each).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NamedTuple

from webcrawl.frontier.disk.queue import HostQueue
from webcrawl.frontier.lease import GivenUpReason, RobotsTask
from webcrawl.frontier.politeness import NO_PACE, Pace
from webcrawl.parse.domains import is_address

# The addresses of hosts that only the proxy looks up (PROXY) begin with it: the discard-only block
# of RFC 6666.
STAND_IN: Final = "100::"
_EMPTY: frozenset[str] = frozenset()  # shared: each new empty set takes 200 bytes


class State(Enum):
    """Where a host is: in exactly one of these. `webcrawl.frontier` has the transitions."""

    is_active: bool  # it has a place on the workbench

    IDLE = "idle"  # has no link or task, or waits for its robots.txt, which another host serves
    READY = "ready"  # in a lane of the workbench: may be leased now
    PARKED = "parked"  # would be ready, but its IP address is leased or its clock is not due
    SNOOZED = "snoozed"  # its clock is not due
    WAITING = "waiting"  # in the store: waits for a place among the active hosts
    DEFERRED = "deferred"  # in the store: all its links are kept for a later try
    LEASED = "leased"  # a request to it is under way


for _state in State:
    _state.is_active = _state not in (State.IDLE, State.WAITING, State.DEFERRED)


class Rules(NamedTuple):
    """A summary of an origin's robots.txt; its rules are in the store."""

    expires_at: float  # monotonic; RFC 9309, 2.4
    crawl_delay_s: float = 0.0  # 0.0: the file has no Crawl-delay
    reason: Literal["", "robots_unreachable"] = ""  # why all URLs are refused; "": rules as served
    allows_all: bool = False  # the store need not be read for each page
    losses: int = 0  # how often in a row a new robots.txt could not be fetched
    agent: str = ""  # the names the rules are for (`Policy.robots_agent`)


@dataclass(slots=True, eq=False)
class Ip:
    """The clock and the lease of one IP address, and the hosts that wait for it."""

    address: str
    next_at: float  # the politeness clock
    parked: list[tuple[int, int, int, Host, int]]  # heap of the workbench's entries
    hosts: int = 0  # hosts of the workbench that are bound to it
    leased: bool = False
    armed: bool = False  # the workbench has a timer that unparks the next host


@dataclass(slots=True, eq=False, repr=False)
class Host:
    """The state of one host. `distributor` and `disposition` decide on it."""

    name: str
    queue: HostQueue
    rules: dict[str, Rules]  # by origin
    state: State = State.IDLE
    supply: int = 0  # pages it can give within SUPPLY_S, when it was last placed
    rank: int = 0  # its rank in a lane, when it was last placed
    token: int = 0  # marks its one valid entry in the workbench
    asked_at: float = 0.0  # when the last request was answered or given up; 0.0: never asked
    next_at: float = 0.0  # the politeness clock
    crawl_delay_s: float = 0.0  # the largest of its robots.txt files
    pace: Pace = NO_PACE  # of the adaptive delay (DELAY_FACTOR)
    failures: int = 0  # attempts in a row without any answer
    addresses: tuple[str, ...] = ()  # the first one is in use
    has_ip_slot: bool = False  # the IP cap has counted its next link already
    dead_addresses: int = 0  # addresses given up in a row
    ip: Ip | None = None
    resolved_until: float = 0.0  # when the addresses expire
    dns_ms: float = 0  # of the last look-up, until a line of the crawl log has it
    resolve_at: float = 0.0  # earliest time of the next look-up
    resolve_tries: int = 0  # failed look-ups in a row
    # To be carried out by this host. None if empty: an empty deque takes 700 bytes.
    robots_tasks: deque[RobotsTask] | None = None
    # Its origins whose robots.txt another host fetches.
    robots_elsewhere: frozenset[str] = _EMPTY
    deferrals: int = 0  # how often in a row it was retired with its links kept
    epoch: int = 0  # of its kept links (frontier.backlog)
    kept: dict[str, int] | None = None  # kept links of this epoch, by reason
    due_at: float = 0.0  # DEFERRED: when the next of its links may be tried
    retired_until: float = 0.0
    retired_reason: GivenUpReason | Literal[""] = ""
    pages: int = 0  # URLs that passed all tests of the queue, in all runs
    requisites_first: int = 0  # of other hosts' pages, queued before its pages since its last page
    received_bytes: int = 0  # on the wire, robots.txt included, in all runs

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.state.value}, {self.queue.length} queued>"

    @property
    def is_first_look_up(self) -> bool:
        """Whether its next look-up in DNS is its first one."""
        return not (self.addresses or self.resolve_tries or is_address(self.name))

    def clear_failures(self) -> None:
        """Forget the failures for which its links were kept."""
        if self.deferrals:
            self.deferrals, self.retired_until, self.retired_reason = 0, 0.0, ""
            self.resolve_at, self.resolve_tries = 0.0, 0
        self.rules = {origin: known for origin, known in self.rules.items() if not known.reason}

    def add_robots_task(self, robots_task: RobotsTask) -> None:
        if self.robots_tasks is None:
            self.robots_tasks = deque()
        self.robots_tasks.append(robots_task)

    def mark_elsewhere(self, origin: str) -> None:
        """Another host fetches the robots.txt of `origin`, which is an origin of this host."""
        self.robots_elsewhere |= {origin}

    def unmark_elsewhere(self, origin: str) -> None:
        self.robots_elsewhere = self.robots_elsewhere - {origin} or _EMPTY

    def next_robots_task(self) -> RobotsTask:
        """Remove and return the oldest task. There must be one."""
        assert self.robots_tasks
        robots_task = self.robots_tasks.popleft()
        if not self.robots_tasks:
            self.robots_tasks = None
        return robots_task


def real_address(address: str) -> str:
    """`address`; "" for the stand-in of an address that only the proxy knows."""
    return "" if address.startswith(STAND_IN) else address
