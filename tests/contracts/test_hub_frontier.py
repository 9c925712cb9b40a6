"""The frontier of a hub against the contract, through its sessions; and what these refuse."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.contracts.frontier import POLITE, Close, RemoteContract, answer, link, memory_frontier
from webcrawl.cluster import allhubs, fetching, joining
from webcrawl.cluster.allhubs import AllHubs
from webcrawl.cluster.bus import PAYLOAD_MIN, Bus, Entry
from webcrawl.cluster.fetching import CHANGED, HubFrontier
from webcrawl.cluster.packets import (
    ASK,
    Brief,
    Hello,
    Packet,
    encode,
    hub_subject,
    parts_of,
    subject_of,
)
from webcrawl.cluster.sessions import Sessions
from webcrawl.crawllog.line import Details, to_bytes
from webcrawl.extensions import fetcher
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Lane, Link
from webcrawl.frontier.outbox import Outbox
from webcrawl.frontier.urlcache import UrlCache
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Answers, Exit, Orders, Status, frame
from webcrawl.hub.wire import encode as encode_message

BRIEF = Brief("A", "broad", {}, "hash", {}, [], has_rules=False)


class Near(Bus):
    """A bus in one process: what is published arrives in the next turn of the event loop."""

    def __init__(self, handlers: dict[str, Callable[[bytes], None]]) -> None:
        self._handlers = handlers

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    def publish(self, subject: str, data: bytes) -> None:
        if subject in self._handlers:
            asyncio.get_running_loop().call_soon(self._handlers[subject], data)

    async def subscribe(self, subject: str, handle: Callable[[bytes], None]) -> None:
        self._handlers[subject] = handle

    async def get(self, key: str) -> Entry | None:
        return None

    async def put(self, key: str, value: bytes, revision: int) -> int | None:
        return None


class Machines:
    """A hub, and fetchers."""

    def __init__(
        self,
        server: FrontierServer,
        number: int = 0,
        handlers: dict[str, Callable[[bytes], None]] | None = None,
    ) -> None:
        self.server = server
        self.number = number
        self._handlers = {} if handlers is None else handlers
        self._names = map(str, count(1 + 1_000 * number))
        self.left: list[tuple[str, dict[str, Any]]] = []
        self.sessions = Sessions(
            Near(self._handlers),
            server,
            BRIEF,
            None,
            longest_fetch_s=5.0,
            clock=lambda: 1_000.0,
            new_name=self._names.__next__,
            on_exit=lambda reason, stats: self.left.append((reason, stats)),
            number=number,
        )
        self.sessions.serves_until = float("inf")
        for subject in (ASK, hub_subject(number)):
            self._handlers[subject] = self.sessions.receive
        self._lives: list[asyncio.Task[str]] = []

    def fetcher(self, brief: Brief = BRIEF) -> HubFrontier:
        name = next(self._names)
        return HubFrontier(
            Near(self._handlers), brief, name, f"machine-{name}",
            clock=lambda: 1_000.0, new_name=self._names.__next__, number=self.number,
        )  # fmt: skip

    def start(self, fetcher: HubFrontier | AllHubs) -> asyncio.Task[str]:
        self._lives.append(asyncio.create_task(fetcher.wait_for_end()))
        return self._lives[-1]

    async def aclose(self) -> None:
        for life in self._lives:
            life.cancel()
        await asyncio.gather(*self._lives, return_exceptions=True)
        await self.server.close()
        await self.sessions.close()


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "webcrawl.cluster")


async def connected(frontier: AllHubs) -> None:
    while not all(hub.frontier.is_connected for hub in frontier._hubs):  # noqa: ASYNC110
        await asyncio.sleep(0)  # two turns


class Connected(AllHubs):
    """Has sessions before its first call."""

    async def put(self, links: Iterable[Link], now: float, *, force: bool = False) -> int:
        await connected(self)
        return await super().put(links, now, force=force)


class TestAllHubs(RemoteContract):
    """With two hubs, of which the second one has no host: caps and addresses are of one hub."""

    @pytest.fixture(autouse=True)
    def patient(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(allhubs, "LATE_S", 60.0)

    def connect(self, server: FrontierServer) -> tuple[AllHubs, Close]:
        machines = Machines(server)
        other = Machines(FrontierServer(memory_frontier()), 1, machines._handlers)
        fetcher = Connected([each.fetcher() for each in (machines, other)], lambda host: 0)
        machines.start(fetcher)

        async def close() -> None:
            await machines.aclose()
            await other.aclose()

        return fetcher, close


@pytest.fixture
def machines() -> Machines:
    return Machines(FrontierServer(memory_frontier(Policy(politeness=POLITE, obey_robots=False))))


async def test_no_crawl_ends_by_itself_while_the_bus_is_away() -> None:
    """Its fetchers would not hear it, and wait for the hub for ever."""
    server = FrontierServer(memory_frontier(), target=1)
    server.counters.crawled = 1
    for until in (0.0, float("inf")):
        server.allow_until(until)
        assert server.is_finished() == server.is_met == (until > 0.0)
    await server.close()


async def test_a_fetcher_that_exits_gives_its_leases_back_and_leaves(machines: Machines) -> None:
    fetcher = machines.fetcher()
    life = machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    assert len(await fetcher.acquire(0.0, 1, Lane.ADMISSIONS)) == 1
    life.cancel()
    fetcher.exit("shutdown", {"n": 1})
    leaving = asyncio.create_task(fetcher.leave())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    machines.sessions.tick()
    await leaving
    assert machines.left == [("shutdown", {"n": 1})]
    assert len(await machines.server.acquire(0.0, 1, Lane.ADMISSIONS)) == 1


async def test_a_brief_of_megabytes_arrives_in_messages_that_a_bus_carries(
    machines: Machines,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told = {"SCOPE_DENY": [f"host-{number}.example" for number in range(60_000)]}
    brief = Brief("A", "broad", told, "hash", {}, [], has_rules=False)
    machines.sessions._brief = brief
    bus, sizes = Near(machines._handlers), []
    publish = Near.publish

    def measured(self: Near, subject: str, data: bytes) -> None:
        sizes.append(len(data))
        if len(sizes) != 3:  # a part is lost, and comes with the next answer
            publish(self, subject, data)

    monkeypatch.setattr(Near, "publish", measured)
    monkeypatch.setattr(joining, "TICK_S", 0.001)
    async with asyncio.timeout(20):
        assert await joining.wait_for_brief(bus, "f", "1", lambda line: None) == brief
    assert max(sizes) < PAYLOAD_MIN


async def test_a_fetcher_with_other_settings_must_begin_again(machines: Machines) -> None:
    other = Brief("A", "broad", {}, "other", {}, [], has_rules=False)
    assert await machines.start(machines.fetcher(other)) == CHANGED
    assert "0 fetchers" in repr(machines.sessions)


@pytest.mark.parametrize(
    "garbage", [b"\0\0\0\1\xc1", frame(encode_message(Answers(99, [], Status(0, 0, False, False))))]
)
async def test_a_fetcher_begins_again_after_a_message_that_it_cannot_carry_out(
    machines: Machines, garbage: bytes
) -> None:
    fetcher = machines.fetcher()
    life = machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    number = fetcher._stream.received + 1
    session = fetcher._stream.session
    fetcher.receive(encode(Packet(session, number, 0, 0.0, 1_000.0, garbage)))
    assert not fetcher.is_connected
    assert await life == CHANGED


async def test_a_fetcher_that_sends_what_cannot_be_carried_out_gets_no_session_for_a_while(
    machines: Machines,
) -> None:
    hello = Hello("f", "x", "A", "hash", "", 0, "f.1", 1.0)
    machines.sessions.receive(encode(hello))
    await asyncio.sleep(0)  # the channel is open
    machines.sessions.receive(encode(Packet("f.1", 1, 0, 0.0, 1.0, b"\0\0\0\1\xc1")))
    again = Hello("f", "x", "A", "hash", "1", 0, "f.2", 2.0)
    machines.sessions.receive(encode(again))
    assert machines.sessions._sessions == {}
    for _ in range(16):
        machines.sessions.tick()
    machines.sessions.receive(encode(again))
    assert [*machines.sessions._sessions] == ["f.2"]


async def test_a_new_stream_is_not_confirmed_by_what_has_arrived_of_the_old_one(
    machines: Machines,
) -> None:
    """Else the fetcher misses the first messages, and begins a session again and again."""
    machines.server.orders = Orders(is_paused=True)
    fetcher = machines.fetcher()
    machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    assert fetcher._stream.received == 2, "orders, and an answer"
    machines.sessions._fetchers.clear()  # as another process
    machines.server.allow_until(1_000.0)  # a message for each that joins
    fetcher.end_session()
    hears = machines._handlers.pop(subject := subject_of(fetcher._fetcher))
    fetcher.tick()
    for _ in range(5):
        await asyncio.sleep(0)  # the answer is lost, and the hub has sent two messages
    machines._handlers[subject] = hears
    fetcher.tick()
    async with asyncio.timeout(5):
        assert await fetcher.put([link("http://b/")], 0.0) == 1


async def test_a_message_whose_text_is_not_unicode_is_no_fault_of_the_hub(
    machines: Machines,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.ERROR, "webcrawl.cluster")
    machines.sessions.receive(encode(Hello("f", "x", "A", "hash", "", 0, "f.1", 1.0)))
    await asyncio.sleep(0)  # the channel is open
    data = frame(encode_message(Exit("?", {}, {})).replace(b"?", b"\xff"))
    machines.sessions.receive(encode(Packet("f.1", 1, 0, 0.0, 1.0, data)))
    assert machines.sessions._sessions == {}
    assert [record.exc_info for record in caplog.records] == [None]


async def test_a_silent_fetcher_keeps_its_leases_until_the_longest_fetch_is_over(
    machines: Machines,
) -> None:
    fetcher = machines.fetcher()
    life = machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    (lease,) = await fetcher.acquire(0.0, 1, Lane.ADMISSIONS)
    await fetcher.release([(lease, answer(lease, 0.0))], 0.0)
    assert len(await fetcher.acquire(time.monotonic(), 1)) == 1
    life.cancel()
    for _ in range(15):
        machines.sessions.tick()
    assert "1 fetchers" in repr(machines.sessions)
    assert machines.sessions._sessions == {}
    machines.sessions.tick()
    assert "0 fetchers" in repr(machines.sessions)


async def test_a_fetcher_with_a_new_stream_forgets_which_urls_the_hub_had(
    machines: Machines,
) -> None:
    """The hub may have been restored from a checkpoint."""
    fetcher = machines.fetcher()
    renewed: list[None] = []
    fetcher.on_renewed = lambda: renewed.append(None)
    machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    fetcher.end_session()
    fetcher.tick()
    assert renewed == []
    machines.sessions._fetchers.clear()  # as another process
    fetcher.end_session()
    fetcher.tick()
    await fetcher.put([link("http://b/")], 0.0)
    assert renewed == [None]


@pytest.mark.parametrize("ends_by", ["Ctrl-C", "the hub"])
async def test_a_fetcher_whose_hub_is_gone_does_not_wait_for_it_when_it_ends(
    machines: Machines, ends_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    frontier, is_closing = machines.fetcher(), False
    crawl = SimpleNamespace(frontier=frontier, scheduler=SimpleNamespace(wake=lambda: None))
    crawler: Any = SimpleNamespace(engine=None, signals=SimpleNamespace(connect=print))
    monkeypatch.setattr(fetcher, "crawl_of", lambda crawler: crawl)
    monkeypatch.setattr(fetcher.scrapy_private, "is_closing", lambda engine: is_closing)
    for module in (fetcher, fetching):
        monkeypatch.setattr(module, "TICK_S", 0.001, raising=False)
    machines.sessions.serves_until = float("-inf")  # the hub is gone
    middleware = fetcher.FetcherMiddleware(crawler)
    start: Any = middleware.process_start(None)  # type: ignore[arg-type]
    starting = asyncio.create_task(anext(start))
    await asyncio.sleep(0.01)
    if ends_by == "Ctrl-C":
        starting.cancel()
    else:
        frontier._end_crawl("finished")
    await asyncio.wait([starting])
    is_closing = True
    async with asyncio.timeout(5):
        assert await frontier.put([link("http://a/")], 0.0) == 0
    if middleware._life is not None:
        middleware._life.cancel()


@pytest.mark.parametrize("is_heard", [True, False])
async def test_a_fetcher_that_no_hub_hears_leaves_its_files_as_if_it_were_killed(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_heard: bool
) -> None:
    """The next one in its folder tells the hub what was archived: it is fetched again."""
    monkeypatch.setattr(fetching, "TICK_S", 0.001)
    (path := tmp_path / "a.warc.gz").touch()
    frontier = machines.fetcher()
    crawl = SimpleNamespace(frontier=frontier)
    stats = SimpleNamespace(get_stats=dict)
    crawler: Any = SimpleNamespace(settings={"WARC_DIR": tmp_path}, stats=stats)
    monkeypatch.setattr(fetcher, "crawl_of", lambda crawler: crawl)
    life = machines.start(frontier)
    await frontier.put([link("http://a/")], 0.0)
    (look_up,) = await frontier.acquire(0.0, 1, Lane.ADMISSIONS)
    await frontier.release([(look_up, answer(look_up, 0.0))], 0.0)
    (lease,) = await frontier.acquire(0.0, 1)
    life.cancel()
    if not is_heard:
        machines.sessions.serves_until = float("-inf")
    details = to_bytes(Details(200, warc=path.name, offset=7))
    await frontier.release([(lease, answer(lease, 0.0, details=details))], 0.0)
    await asyncio.sleep(0.01)
    await fetcher.FetcherMiddleware(crawler).spider_closed("shutdown")
    assert [each.name for each in tmp_path.iterdir()] == [path.name + ".open" * (not is_heard)]


async def test_a_fetcher_gets_the_orders_that_hold_already(machines: Machines) -> None:
    machines.server.orders = Orders(is_paused=True)
    fetcher = machines.fetcher()
    got: asyncio.Future[Orders] = asyncio.get_running_loop().create_future()

    async def carry_out(orders: Orders) -> int:
        got.set_result(orders)
        return 0

    fetcher.on_orders = carry_out
    machines.start(fetcher)
    assert (await got).is_paused


async def test_garbage_from_the_bus_is_none_of_their_messages(machines: Machines) -> None:
    fetcher = machines.fetcher()
    for data in (b"", b"\xc1", encode(parts_of(BRIEF)[0]), b"\x92\xa5Hello\x00"):
        machines.sessions.receive(data)
        fetcher.receive(data)
    bad = Hello("a b>", "x", "A", "hash", "", 0, "a b>.1", 0.0)  # no part of a subject
    machines.sessions.receive(encode(bad))
    assert not machines.sessions._fetchers
    assert not fetcher.is_connected


async def test_a_fetcher_without_a_session_says_so_each_minute(
    machines: Machines, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "webcrawl.cluster")
    fetcher = machines.fetcher()
    for _ in range(150):  # no turn of the loop: no answer
        fetcher.tick()
    said = [each.message for each in caplog.records if "session" in each.message]
    assert said == [f"No session with the hub for {n} s: no request is sent" for n in (60, 120)]


async def test_links_of_a_page_that_was_given_up_stay_unknown(machines: Machines) -> None:
    """The page is fetched again, and its links must then reach the hub."""
    fetcher, cache = machines.fetcher(), UrlCache(Policy())
    fetcher.on_renewed = cache.clear
    outbox = Outbox(fetcher, cache)
    machines.start(fetcher)
    await fetcher.put([link("http://a/")], 0.0)
    (lease,) = await fetcher.acquire(0.0, 1, Lane.ADMISSIONS)
    await fetcher.release([(lease, answer(lease, 0.0))], 0.0)
    (page,) = await fetcher.acquire(time.monotonic(), 1)
    machines.sessions._fetchers.clear()  # as another process
    fetcher.end_session()
    fetcher.tick()
    outbox.release(page, answer(page, 0.0, links=(link("http://a/1"),)))
    await outbox.deliver(0.0)
    await fetcher.close()
    assert cache.maybe_new(["http://a/1"]) == ["http://a/1"]
