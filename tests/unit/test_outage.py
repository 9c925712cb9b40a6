"""An outage of our own network, distinguished from failures of single hosts.

The world is a set of hosts that answer, and probes ask it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from tests.cases import each_of
from tests.closing import close
from tests.unit.virtualtime import now
from webcrawl.admission import outage
from webcrawl.admission.outage import MANY, QUIET_S, Outage, Target, connects

pytestmark = pytest.mark.virtual_time


@pytest.fixture(autouse=True)
def _virtual(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(**vars(time) | {"monotonic": now})
    monkeypatch.setattr(outage, "time", clock)


class World:
    """`alive` are the names and addresses that answer."""

    def __init__(self, *alive: str, max_s: float = 1e9) -> None:
        self.alive = set(alive)
        self.probed: list[str] = []
        self.given_up = False
        self.outage = Outage(self._ask, self._connect, max_s=max_s)
        self.outage.give_up = self._give_up

    async def _ask(self, name: str) -> bool:
        self.probed.append(name)
        return name in self.alive

    async def _connect(self, target: Target) -> bool:
        self.probed.append(target.address)
        return target.address in self.alive

    def _give_up(self) -> None:
        self.given_up = True

    def answer(self, *hosts: str) -> None:
        for host in hosts:
            self.outage.server_answered(host, host, f"http://{host}/", now())

    async def fail(self, *hosts: str) -> list[bool]:
        """Requests to `hosts` fail at the same time. Returns whether each failure is ours."""
        return await asyncio.gather(
            *(self.outage.is_ours_for_server(host, host, f"http://{host}/") for host in hosts)
        )

    async def fail_names(self, *names: str, nobody_listens: bool = False) -> list[bool]:
        ask = self.outage.is_ours_for_name
        return await asyncio.gather(*(ask(name, nobody_listens=nobody_listens) for name in names))


async def until(happens: Callable[[], bool]) -> None:
    while not happens():  # noqa: ASYNC110  (polling can only be late here)
        await asyncio.sleep(QUIET_S)


async def test_a_failure_is_the_hosts_while_others_answer() -> None:
    world = World()
    failing = asyncio.create_task(world.fail("a", "b", "c", "d"))
    for _ in range(3):  # turns of the loop, until all four failures are held
        await asyncio.sleep(0)
    world.answer("e")
    assert await failing == [False] * 4
    assert world.probed == []
    world.outage.close()


async def test_failures_are_the_hosts_if_servers_that_answered_can_be_reached() -> None:
    world = World("w")
    world.answer("w")
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail("a", "b", "c") == [False] * 3
    assert "w" in world.probed
    assert not world.outage.is_on


async def test_an_outage_lasts_until_a_server_can_be_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        world, turns = World(), 0

        def changed() -> None:
            nonlocal turns
            turns += 1

        world.outage.changed = changed
        world.answer("w1", "w2", "w3")
        await asyncio.sleep(2 * QUIET_S)
        assert await world.fail("a") == [True], "one that fails is enough, as three are silent"
        assert world.outage.is_on
        assert await world.fail("b") == [True], "at once, without another look"
        world.alive.add("w2")
        await until(lambda: not world.outage.is_on)
        assert turns == 2
        assert world.outage.seconds > 0
    began, ended = (record.getMessage() for record in caplog.records)
    assert began.startswith("No answer from any server since ")
    assert ended.startswith("The network is back after ")


@each_of("number", range(1, MANY))
async def test_a_few_failing_hosts_are_no_outage(number: int) -> None:
    world = World()
    assert not any(await world.fail(*"abc"[:number]))
    assert not any(await world.fail_names(*"def"[:number]))


async def test_silent_name_servers_that_answered_before_are_an_outage() -> None:
    world = World("w")
    world.outage.name_answered("known", now(), has_address=True)
    world.answer("w")
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail_names("a") == [True]
    world.alive.add("known")
    await until(lambda: not world.outage.is_on)
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail_names("a") == [False], "the servers answer, so this name is broken"


async def test_one_name_is_enough_if_no_name_server_listens() -> None:
    world = World()
    assert await world.fail_names("a", nobody_listens=True) == [True]
    world.outage.close()


async def test_a_long_outage_is_given_up() -> None:
    world = World(max_s=60.0)
    world.answer(*"wxyz")
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail(*"abc") == [True] * 3
    await until(lambda: world.given_up)
    assert world.outage.is_on, "nothing is counted until the crawl has ended"
    assert sorted(world.outage.failures) == [(host, "connect") for host in "abc"]


def at_one_address(world: World) -> None:
    for host in "wxy":
        world.outage.server_answered(host, "w", f"http://{host}/", now())


@each_of("before", [lambda world: None, at_one_address])
async def test_the_pause_is_short_if_the_hosts_may_be_to_blame(
    before: Callable[[World], None],
) -> None:
    world = World("name")
    world.outage.name_answered("name", now(), has_address=True)
    before(world)
    await asyncio.sleep(2 * QUIET_S)
    fail = world.outage.is_ours_for_server
    failing = [fail(host, "w", f"http://{host}/") for host in "abc"]
    assert await asyncio.gather(*failing) == [True] * 3
    await until(lambda: not world.outage.is_on)
    assert not world.given_up
    assert await world.fail("a") == [False]
    assert await world.fail_names("a") == [False]


async def test_a_busy_crawl_keeps_hosts_of_some_time_as_targets() -> None:
    world = World("h90")
    for n in range(100):
        at = now() - 100 + n
        world.outage.server_answered(f"h{n}", f"h{n}", "http://h/", at)
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail(*"abc") == [False] * 3
    assert "h90" in world.probed


async def test_a_time_out_right_after_an_outage_belongs_to_it() -> None:
    world = World()
    world.answer(*"wxyz")
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail(*"abc") == [True] * 3
    world.alive.add("w")
    await until(lambda: not world.outage.is_on)
    assert await world.outage.is_ours_for_server("a", "a", "http://a/", timed_out=True)


async def test_dead_names_are_no_outage_while_pages_are_answered() -> None:
    """As in a process that looks up no name itself, or a run that knows all addresses."""
    world = World("home")
    world.answer("home")
    await asyncio.sleep(2 * QUIET_S)
    assert await world.fail_names(*"abcd") == [False] * 4
    assert "home" in world.probed


async def test_without_a_pause_every_failure_is_the_hosts() -> None:
    world = World(max_s=0.0)
    assert await world.fail(*"abc") == [False] * 3
    assert world.probed == []


async def test_close_releases_held_failures() -> None:
    world = World()
    failing = asyncio.create_task(world.fail("a"))
    for _ in range(3):
        await asyncio.sleep(0)
    world.outage.close()
    assert await failing == [True]
    assert await world.fail("b") == [True]


async def test_a_probe_connects_and_sends_nothing() -> None:
    received: list[bytes] = []
    closed = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received.append(await reader.read())
        except ConnectionResetError:
            received.append(b"")
        writer.close()
        closed.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    assert await connects(Target("127.0.0.1", port))
    await closed.wait()
    assert received == [b""]
    await close(server)
    assert not await connects(Target("127.0.0.1", port))


async def test_a_proxy_that_cannot_be_used_is_an_outage_whatever_the_number_of_hosts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        problem = "The proxy p:1 cannot be used: Connection refused"

        async def connect(target: Target) -> bool:
            return not problem

        async def ask(name: str) -> bool:
            return True

        found = Outage(ask, connect, max_s=1e9, proxy_problem=lambda: problem)
        assert await found.is_ours_for_server("a", "a", "http://a/")
        assert found.is_on
        assert not found._is_doubtful(), "it is never the hosts' fault"
        assert f"{problem}, since " in caplog.text
        problem = ""
        await until(lambda: not found.is_on)
        assert not await found.is_ours_for_server("b", "b", "http://b/")
        found.close()


async def test_an_answer_to_a_running_request_ends_the_outage() -> None:
    world = World()
    assert await world.fail(*"abc") == [True] * 3
    world.answer("d")
    await until(lambda: not world.outage.is_on)


def test_silence_is_noted_once_a_minute() -> None:
    world = World()
    assert not world.outage.is_silent(100.0), "no server has ever answered"
    world.outage.server_answered("w", "w", "http://w/", 200.0)
    times = (200.0, 202.9, 203.0, 204.0, 262.9, 263.0)
    assert [world.outage.is_silent(at) for at in times] == [False, False, True, False, False, True]
    world.outage.server_answered("w", "w", "http://w/", 322.0)
    assert [world.outage.is_silent(at) for at in (324.9, 325.0)] == [False, True]
