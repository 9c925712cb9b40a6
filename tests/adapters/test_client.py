"""The client against real sockets, on asyncio's loop and on uvloop."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.adapters.aheadclock import AheadLoop, pass_time, run_ahead
from tests.adapters.rawserver import (
    RawServer,
    Run,
    Script,
    answering,
    identity,
    read_request,
    reset,
    server_context,
    until,
)
from webcrawl.fetch.client import Client
from webcrawl.fetch.decode import Decoded, decode
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.fetch.requesthead import Target, build_request, split_url
from webcrawl.fetch.room import FREE_BYTES, HostTimes, Room
from webcrawl.fetch.tls import CertificateJudge, client_context
from webcrawl.fetch.transfer import State, Transfer

GENEROUS = Limits()
HEADERS = [(b"User-Agent", b"webcrawl"), (b"Accept", b"*/*")]
PAGE = b"<html>" + b"x" * 30_000


def request(
    port: int,
    path: str = "/",
    *,
    scheme: str = "http",
    host: str = "www.example.com",
    **kwargs: Any,
) -> FetchRequest:
    url = f"{scheme}://{host}:{port}{path}"
    return FetchRequest("GET", url, "127.0.0.1", HEADERS, **kwargs)


def get(
    run: Run, script: Script, *, path: str = "/", limits: Limits = GENEROUS, **kwargs: Any
) -> Exchange:
    client = Client(limits)
    with RawServer(script) as server:
        try:
            return run(client.fetch(request(server.port, path, **kwargs)))
        finally:
            assert client.active == 0


def test_nothing_is_sent_to_a_refused_port(run: Run) -> None:
    arrived: list[socket.socket] = []
    with RawServer(arrived.append) as server:
        client = Client(GENEROUS, refused_ports={server.port})
        with pytest.raises(FetchFailed) as caught:
            run(client.fetch(request(server.port)))
    assert caught.value.reason == "blocked_port"
    assert not caught.value.asked
    assert not arrived


def failure(run: Run, script: Script, **kwargs: Any) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        get(run, script, **kwargs)
    return caught.value


def test_an_exchange_has_the_bytes_of_the_wire(run: Run) -> None:
    requests: list[bytes] = []
    head = (
        b"HTTP/1.1 200 OK\r\nx-A: 1\r\nX-a: 2\r\n"
        b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    coded = gzip.compress(PAGE)
    body = b"%x\r\n%b\r\n0\r\n\r\n" % (len(coded), coded)

    def script(connection: socket.socket) -> None:
        requests.append(read_request(connection))
        connection.sendall(b"HTTP/1.1 103 Early Hints\r\n\r\n" + head + body)

    before, before_time = time.monotonic(), time.time()
    exchange = get(run, script, path="/a?b=c#d")
    after = time.monotonic()
    assert requests == [exchange.request]
    assert exchange.request.startswith(b"GET /a?b=c HTTP/1.1\r\nHost: www.example.com:")
    assert exchange.request.endswith(b"Accept: */*\r\nConnection: close\r\n\r\n")
    assert (exchange.head, exchange.body, exchange.payload) == (head, body, PAGE)
    assert exchange.headers[:2] == [(b"x-a", b"1"), (b"x-a", b"2")]
    assert (exchange.status, exchange.http_version, exchange.ip) == (200, "1.1", "127.0.0.1")
    assert (exchange.truncated, exchange.decode_problem, exchange.tls) == ("", "", None)
    assert before_time <= exchange.started_time <= time.time()
    assert before < exchange.asked_at <= exchange.ended_at < after
    assert 0 < exchange.connect_s < exchange.connect_s + exchange.first_byte_s <= exchange.total_s


def test_a_post_has_its_body(run: Run) -> None:
    received: list[bytes] = []

    def script(connection: socket.socket) -> None:
        data = read_request(connection)
        while not data.endswith(b"end"):
            data += connection.recv(65536)
        received.append(data)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with RawServer(script) as server:
        url = f"http://a.test:{server.port}/"
        body = b"x" * 3_000_000 + b"end"
        exchange = run(Client(Limits()).fetch(FetchRequest("POST", url, "127.0.0.1", [], body)))
    assert exchange.payload == b"ok"
    assert received == [exchange.request]
    assert b"Content-Length: 3000003\r\n" in exchange.request


def test_the_client_connects_over_ipv6(run: Run) -> None:
    try:
        server = RawServer(answering(b"HTTP/1.1 200 OK\r\n\r\nhi"), address="::1")
    except OSError:
        pytest.skip("no IPv6 here")
    with server:
        url = f"http://[::1]:{server.port}/"
        exchange = run(Client(Limits()).fetch(FetchRequest("GET", url, "::1", [])))
    assert exchange.ip == "::1"
    assert b"\r\nHost: [::1]:%d\r\n" % server.port in exchange.request


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ([], "reset"),
        ([b"HTTP/1.1 200 OK\r\nContent-"], "reset"),
        ([b"<html>"], "bad_response"),
        ([b"\x16\x03\x01"], "bad_response"),
        ([b"HTTP/1.1 200 OK\r\nA: " + b"b" * 70_000], "header_too_large"),
    ],
)
def test_an_unusable_answer_is_a_failure(run: Run, parts: list[bytes], reason: str) -> None:
    before = time.monotonic()
    failed = failure(run, answering(*parts))
    assert failed.reason == reason
    assert failed.asked
    assert before < failed.ended_at <= time.monotonic()


def test_a_reset_before_an_answer_is_a_failure(run: Run) -> None:
    assert failure(run, reset).reason in ("reset", "connect")

    def script(connection: socket.socket) -> None:
        read_request(connection)
        reset(connection)

    failed = failure(run, script)
    assert (failed.reason, failed.asked) == ("reset", True)


def test_a_reset_in_the_body_keeps_the_bytes_before(run: Run) -> None:
    came = bytearray()
    has_come = threading.Event()

    def on_content(data: bytes) -> bool:
        came.extend(data)
        if came == b"hell":
            has_come.set()
        return True

    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhell")
        has_come.wait(60)  # a reset may overtake data
        reset(connection)

    exchange = get(run, script, on_content=on_content)
    assert (exchange.truncated, exchange.payload) == ("disconnect", b"hell")


def test_an_answer_before_the_request_is_read(run: Run) -> None:
    def script(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")

    assert get(run, script).status == 403


def test_a_refused_connection_is_a_failure(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unheard:
        port = unheard.getsockname()[1]
    with pytest.raises(FetchFailed) as caught:
        run(Client(Limits()).fetch(request(port)))
    assert (caught.value.reason, caught.value.asked) == ("connect", False)
    assert caught.value.ended_at > 0


def hanging(*parts: bytes) -> Script:
    def script(connection: socket.socket) -> None:
        answering(*parts)(connection)
        connection.recv(1)  # until the client disconnects

    return script


# Time-outs: the loop's clock is put ahead once the fetch is in its state.


def fetched_late(
    port: int,
    states: dict[State, float],
    limits: Limits,
    scheme: str = "http",
    then: Callable[[], object] = lambda: None,
) -> Exchange:
    """Fetch, and in each of `states` pass that many seconds, and call `then`."""

    async def has_entered(transfer: Transfer, state: State) -> None:
        later = list(State)[list(State).index(state) :]
        await until(lambda: transfer.state in later)

    async def go() -> Exchange:
        client = Client(limits)
        fetch = asyncio.create_task(client.fetch(request(port, scheme=scheme)))
        await asyncio.sleep(0)
        (transfer,) = client._under_way
        for state, seconds in states.items():
            await has_entered(transfer, state)
            pass_time(seconds)
            then()
        return await fetch

    exchange = run_ahead(go())
    assert isinstance(exchange, Exchange)
    return exchange


def timed_out(port: int, state: State, limits: Limits, scheme: str = "http") -> tuple[str, bool]:
    with pytest.raises(FetchFailed) as caught:
        fetched_late(port, {state: 10.0}, limits, scheme)
    return caught.value.reason, caught.value.asked


def test_a_connect_timeout_is_a_failure() -> None:
    """The backlog is full, so the kernel answers no SYN."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as deaf:
        port = deaf.getsockname()[1]
        fill = [socket.socket() for _ in range(8)]
        for each in fill:
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        limits = Limits(timeout_s=600, connect_timeout_s=10)
        assert timed_out(port, State.CONNECTING, limits) == ("connect_timeout", False)
        for each in fill:
            each.close()


