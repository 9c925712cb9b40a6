"""The resolver against a DNS server on loopback."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from simweb.dns import both_on_one_port
from tests.cases import each_of
from tests.closing import close
from webcrawl.admission import dns, dnsclient
from webcrawl.admission.dns import Resolution, ResolutionFailed, Resolver, read_server
from webcrawl.admission.dnsclient import NameServer

A, AAAA, CNAME = 1, 28, 5
TIMEOUT_S = 0.15  # for a server that does not answer
PATIENT_S = 60.0  # for an answer, however slow the machine


def record(record_type: int, data: bytes, ttl_s: int = 60) -> bytes:
    return b"\xc0\x0c" + struct.pack("!HHIH", record_type, 1, ttl_s, len(data)) + data


def ipv4(address: str, ttl_s: int = 60) -> bytes:
    return record(A, socket.inet_aton(address), ttl_s)


class DnsServer(asyncio.DatagramProtocol):
    """Answers as `zone` says: a list of records, an error code, raw bytes, or None for silence.

    Of a list of these each answers once, and the last one for ever.
    """

    def __init__(self) -> None:
        self.zone: dict[tuple[str, int], list[Any]] = {}
        self.asked: list[tuple[str, int]] = []
        self.held: list[Callable[[], None]] = []
        self.hold = False
        self.tcp: socket.socket  # bound to the same port
        self.port = 0
        self.truncate = False
        self.received = 0
        self._awaited: tuple[int, asyncio.Future[None]] | None = None

    async def receive(self, count: int) -> None:
        """Wait until `count` datagrams have been received in all."""
        if self.received < count:
            future = asyncio.get_running_loop().create_future()
            self._awaited = (count, future)
            await future

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, peer: Any) -> None:
        def reply() -> None:
            answer = self.answer(data)
            if answer is not None:
                self.transport.sendto(answer, peer)

        if self.hold:
            self.held.append(reply)
        else:
            reply()
        self.received += 1
        if self._awaited and self.received == self._awaited[0]:
            self._awaited[1].set_result(None)

    def answer(self, data: bytes, truncate: bool | None = None) -> bytes | None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        key = (".".join(labels), int.from_bytes(data[at + 1 : at + 3]))
        self.asked.append(key)
        answers = self.zone.get(key, [[]] if (key[0], A) in self.zone else [3])
        said = answers.pop(0) if len(answers) > 1 else answers[0]
        if said is None:
            return None
        if isinstance(said, bytes):
            return data[:2] + said
        code, records = (said, []) if isinstance(said, int) else (0, said)
        flags = 0x8180 | code
        if self.truncate if truncate is None else truncate:
            flags, records = flags | 0x0200, []
        head = data[:2] + struct.pack("!HHHHH", flags, 1, len(records), 0, 0)
        return head + data[12 : at + 5] + b"".join(records)

    async def serve_tcp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            data = await reader.readexactly(int.from_bytes(await reader.readexactly(2)))
            answer = self.answer(data, truncate=False) or b""
            message = len(answer).to_bytes(2) + answer
            for octet in message:  # byte by byte
                writer.write(bytes((octet,)))
                await writer.drain()
        finally:
            writer.close()


@asynccontextmanager
async def dns_server(**zone: Any) -> Any:
    """A server. `a_br=[...]` are its answers for the IPv4 addresses of a.br."""
    tcp, udp = both_on_one_port("127.0.0.1", 0)
    loop = asyncio.get_running_loop()
    transport, server = await loop.create_datagram_endpoint(DnsServer, sock=udp)
    server.tcp = tcp
    for name, said in zone.items():
        server.zone[name.replace("_", "."), A] = said if isinstance(said, list) else [said]
    try:
        yield server
    finally:
        transport.close()
        tcp.close()
        await asyncio.sleep(0)


@asynccontextmanager
async def resolver_of(*servers: DnsServer, **kwargs: Any) -> Any:
    options = {"timeout_s": PATIENT_S, "tries": 2, "min_ttl_s": 0.0, **kwargs}
    resolver = Resolver([f"127.0.0.1:{server.port}" for server in servers], **options)
    try:
        yield resolver
    finally:
        await resolver.close()


async def failure(resolver: Resolver, host: str, now: float = 0.0) -> tuple[str, bool]:
    with pytest.raises(ResolutionFailed) as failed:
        await resolver.resolve(host, now)
    return failed.value.reason, failed.value.again


async def test_addresses_and_expiry() -> None:
    async with (
        dns_server(a_br=[[ipv4("127.0.0.5", 90), ipv4("127.0.0.4", 30)]]) as server,
        resolver_of(server) as resolver,
    ):
        found = await resolver.resolve("a.br", 1000.0)
    assert found.addresses == ("127.0.0.5", "127.0.0.4")
    assert found.expires_at == 1030.0
    assert server.asked == [("a.br", A)]


def test_a_look_up_takes_time_and_an_answer_from_the_cache_none() -> None:
    """uvloop's own clock counts whole milliseconds: a look-up on loopback took none."""

    async def check() -> None:
        names = [f"n{number}.br" for number in range(8)]
        zone = {name.replace(".", "_"): [[ipv4("192.0.2.1", 90)]] for name in names}
        async with dns_server(**zone) as server, resolver_of(server) as resolver:
            assert all([(await resolver.resolve(name, 0.0)).took_s for name in names])
            assert not any([(await resolver.resolve(name, 0.0)).took_s for name in names])

    pytest.importorskip("uvloop").run(check())


