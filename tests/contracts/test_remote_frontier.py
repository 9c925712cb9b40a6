"""A frontier in another process against the contract, over a real socket; the process is this one.

And what a server adds to a frontier: the owner of a lease, the target, the end.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import time
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from tests.cases import each_of
from tests.contracts.frontier import POLITE, Close, RemoteContract, answer, link, memory_frontier
from webcrawl.extensions.processes import Processes
from webcrawl.frontier.base import Frontier, Policy
from webcrawl.frontier.lease import Failed, Fetched, Lane, Link, Returned, Step
from webcrawl.frontier.store import StoreError
from webcrawl.hub.client import MAIN_PROCESS_GONE, RemoteFrontier
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders
from webcrawl.warc.records import Original


class Pair:
    """A served process: its end of the socket, the server's member, and the calls of callbacks."""

    def __init__(self, server: FrontierServer) -> None:
        ours, theirs = socket.socketpair()
        self.heard: list[Any] = []
        self.member = server.serve(
            ours,
            on_exit=lambda reason, stats: self.heard.append((reason, stats)),
            on_disconnect=self.heard.append,
        )
        self.remote = RemoteFrontier(theirs)

    async def die(self) -> None:
        """Disconnect, as a killed process does."""
        self.remote._channel.close()
        if self.remote._opening is None:
            self.remote._sock.close()
        await self.member.disconnected.wait()
        await self.member.close()


class TestRemoteFrontier(RemoteContract):
    # The first process knows it of all.
    test_answers_are_logged_when_their_leases_are_back = None

    def connect(self, server: FrontierServer) -> tuple[RemoteFrontier, Close]:
        pair = Pair(server)
        return pair.remote, pair.die


# A server of several processes


def served(*, target: int = 0, **policy: Any) -> FrontierServer:
    frontier = memory_frontier(Policy(politeness=POLITE, obey_robots=False, **policy))
    return FrontierServer(frontier, target=target)


def links(count: int) -> list[Link]:
    return [link(f"http://host-{n}/") for n in range(count)]


async def resolve(frontier: Frontier, now: float = 100.0) -> None:
    """All hosts get their address."""
    while leases := await frontier.acquire(now, 100, Lane.ADMISSIONS):
        await frontier.release([(lease, answer(lease, now)) for lease in leases], now)


async def test_two_processes_share_one_frontier() -> None:
    server = served()
    pairs = [Pair(server), Pair(server)]
    one, two = (pair.remote for pair in pairs)
    assert await one.put(links(6), 100.0) == 6
    assert await two.put(links(6), 100.0) == 0
    original = Original("http://host-0/", 0.0, "sha1:A")
    assert await one.content_seen(b"content", original, None) == (None, "")
    copy = Original("http://x/", 1.0, "")
    assert await two.content_seen(b"content", copy, None) == (original, "")
    await resolve(two)
    leases = [await one.acquire(100.0, 2), await two.acquire(100.0, 2)]
    leases.append(await server.acquire(100.0, 9))
    assert [len(each) for each in leases] == [2, 2, 2]
    assert len({lease.host for each in leases for lease in each}) == 6
    for frontier, taken in zip((one, two, server), leases, strict=True):
        assert not frontier.is_finished()
        await frontier.release([(lease, answer(lease, 101.0)) for lease in taken], 101.0)
    await one.close()
    await two.close()
    assert server.is_finished()
    assert server.counters.crawled == 6
    assert await two.acquire(102.0, 1) == []
    assert two.is_finished(), "news comes with each answer"
    for pair in pairs:
        await pair.die()


async def test_a_process_that_waits_gets_half_of_what_another_gives_back() -> None:
    server = served()
    pairs = [Pair(server), Pair(server)]
    one, two = (pair.remote for pair in pairs)
    await server.put([link(f"http://host-{n}/{m}") for n in range(4) for m in range(2)], 100.0)
    await resolve(server)
    leases = await one.acquire(100.0, 9)
    assert (len(leases), await two.acquire(100.0, 9)) == (4, [])
    await one.release([(lease, answer(lease, 101.0)) for lease in leases], 101.0)
    assert [len(await each.acquire(200.0, 9)) for each in (one, two)] == [2, 2]
    for pair in pairs:
        await pair.die()


