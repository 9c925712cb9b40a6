"""The bus on a real nats-server: subjects, records; and servers that die, refuse, fall silent."""

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

from tests.adapters.rawserver import RawServer, until
from tests.cases import each_of
from tests.contracts.natsserver import NatsServer
from tests.freeport import free_port
from webcrawl.cluster.address import Address
from webcrawl.cluster.bus import Bus, BusError, Entry, Refused

pytestmark = pytest.mark.slow
SECRET = "s3cr3t"
REMEDY = ": check the user, password, token or credentials file in CLUSTER"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


@pytest.fixture(autouse=True)
def own_lines(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """The log has lines of the bus only: no traceback, no secret."""
    caplog.set_level(logging.DEBUG, "webcrawl")
    yield
    for record in caplog.get_records("call"):
        if record.name == "asyncio":  # of the servers of a test
            continue
        assert record.name == "webcrawl.cluster.bus"
        assert record.exc_info is None
        assert "\n" not in record.getMessage()
        assert SECRET not in record.getMessage()


def bus_of(url: str) -> Bus:
    return Bus(Address.parse(url))


def losses_of(bus: Bus) -> list[bool]:
    """Has an entry for each loss of the connection from now on."""
    lost: list[bool] = []
    bus.on_lost = lambda: lost.append(True)
    return lost


@contextlib.asynccontextmanager
async def opened_beside(*buses: Bus) -> AsyncIterator[None]:
    """The buses, connected; others may be open as well."""
    try:
        for bus in buses:
            await bus.open()
        yield
    finally:
        for bus in buses:
            await bus.close()


@contextlib.asynccontextmanager
async def opened(*buses: Bus) -> AsyncIterator[None]:
    """The buses, connected, and no task once they are closed."""
    async with opened_beside(*buses):
        yield
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def fails(url: str) -> str:
    """The one line of the error if the bus is opened and a record is written; "" without one."""
    bus = bus_of(url)
    line = ""
    try:
        async with opened(bus):
            assert await bus.put("crawl", b"a", 0)
    except BusError as error:
        line = f"{type(error).__name__}: {error}"
    assert SECRET not in f"{line} {bus!r}"
    assert "\n" not in line
    return line


async def test_what_is_published_arrives_in_order(server: NatsServer) -> None:
    one, two = bus_of(server.url), bus_of(server.url)
    heard: list[bytes] = []
    await two.subscribe("a", heard.append)
    async with opened(two, one):
        sent = [b"x" * size for size in (1, 300_000, 2)] * 5
        for data in sent:
            one.publish("a", data)
        one.publish("b", b"other")
        await until(lambda: len(heard) == len(sent))
        assert heard == sent


async def test_a_fault_in_the_handling_of_a_message_is_logged_and_the_next_one_arrives(
    server: NatsServer, caplog: pytest.LogCaptureFixture
) -> None:
    bus, heard = bus_of(server.url), []

    def hear(data: bytes) -> None:
        heard.append(1 / len(data))

    await bus.subscribe("a", hear)
    async with opened(bus):
        for data in (b"", b"x"):
            bus.publish("a", data)
        await until(lambda: heard)
    (error,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert error.exc_info
    assert error.exc_info[0] is ZeroDivisionError
    caplog.clear()


async def test_records_change_by_compare_and_set(server: NatsServer) -> None:
    one, two = bus_of(server.url), bus_of(server.url)
    async with opened(one, two):
        assert await one.get("crawl") is None
        first = await one.put("crawl", b"a", 0)
        assert first
        assert await two.put("crawl", b"b", 0) is None
        assert await two.get("crawl") == Entry(b"a", first)
        second = await two.put("crawl", b"b", first)
        assert second
        assert await one.put("crawl", b"c", first) is None
        assert await one.get("crawl") == Entry(b"b", second)


async def test_a_record_is_asked_for_while_another_process_makes_the_bucket(
    server: NatsServer,
) -> None:
    for number in range(20):
        makers = [bus_of(f"{server.url}/of{number}") for _ in range(2)]
        reader = bus_of(f"{server.url}/of{number}")
        async with opened(*makers, reader):
            puts = [maker.put("crawl", b"a", 0) for maker in makers]
            made = asyncio.gather(*puts, return_exceptions=True)
            while not await reader.get("crawl"):
                pass
            done = await made
            assert sum(isinstance(each, int) for each in done) == 1
            for each in done:  # the later may find the bucket half made, and tries again
                assert isinstance(each, int | BusError | None), each


async def test_a_killed_server_is_noticed_and_all_goes_on_with_the_next(server: NatsServer) -> None:
    bus = bus_of(server.url)
    heard: list[bytes] = []
    lost = losses_of(bus)
    await bus.subscribe("a", heard.append)
    async with opened(bus):
        revision = await bus.put("crawl", b"a", 0)
        assert revision
        server.kill()
        await until(lambda: lost)
        with pytest.raises(BusError):
            await bus.get("crawl")
        bus.publish("a", b"lost")
        server.start()
        await until(lambda: "open" in repr(bus))
        assert await bus.get("crawl") == Entry(b"a", revision)
        bus.publish("a", b"again")
        await until(lambda: heard)
        assert heard == [b"again"]


def test_what_is_published_as_a_server_dies_is_lost_without_an_error(server: NatsServer) -> None:
    """uvloop raises an error for a connection that has failed; its reader ends some turns later."""

    async def check() -> None:
        bus = bus_of(server.url)
        async with opened(bus):
            server.send(signal.SIGSTOP)
            bus.publish("a", b"unread")  # so the kill resets the connection
            await asyncio.sleep(0)
            server.kill()
            while "open" in repr(bus):
                for _ in range(3):
                    bus.publish("a", b"x")
                await asyncio.sleep(0)

    pytest.importorskip("uvloop").run(check())


async def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    with NatsServer(tmp_path / "bus", jetstream=False) as server:
        bus = bus_of(server.url)
        async with opened(bus):
            for work in (bus.get("crawl"), bus.put("crawl", b"a", 0)):
                with pytest.raises(Refused, match="has no JetStream"):
                    await work


async def test_records_of_a_wiped_server_can_be_written_again(server: NatsServer) -> None:
    bus = bus_of(server.url)
    lost = losses_of(bus)
    async with opened(bus):
        revision = await bus.put("crawl", b"a", 0)
        assert revision
        server.kill()
        server.wipe()
        server.start()
        await until(lambda: lost and "open" in repr(bus))
        assert await bus.get("crawl") is None
        assert await bus.put("crawl", b"b", revision) is None
        assert await bus.put("crawl", b"b", 0)


async def test_no_server_is_one_line() -> None:
    url = f"nats://127.0.0.1:{free_port()}"
    with pytest.raises(BusError, match=rf"^CLUSTER={url}: 127") as caught:
        async with opened(bus_of(url)):
            pass
    assert not isinstance(caught.value, Refused)


async def test_credentials(tmp_path: Path) -> None:
    with NatsServer(tmp_path, "--user", "me", "--pass", SECRET) as server:
        at = f"127.0.0.1:{server.port}"
        for login in ("", "me@", f"me:{SECRET}x@", f"you:{SECRET}@", f"{SECRET}@"):
            line = await fails(f"nats://{login}{at}")
            assert line.startswith(f"Refused: CLUSTER=nats://{at}: {at}: ")
            assert line.endswith(REMEDY)
        assert await fails(f"nats://me:{SECRET}@{at}") == ""


async def test_a_token(tmp_path: Path) -> None:
    with NatsServer(tmp_path, "--auth", SECRET) as server:
        assert (await fails(server.url)).endswith(REMEDY)
        assert await fails(f"nats://{SECRET}@127.0.0.1:{server.port}") == ""


async def test_a_user_without_rights_to_jetstream(tmp_path: Path) -> None:
    rights = '{user: me, password: pw, permissions: {publish: "webcrawl.>"}}'
    (tmp_path / "nats.conf").write_text(f"authorization {{ users = [ {rights} ] }}")
    with NatsServer(tmp_path, "-c", str(tmp_path / "nats.conf")) as server:
        line = await fails(f"nats://me:pw@127.0.0.1:{server.port}")
        assert line.startswith("BusError: ")


async def test_replicas_on_one_server(server: NatsServer) -> None:
    assert "replicas" in await fails(f"{server.url}?replicas=3")


async def test_two_crawls_on_one_bus_do_not_meet(server: NatsServer) -> None:
    one, other = bus_of(f"{server.url}/one"), bus_of(f"{server.url}/other")
    heard: list[bytes] = []
    await one.subscribe("a", heard.append)
    async with opened(one, other):
        assert await one.put("crawl", b"a", 0)
        assert await other.get("crawl") is None
        other.publish("a", b"other")
        twin = bus_of(f"{server.url}/one")
        async with opened_beside(twin):
            twin.publish("a", b"one")
            await until(lambda: heard)
        assert heard == [b"one"]


@each_of(
    "greeting", [b"", b"220 mail.example ESMTP\r\n", b"INFO []\r\n", b"INFO {\r\n", b"x" * 100_000]
)
async def test_something_else_listens(greeting: bytes) -> None:
    """A server that accepts and says nothing ends with the time of a connection."""

    def serve(connection: socket.socket) -> None:
        connection.sendall(greeting)
        while connection.recv(1 << 16):
            pass

    with RawServer(serve) as server:
        line = await fails(f"nats://127.0.0.1:{server.port}")
    assert line.startswith("BusError: CLUSTER=")


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


async def test_tls_with_an_authority_of_our_own(tmp_path: Path, authority: Path) -> None:
    keys = ("--tls", "--tlscert", f"{authority}/cert.pem", "--tlskey", f"{authority}/key.pem")
    with NatsServer(tmp_path, *keys, "--user", "me", "--pass", SECRET) as server:
        at = f"127.0.0.1:{server.port}"
        ours = f"tls://me:{SECRET}@{at}?ca={authority}/ca.pem"
        assert await fails(ours) == ""
        assert (await fails(ours.replace(SECRET, f"{SECRET}x"))).endswith(REMEDY)
        line = await fails(f"tls://me:{SECRET}@{at}?ca={authority}/names")
        assert line.endswith(f"ca={authority}/names: cannot be read as certificates (PEM)")
        for scheme in ("tls", "nats"):  # a server that demands TLS is verified in either case
            line = await fails(f"{scheme}://me:{SECRET}@{at}")
            assert line.startswith("Refused: ")
            assert "TLS: " in line

        bus = bus_of(ours)
        lost = losses_of(bus)
        heard: list[bytes] = []
        await bus.subscribe("a", heard.append)
        async with opened(bus):
            server.kill()
            await until(lambda: lost)
            server.start()
            await until(lambda: "open" in repr(bus))
            bus.publish("a", b"x" * 500_000)
            await until(lambda: heard)


async def test_no_password_is_sent_to_a_server_without_tls() -> None:
    info = {"server_id": "x", "version": "2.9.10", "max_payload": 1048576, "headers": True}
    got: list[bytes] = []

    def serve(connection: socket.socket) -> None:
        connection.sendall(b"INFO %s\r\n" % json.dumps(info).encode())
        while data := connection.recv(1 << 16):
            got.append(data)

    with RawServer(serve) as server, pytest.raises(Refused, match="does not ask for TLS"):
        async with opened(bus_of(f"tls://u:{SECRET}@127.0.0.1:{server.port}")):
            pass
    assert got == []


async def test_a_file_that_has_no_credentials_is_refused(
    server: NatsServer, tmp_path: Path
) -> None:
    (tmp_path / "c").write_text("nothing\n")

    with pytest.raises(Refused, match="has no NATS user's JWT"):
        async with opened(bus_of(f"{server.url}?creds={tmp_path / 'c'}")):
            pass


# Servers that are slow, silent, or several


async def test_a_silent_server_is_noticed_and_all_goes_on_with_it(server: NatsServer) -> None:
    bus = bus_of(server.url)
    lost = losses_of(bus)
    async with opened(bus):
        revision = await bus.put("crawl", b"a", 0)
        server.send(signal.SIGSTOP)
        await until(lambda: lost)
        with pytest.raises(BusError):
            await bus.get("crawl")
        server.send(signal.SIGCONT)
        await until(lambda: "open" in repr(bus))
        assert revision
        assert await bus.get("crawl") == Entry(b"a", revision)


async def test_a_bus_is_closed_while_its_server_is_silent(server: NatsServer) -> None:
    bus = bus_of(server.url)
    await bus.subscribe("a", lambda data: None)
    async with opened(bus):
        server.send(signal.SIGSTOP)
        for _ in range(20):
            bus.publish("a", b"x" * 500_000)


async def test_one_server_of_three_dies(tmp_path: Path) -> None:
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

        async def patiently(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
            """Its leaders are chosen, at first and anew."""
            async with asyncio.timeout(60):
                while True:
                    with contextlib.suppress(BusError):
                        return await work()
                    await asyncio.sleep(0.05)

        one, other = bus_of(url), bus_of(url)
        heard: list[bytes] = []
        await one.subscribe("a", heard.append)
        async with opened(one, other):
            revision = await patiently(lambda: other.put("crawl", b"kept", 0))
            servers[0].kill()
            assert await patiently(lambda: one.get("crawl")) == Entry(b"kept", revision)
            assert await patiently(lambda: other.put("crawl", b"new", revision))
            while not heard:
                other.publish("a", b"again")
                await asyncio.sleep(0.05)
