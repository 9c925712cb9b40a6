"""One HTTP exchange as it was on the wire, and the failure of a fetch without an exchange.

Owns the value objects that the client gives to the parser, the WARC writer and the frontier. Knows
nothing of sockets, Scrapy or WARC. Plain data: nothing here reads a clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from webcrawl.fetch.room import Share

NOT_MODIFIED: Final = 304  # RFC 9110, 15.4.5
REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})  # RFC 9110, 15.4

# Every reason for which a fetch can fail: each is one statistic, `webcrawl/failed/<reason>`.
FailureReason = Literal[
    "dns",  # the host has no address, or no name server answered
    "proxy",  # no connection to the crawl's proxy, or it refuses us: no host was asked
    "blocked_address",  # the address guard refused every address
    "blocked_port",  # of another protocol (`scope.refused_ports`): no server was asked
    "connect",  # refused, unreachable, or reset while connecting
    "connect_timeout",
    "tls",  # the handshake failed even with every check off
    "timeout",  # connected, but no complete response head in time
    "reset",  # closed or reset before a complete response head
    "bad_response",  # the answer is not HTTP
    "header_too_large",
    "too_large",  # the body came through a proxy's handler, which cannot cut it
    "cancelled",  # by us: the crawl is closing
    "outage",  # our own network is out
    "no_socket",  # we had no socket or port left: no server was asked
]
REASONS: Final[tuple[FailureReason, ...]] = get_args(FailureReason)

# The fault is ours: the lease is returned, and no try is counted.
OURS: Final[frozenset[FailureReason]] = frozenset({"cancelled", "outage", "no_socket"})

# A retry may succeed. All other reasons describe the server itself.
TRANSIENT: Final[frozenset[FailureReason]] = frozenset(
    {"dns", "proxy", "connect", "connect_timeout", "timeout", "reset"}
)

# No server answered at this address: try the host's next address.
UNANSWERED: Final[frozenset[FailureReason]] = frozenset({"connect", "connect_timeout"})


@dataclass(slots=True, frozen=True)
class Tls:
    """The result of a TLS handshake. `problem` is "" for a certificate that verifies."""

    version: str
    cipher: str
    fingerprint: str  # SHA-256 of the leaf certificate, hex
    problem: str = ""
    certificate: bytes = field(default=b"", repr=False)  # the leaf, DER


@dataclass(slots=True)
class Exchange:
    """A request and its answer, byte for byte.

    `head` + `body` are the bytes of the final response as received, without interim 1xx responses:
    `body` still has its chunk framing and content coding. `payload` is the body without both.
    `*_s` are seconds; `asked_at` and `ended_at` are monotonic; `started_time` is UTC, seconds since
    the epoch.
    """

    method: str
    url: str
    request: bytes
    head: bytes
    status: int
    http_version: str  # of the response: "1.0" or "1.1"
    headers: list[tuple[bytes, bytes]]  # as sent; names in lower case, values stripped
    ip: str  # "" where it is not known: through a proxy
    body: bytes = b""
    payload: bytes = b""
    body_skipped: bool = False  # the head was not wanted, so the body was not read
    truncated: str = ""  # "", "length", "time", "disconnect" or "unspecified" (WARC 1.1, 5.13)
    started_time: float = 0.0  # UTC, when connecting began
    asked_at: float = 0.0  # monotonic, when the first byte of the answer arrived
    ended_at: float = 0.0  # monotonic
    dns_s: float = 0.0
    connect_s: float = 0.0  # TCP, and TLS where there is any
    first_byte_s: float = 0.0  # from the last byte sent to the first received
    total_s: float = 0.0
    tls: Tls | None = None
    decode_problem: str = ""  # why a content coding could not be removed in full
    codings_left: tuple[bytes, ...] = ()  # content codings still on `payload`: unknown to us
    via_proxy: bool = False  # through the crawl's proxy (PROXY)
    headers_omitted: tuple[str, ...] = ()  # secrets that are left out of `request`
    reconstructed: bool = False  # not from the wire: built from Scrapy's request and response
    cached: bool = False  # an HTTP cache answered: no server was asked
    body_replaced: bool = False  # a middleware gave the spider another body than `payload`
    is_conditional: bool = False  # the crawl sent the validators of the page's last visit
    has_surplus: bool = False  # bytes came after its end: they are ignored
    archived: bool = False  # its records are in the archive
    warc: str = ""  # the name of the WARC file
    offset: int = 0  # of the response or revisit record
    digest: str = ""  # the WARC-Payload-Digest of that record
    # What the owner says about the use of pages (parse.ownersignals): of a robots.txt, and of an
    # answer whose body was not read. A page that was read has its own (`items.Page`).
    signals: tuple[str, ...] = ()
    wall: str = ""  # the bot-blocking service that answered in the page's place (fetch.walls)
    share: Share | None = None  # of the room for large answers: whoever ends the page releases it
    size_bytes: int = field(init=False)  # of the answer on the wire

    def __post_init__(self) -> None:
        self.size_bytes = len(self.head) + len(self.body)

    @property
    def is_not_modified(self) -> bool:
        """Whether it is the 304 that a conditional request of the crawl may get."""
        return self.status == NOT_MODIFIED and self.is_conditional

    def header(self, name: bytes) -> bytes:
        """Value of the first header called `name` (lower case), or b"". O(headers)."""
        for key, value in self.headers:
            if key == name:
                return value
        return b""


@dataclass(slots=True, eq=False)
class FetchFailed(Exception):  # noqa: N818  (an outcome, not an error of ours)
    """No usable answer came: the peer's fault, or one of OURS.

    `asked` is True when any byte of the request may have reached the server: then the politeness
    clocks must count from `ended_at` (monotonic). `received_bytes` of the answer had come.
    """

    reason: FailureReason
    detail: str = ""
    asked: bool = False
    ended_at: float = field(default=0.0)
    connect_s: float = 0.0  # as in Exchange; 0.0 without a connection
    received_bytes: int = 0

    def __str__(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason
