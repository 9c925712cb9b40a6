"""The origins of hosts: plain HTTP, several kinds of HTTPS, or a port that refuses connections.

Pure values: `secure` serves them and `listeners` binds the ports. A host has one origin, that of
its URLs. A host that has `moved` answers plain HTTP too, with redirects to HTTPS.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import NamedTuple

from simweb.features import Feature

_GARBAGE = b"\x16\x03\x03" + b"\xfe" * 99
_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"  # fatal, handshake_failure (RFC 8446, 6)


class Ports(NamedTuple):
    """The ports of a world."""

    http: int = 80
    https: int = 443
    closed: int = 1  # on every address: refuses connections

    def suffix(self, name: str) -> str:
        """The port as it is in a URL: "" for the default of the scheme."""
        port: int = getattr(self, name)
        return "" if {"http": 80, "https": 443}.get(name) == port else f":{port}"


@dataclass(frozen=True)
class OriginKind(Feature):
    """A kind. `certificate` and `old` are of the TLS handshake; `wire` are bytes in place of it.

    `reachable` is False if no request succeeds: then robots.txt is unreachable, and disallows
    everything.
    """

    family = "origin"
    _: KW_ONLY
    scheme: str = "https"
    port: str = "https"  # of Ports
    certificate: str = "own"  # "own", "expired" or "other-name"; always self-signed
    old: bool = False  # TLS 1.0 at most
    moved: bool = False
    wire: bytes | None = None  # b"": silence
    reachable: bool = True
    default: bool = False


_dead = partial(OriginKind, sound=False, reachable=False)
ORIGINS = (
    OriginKind("http", 60, "plain HTTP", scheme="http", port="http", default=True),
    OriginKind("https", 14, "HTTPS, self-signed"),
    OriginKind("moved", 14, "HTTP redirects to HTTPS", moved=True),
    OriginKind("expired", 3, "certificate expired", certificate="expired"),
    OriginKind("other-name", 3, "certificate of another host", certificate="other-name"),
    OriginKind("old", 2, "TLS 1.0 and no later", old=True),
    _dead("not-tls", 1, "HTTP where TLS should be", wire=b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    _dead("alert", 1, "a TLS alert in place of a handshake", wire=_ALERT),
    _dead("garbage", 1, "the start of a handshake, then garbage", wire=_GARBAGE),
    _dead("silent", 0.5, "accepts and never shakes hands", wire=b""),
    _dead("refused", 2, "a port that refuses connections", scheme="http", port="closed"),
)
