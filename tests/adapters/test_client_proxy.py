"""The client behind a proxy: a real one, whose log says what passed it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.adapters.rawserver import RawServer, Run, identity, read_request, server_context, until
from tests.freeport import free_port
from tests.proxyserver import ProxyServer
from webcrawl.admission import proxied
from webcrawl.admission.outage import Target
from webcrawl.admission.proxied import ProxyProbe
from webcrawl.fetch.client import Client
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.proxy import Proxy, problem_of
from webcrawl.fetch.request import FetchRequest, Limits

HEADERS = [(b"User-Agent", b"webcrawl")]
NOWHERE = "100::1"  # a client that connects to it itself fails


def resolve(host: str) -> str:
    if host.endswith(".invalid"):
        raise socket.gaierror(host)
    return "127.0.0.1"


def serve(connection: socket.socket) -> None:
    while read_request(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")


def fetch(run: Run, url: str, proxy: Proxy, limits: Limits | None = None) -> Exchange:
    async def go() -> Any:
        client = Client(limits or Limits(), proxy=proxy)
        try:
            return await client.fetch(FetchRequest("GET", url, NOWHERE, HEADERS))
        finally:
            await client.close()

    exchange = run(go())
    assert isinstance(exchange, Exchange)
    return exchange


def failure(run: Run, url: str, proxy: Proxy, limits: Limits | None = None) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        fetch(run, url, proxy, limits)
    return caught.value


def test_http_is_asked_by_the_whole_url_and_the_record_has_no_password(run: Run) -> None:
    with RawServer(serve) as server, ProxyServer(resolve, "me:s%cret") as proxy:
        url = f"http://www.example.com:{server.port}/a?b"
        mine = Proxy.parse(f"http://me:s%25cret@127.0.0.1:{proxy.port}")
        exchange = fetch(run, url, mine)
        assert (exchange.payload, exchange.ip, exchange.via_proxy) == (b"hi", "", True)
        assert exchange.request.startswith(f"GET {url} HTTP/1.1\r\nHost: www.ex".encode())
        assert b"Authorization" not in exchange.request
        assert b"\r\nProxy-Authorization: Basic " in proxy.heads[0]
        assert proxy.log == [("GET", url, 200)]
        assert "s%cret" not in repr(mine)
        assert str(mine) == f"127.0.0.1:{proxy.port}"


def test_https_goes_through_a_tunnel(run: Run, tmp_path: Path) -> None:
    names = (x509.DNSName("www.example.com"),)
    context = server_context(tmp_path, identity("www.example.com", names=names))
    seen: list[str | None] = []
    context.sni_callback = lambda _, name, __: seen.append(name)
    with RawServer(serve, context) as server, ProxyServer(resolve, "me:pw") as proxy:
        url = f"https://www.example.com:{server.port}/"
        exchange = fetch(run, url, Proxy.parse(f"http://me:pw@127.0.0.1:{proxy.port}"))
        assert exchange.payload == b"hi"
        assert exchange.request.startswith(b"GET / HTTP/1.1\r\n")
        assert b"Proxy-" not in exchange.request
        assert exchange.tls is not None
        assert exchange.tls.problem == "self-signed certificate"
        assert seen == ["www.example.com"]
        assert proxy.log == [("CONNECT", f"www.example.com:{server.port}", 200)]


def test_a_tunnel_is_used_again(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("www.example.com"))
    with RawServer(serve, context) as server, ProxyServer(resolve) as proxy:

        async def go() -> None:
            client = Client(
                Limits(keep_alive_s=5), proxy=Proxy.parse(f"http://127.0.0.1:{proxy.port}")
            )
            url = f"https://www.example.com:{server.port}/"
            for _ in range(2):
                await client.fetch(FetchRequest("GET", url, NOWHERE, HEADERS))
            await client.close()

        run(go())
        assert len(proxy.log) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_down_is_no_fault_of_the_host(run: Run, scheme: str) -> None:
    proxy = Proxy.parse(f"http://127.0.0.1:{free_port()}")
    failed = failure(run, f"{scheme}://www.example.com/", proxy)
    assert (failed.reason, failed.asked) == ("proxy", False)
    assert "refused" in problem_of(proxy)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_refused_password_is_the_proxys_doing(run: Run, scheme: str) -> None:
    with ProxyServer(resolve, "me:right") as server:
        proxy = Proxy.parse(f"http://me:wrong@127.0.0.1:{server.port}")
        assert failure(run, f"{scheme}://www.example.com/", proxy).reason == "proxy"
        assert problem_of(proxy) == "it refuses the user name or password (407)"
        assert problem_of(Proxy.parse(f"http://me:right@127.0.0.1:{server.port}")) == ""
        assert server.log[-1] == ("CONNECT", "webcrawl.invalid:443", 502), "no server is asked"


def test_an_answer_of_the_proxy_itself_is_no_page(run: Run) -> None:
    with ProxyServer(resolve) as server:
        proxy = Proxy.parse(f"http://127.0.0.1:{server.port}")
        for scheme in ("http", "https"):
            failed = failure(run, f"{scheme}://gone.invalid/robots.txt", proxy)
            assert (failed.reason, failed.asked) == ("dns", scheme == "http")


def test_an_answer_to_connect_that_is_none(run: Run) -> None:
    answers = [b"\r", b"HTTP/1.1 200", b"garbage\r\n\r\n", b"x" * 40_000]
    answers.append(b"HTTP/1.1 200 OK\r\n\r\nearly")
    with ProxyServer(resolve) as server:
        proxy = Proxy.parse(f"http://127.0.0.1:{server.port}")
        for answer in answers:
            server.answers["www.example.com"] = answer
            failed = failure(run, "https://www.example.com/", proxy, Limits(connect_timeout_s=5))
            assert (failed.reason, failed.asked) == ("proxy", False)


def test_a_server_that_speaks_before_it_is_asked_is_a_failure(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("www.example.com"))

    def shout(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" * 1000)
        read_request(connection)

    with RawServer(shout, context) as server, ProxyServer(resolve) as proxying:
        proxy = Proxy.parse(f"http://127.0.0.1:{proxying.port}")
        url = f"https://www.example.com:{server.port}/"
        with contextlib.suppress(FetchFailed):
            assert fetch(run, url, proxy).status == 200  # it came later than our request


async def test_a_fetch_is_stopped_while_the_tunnel_opens(run: Run) -> None:
    asked: list[bytes] = []

    def hang(connection: socket.socket) -> None:
        asked.append(read_request(connection))
        server.over.wait()

    with RawServer(hang) as server:
        client = Client(Limits(), proxy=Proxy.parse(f"http://127.0.0.1:{server.port}"))
        task = asyncio.create_task(
            client.fetch(FetchRequest("GET", "https://www.example.com/", NOWHERE, HEADERS))
        )
        await until(lambda: bool(asked))
        client.abort()
        with pytest.raises(FetchFailed, match="cancelled"):
            await task
        assert client.active == 0


async def test_probes_ask_the_proxy_and_then_for_a_tunnel(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxied, "_MEMO_S", 600.0)  # probes of one round
    with RawServer(serve) as server, ProxyServer(resolve) as proxying:
        probe = ProxyProbe(Proxy.parse(f"http://127.0.0.1:{proxying.port}"))
        assert await probe.connects(Target("www.example.com", 80))
        assert not await probe.connects(Target("gone.invalid", 443))
        assert probe.problem == ""
        monkeypatch.setattr(proxied, "_MEMO_S", -1.0)  # later rounds
        proxying.stop()
        assert not await probe.connects(Target("www.example.com", 80))
        assert probe.problem.endswith("cannot be used: Connection refused")
        proxying.start()
        assert await probe.connects(Target("www.example.com", 80))
        assert server.port
        assert [asked.target for asked in proxying.log][:2] == [
            "webcrawl.invalid:443",
            "gone.invalid:443",
        ]