def test_a_hanging_handshake_times_out() -> None:
    with RawServer(lambda connection: connection.recv(100_000) and connection.recv(1)) as server:
        limits = Limits(timeout_s=600, connect_timeout_s=10)
        came = timed_out(server.port, State.CONNECTING, limits, "https")
        assert came == ("connect_timeout", False)


@pytest.mark.parametrize(
    ("sent", "state", "limits"),
    [
        (b"", State.AWAITING_ANSWER, Limits(timeout_s=10)),
        (b"HTTP/1.1 200 OK\r\n", State.READING_HEAD, Limits(timeout_s=10)),
    ],
)
def test_a_timeout_before_the_head_is_complete(sent: bytes, state: State, limits: Limits) -> None:
    with RawServer(hanging(sent)) as server:
        assert timed_out(server.port, state, limits) == ("timeout", True)


def test_a_drip_lasts_no_longer_than_the_timeout() -> None:
    """Each part of the answer comes within the time-out. What came is kept."""
    goes_on = threading.Event()

    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        goes_on.wait(60)
        connection.sendall(b"Content-Length: 99\r\n\r\nhell")
        connection.recv(1)

    late = {State.READING_HEAD: 6.0, State.READING_BODY: 6.0}
    with RawServer(script) as server:
        exchange = fetched_late(server.port, late, Limits(timeout_s=10), then=goes_on.set)
    assert (exchange.truncated, exchange.payload) == ("time", b"hell")