async def test_the_leases_of_a_process_that_dies_come_back_as_asked() -> None:
    server = served()
    dead, other = Pair(server), Pair(server)
    await dead.remote.put([link("http://a/1"), link("http://a/2"), link("http://b/")], 0.0)
    began = time.monotonic()
    (resolving,) = await dead.remote.acquire(began, 1, Lane.ADMISSIONS)
    await resolve(other.remote, began)
    leases = await dead.remote.acquire(began, 9)
    assert len(leases) == 1
    await dead.die()
    assert dead.heard == [2]
    assert not server.is_finished()
    (again,) = await other.remote.acquire(began, 9, Lane.ADMISSIONS)
    assert (again.host, again.step) == (resolving.host, Step.RESOLVE)
    await other.remote.release([(again, answer(again, began))], began)
    (at_once,) = await other.remote.acquire(time.monotonic(), 9)
    assert at_once.host == resolving.host, "nobody was asked for it"
    assert await other.remote.acquire(began + 9.9, 9) == []
    (later,) = await other.remote.acquire(time.monotonic() + 10, 9)
    assert later.url == leases[0].url, "it is as it was"
    await other.die()


async def test_a_process_that_has_died_is_forgotten_once_its_leases_are_back() -> None:
    """Some die each hour, for months."""
    server = served()
    pair = Pair(server)
    await pair.die()

    async def send(signal: object, pid: int) -> None:
        assert repr(server).endswith("for 0 processes>")

    crawler: Any = SimpleNamespace(signals=SimpleNamespace(send_catch_log_async=send))
    processes = Processes(crawler, 2)
    processes._server = server
    await processes._notify_of_death(pair.member, 1)


async def test_leases_of_a_process_that_exits_come_back_as_not_asked() -> None:
    server = served()
    pair = Pair(server)
    await pair.remote.put(links(2), 100.0)
    await resolve(pair.remote)
    leases = await pair.remote.acquire(100.0, 9)
    pair.remote.counters.under_way = 5
    pair.remote.counters.stage_under_way["page"] = 4
    await pair.remote.release([(leases[0], Fetched(200, 100.0, 100.0))], 100.0)
    await pair.remote.close()
    assert server.counters.under_way == 5
    assert server.counters.stage_under_way == {"page": 4}
    pair.remote.exit("finished", {"items": 3})
    await pair.member.ended.wait()
    await pair.member.close()
    assert server.counters.under_way == server.counters.stage_under_way.total() == 0
    assert [lease.url for lease in await server.acquire(100.0, 9)] == [leases[1].url]
    await pair.die()
    assert pair.heard == [("finished", {"items": 3}), 0]


async def test_the_last_message_comes_behind_calls_that_wait_to_be_sent() -> None:
    server = served()
    pair = Pair(server)
    await pair.remote.put(links(1), 100.0)
    await resolve(pair.remote)
    (lease,) = await pair.remote.acquire(100.0, 9)
    other = asyncio.create_task(pair.remote.put(links(2), 100.0))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # it is sent
    await pair.remote.release([(lease, answer(lease, 100.0))], 100.0)
    pair.remote.exit("finished", {})
    await pair.member.ended.wait()
    await pair.member.close()
    assert server.counters.crawled == 1
    await other
    await pair.die()


async def test_values_of_a_users_own_do_not_break_the_last_message() -> None:
    """CloseSpider takes any object as a reason, and stats any name and number."""
    pair = Pair(served())
    await pair.remote.acquire(100.0, 1)
    stats: dict[Any, Any] = {"huge": 1 << 70, 404: 2, "\udcff": 3, "flag": True, "share": 0.5}
    pair.remote.exit(404, stats)
    await pair.member.ended.wait()
    assert pair.heard == [("404", {"404": 2, r"\udcff": 3})]
    await pair.die()


