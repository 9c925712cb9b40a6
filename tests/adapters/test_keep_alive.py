"""Keep-alive against real sockets."""

from __future__ import annotations

import asyncio
import queue
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.adapters.aheadclock import AheadLoop, pass_time
from tests.adapters.rawserver import (
    RawServer,
    Run,
    identity,
    read_request,
    reset,
    server_context,
    until,
)
from webcrawl.fetch import connections
from webcrawl.fetch.client import Client
from webcrawl.fetch.connections import Connections
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.request import FetchRequest, Limits

LIMITS = Limits(keep_alive_s=60.0, max_size_bytes=1000)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"

Fetch = Callable[..., Awaitable[Exchange]]


class Server(RawServer):
    """Answers each request with the next of `answers`, and with the last one from then on.

    `asked` are the requests, each with the number of its connection; `closed` has the number of
    each connection that the client has closed.
    """

    def __init__(self, *answers: bytes, **kwargs: Any) -> None:
        super().__init__(self.answer, **kwargs)
        self.answers = list(answers)
        self.asked: list[tuple[int, bytes]] = []
        self.closed: queue.SimpleQueue[int] = queue.SimpleQueue()
        self.held: list[socket.socket] = []

    def answer(self, connection: socket.socket) -> None:
        self.held.append(connection)
        number = len(self.held)
        while request := read_request(connection):
            self.asked.append((number, request))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer == b"reset":
                reset(connection)
                return
            connection.sendall(answer)
            if b"and then close" in answer:
                return
        self.closed.put(number)

    @property
    def connections(self) -> list[int]:
        return [number for number, _ in self.asked]


@asynccontextmanager
async def fetching(server: Server) -> AsyncIterator[tuple[Client, Fetch]]:
    """A client, and a short form of its fetch."""
    client = Client(LIMITS)

    async def fetch(
        host: str = "a.test", method: str = "GET", scheme: str = "http", **kwargs: Any
    ) -> Exchange:
        url = f"{scheme}://{host}:{server.port}/"
        return await client.fetch(FetchRequest(method, url, "127.0.0.1", [], **kwargs))

    server.__enter__()
    try:
        yield client, fetch
    finally:
        await client.close()
        await asyncio.to_thread(server.__exit__)  # TLS of the client ends in the loop
    assert repr(client) == "<Client 0 active, 0 idle>"


def idle(client: Client) -> int:
    return int(repr(client).split()[3])


async def test_a_connection_serves_several_requests(run: Run) -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"
    empty = b"HTTP/1.1 204 No Content\r\n\r\n"
    server = Server(OK, chunked, empty, OK)
    async with fetching(server) as (client, fetch):
        exchanges = [await fetch() for _ in range(4)]
        assert [each.payload for each in exchanges] == [b"ok", b"hi", b"", b"ok"]
        assert [each.connect_s > 0 for each in exchanges] == [True, False, False, False]
        assert all(each.asked_at and each.ended_at >= each.asked_at for each in exchanges)
        assert [each.request for each in exchanges] == [request for _, request in server.asked]
        assert exchanges[0].request.endswith(b"\r\nConnection: keep-alive\r\n\r\n")
        assert repr(client) == "<Client 0 active, 1 idle>"
    assert server.connections == [1, 1, 1, 1]


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: Close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nConnection: x, close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nKeep-Alive: timeout=1, max=9\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\n\r\nok and then close",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\nHTTP/1.1 200 OK",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nbroken framing, and then close",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000\r\n\r\n" + b"x" * 2000,
    ],
    ids=["close", "a list", "soon", "1.0", "to its end", "more", "another", "broken", "too long"],
)
async def test_a_connection_that_cannot_be_reused_is_closed(run: Run, answer: bytes) -> None:
    server = Server(answer)

    async with fetching(server) as (client, fetch):
        await fetch()
        assert idle(client) == 0
        await fetch()
    assert server.connections == [1, 2]


async def test_a_connection_with_an_unread_body_is_closed(run: Run) -> None:
    server = Server(OK)
    async with fetching(server) as (client, fetch):
        assert (await fetch(wants=lambda status, headers: False)).body_skipped
        assert idle(client) == 0


async def test_a_connection_is_not_shared(run: Run) -> None:
    """Not with another host at the same address, nor with a request that must not be repeated."""
    server = Server(OK)
    async with fetching(server) as (client, fetch):
        for host, method in (("a.test", "GET"), ("b.test", "GET"), ("a.test", "POST")):
            await fetch(host, method)
        await fetch("a.test", local_address=("127.0.0.1", 0))
        assert idle(client) == 3
        await asyncio.gather(
            fetch("b.test"), fetch("b.test")
        )  # one of them needs another connection
        assert idle(client) == 3
    assert sorted(server.connections) == [1, 2, 2, 3, 4, 5]
    assert server.asked[2][1].startswith(b"POST ")
    assert b"\r\nConnection: close\r\n" in server.asked[2][1]


@pytest.mark.parametrize("unasked", [b"", b"HTTP/1.1 408 Request Timeout\r\n\r\n"])
async def test_an_idle_connection_that_is_closed_or_gets_data_is_dropped(
    run: Run, unasked: bytes
) -> None:
    server = Server(OK)
    async with fetching(server) as (client, fetch):
        await fetch()
        assert idle(client) == 1
        if unasked:
            server.held[0].sendall(unasked)
        else:
            server.held[0].shutdown(socket.SHUT_RDWR)
        await until(lambda: idle(client) == 0)
        assert (await fetch()).payload == b"ok"
    assert server.connections == [1, 2]


