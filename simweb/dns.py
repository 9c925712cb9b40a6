"""The DNS server of the simulated web, over UDP and TCP.

Messages are read and built by hand (RFC 1035, 4.1): a query is one question whose name is never
compressed, and an answer repeats the question and adds fixed records. This takes some 4 µs; a
general library takes over 100. The server shares its processor with the crawler under test.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections import Counter
from struct import pack, unpack_from
from typing import cast

from simweb.addresses import NXDOMAIN, Answer
from simweb.model import World

_A, _CNAME, _SOA, _AAAA, _IN = 1, 5, 6, 28, 1
_TO_QUESTION = 0xC00C  # a pointer to the name in the question
# An SOA of the root, so that a negative answer may be cached for a minute (RFC 2308).
_SOA_RECORD = b"\0" + pack(">HHIH2s5I", _SOA, _IN, 60, 22, b"\0\0", 1, 3600, 600, 86400, 60)


class Names:
    """Answers queries about one world and counts them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked: Counter[str] = Counter()

    def answer(self, query: bytes, tcp: bool = False) -> bytes | None:
        """The answer's bytes. None: no answer is sent."""
        read = _question(query)
        if read is None:
            return None
        name, kind, question = read
        self.asked[name] += 1
        known = self._find(name)
        if known.silent:
            return None
        if known.wire:
            return query[:2] + known.wire
        truncated = known.tcp_only and not tcp
        records = [] if truncated else _records(known, question, kind)
        authority = b"" if records or truncated or known.rcode not in (0, 3) else _SOA_RECORD
        # QR, AA, RD as in the query, RA
        flags = 0x8480 | (query[2] & 1) << 8 | known.rcode | truncated << 9
        counts = pack(">HHHHH", flags, 1, len(records), 1 if authority else 0, 0)
        return query[:2] + counts + question + b"".join(records) + authority

    def _find(self, name: str) -> Answer:
        host = self.world.find(name)
        if host is not None:
            return self.world.host(host).dns
        host = self.world.find(name.removeprefix("cdn."))
        if host is not None and self.world.host(host).dns.alias == name:
            return Answer(addresses=self.world.host(host).dns.addresses)
        return Answer(NXDOMAIN)


def _question(query: bytes) -> tuple[str, int, bytes] | None:
    """Name in lower case, type, and the bytes of the first question; None if it is not a query."""
    if len(query) < 17 or query[2] & 0x80:
        return None
    labels = []
    at = 12
    while at < len(query) and (size := query[at]):
        labels.append(query[at + 1 : at + 1 + size])
        at += 1 + size
    end = at + 5
    if end > len(query):
        return None
    (kind,) = unpack_from(">H", query, at + 1)
    return b".".join(labels).decode("latin-1").lower(), kind, query[12:end]


def _records(known: Answer, question: bytes, kind: int) -> list[bytes]:
    """The records of type `kind`: IPv4 or IPv6 addresses."""
    family = socket.AF_INET6 if kind == _AAAA else socket.AF_INET
    found = [
        socket.inet_pton(family, address)
        for address in known.addresses
        if (":" in address) is (kind == _AAAA)
    ]
    if kind not in (_A, _AAAA) or not found:
        return []
    owner = pack(">H", _TO_QUESTION)
    records = []
    if known.alias:
        label = known.alias.partition(".")[0].encode()
        target = bytes([len(label)]) + label + owner
        records.append(owner + pack(">HHIH", _CNAME, _IN, known.ttl_s, len(target)) + target)
        # The alias is the data of that record: later records point there.
        owner = pack(">H", 0xC000 | 12 + len(question) + 12)
    records += [
        owner + pack(">HHIH", kind, _IN, known.ttl_s, len(address)) + address for address in found
    ]
    return records


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, names: Names) -> None:
        self._names = names
        self._transport: asyncio.DatagramTransport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._names.answer(data)
        if reply:
            self._transport.sendto(reply, addr)


class DnsServer:
    """Serves UDP and TCP on one port. Port 0: any free port."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self.port = 0

    async def start(self, host: str, port: int) -> None:
        loop = asyncio.get_running_loop()
        tcp, udp = both_on_one_port(host, port)
        self.port = tcp.getsockname()[1]
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self._udp, _ = await loop.create_datagram_endpoint(lambda: _Udp(self._names), sock=udp)
        self._tcp = await asyncio.start_server(self._serve_tcp, sock=tcp, backlog=1024)

    async def _serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                (size,) = unpack_from(">H", await reader.readexactly(2))
                reply = self._names.answer(await reader.readexactly(size), tcp=True)
                if reply:
                    writer.write(pack(">H", len(reply)) + reply)
                    await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    def close(self) -> None:
        self._udp.close()
        self._tcp.close()


def both_on_one_port(host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """A TCP and a UDP socket, bound. Port 0: a port that is free for both. Raises OSError."""
    while True:
        tcp, udp = (socket.socket(type=kind) for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM))
        try:
            tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tcp.bind((host, port))
            udp.bind(tcp.getsockname())
        except OSError as error:
            tcp.close()
            udp.close()
            if port or error.errno != errno.EADDRINUSE:
                raise
        else:
            udp.setblocking(False)
            return tcp, udp