async def test_close_notifies_the_processes_and_waits_for_their_exit() -> None:
    server = served()
    server._grace_s = 60
    ready, never_began = Pair(server), Pair(server)
    await ready.remote.put(links(1), 100.0)
    await resolve(ready.remote)
    leases = await ready.remote.acquire(100.0, 1)
    closing = asyncio.create_task(server.close())
    assert await ready.remote.wait_for_end() == "shutdown"
    assert await ready.remote.acquire(100.0, 9, Lane.ADMISSIONS) == [], "nothing new"
    await ready.remote.release([(leases[0], Returned())], 100.0)
    assert not closing.done()
    ready.remote.exit("shutdown", {})
    await closing
    await ready.die()
    await never_began.die()


async def test_a_process_that_does_not_exit_in_time_is_disconnected() -> None:
    server = served()
    pair = Pair(server)
    await pair.remote.put(links(1), 100.0)
    await pair.remote.acquire(100.0, 1, Lane.ADMISSIONS)
    await server.close()
    assert not server.local._state._leases
    await pair.member.disconnected.wait()
    with pytest.raises(StoreError, match="the first process has ended"):
        await pair.remote.acquire(100.0, 1)


async def test_the_end_of_the_first_process_is_a_store_error() -> None:
    pair = Pair(served())
    gone = []
    pair.remote.on_disconnect = lambda: gone.append(True)
    await pair.remote.put(links(1), 100.0)
    pair.member.channel.close()
    with pytest.raises(StoreError):
        await pair.remote.acquire(100.0, 1)
    unknown = await pair.remote.content_seen(b"content", Original("http://a/", 0.0, ""), None)
    assert unknown == (None, "")
    assert await pair.remote.wait_for_end() == MAIN_PROCESS_GONE
    assert gone == [True]


async def test_neither_a_call_nor_a_recall_waits_for_lost_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first process may read its whole crawl log for them."""
    server = served()
    pair = Pair(server)
    is_read = asyncio.Event()

    async def slow(warc: str, lines: object) -> None:
        await is_read.wait()

    monkeypatch.setattr(server, "log_if_lost", slow)
    telling = asyncio.create_task(pair.remote.log_if_lost("a.warc.gz", []))
    await asyncio.sleep(0)
    async with asyncio.timeout(30):  # only a hang reaches it
        assert await pair.remote.put(links(2), 100.0) == 2
        assert len(await pair.remote.acquire(100.0, 9, Lane.ADMISSIONS)) == 2
        given_back = asyncio.Event()
        pair.remote.give_back = lambda has_changed: given_back.set()
        server.recall()
        await given_back.wait()
        assert not telling.done()
        is_read.set()
        await telling
    await pair.die()


class SlowDisk:
    """Batches of the frontier wait on their thread until `is_quick` is set."""

    def __init__(self, server: FrontierServer) -> None:
        self.is_quick = Event()
        self._executor = server.local._executor
        self._executor.do(self.is_quick.wait, waits=True)

    async def has(self, batches: int) -> None:
        """Return when so many wait."""
        while self._executor._away < 1 + batches:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_calls_are_carried_out_in_their_order_though_messages_overtake_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A page is not released before its links are put: a kill between the two would lose them."""
    server = served()
    pair = Pair(server)
    await pair.remote.put(links(1), 100.0)
    await resolve(pair.remote)
    (page,) = await pair.remote.acquire(100.0, 9)
    disk, batches, state = SlowDisk(server), [], server.local._state
    put, release = state.put, state.release
    monkeypatch.setattr(state, "put", lambda *a, **b: (batches.append("put"), put(*a, **b))[1])
    monkeypatch.setattr(state, "release", lambda *a: (batches.append("release"), release(*a))[1])
    calls = [asyncio.create_task(pair.remote.put([link(f"http://{n}/")], 100.0)) for n in "xy"]
    await disk.has(1)
    await pair.remote.release([(page, answer(page, 100.0))], 100.0)
    calls.append(asyncio.create_task(pair.remote.log_if_lost("a.warc.gz", [])))
    await calls[-1]
    disk.is_quick.set()
    await asyncio.gather(*calls)
    await pair.remote.close()
    assert batches == ["put", "put", "release"]
    await pair.die()


