"""The bus over NATS when servers die, are wiped, fall silent, refuse, or are something else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import signal
import socket
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.natsserver import NatsServer, free_port
from tests.contracts.test_buses import until
from webcrawl.cluster.bus import Address, Bus, Entry, Refused, Unreachable, bus_from
from webcrawl.cluster.bus.natsbus import NatsBus

pytestmark = pytest.mark.slow

SECRET = "s3cr3t"
REMEDY = ": check the user, password, token or credentials file in CLUSTER"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path) as server:
        yield server


@pytest.fixture(autouse=True)
def own_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has lines of the bus only: no traceback, nothing of asyncio, no secret."""
    caplog.set_level(logging.DEBUG, "webcrawl")
    yield
    for record in caplog.get_records("call"):
        assert record.name == "webcrawl.cluster.bus.natsbus"
        assert record.exc_info is None
        assert "\n" not in record.getMessage()
        assert SECRET not in record.getMessage()


@contextlib.asynccontextmanager
async def opened(*buses: Bus) -> AsyncIterator[tuple[Bus, ...]]:
    try:
        for bus in buses:
            await bus.open()
        yield buses
    finally:
        for bus in buses:
            await bus.close()
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def echo(data: bytes) -> bytes:
    return data


class Node:
    """A bus with all that goes on by itself, and what came."""

    def __init__(self, url: str) -> None:
        self.bus = bus_from(url, "c")
        self.heard: list[bytes] = []

    async def listen(self) -> None:
        await self.bus.subscribe("links.1", self.heard.append)
        await self.bus.answer("echo", echo)

    async def all_goes_on(self, other: Bus, value: bytes) -> None:
        await until(lambda: self.bus.is_connected and other.is_connected)
        self.heard.clear()
        while not self.heard:
            other.publish("links.1", value)
            await asyncio.sleep(0.01)
        assert await other.request("echo", value, 5) == value
        revision = await other.put("nodes.x", value)
        assert await self.bus.get("nodes.x") == Entry(value, revision)
        assert await self.bus.keys("nodes.") == await other.keys("nodes.")


