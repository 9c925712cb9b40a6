"""The DNS client: sends questions to DNS servers, with retries and time-outs.

Owns the sockets of a resolver. Knows no host names and no cache: a question goes in, a DnsAnswer
comes out. A core module that does I/O: it reads the loop's clock for its time-outs.

Why a stub resolver of our own: a broad crawl asks for many names whose servers are slow. c-ares
(aiodns) computes its time-outs from the latency of earlier answers (its pull request 794). After
fast answers it gives up after 250 and 500 ms, whatever time-out is set, and it ignores a late
answer to its first try.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Sequence
from typing import Final, NamedTuple

from webcrawl.admission.dnswire import DnsAnswer, query, read_answer
from webcrawl.base.openfiles import is_ours
from webcrawl.fetch.exchange import FetchFailed
from webcrawl.fetch.gate import Gate

# At most MAX_BURST unanswered queries are younger than BURST_S. The server's socket may have the
# default buffer of Linux, which holds 192 to 256 small datagrams. Of a larger burst some would be
# lost, and their retries would be a burst again.
MAX_BURST: Final = 128
BURST_S: Final = 0.1
# Eight ports per server: harder to spoof (RFC 5452, 9.2), and more buffer for answers that come
# while the event loop is busy.
_PORT_BITS: Final = 3
_RECEIVE_BUFFER_BYTES: Final = 1 << 20
_MAX_DATAGRAM_BYTES: Final = 4096  # without EDNS an answer has 512 (RFC 1035, 2.3.4)
_DATAGRAMS_PER_WAKE: Final = 256

# Authoritative: another server would answer the same. After any other problem a retry may succeed.
FINAL_PROBLEMS: Final = frozenset(("nxdomain", "nodata", "bad_name"))
_ENDS: Final = FINAL_PROBLEMS | {"", "no_socket", "closed"}  # no other try follows

_TIMEOUT: Final = DnsAnswer(problem="timeout")
_CLOSED: Final = DnsAnswer(problem="closed")
_random: Final = random.SystemRandom()


class NameServer(NamedTuple):
    """The address and port of a DNS server."""

    address: str
    port: int = 53

    @property
    def family(self) -> socket.AddressFamily:
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET


class DnsClient:
    """Asks `servers` in turn: `tries` tries in all, each with a time-out of `timeout_s`.

    All calls from the first question to `close` must come from one event loop.
    """

    def __init__(
        self,
        servers: Sequence[NameServer],
        timeout_s: float,
        tries: int,
        gate: Gate | None = None,
    ) -> None:
        self._gate = gate or Gate()
        self._servers = servers
        self._timeout_s = timeout_s
        self._tries = tries
        self._ports: dict[tuple[NameServer, int], _Port] = {}  # opened when first needed
        self._burst = asyncio.Semaphore(MAX_BURST)
        self._is_closed = False
        self._first = 0  # number of the server to ask first; the next one after a failure

    async def ask(self, question: bytes) -> DnsAnswer:
        """The first usable answer. Without one, the `problem` of the last try.

        A late answer to an earlier try counts. A server that answers with an error is not asked
        again, but each other server is asked once.
        """
        asked = _Query(question)
        answer = _TIMEOUT
        try:
            for attempt in range(1, self._tries + 1):
                server = self._servers[self._first % len(self._servers)]
                answer = await self._try(asked, server)
                if answer.problem in _ENDS:
                    break
                self._first += 1
                if answer.problem != "timeout" and attempt >= len(self._servers):
                    break
        finally:
            asked.forget()
        return answer

    def close(self) -> None:
        """Close every socket. An `ask` that waits for an answer ends with the problem "closed"."""
        self._is_closed = True
        for port in self._ports.values():
            port.close()
        self._ports.clear()

    async def _try(self, asked: _Query, server: NameServer) -> DnsAnswer:
        burst_s = min(BURST_S, self._timeout_s)
        async with self._burst:
            try:
                await self._gate.wait()
                if self._is_closed:
                    return _CLOSED
                self._port(server).send(asked)
            except BlockingIOError:
                pass  # the buffer is full: the datagram counts as lost
            except FetchFailed:
                return _CLOSED
            except OSError as error:
                return DnsAnswer(problem="no_socket" if is_ours(error) else "unreachable")
            answer = await asked.wait(burst_s)
        if answer.problem == "timeout":
            answer = await asked.wait(self._timeout_s - burst_s)
        if answer.problem != "truncated":
            return answer
        try:
            await self._gate.wait()
            async with asyncio.timeout(self._timeout_s):
                return await _ask_by_tcp(server, asked.question)
        except OSError as error:  # TimeoutError is one
            return DnsAnswer(problem="no_socket") if is_ours(error) else answer
        except (EOFError, FetchFailed):
            return answer

    def _port(self, server: NameServer) -> _Port:
        key = (server, _random.getrandbits(_PORT_BITS))
        port = self._ports.get(key)
        if port is None:
            try:
                port = self._ports[key] = _Port(server)
            except OSError as error:
                others = [each for (its, _), each in self._ports.items() if its == server]
                if not others or not is_ours(error):
                    raise
                port = others[0]  # Deviation: fewer ports are better than no answer
        return port


class _Query:
    """One question, with all its tries: an answer to any of them counts."""

    __slots__ = ("_answer", "_waiter", "question", "sent")

    def __init__(self, question: bytes) -> None:
        self.question = question
        self.sent: list[tuple[_Port, int]] = []  # of each try, its port and id
        self._answer: DnsAnswer | None = None  # received, and not yet returned by `wait`
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self, timeout_s: float) -> DnsAnswer:
        """The next answer to any of the tries, or the problem "timeout"."""
        if self._answer is None:
            loop = asyncio.get_running_loop()
            self._waiter = loop.create_future()
            timer = loop.call_later(timeout_s, self._wake)
            try:
                await self._waiter
            finally:
                timer.cancel()
        answer, self._answer = self._answer, None
        return answer or _TIMEOUT

    def answer(self, answer: DnsAnswer) -> None:
        if self._answer is None:
            self._answer = answer
            self._wake()

    def forget(self) -> None:
        for port, query_id in self.sent:
            port.forget(query_id)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class _Port:
    """A UDP socket connected to one server: the kernel drops datagrams of any other sender."""

    __slots__ = ("_loop", "_socket", "_waiting")

    def __init__(self, server: NameServer) -> None:
        self._waiting: dict[int, _Query] = {}
        self._socket = socket.socket(server.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
            self._socket.connect(server)
        except OSError:
            self._socket.close()
            raise
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._read)

    def send(self, asked: _Query) -> None:
        """Send the question, with a random id that is not in use on this port (RFC 5452, 9.2)."""
        query_id = _random.getrandbits(16)
        while query_id in self._waiting:
            query_id = _random.getrandbits(16)
        self._waiting[query_id] = asked
        asked.sent.append((self, query_id))
        self._socket.send(query(query_id, asked.question))

    def forget(self, query_id: int) -> None:
        self._waiting.pop(query_id, None)

    def close(self) -> None:
        for asked in self._waiting.values():
            asked.answer(_CLOSED)
        self._loop.remove_reader(self._socket)
        self._socket.close()

    def _read(self) -> None:
        for _ in range(_DATAGRAMS_PER_WAKE):
            try:
                message = self._socket.recv(_MAX_DATAGRAM_BYTES)
            except BlockingIOError:
                return
            except OSError:  # ICMP port unreachable
                # uvloop stops polling a socket after an error.
                self._loop.remove_reader(self._socket)
                self._loop.add_reader(self._socket, self._read)
                for asked in self._waiting.values():
                    asked.answer(DnsAnswer(problem="unreachable"))
                return
            if waiting := self._waiting.get(int.from_bytes(message[:2])):
                waiting.answer(read_answer(message, waiting.question))


async def _ask_by_tcp(server: NameServer, question: bytes) -> DnsAnswer:
    """An answer that is too long for a datagram (RFC 7766). At most 64 KiB (RFC 1035, 4.2.2)."""
    loop = asyncio.get_running_loop()
    message = query(_random.getrandbits(16), question)
    with socket.socket(server.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as connection:
        await loop.sock_connect(connection, server)
        await loop.sock_sendall(connection, len(message).to_bytes(2) + message)
        received = b""
        while len(received) < 2 or len(received) < 2 + int.from_bytes(received[:2]):
            chunk = await loop.sock_recv(connection, 65536)
            if not chunk:
                raise EOFError
            received += chunk
    if received[2:4] != message[:2]:
        return DnsAnswer(problem="garbage")
    return read_answer(received[2:], question)
