"""The kinds of DNS answers, as values. No bytes and no sockets: `dns` has those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from simweb.features import Feature

NOERROR, SERVFAIL, NXDOMAIN, REFUSED = 0, 2, 3, 5


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. `alias` is the target of a CNAME, and then owns the addresses; "": no CNAME."""

    rcode: int = NOERROR
    addresses: tuple[str, ...] = ()
    alias: str = ""
    ttl_s: int = 3600
    silent: bool = False
    tcp_only: bool = False  # truncated over UDP
    wire: bytes = b""  # not empty: these bytes follow the query's id, in place of an answer


@dataclass(frozen=True, kw_only=True)
class DnsKind(Feature):
    answer: Callable[[str, Sequence[str]], Answer]  # from a name and two addresses


def _row(
    name: str,
    weight: float,
    about: str,
    answer: Callable[[str, Sequence[str]], Answer],
    default: bool = True,
    sound: bool = True,
) -> DnsKind:
    return DnsKind(
        name=f"dns-{name}", weight=weight, about=about, answer=answer, default=default, sound=sound
    )


def _error(rcode: int) -> Callable[[str, Sequence[str]], Answer]:
    return lambda name, ips: Answer(rcode)


DNS = (
    _row("a", 78, "one address", lambda name, ips: Answer(addresses=(ips[0],))),
    _row("several", 5, "two addresses, both serve", lambda name, ips: Answer(addresses=tuple(ips))),
    _row(
        "cname",
        5,
        "a CNAME before the address",
        lambda name, ips: Answer(addresses=(ips[0],), alias=f"cdn.{name}"),
    ),
    _row("short", 2, "TTL of 1 s", lambda name, ips: Answer(addresses=(ips[0],), ttl_s=1)),
    _row(
        "tcp",
        1,
        "truncated over UDP, whole over TCP",
        lambda name, ips: Answer(addresses=(ips[0],), tcp_only=True),
    ),
    _row("nxdomain", 5, "NXDOMAIN", _error(NXDOMAIN), sound=False),
    _row("servfail", 1.5, "SERVFAIL", _error(SERVFAIL), sound=False),
    _row("refused", 0.5, "REFUSED", _error(REFUSED), sound=False),
    _row("empty", 0.7, "NOERROR without an address", lambda name, ips: Answer(), sound=False),
    _row("silent", 0.8, "never an answer", lambda name, ips: Answer(silent=True), sound=False),
    _row(
        "ipv6", 1, "an AAAA record only: ::1", lambda name, ips: Answer(addresses=("::1",)), False
    ),
    _row(
        "garbage",
        0.5,
        "bytes that are not a DNS message",
        lambda name, ips: Answer(wire=b"\xff" * 50),
        default=False,
        sound=False,
    ),
    _row(
        "loop",
        0.5,
        "compressed names that point to themselves",
        lambda name, ips: Answer(wire=b"\x84\x80\0\1\0\1\0\0\0\0\xc0\x0c" + b"\xc0\x0c\0\1" * 8),
        default=False,
        sound=False,
    ),
    _row(
        "private",
        0.5,
        "an address of a private network (for the address guard)",
        lambda name, ips: Answer(addresses=("10.255.255.1",)),
        default=False,
        sound=False,
    ),
)