async def test_connections_of_an_unreliable_server_are_not_reused(run: Run) -> None:
    server = Server(OK, b"reset", OK)

    async with fetching(server) as (client, fetch):
        await fetch()
        with pytest.raises(FetchFailed) as caught:
            await fetch()
        assert (caught.value.reason, caught.value.asked) == ("reset", True)
        await fetch()
        await fetch()
        assert idle(client) == 0
    assert server.connections == [1, 1, 2, 3]
    assert [b"keep-alive" in request for _, request in server.asked] == [True, True, False, False]


async def test_an_answer_that_breaks_off_does_not_make_a_server_unreliable(run: Run) -> None:
    """It would have broken off on a new connection too."""
    server = Server(OK, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nand then close", OK)

    async with fetching(server) as (client, fetch):
        await fetch()
        assert (await fetch()).truncated == "disconnect"
        await fetch()
        assert idle(client) == 1
    assert server.connections == [1, 1, 2]


@pytest.mark.parametrize("run", [AheadLoop], indirect=True)
async def test_an_idle_connection_is_closed_after_its_time(run: Run) -> None:
    server = Server(OK)
    async with fetching(server) as (client, fetch):
        await fetch(limits=Limits(keep_alive_s=10.0))
        pass_time(9.0)
        await asyncio.sleep(0.001)
        assert idle(client) == 1
        pass_time(1.0)
        await asyncio.sleep(0.001)
        assert idle(client) == 0
        await until(lambda: not server.closed.empty())


async def test_the_longest_idle_connection_is_closed_for_a_new_one(run: Run) -> None:
    server = Server(OK)
    async with fetching(server) as (client, fetch):
        client._idle = Connections((2, 1))
        for host in ("a.test", "b.test", "a.test", "c.test", "a.test", "c.test", "b.test"):
            await fetch(host)
        assert idle(client) == 2
    assert server.connections == [1, 2, 1, 3, 1, 3, 4]


async def test_the_end_of_a_connection_removes_no_later_one_to_its_server() -> None:
    """An aborted connection is told of its end a turn of the loop later."""
    loop = asyncio.get_running_loop()
    listener = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    place = listener.sockets[0].getsockname()
    (first, _), (second, _) = [
        await loop.create_connection(asyncio.Protocol, *place) for _ in range(2)
    ]
    kept, server = Connections(), connections.Server(False, "a.test", 80, "192.0.2.1", None)
    kept.put(server, first, 9.0)
    first.get_protocol().data_received(b"unasked")
    kept.put(server, second, 9.0)
    for _ in range(5):
        await asyncio.sleep(0)
    assert kept.pop(server) is second
    second.abort()
    listener.close()


def test_the_list_of_unreliable_servers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNRELIABLE_MAX", 1)
    kept = Connections()
    one, other = (connections.Server(False, host, 80, "192.0.2.1", None) for host in "ab")
    kept.mark_unreliable(one)
    kept.mark_unreliable(other)
    assert [kept.is_reliable(each) for each in (one, other)] == [True, False]


async def test_a_tls_connection_is_reused(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("a.test", names=(x509.DNSName("a.test"),)))
    server = Server(OK, context=context)

    async with fetching(server) as (client, fetch):
        first, second = [await fetch(scheme="https") for _ in range(2)]
        assert first.tls == second.tls is not None
        assert first.tls.problem == "self-signed certificate"
        await fetch(scheme="https", host="b.test")
        assert idle(client) == 2
    assert server.connections == [1, 1, 2]


async def test_a_fetch_ends_that_takes_a_tls_connection_as_it_is_lost(
    run: Run, tmp_path: Path
) -> None:
    """TLS notes whom to tell a turn of the loop before it does: it was the idle connection."""
    context = server_context(tmp_path, identity("a.test", names=(x509.DNSName("a.test"),)))

    async with fetching(Server(OK, context=context)) as (client, fetch):
        for turns in range(5):
            host = f"{turns}.test"
            await fetch(scheme="https", host=host)
            (kept,) = client._idle._idle[True].values()
            kept._transport.abort()
            for _ in range(turns):
                await asyncio.sleep(0)
            async with asyncio.timeout(100):  # only a hang reaches it
                with suppress(FetchFailed):
                    await fetch(scheme="https", host=host)
            client._idle.close()


async def test_after_408_on_a_reused_connection_none_is_reused(run: Run) -> None:
    """Some servers say 408 as they close an idle connection: it is no answer to our request."""
    server = Server(OK, b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n", OK)

    async with fetching(server) as (_, fetch):
        assert [(await fetch()).status for _ in range(4)] == [200, 408, 200, 200]
    assert server.connections == [1, 1, 2, 3]


async def test_abort_while_a_reused_connection_is_active(run: Run) -> None:
    server = Server(OK, b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")

    async with fetching(server) as (client, fetch):
        await fetch()
        task = asyncio.create_task(fetch())
        await until(lambda: len(server.asked) == 2)
        client.abort()
        with pytest.raises(FetchFailed) as caught:
            await task
        assert caught.value.reason == "cancelled"
        task = asyncio.create_task(fetch())
        await until(lambda: len(server.asked) == 3)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert idle(client) == 0
