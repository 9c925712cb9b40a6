"""The bus of a hub on a real nats-server: subjects, records, and a server that dies or refuses."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.natsserver import NatsServer, free_port
from webcrawl.hub.address import Address
from webcrawl.hub.bus import BusError, Entry, NatsBus, Refused

pytestmark = pytest.mark.slow
SECRET = "s3cr3t"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[NatsServer]:
    with NatsServer(tmp_path / "bus") as server:
        yield server


def bus_of(url: str) -> NatsBus:
    return NatsBus(Address.parse(url))


@contextlib.asynccontextmanager
async def opened(*buses: NatsBus) -> AsyncIterator[None]:
    try:
        for bus in buses:
            await bus.open()
        yield
    finally:
        for bus in buses:
            await bus.close()
    for _ in range(3):
        await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  (of a server's process)
            await asyncio.sleep(0.02)


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(work)


def test_what_is_published_arrives_in_order(server: NatsServer) -> None:
    async def check() -> None:
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

    run(check())


def test_records_change_by_compare_and_set(server: NatsServer) -> None:
    async def check() -> None:
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

    run(check())


def test_a_killed_server_is_noticed_and_all_goes_on_with_the_next(server: NatsServer) -> None:
    async def check() -> None:
        bus = bus_of(server.url)
        heard: list[bytes] = []
        lost: list[bool] = []
        bus.on_lost = lambda: lost.append(True)
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

    run(check())


def test_a_server_without_jetstream_is_refused(tmp_path: Path) -> None:
    async def check(url: str) -> None:
        bus = bus_of(url)
        async with opened(bus):
            for work in (bus.get("crawl"), bus.put("crawl", b"a", 0)):
                with pytest.raises(Refused, match="has no JetStream"):
                    await work

    with NatsServer(tmp_path / "bus", jetstream=False) as server:
        run(check(server.url))


def test_records_of_a_wiped_server_can_be_written_again(server: NatsServer) -> None:
    async def check() -> None:
        bus = bus_of(server.url)
        lost: list[bool] = []
        bus.on_lost = lambda: lost.append(True)
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

    run(check())


def test_no_server_is_one_line() -> None:
    async def check() -> None:
        url = f"nats://127.0.0.1:{free_port()}"
        with pytest.raises(BusError, match=rf"^CLUSTER={url}: 127") as caught:
            async with opened(bus_of(url)):
                pass
        assert not isinstance(caught.value, Refused)

    run(check())


def test_a_wrong_password_is_refused_without_telling_it(tmp_path: Path) -> None:
    async def check(url: str) -> None:
        with pytest.raises(Refused, match="check the user, password") as caught:
            async with opened(bus_of(url)):
                pass
        assert SECRET not in str(caught.value)

    with NatsServer(tmp_path, "--user", "u", "--pass", "other") as server:
        run(check(f"nats://u:{SECRET}@127.0.0.1:{server.port}"))


def test_no_password_is_sent_to_a_server_without_tls() -> None:
    info = {"server_id": "x", "version": "2.9.10", "max_payload": 1048576, "headers": True}
    got = b""

    def serve(listener: socket.socket) -> None:
        nonlocal got
        connection, _ = listener.accept()
        with connection:
            connection.sendall(b"INFO %s\r\n" % json.dumps(info).encode())
            while data := connection.recv(1 << 16):
                got += data

    async def check(port: int) -> None:
        with pytest.raises(Refused, match="does not ask for TLS"):
            async with opened(bus_of(f"tls://u:{SECRET}@127.0.0.1:{port}")):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        run(check(listener.getsockname()[1]))
        thread.join(60)
    assert got == b""


def test_a_file_that_has_no_credentials_is_refused(server: NatsServer, tmp_path: Path) -> None:
    (tmp_path / "c").write_text("nothing\n")

    async def check() -> None:
        with pytest.raises(Refused, match="has no NATS user's JWT"):
            async with opened(bus_of(f"{server.url}?creds={tmp_path / 'c'}")):
                pass

    run(check())