def test_the_callbacks_see_the_head_once_and_each_part_and_may_end_the_body(run: Run) -> None:
    asked: list[int] = []
    given: list[bytes] = []
    has_head = threading.Event()

    def wants(status: int, _: object) -> bool:
        asked.append(status)
        has_head.set()
        return True

    def on_content(data: bytes) -> bool:
        given.append(data)
        return b"".join(given) != b"hell"

    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        has_head.wait(60)
        connection.sendall(b"2\r\nhe\r\n2\r\nll\r\n")
        connection.recv(1)

    exchange = get(run, script, wants=wants, on_content=on_content)
    assert asked == [200]
    assert b"".join(given) == exchange.payload == b"hell"
    assert exchange.truncated == "unspecified"


def test_an_endless_body_is_cut_at_the_size(run: Run) -> None:
    def script(connection: socket.socket) -> None:
        read_request(connection)
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            connection.sendall(b"x" * 65536)

    exchange = get(run, script, limits=Limits(max_size_bytes=1_000_001))
    assert exchange.truncated == "length"
    assert exchange.body == exchange.payload == b"x" * 1_000_001


def test_an_unwanted_body_is_not_read(run: Run) -> None:
    asked: list[object] = []

    def wants(status: int, headers: list[tuple[bytes, bytes]]) -> bool:
        asked.append((status, headers))
        return False

    script = hanging(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", b"start")
    exchange = get(run, script, wants=wants)
    assert exchange.body_skipped
    assert (exchange.body, exchange.payload, exchange.truncated) == (b"", b"", "")
    assert asked == [(200, [(b"content-length", b"99")])]


def test_an_exception_of_a_callback_is_raised(run: Run) -> None:
    def wants(status: int, _: object) -> bool:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        get(run, hanging(b"HTTP/1.1 200 OK\r\n\r\n"), wants=wants)


async def test_abort_ends_fetches_in_every_state(run: Run) -> None:
    """States: connecting, waiting for the head, reading the body."""
    started = [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\n\r\nbody"]

    def script(connection: socket.socket) -> None:
        asked = read_request(connection)
        if asked:
            connection.sendall(started[int(asked[5:6])])  # "GET /0 ..."
            connection.recv(1)

    with RawServer(script) as server:
        client = Client(Limits())

        def fetch(path: str) -> asyncio.Task[Exchange]:
            return asyncio.create_task(client.fetch(request(server.port, path)))

        tasks = [fetch(f"/{at}") for at in range(3)]
        under_way = client._under_way
        await until(lambda: State.CONNECTING not in {each.state for each in under_way})
        await until(lambda: sum(each.first_byte_at > 0 for each in under_way) == 2)
        tasks.append(fetch("/0"))
        await asyncio.sleep(0)
        assert repr(client) == "<Client 4 active, 0 idle>"
        await client.close()
        assert client.active == 0
        results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in results] == [FetchFailed] * 4
    assert [each.reason for each in results] == ["cancelled"] * 4
    assert [each.asked for each in results] == [True, True, True, False]


@pytest.mark.parametrize("connected", [False, True], ids=["connecting", "waiting"])
async def test_the_caller_may_be_cancelled(run: Run, connected: bool) -> None:
    with RawServer(hanging()) as server:
        client = Client(Limits())
        task = asyncio.create_task(client.fetch(request(server.port)))
        await asyncio.sleep(0)
        (fetch,) = client._under_way
        if connected:
            await until(lambda: fetch.connected_at > 0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.active == 0
        await asyncio.sleep(0.01)


# TLS


AUTHORITY = identity("Root", authority=True)
BETWEEN = identity("Between", issuer=AUTHORITY, authority=True)
NAMES = (x509.DNSName("www.example.com"), x509.DNSName("*.wild.example"))


def https(run: Run, presented: ssl.SSLContext, **kwargs: Any) -> Exchange:
    client = Client(Limits(), judge=CertificateJudge([AUTHORITY.certificate]), **kwargs)
    with RawServer(answering(b"HTTP/1.1 200 OK\r\n\r\nhi"), presented) as server:
        exchange = run(client.fetch(request(server.port, scheme="https")))
    assert isinstance(exchange, Exchange)
    return exchange


def test_a_page_is_fetched_over_https(run: Run, tmp_path: Path) -> None:
    leaf = identity("leaf", issuer=BETWEEN, names=NAMES)
    context = server_context(tmp_path, leaf, BETWEEN)
    context.set_alpn_protocols(["h2", "http/1.1"])
    names: list[str | None] = []
    context.sni_callback = lambda _, name, __: names.append(name)
    exchange = https(run, context)
    assert exchange.payload == b"hi"
    assert exchange.tls is not None
    assert exchange.tls.problem == ""
    assert exchange.tls.version == "TLSv1.3"
    assert exchange.tls.certificate == leaf.der
    assert len(exchange.tls.fingerprint) == 64
    assert names == ["www.example.com"]


def test_a_bad_certificate_is_recorded(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("www.example.com", names=NAMES))
    exchange = https(run, context)
    assert exchange.payload == b"hi"
    assert exchange.tls is not None
    assert exchange.tls.problem == "self-signed certificate"


def test_a_bad_certificate_fails_when_verified(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("www.example.com", names=NAMES))
    with pytest.raises(FetchFailed) as caught:
        https(run, context, context=client_context(verify=True))
    assert (caught.value.reason, caught.value.asked) == ("tls", False)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
def test_an_old_tls_server_is_fetched(run: Run, tmp_path: Path) -> None:
    context = server_context(tmp_path, identity("www.example.com", names=NAMES))
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    context.set_ciphers("ALL:@SECLEVEL=0")
    exchange = https(run, context)
    assert exchange.tls is not None
    assert exchange.tls.version == "TLSv1"


def test_plain_http_on_the_tls_port_is_a_failure(run: Run) -> None:
    def speak(connection: socket.socket) -> None:
        connection.recv(100)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with RawServer(speak) as server, pytest.raises(FetchFailed) as caught:
        run(Client(Limits()).fetch(request(server.port, scheme="https")))
    assert (caught.value.reason, caught.value.asked) == ("tls", False)


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_fetch_stopped_between_connecting_and_a_failed_handshake(
    run: Run, turns: int
) -> None:
    """Whatever the moment, the loop has no error that nobody took: `run` asserts it."""
    with RawServer(lambda connection: connection.sendall(b"HTTP/1.1 400 Bad\r\n\r\n")) as server:
        client = Client(Limits())
        task = asyncio.create_task(client.fetch(request(server.port, scheme="https")))
        for _ in range(turns):  # the loop is busy, so the bytes wait when it looks for them
            await asyncio.sleep(0)
            time.sleep(0.002)  # noqa: ASYNC251
        client.abort()
        with pytest.raises(FetchFailed):
            await task
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("turns", range(1, 7))
async def test_a_reset_between_connecting_and_the_handshake(run: Run, turns: int) -> None:
    """Whatever the moment, it is a failure, and the loop has no error that nobody took."""
    resetting = threading.Event()

    def speak(connection: socket.socket) -> None:
        resetting.wait(60)
        reset(connection)

    with RawServer(speak) as server:
        client = Client(Limits())
        task = asyncio.create_task(client.fetch(request(server.port, scheme="https")))
        for _ in range(turns):
            await asyncio.sleep(0)
        resetting.set()
        time.sleep(0.005)  # noqa: ASYNC251  (the reset is there when the loop looks)
        with pytest.raises(FetchFailed) as caught:
            await task
        assert caught.value.reason in ("connect", "tls")


# Without sockets


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://a.b/", Target(False, "a.b", 80, "a.b", "/")),
        ("http://a.b", Target(False, "a.b", 80, "a.b", "/")),
        ("https://a.b:443/x?y=/#z", Target(True, "a.b", 443, "a.b", "/x?y=/")),
        ("https://a.b:80/", Target(True, "a.b", 80, "a.b:80", "/")),
        ("HTTP://a.b:8080?q", Target(False, "a.b", 8080, "a.b:8080", "/?q")),
        ("http://a.b:/", Target(False, "a.b", 80, "a.b", "/")),
        ("http://u:p@a.b/@", Target(False, "a.b", 80, "a.b", "/@")),
        ("http://[::1]:81/", Target(False, "::1", 81, "[::1]:81", "/")),
        ("http://[::1]/", Target(False, "::1", 80, "[::1]", "/")),
    ],
)
def test_split_url(url: str, target: Target) -> None:
    assert split_url(url) == target