async def test_content_of_a_page_that_a_dead_process_had_is_not_known() -> None:
    """It was perhaps not archived. A later page would refer to it in place of its own body."""
    server = served()
    dead, other = Pair(server), Pair(server)
    await dead.remote.put(links(1), 100.0)
    await resolve(other.remote)
    (page,) = await dead.remote.acquire(100.0, 1)
    disk = SlowDisk(server)
    copies = [Original(page.url, float(n), "sha1:A") for n in range(2)]
    calls = [
        asyncio.create_task(dead.remote.put(links(1), 100.0)),
        asyncio.create_task(dead.remote.content_seen(b"content", copies[0], None)),
    ]
    await disk.has(1)
    dead.remote._channel.close()
    await dead.member.disconnected.wait()
    await disk.has(2)
    disk.is_quick.set()
    await asyncio.gather(dead.member.close(), *calls, return_exceptions=True)
    later = time.monotonic() + 1_000.0
    assert [each.url for each in await other.remote.acquire(later, 1)] == [page.url]
    assert await other.remote.content_seen(b"content", copies[1], None) == (None, "")
    await other.die()


async def test_the_error_of_each_release_is_taken() -> None:
    """Else asyncio prints it with a traceback, when it is gone."""
    untaken: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: untaken.append(context))
    pair = Pair(served())
    await pair.remote.put(links(2), 100.0)
    for lease in await pair.remote.acquire(100.0, 2, Lane.ADMISSIONS):
        await pair.remote.release([(lease, Returned())], 100.0)
    pair.member.channel.close()
    with pytest.raises(StoreError):
        await pair.remote.close()
    await pair.die()
    gc.collect()
    assert untaken == []


@each_of(
    "unsendable",
    [
        Link("http://a/", "a", 1 << 70),
        Link("http://a/", "a", object()),
        Link("http://a/\ud800", "a"),
    ],
    ids=["a number", "an object", "a surrogate"],
)
async def test_a_call_that_cannot_be_sent_is_a_store_error(unsendable: Link) -> None:
    """A caller that is never answered would hang, and keep its leases."""
    pair = Pair(served())
    with pytest.raises(StoreError, match="cannot be sent"):
        await pair.remote.put([unsendable], 100.0)
    assert await pair.remote.put(links(1), 100.0) == 1
    await pair.die()


async def test_a_process_cannot_release_the_lease_of_another() -> None:
    server = served()
    pairs = [Pair(server), Pair(server)]
    for pair in pairs:
        await pair.remote.put(links(1), 100.0)
    leases = await pairs[0].remote.acquire(100.0, 1, Lane.ADMISSIONS)
    with pytest.raises(KeyError):
        await pairs[1].remote.release([(leases[0], Returned())], 100.0)
    for pair in pairs:
        await pair.die()


# The end of a target


async def test_a_page_is_leased_only_if_it_may_count() -> None:
    server = served(target=3)
    pair = Pair(server)
    await server.put(links(9), 100.0)
    await resolve(server)
    ours = await server.acquire(100.0, 1)
    theirs = await pair.remote.acquire(100.0, 9)
    assert (len(theirs), server.is_short, server.out) == (2, True, 3)
    assert await server.acquire(100.0, 9) == await pair.remote.acquire(100.0, 9) == []
    assert server.next_at() == pair.remote.next_at() == float("inf")
    await pair.remote.release([(theirs[0], answer(theirs[0], 101.0))], 101.0)
    await pair.remote.close()
    assert await server.acquire(101.0, 9) == [], "it counts"
    await server.release([(ours[0], Failed("timeout", 101.0, 101.0, final=True))], 101.0)
    more = await server.acquire(110.0, 9)
    assert len(more) == 1, "another one instead of a failed one"
    await pair.die()
    assert len(await server.acquire(120.0, 9)) == 1, "and of that of a process that died"
    await server.release([(more[0], answer(more[0], 102.0))], 102.0)
    assert (server.counters.crawled, server.out, server.is_met) == (2, 1, False)