@each_of(("ttl_s", "kept_s"), [(0, 100), (150, 150), (2**31, 200)])
async def test_ttl_is_kept_within_bounds(ttl_s: int, kept_s: float) -> None:
    async with (
        dns_server(a_br=[[ipv4("127.0.0.5", ttl_s)]]) as server,
        resolver_of(server, min_ttl_s=100.0, max_ttl_s=200.0) as resolver,
    ):
        assert (await resolver.resolve("a.br", 0.0)).expires_at == kept_s


async def test_cache_until_it_expires() -> None:
    async with dns_server(a_br=[[ipv4("127.0.0.5")]]) as server, resolver_of(server) as resolver:
        first = await resolver.resolve("a.br", 0.0)
        assert (await resolver.resolve("a.br", 59.9)).expires_at == first.expires_at
        assert len(server.asked) == 1
        assert (await resolver.resolve("a.br", 60.0)).expires_at == 120.0
        assert len(server.asked) == 2


async def test_cache_is_bounded() -> None:
    zone = {f"{name}_br": [[ipv4("127.0.0.5")]] for name in "abc"}
    async with dns_server(**zone) as server, resolver_of(server, cache_size=2) as resolver:
        for host in ("a.br", "b.br", "c.br", "c.br", "b.br", "a.br"):
            await resolver.resolve(host, 0.0)
        assert repr(resolver) == "<Resolver 0 under way, 2 cached>"
    assert [name for name, _ in server.asked] == ["a.br", "b.br", "c.br", "a.br"]


async def test_a_cancelled_caller_leaves_the_others_waiting() -> None:
    async with dns_server(a_br=[[ipv4("127.0.0.5")]]) as server, resolver_of(server) as resolver:
        server.hold = True
        first = asyncio.create_task(resolver.resolve("a.br", 0.0))
        second = asyncio.create_task(resolver.resolve("a.br", 0.0))
        await server.receive(1)
        first.cancel()
        await server.receive(2)  # the second asks in its place
        server.held[1]()
        assert (await second).addresses == ("127.0.0.5",)
        assert first.cancelled()
        assert repr(resolver) == "<Resolver 0 under way, 1 cached>"


async def test_ipv6_only_where_there_is_no_ipv4() -> None:
    async with dns_server(a_br=[[]], b_br=[[ipv4("127.0.0.5")]]) as server:
        ipv6 = record(AAAA, socket.inet_pton(socket.AF_INET6, "::1"), 60)
        server.zone["a.br", AAAA] = server.zone["b.br", AAAA] = [[ipv6]]
        async with resolver_of(server) as resolver:
            assert (await resolver.resolve("a.br", 0.0)).addresses == ("::1",)
            assert (await resolver.resolve("b.br", 0.0)).addresses == ("127.0.0.5",)
    assert server.asked == [("a.br", A), ("a.br", AAAA), ("b.br", A)]


async def test_nxdomain_is_cached() -> None:
    async with (
        dns_server(b_br=[[]]) as server,
        resolver_of(server, negative_ttl_s=100.0) as resolver,
    ):
        assert await failure(resolver, "a.br", 0.0) == ("nxdomain", False)
        assert await failure(resolver, "a.br", 99.0) == ("nxdomain", False)
        assert server.asked == [("a.br", A)]
        assert await failure(resolver, "a.br", 100.0) == ("nxdomain", False)
        assert await failure(resolver, "b.br", 0.0) == ("nodata", False)
    assert server.asked[1:] == [("a.br", A), ("b.br", A), ("b.br", AAAA)]


