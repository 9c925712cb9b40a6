"""The values that go in and out of a frontier: links, leases and outcomes.

Plain data: no policy, no clock, no I/O. A server-backed frontier would put these on the wire.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, Literal, NamedTuple

from webcrawl.frontier.caps import CapReason
from webcrawl.parse.robots import RobotsRules

FIRST_KEPT = 1 << 31  # of the priorities of links that are kept for a later try (frontier.backlog)

# Each reason is one statistic: `webcrawl/failed/<reason>`, `/dropped/<reason>`, `/kept/<reason>`.
FailureReason = str  # one of fetch.exchange.REASONS
OurFault = Literal["error"]  # an exception in our own code or in a user's component, logged there
# No address of a host could be had.
UnresolvedReason = Literal["dns", "blocked_address"] | OurFault
# A whole host or origin is not asked for a while.
GivenUpReason = UnresolvedReason | Literal["host_retired", "robots_unreachable"]
# The frontier refuses a link whose turn has come.
Refusal = GivenUpReason | Literal["robots", "ip_cap"] | CapReason
# A page's request ended without an answer, by a component of the user's.
ComponentReason = Literal["middleware", "replaced", "unreadable", "unsendable"]
# A link is never fetched, or not again. Links out of scope never get here: frontier.outlinks.
DropReason = Refusal | ComponentReason | FailureReason


class Passed(IntEnum):
    """The last test of the funnel (H, I, R of the stats lines) that a link is counted for."""

    NO_TEST = 0
    HOST = 1
    IP = 2
    ROBOTS = 3


class Link(NamedTuple):
    """A URL on its way through the crawl.

    `url` is canonical (`parse.urls.canonicalize`) and `host` is the host part of it.
    """

    url: str
    host: str
    depth: int = 0  # link hops from a seed; redirects do not count
    redirects: int = 0  # redirect hops in a row that led here
    via: str = ""  # the page it was found on; "" for a seed
    retries: int = 0  # tries before this one
    head_done: bool = False  # HEAD said it is worth a GET
    counted: Passed = Passed.NO_TEST  # by an earlier lease: no test is counted twice
    payload: bytes = b""  # a user's own Request, serialised by the adapter that made it
    sequence: int = 0  # hops in a row that led here, between numbered URLs of its host
    kept: str = ""  # why it was kept for a later try, the last time


class RobotsTask(NamedTuple):
    """A robots.txt to fetch."""

    origin: str  # scheme+authority the rules are for
    home: str  # host of the origin; after a redirect, `url` may be on another
    url: str
    redirects: int = 0  # hops so far (RFC 9309, 2.3.1.2)
    tries: int = 0  # before this one


class Step(Enum):
    """What a lease asks for."""

    RESOLVE = "resolve"  # look up the host's address: touches no clock
    ROBOTS = "robots"  # fetch a robots.txt from this host
    HEAD = "head"
    PAGE = "page"


class Lane(IntEnum):
    """Which steps of ready hosts an `acquire` asks for: PAGE, or one of the others."""

    PAGES = 0
    ADMISSIONS = 1


@dataclass(slots=True, frozen=True, eq=False)
class Lease:
    """The right to one request at one host (and one IP address), until it is released.

    For RESOLVE `url` and `address` are empty; for ROBOTS there is an errand; else there is a link.
    """

    host: str
    step: Step
    url: str
    address: str  # IP address to connect to
    link: Link | None = None
    robots_task: RobotsTask | None = None
    refused: Refusal | Literal[""] = (
        ""  # why a user's Request may not be asked: to be told, then given back Dropped
    )


@dataclass(slots=True, frozen=True)
class Resolved:
    """RESOLVE: addresses the guard allows, best first; `expires_at` is monotonic."""

    asked_at: ClassVar[float] = 0.0  # no clock of a host is touched
    ended_at: ClassVar[float] = 0.0

    addresses: tuple[str, ...]
    expires_at: float


@dataclass(slots=True, frozen=True)
class Unresolved:
    """RESOLVE: no usable address. `again` when a later try may help (SERVFAIL, timeout)."""

    asked_at: ClassVar[float] = 0.0  # no clock of a host is touched
    ended_at: ClassVar[float] = 0.0
    reason: UnresolvedReason
    again: bool
    detail: str = ""  # an admission.dns.ResolutionFailed's reason


@dataclass(slots=True, frozen=True)
class RobotsFetched:
    """ROBOTS: the rules of the errand's origin, good until `expires_at` (monotonic)."""

    rules: RobotsRules
    expires_at: float
    asked_at: float
    ended_at: float
    kind: Literal["2xx", "4xx", "redirects"] = "2xx"  # of answer: a statistic


@dataclass(slots=True, frozen=True)
class RobotsMoved:
    """ROBOTS: go on at `url` (canonical, on `host`)."""

    url: str
    host: str
    asked_at: float
    ended_at: float


@dataclass(slots=True, frozen=True)
class RobotsUnreachable:
    """ROBOTS: 5xx, no answer, or not to be had: complete disallow, asked again later."""

    reason: FailureReason | OurFault | Literal["5xx"]
    asked_at: float  # 0.0 when no request can have reached the server
    ended_at: float
    retry_after_s: float = 0.0


@dataclass(slots=True, frozen=True)
class Fetched:
    """PAGE or HEAD: the server answered with `status`."""

    status: int
    asked_at: float
    ended_at: float
    links: tuple[Link, ...] = ()  # outlinks and the redirect target, in scope
    retry_after_s: float = 0.0
    size_bytes: int = 0  # on the wire
    took_s: float = 0.0
    wanted: bool = True  # HEAD: worth a GET
    duplicate_of: str = ""  # the URL that had its content first
    archived: bool = True  # PAGE: a later page may be a revisit of it


@dataclass(slots=True, frozen=True)
class Failed:
    """PAGE or HEAD: no answer. `reason` is a fetch.exchange.REASONS value."""

    reason: FailureReason | OurFault
    asked_at: float  # 0.0 when no request can have reached the server
    ended_at: float
    final: bool = False  # not to be tried again: its end was told


@dataclass(slots=True, frozen=True)
class Returned:
    """Any step: not carried out; the lease goes back as if it had never been taken.

    A request that was cut off may have reached the server: then the times are set. `reason` is a
    fetch.exchange.REASONS value where the fault is ours, else "".
    """

    asked_at: float = 0.0
    ended_at: float = 0.0
    reason: FailureReason | Literal[""] = ""


@dataclass(slots=True, frozen=True)
class Dropped:
    """PAGE: a component of the user's refused the request, or put another in its place."""

    reason: Refusal | ComponentReason
    asked_at: float = 0.0
    ended_at: float = 0.0


Outcome = (
    Resolved
    | Unresolved
    | RobotsFetched
    | RobotsMoved
    | RobotsUnreachable
    | Fetched
    | Failed
    | Returned
    | Dropped
)