async def test_an_unwanted_head_beyond_the_target_is_given_back() -> None:
    server = served(target=2, head_first=True)
    await server.put(links(3), 100.0)
    names = await server.acquire(100.0, 9, Lane.ADMISSIONS)
    await server.release([(each, answer(each, 100.0)) for each in names], 100.0)
    heads = await server.acquire(101.0, 9, Lane.ADMISSIONS)
    assert [each.step for each in heads] == [Step.HEAD] * 3
    unwanted = Fetched(200, 101.0, 101.0, wanted=False)
    await server.release([(each, unwanted) for each in heads], 101.0)
    assert (server.counters.crawled, server.counters.pending, server.out) == (2, 1, 0)


async def test_pages_have_a_spare_when_all_that_are_missing_are_leased_and_others_are_ready() -> (
    None
):
    server = served(target=2)
    pair = Pair(server)
    began_at = time.monotonic() - 0.5
    await server.put(links(3), began_at)
    await resolve(server, began_at)
    leases = await pair.remote.acquire(began_at, 1)
    assert not server.has_spare
    leases += await server.acquire(began_at + 9.0, 1)
    assert server.has_spare
    assert not pair.remote.has_spare, "it has not been told"
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    pair.remote.on_ready = lambda: woken.done() or woken.set_result(None)
    beating = asyncio.create_task(pair.remote.wait_for_end())
    await woken
    assert pair.remote.has_spare, "a heartbeat is enough"
    beating.cancel()
    await pair.remote.release([(leases[0], Returned())], began_at)
    await pair.remote.close()
    assert not pair.remote.has_spare, "there is room"
    server.target = 3
    assert len(await server.acquire(began_at + 9.0, 9)) == 2
    assert server.is_short
    assert not server.has_spare, "no page is left"
    await pair.die()


async def test_no_host_is_admitted_while_admitted_hosts_can_give_the_missing_pages() -> None:
    server = served(target=4)
    pages = [link(f"http://host-{host}/{n}") for host in range(20) for n in range(4)]
    await server.put(pages, 100.0)
    first = await server.acquire(100.0, 4, Lane.ADMISSIONS)
    await server.release([(lease, answer(lease, 100.0)) for lease in first], 100.0)
    assert server.local.supply >= 4
    assert await server.acquire(100.0, 9, Lane.ADMISSIONS) == []
    assert server.next_at(Lane.ADMISSIONS) == float("inf")
    leases = await server.acquire(100.0, 4)
    assert await server.acquire(100.0, 9, Lane.ADMISSIONS) == [], "all are under way"
    assert len(await server.acquire(102.0, 1, Lane.ADMISSIONS)) == 1, "but they are slow"
    busy = Fetched(503, 101.0, 101.0, retry_after_s=60.0)
    await server.release([(each, busy) for each in leases], 101.0)
    assert await server.acquire(101.0, 9, Lane.ADMISSIONS), "they give nothing for a while"


# Steering


async def test_the_target_can_be_lowered_to_what_is_answered_and_leased() -> None:
    server = served()
    pair = Pair(server)
    await server.put(links(9), 100.0)
    await resolve(server)
    ours = await server.acquire(100.0, 3)
    theirs = await pair.remote.acquire(100.0, 2)
    await server.release([(ours[0], answer(ours[0], 101.0))], 101.0)
    assert server.lowest_target == 5
    server.target = 5
    await server.steer(Orders())
    assert await pair.remote.acquire(101.0, 9) == []
    await server.release([(each, answer(each, 101.0)) for each in ours[1:]], 101.0)
    await pair.remote.release([(each, answer(each, 101.0)) for each in theirs], 101.0)
    await pair.remote.close()
    assert (server.counters.crawled, server.is_met) == (5, True)
    await pair.die()


