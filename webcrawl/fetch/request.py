"""What the client is asked for, and the limits of its answer: plain values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.mediatypes import Wants

OnContent = Callable[[bytes], bool]


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one fetch. Seconds count from the start of the fetch, after the DNS look-up."""

    timeout_s: float = 15.0
    connect_timeout_s: float = 10.0  # TCP and TLS
    max_size_bytes: int = 10 << 20  # of the body on the wire, and again once decoded
    max_header_bytes: int = 32 << 10  # FastWARC stops at a record with a longer header
    keep_alive_s: float = 0.0  # how long a connection may stay idle; 0 turns keep-alive off


class FetchRequest(Struct):
    """A request, and how its answer is read. Immutable.

    `wants(status, headers)` is called once, when the head is complete: False closes the connection
    there. `on_content` is called with each new part of the body, without chunk framing: False ends
    the body there.
    """

    method: str
    url: str
    address: str  # IP address to connect to; through a proxy, it is not used
    headers: Headers
    body: bytes = b""
    wants: Wants | None = None
    on_content: OnContent | None = None
    limits: Limits | None = None  # None: the client's
    decodes: bool = True  # False: the payload keeps its content codings
    local_address: tuple[str, int] | None = None  # None: the client's
