"""The values that go in and out of a frontier: links, leases and outcomes.

Plain data: no policy, no clock, no I/O. Leases and outcomes are msgspec structs, so that
`hub.wire` sends them from process to process as they are. Times are monotonic seconds.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import ClassVar, Literal, NamedTuple

from msgspec import Struct

from webcrawl.crawllog.line import NO_DETAILS
from webcrawl.fetch.conditions import Validators
from webcrawl.fetch.exchange import FailureReason
from webcrawl.frontier.caps import CapReason
from webcrawl.parse.jointrules import AnyRules
from webcrawl.warc.records import Original

FIRST_KEPT = 1 << 31  # priorities from here on are those of kept links (frontier.backlog)
FIRST_PRIORITY = 0  # of a link to visit again, and of most requisites; no other link has it

# Each reason is one statistic: `webcrawl/failed/<reason>`, `/dropped/<reason>`, `/kept/<reason>`.
OurFault = Literal["error"]  # an exception in our own code or in a user's component, logged there
# No usable address of a host was found.
UnresolvedReason = Literal["dns", "blocked_address"] | OurFault
# A whole host or origin is not asked for a while.
GivenUpReason = UnresolvedReason | Literal["host_retired", "robots_unreachable"]
# A rule (RULES) or a budget of its host refuses a link that is queued.
LimitReason = Literal["deny", "depth", "host_cap", "host_bytes"]
# The frontier refuses a link when it takes the link from the queue.
# "sitemap": it is read as a sitemap.
Refusal = (
    GivenUpReason | Literal["robots", "ip_cap", "scope_deny", "sitemap"] | CapReason | LimitReason
)
# A component of the user's ended a page's request without an answer.
ComponentReason = Literal["middleware", "replaced", "unreadable", "unsendable"]
# A link is never fetched, or not again. frontier.outlinks refuses links out of scope before.
# "foreign_request": a user's own Request for a host of another hub (frontier.mailbox).
# "sitemap_cap": `Policy.sitemaps_max`.
DropReason = Refusal | ComponentReason | FailureReason | Literal["foreign_request", "sitemap_cap"]


LISTED = -1  # `Link.sitemap` of a page that a sitemap gave
# `Link.sitemap` of a page requisite, a file that a page shows (PAGE_REQUISITES). Of a file that a
# style sheet shows it is one less than that of the style sheet, and LAST_REQUISITE at least: so a
# chain of style sheets ends.
REQUISITE = -2
LAST_REQUISITE = -5


class Link(Struct, frozen=True, array_like=True, gc=False):
    """A URL on its way through the crawl."""

    url: str  # canonical (`parse.urls.canonicalize`)
    host: str  # the host part of `url`
    depth: int = 0  # link hops from a seed; redirects do not count
    redirects: int = 0  # redirect hops in a row that led here
    via: str = ""  # the page the link was found on; "" for a seed
    retries: int = 0  # tries before this one
    head_done: bool = False  # the answer to HEAD was wanted: a GET follows
    is_counted: bool = False  # all tests of the funnel have counted it, at an earlier lease
    payload: bytes = b""  # a user's own Request, serialised by the adapter that made it
    sequence: int = 0  # hops in a row between numbered URLs of this host that led here
    kept: str = ""  # why the link was last kept for a later try; "" if it never was
    # 1: a sitemap that a robots.txt or a seed list names, 2: one that an index names, and so on;
    # LISTED: a page that a sitemap gave; REQUISITE or less: a requisite, which is no page; 0: any
    # other page. `via` of a sitemap is the file that
    # named the first of the chain: its host is the one for which the sitemap is read.
    sitemap: int = 0
    lastmod: int = 0  # UTC seconds, by the sitemap that gave the link; 0: it names none
    visit: bytes = b""  # the row of its last visit (frontier.visitstate); b"" if it has none
    has_passed_ip: bool = False  # the IP test has counted it, and robots.txt was not there


class RobotsTask(NamedTuple):
    """A robots.txt to fetch."""

    origin: str  # scheme+authority that the rules are for
    home: str  # host of the origin
    url: str  # after a redirect it may be on another host: a lease of that host fetches it
    redirects: int = 0  # hops so far (RFC 9309, 2.3.1.2)
    tries: int = 0  # tries before this one
    depth: int = 0  # of the link for which it is fetched: its sitemaps get the same


class Step(Enum):
    """The request that a lease is for."""

    __hash__ = object.__hash__  # that of `Enum` is a function in Python

    RESOLVE = "resolve"  # look up the host's address in DNS: no clock of the host is set
    ROBOTS = "robots"  # fetch a robots.txt from this host
    HEAD = "head"  # ask for the type of the page
    SITEMAP = "sitemap"  # fetch a sitemap
    REQUISITE = "requisite"  # fetch a file that a page shows
    PAGE = "page"  # fetch the page


class Lane(IntEnum):
    """The steps that one `acquire` asks for. Each lane has its own order of hosts."""

    PAGES = 0  # PAGE
    ADMISSIONS = 1  # all other steps
    REQUISITES = 2  # each step of a host whose next link is a requisite with FIRST_PRIORITY


class Capture(Struct, frozen=True, array_like=True, gc=False):
    """What a later visit of a page is compared with, and refers to (RECRAWL)."""

    validators: Validators = Validators()  # of the last answer that had any
    simhash: int = 0  # of the main text, 64 bits (`parse.maintext`)
    captured_at: float = 0.0  # UTC seconds, its WARC-Date; 0.0: it is not in the archive
    payload_digest: str = ""  # its WARC-Payload-Digest


class Visit(Struct, frozen=True, array_like=True, gc=False):
    """The last capture of a page. A PAGE lease of a revisit has one."""

    capture: Capture = Capture()
    is_conditional: bool = False  # whether to send the validators: the frontier decides


class Visited(Struct, frozen=True, array_like=True, gc=False):
    """What this visit saw: of each page that is kept, when RECRAWL is on (`crawl.visits`)."""

    capture: Capture = Capture()  # of a 304 the earlier one
    is_unchanged: bool | None = None  # main text as at the last visit, or 304; None: not known
    is_304: bool = False
    validators_held: bool | None = None  # a plain GET: whether the validators were unchanged too


class Lease(Struct, frozen=True, eq=False, array_like=True, gc=False):
    """The right to one request at one host (and one IP address), until it is released.

    RESOLVE has neither `url` nor `address`. ROBOTS has a `robots_task`, all others a `link`.
    """

    host: str
    step: Step
    url: str
    address: str  # IP address to connect to
    link: Link | None = None
    robots_task: RobotsTask | None = None
    # Why a user's Request is not sent: its errback is called, then the lease is Dropped.
    refused: Refusal | Literal[""] = ""
    visit: Visit | None = None  # PAGE: the last visit, if this is another one
    is_sampled: bool = False  # PAGE: the language of its text is to be found (frontier.languages)


class Text(NamedTuple):
    """The text of a page, as FOLLOW_NEAR_DUPLICATES compares it."""

    sketch: bytes  # webcrawl.parse.sketch
    is_leaf: bool  # no link of the page can be followed: it is no first page, a copy may have links


Seen = tuple[Original | None, str]  # the answer of the content-seen test: `Frontier.content_seen`


class _Outcome(Struct, frozen=True, array_like=True, gc=False, tag=True):
    """Base of the outcomes. They hold no cycles, so the garbage collector skips them (`gc`).

    `details` of an answer are for the crawl log (`crawllog.details`): the frontier passes them on.
    """


class Resolved(_Outcome, frozen=True):
    """RESOLVE: the addresses that the guard allows, best first, valid until `expires_at`."""

    asked_at: ClassVar[float] = 0.0  # no clock of a host is touched
    ended_at: ClassVar[float] = 0.0

    addresses: tuple[str, ...]
    expires_at: float
    took_s: float = 0.0


class Unresolved(_Outcome, frozen=True):
    """RESOLVE: no usable address. `again` if a later try may help (SERVFAIL, time-out)."""

    asked_at: ClassVar[float] = 0.0  # no clock of a host is touched
    ended_at: ClassVar[float] = 0.0
    reason: UnresolvedReason
    again: bool
    detail: str = ""  # an admission.dns.ResolutionFailed's reason
    took_s: float = 0.0


class RobotsFetched(_Outcome, frozen=True):
    """ROBOTS: the rules of the task's origin, valid until `expires_at`."""

    rules: AnyRules
    expires_at: float
    asked_at: float
    ended_at: float
    kind: Literal["2xx", "4xx", "redirects"] = "2xx"  # the statistic `webcrawl/robots/<kind>`
    size_bytes: int = 0  # on the wire
    agent: str = ""  # whose rules were read, if a rule (RULES) names another than our own
    details: bytes = NO_DETAILS
    status: int = 0
    first_byte_s: float = 0.0  # as of Fetched


class RobotsMoved(_Outcome, frozen=True):
    """ROBOTS: a redirect to `url` (canonical), which is on `host`."""

    url: str
    host: str
    asked_at: float
    ended_at: float
    size_bytes: int = 0  # on the wire
    details: bytes = NO_DETAILS
    status: int = 0
    first_byte_s: float = 0.0  # as of Fetched


class RobotsUnreachable(_Outcome, frozen=True):
    """ROBOTS: a 5xx or no answer. All URLs are disallowed until a later try (RFC 9309, 2.3.1.4)."""

    reason: FailureReason | OurFault | Literal["5xx"]
    asked_at: float  # 0.0 when no request can have reached the server
    ended_at: float
    retry_after_s: float = 0.0
    details: bytes = NO_DETAILS  # of a 5xx
    status: int = 0  # 0: no answer
    first_byte_s: float = 0.0  # as of Fetched


class Fetched(_Outcome, frozen=True):
    """PAGE, HEAD, SITEMAP or REQUISITE: the server answered with `status`."""

    status: int
    asked_at: float
    ended_at: float
    links: tuple[Link, ...] = ()  # outlinks and the redirect target, all in scope
    retry_after_s: float = 0.0
    size_bytes: int = 0  # on the wire
    took_s: float = 0.0  # from the request to the last byte
    wanted: bool = True  # HEAD: a GET follows
    duplicate_of: str = ""  # the first URL with the same content
    archived: bool = True  # PAGE: its records are in the archive, so a later page may refer to it
    # SITEMAP: the file has only URLs of its own host, so no other host's robots.txt need name it.
    own_only: bool = False
    details: bytes = NO_DETAILS
    first_byte_s: float = 0.0  # from the request to the first byte; 0.0: not known
    visited: Visited | None = None  # PAGE, with RECRAWL: what a later visit compares
    wall: str = ""  # not what was asked for, but the bot wall of this service (fetch.walls)
    # PAGE, REQUISITE: the files that it shows; of a REQUISITE also the redirect target.
    requisites: tuple[Link, ...] = ()
    # PAGE: its language, as its HTML declares it (BCP 47), and as its text has it (ISO 639-3 or
    # "und"; "" if that was not looked at)
    declared_language: str = ""
    detected_language: str = ""
    near_duplicate_of: str = ""  # PAGE: the first URL with nearly the same text


class Failed(_Outcome, frozen=True):
    """PAGE, HEAD, SITEMAP or REQUISITE: no answer."""

    reason: FailureReason | OurFault
    asked_at: float  # 0.0 when no request can have reached the server
    ended_at: float
    final: bool = False  # no retry: the Request's errback was called
    took_s: float = 0.0  # from the beginning of the try to its end


class Returned(_Outcome, frozen=True):
    """Any step: not carried out. The link or task is queued again at its old position.

    The times are set if a request that was cut off may have reached the server. `reason` is one of
    fetch.exchange.OURS if the fault is ours. `details` are those of an answer that was archived.
    `is_unknown`: of a process that died, which may have archived an answer.
    """

    asked_at: float = 0.0
    ended_at: float = 0.0
    reason: FailureReason | Literal[""] = ""
    details: bytes = NO_DETAILS
    is_unknown: bool = False


class Dropped(_Outcome, frozen=True):
    """PAGE: not fetched: refused, unusable, or replaced by a component of the user's."""

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
# With the status and the time to first byte of an answer.
Answered = RobotsFetched | RobotsMoved | RobotsUnreachable | Fetched