@each_of(
    ("said", "reason"),
    [(2, "servfail"), (5, "refused"), (4, "rcode"), (b"what?", "garbage"), (b"", "garbage")],
)
async def test_a_failing_server_is_asked_again_by_a_later_look_up(said: Any, reason: str) -> None:
    async with (
        dns_server(a_br=[said, [ipv4("127.0.0.5")]]) as server,
        resolver_of(server) as resolver,
    ):
        assert await failure(resolver, "a.br") == (reason, True)
        assert len(server.asked) == 1
        assert await resolver.resolve("a.br", 0.0)


async def test_a_silent_server_costs_its_tries_only() -> None:
    async with (
        dns_server(a_br=None) as server,
        resolver_of(server, timeout_s=TIMEOUT_S, tries=3) as resolver,
    ):
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await failure(resolver, "a.br") == ("timeout", True)
        assert 3 * TIMEOUT_S - 0.01 <= loop.time() - began < 3 * TIMEOUT_S + 20
    assert server.asked == [("a.br", A)] * 3


async def test_lost_datagram_is_sent_again() -> None:
    async with (
        dns_server(a_br=[None, [ipv4("127.0.0.5")]]) as server,
        resolver_of(server, timeout_s=TIMEOUT_S, tries=100) as resolver,
    ):
        assert (await resolver.resolve("a.br", 0.0)).addresses == ("127.0.0.5",)
    assert len(server.asked) >= 2  # more if the answer came after the next try


@each_of("said", [None, 2, 5, b"what?"])
async def test_next_server_is_asked(said: Any) -> None:
    async with (
        dns_server(a_br=said, b_br=said) as bad,
        dns_server(a_br=[[ipv4("127.0.0.5")]], b_br=[[ipv4("127.0.0.6")]]) as good,
        resolver_of(bad, good, timeout_s=2.0) as resolver,  # for the silent and for the good
    ):
        assert (await resolver.resolve("a.br", 0.0)).addresses == ("127.0.0.5",)
        assert (await resolver.resolve("b.br", 0.0)).addresses == ("127.0.0.6",)
    assert bad.asked == [("a.br", A)]  # from now on the good server is asked first


async def test_truncated_answer_is_asked_for_by_tcp() -> None:
    async with dns_server(a_br=[[ipv4("127.0.0.5")]]) as server, resolver_of(server) as resolver:
        server.truncate = True
        assert await failure(resolver, "a.br") == ("truncated", True)
        tcp = await asyncio.start_server(server.serve_tcp, sock=server.tcp)
        assert (await resolver.resolve("a.br", 0.0)).addresses == ("127.0.0.5",)
        await close(tcp)


