"""The origins of hosts: plain HTTP, several kinds of HTTPS, or a port that refuses connections.

Pure values: `secure` serves them and `listeners` binds the ports. A host has one origin, that of
its URLs. A host that has `moved` answers plain HTTP too, with redirects to HTTPS.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from simweb.features import Feature

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


@dataclass(frozen=True, kw_only=True)
class OriginKind(Feature):
    """A kind. `certificate` and `old` are of the TLS handshake; `wire` are bytes in place of it.

    `reachable` is False if no request succeeds: then robots.txt is unreachable, and disallows
    everything.
    """

    scheme: str = "https"
    port: str = "https"  # of Ports
    certificate: str = "own"  # "own", "expired" or "other-name"; always self-signed
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
    _broken("alert", 1, "a TLS alert in place of a handshake", _ALERT),
    _broken(
        "garbage", 1, "the first bytes of a handshake, then garbage", b"\x16\x03\x03" + b"\xfe" * 99
    ),
    _broken("silent", 0.5, "accepts and never shakes hands", b""),
    OriginKind(
        name="origin-refused",
        weight=2,
        about="a port that refuses connections",
        scheme="http",
        port="closed",
        sound=False,
        reachable=False,
    ),
)
