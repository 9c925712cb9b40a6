"""How a host is spoken to: plain HTTP, HTTPS of every kind, or a port where nobody listens.

Pure: the names of what `secure` serves and `server` binds. A host has one origin that its URLs
carry. One that has `moved` answers plain HTTP too, with redirects to its HTTPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simweb.features import Feature

_ALERT = b"\x15\x03\x01\x00\x02\x02\x28"  # fatal, handshake_failure (RFC 8446, 6)


class Ports(NamedTuple):
    """Where a world is served."""

    http: int = 80
    https: int = 443
    closed: int = 1  # of every address: connections are refused

    def suffix(self, name: str) -> str:
        """As a URL carries it: "" for the default of its scheme."""
        port: int = getattr(self, name)
        return "" if {"http": 80, "https": 443}.get(name) == port else f":{port}"


@dataclass(frozen=True, kw_only=True)
class OriginKind(Feature):
    """`certificate` and `old` are for the handshake; `wire` is what comes instead of one.

    `reachable` is False where no request gets through, so that its robots.txt shuts it.
    """

    scheme: str = "https"
    port: str = "https"  # of Ports
    certificate: str = "own"  # "own", "expired" or "other-name": self-signed all
    old: bool = False  # TLS 1.0 at most
    moved: bool = False
    wire: bytes | None = None  # b"": silence
    reachable: bool = True
    default: bool = False


def _broken(name: str, weight: float, about: str, wire: bytes) -> OriginKind:
    return OriginKind(
        name=f"origin-{name}", weight=weight, about=about, wire=wire, sound=False, reachable=False
    )


ORIGINS = (
    OriginKind(
        name="origin-http", weight=60, about="plain HTTP", scheme="http", port="http", default=True
    ),
    OriginKind(name="origin-https", weight=14, about="HTTPS, self-signed"),
    OriginKind(name="origin-moved", weight=14, about="HTTP redirects to HTTPS", moved=True),
    OriginKind(name="origin-expired", weight=3, about="certificate expired", certificate="expired"),
    OriginKind(
        name="origin-other-name",
        weight=3,
        about="certificate of another host",
        certificate="other-name",
    ),
    OriginKind(name="origin-old", weight=2, about="TLS 1.0 and no later", old=True),
    _broken("not-tls", 1, "HTTP where TLS should be", b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    _broken("alert", 1, "a TLS alert for a handshake", _ALERT),
    _broken(
        "garbage", 1, "the beginning of a handshake, then noise", b"\x16\x03\x03" + b"\xfe" * 99
    ),
    _broken("silent", 0.5, "accepts and never shakes hands", b""),
    OriginKind(
        name="origin-refused",
        weight=2,
        about="a port where nobody listens",
        scheme="http",
        port="closed",
        sound=False,
        reachable=False,
    ),
)
