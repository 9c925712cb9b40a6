"""What every bus does: the same tests on the twin in memory and on a real nats-server."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from secrets import token_hex
from typing import Any

import pytest

from tests.contracts.memorybus import MemoryHub
from tests.contracts.natsserver import NatsServer
from webcrawl.cluster.bus import MAX_BYTES, Bus, BusError, Entry, Unreachable, bus_from

KEYS = ("nodes.a", "addresses.2001:db8::1", "addresses.192.0.2.1", "odd.Ä =*>", "crawl")


async def until(condition: Callable[[], bool]) -> None:
    """What the network brings comes soon, but not at once."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  (a condition of any kind)
            await asyncio.sleep(0.005)


class BusContract:
    def bus(self, crawl: str = "webcrawl") -> Bus:
        raise NotImplementedError

    def run(self, check: Callable[..., Coroutine[Any, Any, None]], *crawls: str) -> None:
        """`check` with an open bus for each crawl. All are closed, and no task is left."""

        async def run() -> None:
            buses = [self.bus(crawl) for crawl in crawls]
            for bus in buses:
                await bus.open()
            try:
                await check(*buses)
            finally:
                for bus in buses:
                    await bus.close()
            await asyncio.sleep(0)
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(run())

    # Messages

    def test_what_is_published_reaches_all_subscribers_in_order(self) -> None:
        async def check(one: Bus, two: Bus) -> None:
            heard: list[tuple[str, bytes]] = []
            await one.subscribe("links.1", lambda data: heard.append(("one", data)))
            await two.subscribe("links.1", lambda data: heard.append(("two", data)))
            await two.subscribe("links.2", lambda data: heard.append(("other", data)))
            sent = [b"", b"\r\n", b"\x00\xff" * 1000, b"x" * MAX_BYTES]
            for data in sent:
                one.publish("links.1", data)
            await until(lambda: len(heard) == 8)
            assert [data for who, data in heard if who == "one"] == sent
            assert [data for who, data in heard if who == "two"] == sent

        self.run(check, "c", "c")

    def test_a_message_that_is_too_large_is_our_fault(self) -> None:
        async def check(bus: Bus) -> None:
            with pytest.raises(ValueError, match="at most"):
                bus.publish("a", b"x" * (MAX_BYTES + 1))
            with pytest.raises(ValueError, match="at most"):
                await bus.put("a", b"x" * (MAX_BYTES + 1))

        self.run(check, "c")

    def test_a_failing_handler_is_logged_and_called_again(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        async def check(bus: Bus) -> None:
            heard: list[bytes] = []

            def handle(data: bytes) -> None:
                heard.append(data)
                raise RuntimeError("mine")

            await bus.subscribe("a", handle)
            bus.publish("a", b"1")
            bus.publish("a", b"2")
            await until(lambda: heard == [b"1", b"2"])

        self.run(check, "c")
        assert [record.exc_info is not None for record in caplog.records] == [True, True]

    def test_a_request_is_answered(self) -> None:
        async def check(one: Bus, two: Bus) -> None:
            async def answer(data: bytes) -> bytes:
                await asyncio.sleep(0)
                return data * 2

            await one.answer("explain.2001:db8::1", answer)
            answers = [two.request("explain.2001:db8::1", b"%d" % n, 20) for n in range(40)]
            assert await asyncio.gather(*answers) == [b"%d" % n * 2 for n in range(40)]

        self.run(check, "c", "c")

    def test_a_request_that_nobody_answers_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        async def check(bus: Bus) -> None:
            async def fail(data: bytes) -> bytes:
                raise RuntimeError("mine")

            await bus.answer("failing", fail)
            with pytest.raises(BusError, match="it does not run"):
                await bus.request("nobody", b"", 20)
            with pytest.raises(BusError, match="failed"):
                await bus.request("failing", b"", 20)

        self.run(check, "c")
        assert len(caplog.records) == 1

    # Entries

    @pytest.mark.parametrize("key", KEYS)
    def test_the_life_of_an_entry(self, key: str) -> None:
        async def check(one: Bus, two: Bus) -> None:
            assert await one.get(key) is None
            assert await one.delete(key) is False
            first = await one.create(key, b"1")
            assert first is not None
            assert await two.create(key, b"2") is None
            assert await two.get(key) == Entry(b"1", first)
            second = await two.update(key, b"\x00\r\n\xff", first)
            assert second not in (None, first)
            assert await one.update(key, b"3", first) is None, "it has changed"
            third = await one.put(key, b"")
            assert await two.get(key) == Entry(b"", third)
            assert await two.keys("") == {key: Entry(b"", third)}
            assert await two.delete(key, second) is False, "it has changed"
            assert await two.delete(key, third) is True
            assert await one.get(key) is None
            assert await one.keys("") == {}
            assert await one.update(key, b"4", third) is None
            fourth = await one.create(key, b"4")
            assert fourth not in (None, first, second, third)
            assert await two.get(key) == Entry(b"4", fourth)
            assert await one.delete(key) is True

        self.run(check, "c", "c")

    def test_of_many_only_one_creates_and_only_one_updates(self) -> None:
        async def check(*buses: Bus) -> None:
            created = await asyncio.gather(
                *(bus.create("shards.1", b"%d" % n) for n, bus in enumerate(buses))
            )
            (revision,) = (each for each in created if each is not None)
            for _ in range(5):
                updated = await asyncio.gather(
                    *(bus.update("shards.1", b"%d" % n, revision) for n, bus in enumerate(buses))
                )
                (revision,) = (each for each in updated if each is not None)
                entry = await buses[0].get("shards.1")
                assert entry == Entry(b"%d" % updated.index(revision), revision)

        self.run(check, *"c" * 6)

    def test_keys_below_a_prefix(self) -> None:
        async def check(bus: Bus) -> None:
            entries = {key: Entry(b"v", await bus.put(key, b"v")) for key in KEYS}
            assert await bus.keys("") == entries
            below = {key: entry for key, entry in entries.items() if key.startswith("addresses.")}
            assert await bus.keys("addresses.") == below
            assert await bus.keys("crawl") == {"crawl": entries["crawl"]}
            assert await bus.keys("addresses") == {}
            assert await bus.keys("shards.") == {}

        self.run(check, "c")

    def test_a_thousand_keys(self) -> None:
        async def check(bus: Bus) -> None:
            await asyncio.gather(*(bus.put(f"a.{n}", b"%d" % n) for n in range(1000)))
            for _ in range(2):  # each for the second time
                await asyncio.gather(*(bus.put(f"a.{n}", b"+%d" % n) for n in range(0, 1000, 2)))
            found = await bus.keys("a.")
            values = {f"a.{n}": b"%d" % n if n % 2 else b"+%d" % n for n in range(1000)}
            assert {key: entry.value for key, entry in found.items()} == values

        self.run(check, "c")

    @pytest.mark.parametrize("key", ["", ".", "a.", ".a", "a..b", "a" * 201, "ä" * 34])
    def test_a_bad_key_is_our_fault(self, key: str) -> None:
        async def check(bus: Bus) -> None:
            with pytest.raises(ValueError):
                await bus.get(key)
            with pytest.raises(ValueError):
                await bus.put(key, b"")
            with pytest.raises(ValueError):
                bus.publish(key, b"")

        self.run(check, "c")

    # Around

    def test_two_crawls_do_not_meet(self) -> None:
        async def check(one: Bus, two: Bus, three: Bus) -> None:
            heard: list[bytes] = []
            for other in (two, three):
                await other.subscribe("a", heard.append)
            await one.put("a", b"1")
            one.publish("a", b"1")
            two.publish("a", b"2")
            await until(lambda: heard == [b"2"])
            assert await two.get("a") is None
            assert await three.keys("") == {}
            with pytest.raises(BusError):
                await one.request("a", b"", 0.05)

        self.run(check, "c", "c-", "C")

    def test_before_and_after(self) -> None:
        async def check() -> None:
            bus = self.bus("c")
            heard: list[bytes] = []
            assert not bus.is_connected
            bus.publish("a", b"dropped")
            await bus.subscribe("a", heard.append)
            with pytest.raises(Unreachable):
                await bus.get("a")
            await bus.open()
            assert bus.is_connected
            bus.publish("a", b"1")
            await until(lambda: heard == [b"1"])
            await bus.close()
            await bus.close()
            assert not bus.is_connected
            bus.publish("a", b"dropped")
            for call in (bus.put("a", b""), bus.keys(""), bus.request("a", b"", 1)):
                with pytest.raises(Unreachable):
                    await call

        self.run(check)


class TestMemoryBus(BusContract):
    @pytest.fixture(autouse=True)
    def hub(self) -> None:
        self._hub = MemoryHub()

    def bus(self, crawl: str = "webcrawl") -> Bus:
        return self._hub.bus(crawl)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.mark.slow
class TestNatsBus(BusContract):
    @pytest.fixture(autouse=True)
    def own(self, server: NatsServer) -> None:
        self._server, self._prefix = server, token_hex(4)

    def bus(self, crawl: str = "webcrawl") -> Bus:
        return bus_from(self._server.url, f"{self._prefix}_{crawl}")
