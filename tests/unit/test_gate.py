"""The gate before each request: what passes it, and what waits."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Self
from unittest.mock import Mock

import pytest
from msgspec.structs import replace

from tests.cases import each_of
from tests.closing import close
from webcrawl.fetch import gate as gate_module
from webcrawl.fetch.client import Client
from webcrawl.fetch.exchange import Exchange, FetchFailed
from webcrawl.fetch.gate import Gate
from webcrawl.fetch.request import FetchRequest, Limits
from webcrawl.hub.wire import Orders
from webcrawl.scheduler.controls import Controls
from webcrawl.scope import Scope


class Server:
    """Counts requests, and answers each."""

    def __init__(self) -> None:
        self.requests = 0
        self.port = 0
        self.was_asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        await close(self._server)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            self.requests += 1
            self.was_asked.set()
            await self.may_answer.wait()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has cut it off
        finally:
            writer.close()


def fetching(client: Client, server: Server, path: str = "/") -> asyncio.Task[Exchange]:
    request = FetchRequest("GET", f"http://a.test:{server.port}{path}", "127.0.0.1", [])
    return asyncio.create_task(client.fetch(request))


@asynccontextmanager
async def gated() -> AsyncIterator[tuple[Gate, Client, Server]]:
    """A client behind a gate, and a server for it."""
    gate = Gate()
    client = Client(Limits(), gate=gate)
    async with Server() as server:
        yield gate, client, server
    await client.close()


async def turns() -> None:
    """Turns of the loop in which a request would come further."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_request_waits_at_a_shut_gate() -> None:
    async with gated() as (gate, client, server):
        gate.shut()
        waiting = fetching(client, server)
        await turns()
        assert (server.requests, client.active, waiting.done()) == (0, 0, False)
        assert repr(gate) == "<Gate shut, 1 waiting>"
        gate.open()
        assert (await waiting).status == 200


async def test_a_request_that_is_connecting_begins_again() -> None:
    async with gated() as (gate, client, server):
        connecting = fetching(client, server)
        await asyncio.sleep(0)
        assert client.active == 1
        gate.shut()
        assert await gate.wait_until_sent() == 0
        await turns()
        assert server.requests == 0
        gate.open()
        assert (await connecting).status == 200
        assert server.requests == 1


@each_of("shut", [True, False])
async def test_some_requests_are_cut_before_they_are_sent(shut: bool) -> None:
    async with gated() as (gate, client, server):
        if shut:
            gate.shut()
        denied, other = fetching(client, server, "/denied"), fetching(client, server)
        await asyncio.sleep(0)
        gate.cut(lambda url: url.endswith("/denied"))
        gate.open()
        with pytest.raises(FetchFailed, match="cancelled") as failed:
            await denied
        assert not failed.value.asked
        assert (await other).status == 200
        assert server.requests == 1


async def test_at_the_end_of_a_crawl_no_request_waits() -> None:
    async with gated() as (gate, client, server):
        gate.shut()
        waiting = fetching(client, server)
        await asyncio.sleep(0)
        gate.end()
        for each in (waiting, fetching(client, server)):
            with pytest.raises(FetchFailed, match="cancelled"):
                await each
        assert server.requests == 0


async def test_settling_waits_for_the_answers_of_requests_that_are_sent() -> None:
    async with gated() as (gate, client, server):
        server.may_answer.clear()
        sent = fetching(client, server)
        await server.was_asked.wait()
        gate.shut()
        settling = asyncio.create_task(gate.wait_until_sent())
        await turns()
        assert not settling.done()
        server.may_answer.set()
        assert (await sent).status == 200
        assert await settling == 0


async def test_settling_does_not_wait_for_a_server_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate_module, "SETTLE_S", 0.0)

    async with gated() as (gate, client, server):
        server.may_answer.clear()
        sent = fetching(client, server)
        await server.was_asked.wait()
        gate.shut()
        assert await gate.wait_until_sent(lambda url: "elsewhere" in url) == 0
        assert await gate.wait_until_sent() == 1
        server.may_answer.set()
        assert (await sent).status == 200


async def test_nothing_is_sent_after_the_time_until_which_it_is_allowed() -> None:
    async with gated() as (gate, client, server):
        gate.allow_until(time.monotonic() + 60)
        assert not gate.is_shut
        assert (await fetching(client, server)).status == 200
        gate.allow_until(-math.inf)
        waiting = fetching(client, server)
        await turns()
        assert (server.requests, waiting.done(), gate.is_shut) == (1, False, True)
        gate.shut()
        gate.allow_until(math.inf)
        assert gate.is_shut, "for another reason"
        gate.open()
        assert (await waiting).status == 200


