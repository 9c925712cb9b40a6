"""What the frontier knows of one host and of one IP address.

Plain state, changed only by the frontier and its workbench. Memory of a host: about 500 bytes and
its links; the robots.txt rules of its origins come on top (admission.robots bounds each).
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import Literal, NamedTuple

from webcrawl.frontier.lease import GivenUpReason, Lane, Passed, RobotsTask
from webcrawl.frontier.queue import Queue

_NONE: frozenset[str] = frozenset()  # each new one that is empty takes 200 bytes


class State(Enum):
    """Where a host is. At any time it is in exactly one of these."""

    IDLE = "idle"  # nothing to do, or waiting for its robots.txt that another host serves
    READY = "ready"  # in a lane of the workbench: may be leased now
    PARKED = "parked"  # would be ready, but its IP address is not
    SNOOZED = "snoozed"  # its clock has not come yet
    WAITING = "waiting"  # in the store, for a place among the active hosts
    DEFERRED = "deferred"  # in the store: all its links are kept for a later try
    LEASED = "leased"


class Rules(NamedTuple):
    """What is known of an origin's robots.txt; its text is in the store.

    `reason` says why all is refused; "" for rules as served. Of those that allow all, the text need
    not be read for each page. `losses` counts how often in a row new ones could not be had.
    """

    expires_at: float
    crawl_delay_s: float = 0.0
    reason: Literal["", "robots_unreachable"] = ""
    allows_all: bool = False
    losses: int = 0


class Ip:
    """Clock and lease of one IP address, and the hosts that wait for it."""

    __slots__ = ("address", "armed", "hosts", "leased", "next_at", "parked")

    def __init__(self, address: str, next_at: float) -> None:
        self.address = address
        self.hosts = 0  # on the workbench that are bound to it
        self.leased = False
        self.armed = False  # a timer of the workbench will unpark the next host
        self.next_at = next_at
        self.parked: list[tuple[int, int, int, Host, Lane]] = []  # heap of the workbench's entries


class Host:
    """State of one host; `frontier.placement` and `frontier.standing` own its meaning."""

    __slots__ = (
        "addresses",
        "asked_at",
        "counted_ahead",
        "crawl_delay_s",
        "dead_addresses",
        "deferrals",
        "due_at",
        "epoch",
        "failures",
        "ip",
        "kept",
        "name",
        "next_at",
        "queue",
        "rank",
        "resolve_at",
        "resolve_tries",
        "resolved_until",
        "retired_reason",
        "retired_until",
        "robots_elsewhere",
        "robots_tasks",
        "rules",
        "state",
        "supply",
        "token",
    )

    def __init__(self, name: str, queue: Queue) -> None:
        self.name = name
        self.state = State.IDLE
        self.queue = queue
        self.supply = 0  # pages that it can give soon, as last placed while admitted
        self.rank = 0  # as last placed in a lane
        self.token = 0  # of the one valid entry in the workbench
        self.asked_at = 0.0  # when the last request was answered or given up; 0 for never
        self.next_at = 0.0  # the politeness clock
        self.crawl_delay_s = 0.0
        self.failures = 0  # attempts in a row without any answer
        self.addresses: tuple[str, ...] = ()  # the first is in use
        self.dead_addresses = 0  # given up in a row
        self.ip: Ip | None = None
        self.resolved_until = 0.0
        self.resolve_at = 0.0  # not to be looked up before
        self.resolve_tries = 0
        self.rules: dict[str, Rules] = {}
        # Never an empty one, which takes 700 bytes.
        self.robots_tasks: deque[RobotsTask] | None = None
        self.robots_elsewhere: frozenset[str] = (
            _NONE  # origins whose robots.txt another host fetches
        )
        self.deferrals = 0  # given up for a while in a row, with its links kept
        self.epoch = 0  # of what is kept for a later try (frontier.backlog)
        self.kept: dict[str, int] | None = None  # in this epoch: how many of its links, by reason
        self.due_at = 0.0  # of a DEFERRED host: when the next of its links may be tried
        self.retired_until = 0.0
        self.retired_reason: GivenUpReason | Literal[""] = ""
        # What the next link is counted for since the host was looked up; never ROBOTS.
        self.counted_ahead = Passed.NO_TEST

    def __repr__(self) -> str:
        return f"<Host {self.name} {self.state.value}, {len(self.queue)} queued>"

    @property
    def is_literal(self) -> bool:
        """Whether the host is an IP address: no top-level domain is all digits (RFC 3696, 2)."""
        return ":" in self.name or self.name[-1:].isdigit()

    def clear_failures(self) -> None:
        """Nothing is held against it any more that made its links wait for a later try."""
        if self.deferrals:
            self.deferrals, self.retired_until = 0, 0.0
            self.resolve_at, self.resolve_tries = 0.0, 0
        self.rules = {origin: known for origin, known in self.rules.items() if not known.reason}

    def add_robots_task(self, robots_task: RobotsTask) -> None:
        if self.robots_tasks is None:
            self.robots_tasks = deque()
        self.robots_tasks.append(robots_task)

    def mark_elsewhere(self, origin: str) -> None:
        """Another host fetches the robots.txt of `origin`, one of ours."""
        self.robots_elsewhere |= {origin}

    def unmark_elsewhere(self, origin: str) -> None:
        self.robots_elsewhere = self.robots_elsewhere - {origin} or _NONE

    def next_robots_task(self) -> RobotsTask:
        """The oldest. There must be one."""
        assert self.robots_tasks
        robots_task = self.robots_tasks.popleft()
        if not self.robots_tasks:
            self.robots_tasks = None
        return robots_task
