"""The kinds of DNS answers, as values. No bytes and no sockets: `dns` has those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

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


@dataclass(frozen=True)
class DnsKind(Feature):
    family = "dns"
    answer: Callable[[str, Sequence[str]], Answer]  # from a name and two addresses


def _error(rcode: int) -> Callable[[str, Sequence[str]], Answer]:
    return lambda name, ips: Answer(rcode)


def _wire(wire: bytes) -> Callable[[str, Sequence[str]], Answer]:
    return lambda name, ips: Answer(wire=wire)


def _first(**more: Any) -> Callable[[str, Sequence[str]], Answer]:
    """The first address, with these fields of the answer."""
    return lambda name, ips: Answer(addresses=(ips[0],), **more)


def _alias(name: str, ips: Sequence[str]) -> Answer:
    return Answer(addresses=(ips[0],), alias=f"cdn.{name}")


_LOOP = b"\x84\x80\0\1\0\1\0\0\0\0\xc0\x0c" + b"\xc0\x0c\0\1" * 8
_IPV6, _PRIVATE = Answer(addresses=("::1",)), Answer(addresses=("10.255.255.1",))
_unsound = partial(DnsKind, sound=False)
_odd = partial(DnsKind, sound=False, default=False)
DNS = (
    DnsKind("a", 78, "one address", _first()),
    DnsKind("several", 5, "two addresses, both serve", lambda _, ips: Answer(addresses=tuple(ips))),
    DnsKind("cname", 5, "a CNAME before the address", _alias),
    DnsKind("short", 2, "TTL of 1 s", _first(ttl_s=1)),
    DnsKind("tcp", 1, "truncated over UDP, whole over TCP", _first(tcp_only=True)),
    _unsound("nxdomain", 5, "NXDOMAIN", _error(NXDOMAIN)),
    _unsound("servfail", 1.5, "SERVFAIL", _error(SERVFAIL)),
    _unsound("refused", 0.5, "REFUSED", _error(REFUSED)),
    _unsound("empty", 0.7, "NOERROR without an address", lambda name, ips: Answer()),
    _unsound("silent", 0.8, "never an answer", lambda name, ips: Answer(silent=True)),
    DnsKind("ipv6", 1, "an AAAA record only: ::1", lambda name, ips: _IPV6, default=False),
    _odd("garbage", 0.5, "bytes that are not a DNS message", _wire(b"\xff" * 50)),
    _odd("loop", 0.5, "compressed names that point to themselves", _wire(_LOOP)),
    _odd("private", 0.5, "an address of a private network", lambda *_: _PRIVATE),
)