async def test_a_process_that_fails_to_carry_out_orders_disconnects() -> None:
    server = served()
    pair = Pair(server)

    async def fail(orders: Orders) -> int:
        raise RuntimeError("of a user's code")

    pair.remote.on_orders = fail
    await pair.remote.acquire(100.0, 1)
    async with asyncio.timeout(5):
        assert await server.steer(Orders(is_paused=True)) == 0
        await pair.member.disconnected.wait()
        assert await pair.remote.wait_for_end() == MAIN_PROCESS_GONE
    assert pair.heard == [0]
    await pair.member.close()


async def test_a_process_that_dies_is_not_waited_for() -> None:
    server = served()
    pair = Pair(server)

    is_over = asyncio.Event()

    async def hang(orders: Orders) -> int:
        await is_over.wait()
        return 0

    pair.remote.on_orders = hang
    await pair.remote.acquire(100.0, 1)
    steering = asyncio.create_task(server.steer(Orders(is_paused=True)))
    await asyncio.sleep(0.01)
    assert not steering.done()
    await pair.die()
    assert await steering == 0
    is_over.set()


async def test_the_counts_of_all_processes_are_added_up() -> None:
    server = served()
    pairs = [Pair(server), Pair(server)]
    server.counters.links = 1
    for pair in pairs:
        for _ in range(2):
            counters = pair.remote.counters
            counters.links += 10
            counters.fetch_s += 0.5
            counters.dropped["scope_deny"] += 1
            await pair.remote.acquire(100.0, 1)
    for pair in pairs:
        await pair.die()
    counters = server.counters
    assert (counters.links, counters.fetch_s, counters.dropped["scope_deny"]) == (41, 2.0, 4)


async def test_served_processes_acquire_before_the_owner() -> None:
    server = served()
    pair = Pair(server)
    looked = asyncio.Event()
    pair.remote.on_ready = looked.set
    await pair.remote.acquire(100.0, 2, Lane.ADMISSIONS)
    await server.put(links(3), 100.0)
    await looked.wait()
    assert pair.remote.next_at(Lane.ADMISSIONS) == 0.0, "a notification carries the status"
    assert await server.acquire(100.0, 9, Lane.ADMISSIONS) == []
    assert 100.0 < server.next_at(Lane.ADMISSIONS) < 100.1
    assert len(await pair.remote.acquire(100.0, 2, Lane.ADMISSIONS)) == 2
    moment = server.next_at(Lane.ADMISSIONS)
    assert len(await server.acquire(moment, 9, Lane.ADMISSIONS)) == 1, (
        "the process is not short of the lane any more"
    )
    await pair.die()


async def test_a_process_that_does_not_acquire_gets_one_head_start() -> None:
    server = served()
    pair = Pair(server)
    await pair.remote.acquire(100.0, 2, Lane.ADMISSIONS)
    await server.put(links(1), 100.0)
    moment = server.next_at(Lane.ADMISSIONS)
    await server.put(links(2), moment)
    assert len(await server.acquire(moment, 9, Lane.ADMISSIONS)) == 2
    await pair.die()
    await server.put(links(3), moment)
    assert len(await server.acquire(moment, 9, Lane.ADMISSIONS)) == 1


async def test_processes_know_until_when_they_may_send_before_they_have_a_lease() -> None:
    server = served()
    first, told = Pair(server), []
    first.remote.on_allowed = lambda until, hub: told.append(until)
    server.allow_until(150.0)
    await first.remote.acquire(100.0, 1)
    assert told == [150.0]
    second = Pair(server)
    second.remote.on_allowed = lambda until, hub: told.append(until)
    await second.remote.acquire(100.0, 1)
    assert told == [150.0, 150.0]
    await first.die()
    await second.die()
