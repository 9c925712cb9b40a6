"""DNS messages: our question, and the part of the answer that we need (RFC 1035, 4).

Pure: bytes in, values out; no sockets, no cache. `read_answer` returns a DnsAnswer for any bytes.
The owner names of the records are not compared with the question: a server that lies could also
put any address under the question's own name. CNAME chains are not followed: we ask recursive
servers only, and these have followed them.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Final

from msgspec import Struct

TYPE_A: Final = 1  # RFC 1035, 3.2.2
TYPE_AAAA: Final = 28  # RFC 3596
_TYPE_CNAME: Final = 5
_FAMILIES: Final = {TYPE_A: socket.AF_INET, TYPE_AAAA: socket.AF_INET6}
_CLASS_IN: Final = 1
_RECURSION_DESIRED: Final = 0x0100
_RESPONSE: Final = 0x8000
_TRUNCATED: Final = 0x0200
_NXDOMAIN: Final = 3
_PROBLEMS: Final = {2: "servfail", _NXDOMAIN: "nxdomain", 5: "refused"}  # RFC 1035, 4.1.1

_HEADER: Final = struct.Struct("!HHHHHH")
_RECORD: Final = struct.Struct("!HHIH")


class DnsAnswer(Struct, frozen=True, gc=False):
    """Addresses with their TTL, or a problem.

    `problem` is "" or one of: nxdomain, nodata, servfail, refused, rcode (another error code),
    truncated, garbage. `dnsclient` adds timeout, unreachable, no_socket and closed.
    """

    addresses: tuple[str, ...] = ()
    ttl_s: int = 0
    problem: str = ""


def question(host: str, record_type: int) -> bytes:
    """The question section for `host`, an ASCII name with valid labels (RFC 1035, 4.1.2)."""
    name = b""
    for label in host.rstrip(".").encode("ascii").split(b"."):
        name += bytes((len(label),)) + label
    return name + b"\0" + struct.pack("!HH", record_type, _CLASS_IN)


def query(query_id: int, question: bytes) -> bytes:
    """A query message. Deviation: no EDNS, since some servers answer it wrongly. A long answer
    comes by TCP.
    """
    return _HEADER.pack(query_id, _RECURSION_DESIRED, 1, 0, 0, 0) + question


def read_answer(message: bytes, question: bytes) -> DnsAnswer:
    """The answer of `message` to `question`. O(message); the caller bounds its size."""
    try:
        return _read_answer(message, question)
    except (struct.error, IndexError, ValueError):
        return DnsAnswer(problem="garbage")


def _read_answer(message: bytes, question: bytes) -> DnsAnswer:
    _, flags, questions, records, _, _ = _HEADER.unpack_from(message)
    problem = _PROBLEMS.get(flags & 0xF, "rcode") if flags & 0xF else ""
    at = _HEADER.size + len(question) * questions
    echoed = message[_HEADER.size : at].lower() == question.lower() * questions
    if not flags & _RESPONSE or questions > 1 or not echoed or not (questions or problem):
        return DnsAnswer(problem="garbage")
    if problem:
        return DnsAnswer(problem=problem)
    wanted = int.from_bytes(question[-4:-2])
    addresses: list[str] = []
    ttls: list[int] = []
    try:
        for record_type, ttl_s, data in _read_records(message, at, records):
            if record_type == wanted:
                addresses.append(socket.inet_ntop(_FAMILIES[wanted], data))
            if record_type in (wanted, _TYPE_CNAME):
                ttls.append(ttl_s)
    except (struct.error, IndexError, ValueError):
        if not flags & _TRUNCATED:  # the records before the cut are good
            raise
    if addresses:
        return DnsAnswer(tuple(dict.fromkeys(addresses)), min(ttls))
    return DnsAnswer(problem="truncated" if flags & _TRUNCATED else "nodata")


def _read_records(message: bytes, at: int, count: int) -> Iterator[tuple[int, int, bytes]]:
    """Type, TTL in seconds and data of `count` records, from `at` on."""
    for _ in range(count):
        at = _skip_name(message, at)
        record_type, _, ttl_s, size = _RECORD.unpack_from(message, at)
        at += _RECORD.size + size
        yield record_type, ttl_s, message[at - size : at]


def _skip_name(message: bytes, at: int) -> int:
    """The end of the name at `at`: after its root label or its pointer (RFC 1035, 4.1.4)."""
    while size := message[at]:
        if size >= 0xC0:
            return at + 2
        at += 1 + size
    return at + 1