async def test_each_hub_allows_requests_to_its_own_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that was connecting when the time of its hub was over."""
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(gate_module, "time", clock)

    async with gated() as (gate, client, server):
        gate.hub_of = lambda url: int("/1" in url)
        for hub in (0, 1):
            gate.allow_until(clock.now + 60 + hub * 60, hub)
        connecting = [fetching(client, server, path) for path in ("/0", "/1")]
        await asyncio.sleep(0)
        assert client.active == 2
        clock.now += 61
        assert (await connecting[1]).status == 200
        coming = [fetching(client, server, path) for path in ("/0", "/1")]
        assert (await coming[1]).status == 200
        await gate.wait()  # a look-up
        assert not gate.is_shut
        assert gate.holds_some
        assert repr(gate) == "<Gate open, 2 waiting>"
        clock.now += 60
        assert gate.is_shut
        gate.allow_until(clock.now + 60, 1)
        await turns()
        assert server.requests == 2
        gate.allow_until(clock.now + 60, 0)
        for each in (connecting[0], coming[0]):
            assert (await each).status == 200


async def test_a_worker_gives_its_leases_back_after_a_time_in_which_it_might_not_ask() -> None:
    """Another process may have the address by now."""
    gate, url = Gate(), "http://a.test/"
    pump = Mock(target=Mock(placed=0), leased_urls=lambda: {url})
    controls = Controls(gate, Scope(), pump, Orders())
    controls.allow_until(time.monotonic() + 60)
    controls.allow_until(time.monotonic() + 60)
    pump.give_back_window.assert_not_called()
    controls.allow_until(-math.inf)
    waiting = asyncio.create_task(gate.wait(url))
    await asyncio.sleep(0)
    assert not waiting.done()
    controls.allow_until(time.monotonic() + 60)
    with pytest.raises(FetchFailed):
        await waiting
    pump.give_back_window.assert_called_once()
    await gate.wait(url)


async def test_urls_can_be_denied_while_a_look_up_waits() -> None:
    gate = Gate()
    pump = Mock(target=Mock(placed=0))
    controls = Controls(gate, Scope(), pump, Orders())
    await controls.carry_out(Orders(is_paused=True))
    look_up = asyncio.create_task(gate.wait())
    page = asyncio.create_task(gate.wait("http://a.test/"))
    await asyncio.sleep(0)
    await controls.carry_out(Orders(is_paused=True, deny=("a.test",)))
    with pytest.raises(FetchFailed):
        await page
    assert not look_up.done()
    gate.open()
    await look_up


async def test_leases_of_hosts_with_new_rules_are_given_back_while_they_wait() -> None:
    """Requests of a user's code have no lease, so they wait on."""
    gate = Gate()
    leased = {"http://a.test/", "http://b.test/"}
    pump = Mock(target=Mock(placed=0), leased_urls=lambda: leased)
    controls = Controls(gate, Scope(), pump, Orders())
    await controls.carry_out(Orders(is_paused=True))
    urls = [*sorted(leased), "http://a.test/users"]
    first, *others = [asyncio.create_task(gate.wait(url)) for url in urls]
    await asyncio.sleep(0)
    controls.give_back(lambda host: host == "a.test")
    with pytest.raises(FetchFailed):
        await first
    assert not any(other.done() for other in others)
    gate.open()
    await asyncio.gather(*others)


@pytest.mark.parametrize("fails", ["shut", "wait_until_sent"])
async def test_orders_that_failed_are_carried_out_by_the_next_call(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, scope, early = Gate(), Scope(deny=["z.test"]), Orders(deny=("z.test",))
    controls = Controls(gate, scope, Mock(target=Mock(placed=0)), early)
    late = Orders(is_paused=True, deny=("z.test", "a.test"))
    with monkeypatch.context() as patch:
        patch.setattr(Gate, fails, Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            await controls.carry_out(late)
    assert controls.has_in_scope(late)
    page = asyncio.create_task(gate.wait("http://a.test/"))
    await asyncio.sleep(0)
    await controls.carry_out(late)
    assert gate.is_shut
    if fails == "wait_until_sent":
        with pytest.raises(FetchFailed):
            await page
    other = asyncio.create_task(gate.wait("http://b.test/"))
    await asyncio.sleep(0)
    await controls.carry_out(replace(late, is_paused=False))
    await other
    assert scope.refuses("http://a.test/", "a.test") == "deny"


async def test_a_resume_that_failed_is_carried_out_by_the_next_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gate = Gate()
    controls = Controls(gate, Scope(), Mock(target=Mock(placed=0)), Orders())
    await controls.carry_out(Orders(is_paused=True))
    with monkeypatch.context() as patch:
        patch.setattr(Gate, "open", Mock(side_effect=RuntimeError))
        with pytest.raises(RuntimeError):
            await controls.carry_out(Orders())
    await controls.carry_out(Orders())
    assert not gate.is_shut