@pytest.fixture
def endless_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unanswered query counts as part of the burst, however slow the machine."""
    monkeypatch.setattr(dnsclient, "BURST_S", 600.0)


@pytest.mark.usefixtures("endless_burst")
async def test_no_burst_is_larger_than_a_servers_buffer() -> None:
    async with dns_server() as server, resolver_of(server, timeout_s=600.0) as resolver:
        server.hold = True
        hosts = [f"h{number}.br" for number in range(dnsclient.MAX_BURST + 5)]
        lookups = [asyncio.create_task(failure(resolver, host)) for host in hosts]
        await server.receive(dnsclient.MAX_BURST)
        for _ in range(10):
            await asyncio.sleep(0)
        assert server.received == dnsclient.MAX_BURST
        server.hold = False
        for reply in server.held:
            reply()
        assert set(await asyncio.gather(*lookups)) == {("nxdomain", False)}


async def test_unanswered_names_do_not_delay_the_others() -> None:
    silent = [f"s{number}.br" for number in range(dnsclient.MAX_BURST)]
    async with dns_server(a_br=[[ipv4("127.0.0.5")]]) as server:
        server.zone |= {(name, A): [None] for name in silent}
        async with resolver_of(server, timeout_s=60.0) as resolver:
            lookups = [asyncio.create_task(failure(resolver, name)) for name in silent]
            await server.receive(len(silent))
            assert (await resolver.resolve("a.br", 0.0)).addresses == ("127.0.0.5",)
            await resolver.close()
            assert set(await asyncio.gather(*lookups)) == {("closed", True)}


async def test_close_ends_running_look_ups() -> None:
    async with dns_server(a_br=None) as server, resolver_of(server, timeout_s=60.0) as resolver:
        lookups = [
            asyncio.create_task(failure(resolver, "a.br")),
            asyncio.create_task(failure(resolver, "a.br")),
            asyncio.create_task(failure(resolver, "b.br")),
        ]
        await server.receive(2)
        await resolver.close()
        assert (await lookups[0], await lookups[1]) == (("closed", True), ("closed", True))
        await lookups[2]
        assert await failure(resolver, "c.br") == ("closed", True)


@each_of(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("8.8.8.8", "8.8.8.8"),
        ("[::1]", "::1"),
        ("[2001:DB8:0::1]", "2001:db8::1"),
        ("::1", "::1"),
        ("localhost", "127.0.0.1"),
        ("a.localhost", "127.0.0.1"),
    ],
)
async def test_no_query_for_a_known_address(host: str, address: str) -> None:
    async with dns_server() as server, resolver_of(server) as resolver:
        found = await resolver.resolve(host, 0.0)
        assert found == Resolution((address,), float("inf"))
    assert not server.asked


@each_of(
    "host",
    [
        "",
        ".",
        "a..br",
        ".a.br",
        "a.br..",
        "x" * 64 + ".br",
        ".".join(["x" * 62] * 4) + ".br",
        "a b.br",
        "a.br\n",
        "*.br",
        "ç.br",
        "[::1",
        "[x]",
    ],
)
async def test_bad_names_fail_without_a_query(host: str) -> None:
    async with dns_server() as server, resolver_of(server) as resolver:
        assert await failure(resolver, host) == ("bad_name", False)
    assert not server.asked


@each_of("host", ["foo", "a_b.br", "-a.br", "xn--a.br", "x" * 63 + ".br", "a.br."])
async def test_names_are_sent_unchanged(host: str) -> None:
    async with dns_server() as server, resolver_of(server) as resolver:
        assert await failure(resolver, host) == ("nxdomain", False)
    assert server.asked == [(host.rstrip("."), A)]


@each_of(
    ("text", "server"),
    [
        ("8.8.8.8", NameServer("8.8.8.8", 53)),
        (" 127.0.0.1:5353 ", NameServer("127.0.0.1", 5353)),
        ("::1", NameServer("::1", 53)),
        ("2001:db8::1", NameServer("2001:db8::1", 53)),
        ("[::1]", NameServer("::1", 53)),
        ("[::1]:5353", NameServer("::1", 5353)),
    ],
)
def test_server(text: str, server: NameServer) -> None:
    assert read_server(text) == server


async def test_system_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("# comment\n::1 A.br b.br\n127.0.0.7 a.br # c.br\nnonsense d.br\n")
    conf = tmp_path / "resolv.conf"
    conf.write_text("; comment\nnameserver 127.0.0.9\nsearch br\nnameserver\nnameserver ::1\n")
    monkeypatch.setattr(dns, "HOSTS_FILE", hosts)
    monkeypatch.setattr(dns, "RESOLV_CONF", conf)
    assert dns.system_servers() == [NameServer("127.0.0.9"), NameServer("::1")]

    resolver = Resolver()
    assert (await resolver.resolve("a.br", 0.0)).addresses == ("127.0.0.7", "::1")
    assert (await resolver.resolve("b.br", 0.0)).addresses == ("::1",)
    await resolver.close()
    conf.unlink()
    assert dns.system_servers() == [NameServer("127.0.0.1")]


@each_of("loop", ["asyncio", "uvloop"])
def test_a_server_that_starts_late_is_heard(loop: str) -> None:
    """A socket works on after an error: each of the ports has one here."""

    async def check() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
            taken.bind(("127.0.0.1", 0))
            port = taken.getsockname()[1]
        resolver = Resolver([f"127.0.0.1:{port}"], timeout_s=TIMEOUT_S, tries=1)
        names = [f"n{number}.test" for number in range(64)]
        lookups = [resolver.resolve(name, 0.0) for name in names]
        failed = await asyncio.gather(*lookups, return_exceptions=True)
        assert "unreachable" in set(map(str, failed)), "of some the kernel may not tell"
        server = DnsServer()
        server.zone["late.test", A] = [[ipv4("192.0.2.1")]]
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            lambda: server, local_addr=("127.0.0.1", port)
        )
        resolver._client._timeout_s = PATIENT_S
        for _ in range(40):  # so that each of the eight ports is used
            assert await resolver.is_answered("late.test")
        transport.close()
        await resolver.close()

    if loop == "asyncio":
        asyncio.run(check())
    else:
        pytest.importorskip("uvloop").run(check())