@pytest.mark.parametrize("url", ["", "a.b", "ftp://a.b/", "http:///x", "//a.b/", "http://"])
def test_split_url_refuses(url: str) -> None:
    with pytest.raises(ValueError, match="not an http or https URL"):
        split_url(url)


def test_build_request() -> None:
    target = split_url("http://a.b/x")
    own = [(b"host", b"c.d"), (b"Connection", b"keep-alive"), (b"Content-Length", b"9")]
    assert build_request("GET", target, own, b"") == (
        b"GET /x HTTP/1.1\r\nhost: c.d\r\nConnection: close\r\n\r\n"
    )
    assert build_request("POST", target, [], b"") == (
        b"POST /x HTTP/1.1\r\nHost: a.b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    assert build_request("GET", target, [], b"hi").endswith(
        b"\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
    )


def test_a_large_body_is_decoded_on_a_thread(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    large = bytes(3 << 20)
    threads = []

    def noting(*what: Any) -> Decoded:
        threads.append(threading.current_thread())
        return decode(*what)

    monkeypatch.setattr("webcrawl.fetch.client.decode", noting)
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n"
    assert get(run, answering(head, gzip.compress(PAGE))).payload == PAGE
    assert threads == []
    assert get(run, answering(head, gzip.compress(large))).payload == large
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_reading_costly_bytes_yields_to_other_tasks(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost, whether the answer ends with a length or with the connection."""
    monkeypatch.setattr("webcrawl.fetch.transfer._TURN_S", 0.0)
    turns = []
    give_turn = Transfer._give_turn

    def counting(transfer: Transfer) -> None:
        turns.append(transfer)
        give_turn(transfer)

    monkeypatch.setattr(Transfer, "_give_turn", counting)
    body = b"5\r\nhello\r\n" * 100_000 + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\n"
    chunked = get(run, answering(head + b"Transfer-Encoding: chunked\r\n\r\n", body))
    assert (chunked.body, chunked.payload) == (body, b"hello" * 100_000)
    assert len(turns) > 1
    assert get(run, answering(head + b"\r\n", body)).payload == body


# Room for large answers: `fetch.room`.

LARGE = b"x" * (2 << 20)


def by_host(connection: socket.socket) -> None:
    """Answers by the host that is asked: large, packed or small."""
    request = read_request(connection)
    kind = request.partition(b"Host: ")[2].partition(b".")[0]
    fields = b"Content-Encoding: gzip\r\n" if kind in (b"packed", b"coded") else b""
    body = gzip.compress(LARGE) if kind == b"packed" else b"hi" if kind == b"small" else LARGE
    head = b"HTTP/1.1 200 OK\r\n%bContent-Length: %d\r\n\r\n" % (fields, len(body))
    connection.sendall(head + body)


@pytest.mark.parametrize("kind", ["large", "packed"])
async def test_large_answers_wait_for_room_and_small_ones_do_not(run: Run, kind: str) -> None:
    room = Room(HostTimes(), 3 << 20)
    with RawServer(by_host) as server:
        client = Client(Limits(max_size_bytes=2 << 20), room=room)

        async def fetch(name: str) -> Exchange:
            return await client.fetch(request(server.port, host=f"{name}.example"))

        first = await fetch("large")
        assert first.share is not None
        second = asyncio.create_task(fetch(kind))
        await until(lambda: room.waiting == 1)
        held = list(client._under_way)
        assert all(transfer._timer and transfer._timer.cancelled() for transfer in held)
        small = await fetch("small")
        assert (small.payload, small.share) == (b"hi", None)
        assert not second.done()
        first.share.release()
        exchange = await second
        assert exchange.payload == LARGE
        assert exchange.share is not None
        exchange.share.release()
        assert repr(room) == f"<Room 0 of {3 << 20} bytes, 0 waiting>"


async def test_an_answer_that_is_not_decoded_takes_the_room_of_its_bytes(run: Run) -> None:
    room = Room(HostTimes(), 5 << 20)
    with RawServer(by_host) as server:
        client = Client(Limits(max_size_bytes=4 << 20), room=room)
        coded = request(server.port, host="coded.example", decodes=False)
        await client.fetch(coded)
        second = asyncio.create_task(client.fetch(coded))
        await until(lambda: second.done() or room.waiting > 0)
        assert repr(room) == f"<Room {4 << 20} of {5 << 20} bytes, 0 waiting>"


@pytest.mark.parametrize("run", [AheadLoop], indirect=True)
async def test_an_answer_that_gets_no_room_in_time_is_cut_if_the_room_is_timed(run: Run) -> None:
    room = Room(HostTimes(), 3 << 20, is_timed=True)
    with RawServer(by_host) as server:
        client = Client(GENEROUS, room=room)
        share = room.ask("other", 3 << 20, lambda: None)
        fetch = asyncio.create_task(client.fetch(request(server.port, host="large.example")))
        await until(lambda: room.waiting == 1)
        pass_time(GENEROUS.timeout_s)
        exchange = await fetch
        assert exchange.truncated == "time"
        assert FREE_BYTES < len(exchange.payload) < len(LARGE)
        share.release()
        assert repr(room) == f"<Room 0 of {3 << 20} bytes, 0 waiting>"


async def test_an_aborted_fetch_needs_no_room(run: Run) -> None:
    room = Room(HostTimes(), 3 << 20)
    with RawServer(by_host) as server:
        client = Client(GENEROUS, room=room)
        share = room.ask("other", 3 << 20, lambda: None)
        fetch = asyncio.create_task(client.fetch(request(server.port, host="large.example")))
        await until(lambda: room.waiting == 1)
        client.abort()
        with pytest.raises(FetchFailed, match="cancelled"):
            await fetch
        share.release()
        assert repr(room) == f"<Room 0 of {3 << 20} bytes, 0 waiting>"