def two_nodes(server: NatsServer, check: Callable[[Node, Bus], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        node, other = Node(server.url), bus_from(server.url, "c")
        async with opened(node.bus, other):
            await node.listen()
            await node.all_goes_on(other, b"first")
            await check(node, other)

    asyncio.run(run())


def test_a_killed_server_comes_back(server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    async def check(node: Node, other: Bus) -> None:
        for value in (b"2", b"3"):
            before = await other.keys("")
            server.kill()
            await until(lambda: not node.bus.is_connected and not other.is_connected)
            other.publish("links.1", b"dropped")
            with pytest.raises(Unreachable):
                await other.get("nodes.x")
            server.start()
            await until(lambda: node.bus.is_connected and other.is_connected)
            assert await other.keys("") == before
            await node.all_goes_on(other, value)

    two_nodes(server, check)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 8, "of each loss one line, and of each return"
    assert sum("is back" in line for line in lines) == 4


def test_a_connection_that_is_cut_is_made_again(server: NatsServer) -> None:
    async def check(node: Node, other: Bus) -> None:
        assert isinstance(node.bus, NatsBus)
        assert node.bus._connection is not None
        node.bus._connection.abort(Unreachable("cut"))
        await other.put("nodes.new", b"")
        await node.all_goes_on(other, b"2")

    two_nodes(server, check)


def test_a_server_that_lost_everything(server: NatsServer) -> None:
    async def check(node: Node, other: Bus) -> None:
        old = await other.put("nodes.y", b"")
        server.kill()
        server.wipe()
        await until(lambda: not node.bus.is_connected and not other.is_connected)
        server.start()
        await until(lambda: node.bus.is_connected)
        assert await node.bus.keys("") == {}
        for number in range(10):  # its sequence is the old one's again
            await until(lambda: other.is_connected)
            await other.put("nodes.y", b"%d" % number)
            assert await other.update("nodes.y", b"old", old) is None
            assert await other.delete("nodes.y", old) is False
        await node.all_goes_on(other, b"2")

    two_nodes(server, check)


def test_a_bucket_that_is_deleted_while_all_are_connected(server: NatsServer) -> None:
    async def check(node: Node, other: Bus) -> None:
        assert isinstance(other, NatsBus)
        assert other._connection is not None
        for value in (b"2", b"3"):
            old = await other.put("nodes.y", b"")
            await other._connection.request("$JS.API.STREAM.DELETE.KV_webcrawl_c", b"", 5)
            assert await other.update("nodes.y", b"", old) is None
            assert await other.create("nodes.z", b"") is not None
            assert await node.bus.get("nodes.y") is None
            await node.all_goes_on(other, value)
        assert sorted(await node.bus.keys("")) == ["nodes.x", "nodes.z"]

    two_nodes(server, check)


def test_a_silent_server(server: NatsServer, caplog: pytest.LogCaptureFixture) -> None:
    async def check(node: Node, other: Bus) -> None:
        server.send(signal.SIGSTOP)
        await until(lambda: not node.bus.is_connected and not other.is_connected)
        with pytest.raises(Unreachable):
            await node.bus.request("echo", b"", 5)
        server.send(signal.SIGCONT)
        await node.all_goes_on(other, b"2")

    two_nodes(server, check)
    assert any("is silent" in record.getMessage() for record in caplog.records)


def test_close_while_the_bus_is_lost(server: NatsServer) -> None:
    async def run() -> None:
        async with opened(bus_from(server.url, "c")) as (bus,):
            server.send(signal.SIGSTOP)
            bus.publish("a", b"x" * 500_000)
            await until(lambda: not bus.is_connected)
        assert not bus.is_connected, "closed, and no task goes on: `opened`"

    asyncio.run(run())


# Refused, and unreachable


def fails_to_open(address: Address | str) -> str:
    """The one line of the error."""
    if isinstance(address, str):
        address = Address.parse(address)

    async def run() -> str:
        bus = NatsBus(address, "c", open_s=0.0)
        said = ""
        try:
            async with opened(bus):
                pass
        except (Refused, Unreachable) as error:
            said = f"{type(error).__name__}: {error}"
        assert not bus.is_connected
        assert "\n" not in said
        assert SECRET not in f"{said} {bus!r} {address!r} {address}"
        await asyncio.sleep(0)
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return said

    return asyncio.run(run())


def test_credentials(tmp_path: Path) -> None:
    with NatsServer(tmp_path, "--user", "me", "--pass", SECRET) as server:
        at = f"127.0.0.1:{server.port}"
        for login in ("", "me@", f"me:{SECRET}x@", f"you:{SECRET}@", f"{SECRET}@"):
            line = fails_to_open(f"nats://{login}{at}")
            assert line == f"Refused: CLUSTER=nats://{at}: {at}: Authorization Violation{REMEDY}"
        assert fails_to_open(f"nats://me:{SECRET}@{at}") == ""


def test_a_token(tmp_path: Path) -> None:
    with NatsServer(tmp_path, "--auth", SECRET) as server:
        assert "Authorization Violation" in fails_to_open(server.url)
        assert fails_to_open(f"nats://{SECRET}@127.0.0.1:{server.port}") == ""


def test_a_user_without_rights_to_jetstream(tmp_path: Path) -> None:
    config = tmp_path / "nats.conf"
    rights = '{user: me, password: pw, permissions: {publish: "webcrawl.>"}}'
    config.write_text(f"authorization {{ users = [ {rights} ] }}")
    with NatsServer(tmp_path, "-c", str(config)) as server:
        line = fails_to_open(f"nats://me:pw@127.0.0.1:{server.port}")
        assert line.startswith("Refused: ")
        assert "Permissions Violation" in line


def test_a_server_without_jetstream(tmp_path: Path) -> None:
    with NatsServer(tmp_path, jetstream=False) as server:
        line = fails_to_open(server.url)
        assert line.startswith("Refused: ")
        assert line.endswith("has no JetStream: start nats-server with -js")


def test_replicas_on_one_server(server: NatsServer) -> None:
    line = fails_to_open(f"{server.url}?replicas=3")
    assert line.startswith("Refused: ")
    assert line.endswith("is one server alone: it keeps no 3 replicas")


def test_a_bucket_that_is_not_ours(server: NatsServer) -> None:
    async def run() -> None:
        async with opened(bus_from(server.url, "d")) as (bus,):
            assert isinstance(bus, NatsBus)
            assert bus._connection is not None
            config = {"name": "KV_webcrawl_c", "subjects": ["$KV.webcrawl_c.>"]}
            await bus._connection.request(
                "$JS.API.STREAM.CREATE.KV_webcrawl_c", json.dumps(config).encode(), 5
            )

    asyncio.run(run())
    assert "is not webcrawl's" in fails_to_open(server.url)


def test_nobody_listens() -> None:
    line = fails_to_open(f"nats://127.0.0.1:{free_port()},localhost:{free_port()}")
    assert line.startswith("Unreachable: ")
    assert "onnect call failed" in line or "Connection refused" in line


@pytest.mark.parametrize("greeting", [b"", b"220 mail.example ESMTP\r\n", b"INFO []\r\n",
                                      b"INFO {\r\n", b"x" * 100_000])  # fmt: skip
def test_something_else_listens(greeting: bytes) -> None:
    """A server that accepts and says nothing ends with the time of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)

        async def run() -> str:
            def serve() -> socket.socket:
                peer, _ = listener.accept()
                peer.sendall(greeting)
                return peer

            serving = asyncio.get_running_loop().run_in_executor(None, serve)
            address = Address.parse(f"nats://127.0.0.1:{listener.getsockname()[1]}")
            bus = NatsBus(address, "c", open_s=0.0)
            with pytest.raises(Refused if greeting else Unreachable) as caught:
                await bus.open()
            (await serving).close()
            return str(caught.value)

        said = asyncio.run(run())
        assert ("is no NATS server" if greeting else "does not answer") in said


# TLS


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ca.pem, cert.pem and key.pem for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    (folder / "names").write_text("subjectAltName=IP:127.0.0.1")
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Ours")
    openssl("req", *new, "-keyout", "key.pem", "-out", "cert.csr", "-subj", "/CN=bus")
    openssl("x509", "-req", "-in", "cert.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "cert.pem", "-extfile", "names")  # fmt: skip
    return folder


def test_tls_with_an_authority_of_our_own(tmp_path: Path, authority: Path) -> None:
    keys = ("--tls", "--tlscert", f"{authority}/cert.pem", "--tlskey", f"{authority}/key.pem")
    with NatsServer(tmp_path, *keys, "--user", "me", "--pass", SECRET) as server:
        at = f"127.0.0.1:{server.port}"
        ours = f"?ca={authority}/ca.pem"
        assert fails_to_open(f"tls://me:{SECRET}@{at}{ours}") == ""
        assert fails_to_open(f"tls://me:{SECRET}x@{at}{ours}").endswith(REMEDY)
        line = fails_to_open(f"tls://me:{SECRET}@{at}?ca={authority}/names")
        assert line.endswith(f"ca={authority}/names: cannot be read as certificates (PEM)")
        for scheme in ("tls", "nats"):  # a server that demands TLS is verified in either case
            line = fails_to_open(f"{scheme}://me:{SECRET}@{at}")
            assert line.startswith("Refused: ")
            assert line.endswith("; tls:// with ?ca=FILE names its authority")

        async def run() -> None:
            node = Node(f"tls://me:{SECRET}@{at}{ours}")
            other = bus_from(f"tls://me:{SECRET}@{at}{ours}", "c")
            async with opened(node.bus, other):
                await node.listen()
                await node.all_goes_on(other, b"x" * 500_000)
                server.kill()
                await until(lambda: not node.bus.is_connected and not other.is_connected)
                server.start()
                await node.all_goes_on(other, b"2")

        asyncio.run(run())


def test_no_password_goes_to_a_server_without_tls(server: NatsServer) -> None:
    line = fails_to_open(f"tls://me:{SECRET}@127.0.0.1:{server.port}")
    assert line.startswith("Refused: ")
    assert "has no TLS" in line


# A cluster of servers


def test_one_server_of_three_dies(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    routes = ",".join(f"nats://127.0.0.1:{port}" for port in ports)
    with contextlib.ExitStack() as stack:
        servers = []
        for number, port in enumerate(ports):
            folder = tmp_path / str(number)
            folder.mkdir()
            config = folder / "nats.conf"
            config.write_text(f"server_name: s{number}")
            own = ("-c", str(config), "--cluster_name", "three", "--routes", routes,
                   "--cluster", f"nats://127.0.0.1:{port}")  # fmt: skip
            servers.append(stack.enter_context(NatsServer(folder, *own)))
        url = "nats://" + ",".join(f"127.0.0.1:{server.port}" for server in servers)

        async def run() -> None:
            address = Address.parse(url)
            node, other = Node(url), NatsBus(address, "c", open_s=30)
            node.bus = NatsBus(address, "c", open_s=30)
            async with opened(node.bus, other):
                await node.listen()
                await node.all_goes_on(other, b"1")
                revision = await other.put("nodes.y", b"kept")
                servers[0].kill()
                kept = None
                while kept is None:
                    with contextlib.suppress(Unreachable):
                        kept = await other.get("nodes.y")
                    await asyncio.sleep(0.05)
                assert kept == Entry(b"kept", revision)
                while True:  # its leaders are chosen anew
                    with contextlib.suppress(Unreachable, TimeoutError):
                        await node.all_goes_on(other, b"2")
                        break

        asyncio.run(run())
