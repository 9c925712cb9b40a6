"""The frontier of several hubs: what each of them gets, and what one that is away does not stop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.frontier import answer, link, memory_frontier
from tests.contracts.test_hub_frontier import BRIEF, Machines, connected
from tests.sim.conftest import virtual_time
from webcrawl.cluster.allhubs import AllHubs
from webcrawl.cluster.fetching import HUB_ENDS
from webcrawl.crawllog.line import Details, LostLine, to_bytes
from webcrawl.frontier.base import Policy
from webcrawl.frontier.lease import Lane, Lease, Returned
from webcrawl.frontier.politeness import Politeness
from webcrawl.frontier.store import StoreError
from webcrawl.hub.server import FrontierServer
from webcrawl.hub.wire import Orders

__all__ = ["virtual_time"]  # a fixture
pytestmark = pytest.mark.virtual_time  # a hub is late at once if it does not answer
NOW = 1_000.0  # the clock of `Machines`


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "webcrawl.cluster")


class Crawl:
    """Two hubs, and one fetcher. Hosts that begin with "a" are hub 0's."""

    def __init__(self) -> None:
        policy = Policy(politeness=Politeness(0.0, 0.0), obey_robots=False)
        self.hubs: list[Machines] = []
        for number in range(2):
            server = FrontierServer(memory_frontier(policy))
            handlers = self.hubs[0]._handlers if number else None
            self.hubs.append(Machines(server, number, handlers))
        brief = replace(BRIEF, hubs=2)
        remotes = [hub.fetcher(brief) for hub in self.hubs]
        self.fetcher = AllHubs(remotes, lambda host: int(host[0] != "a"))
        self.given_back: list[Callable[[str], bool]] = []
        self.fetcher.give_back = self.give_back

    async def aopen(self) -> None:
        self.life = self.hubs[0].start(self.fetcher)
        await connected(self.fetcher)
        self.fetcher.tick()
        await turns()  # the hubs have heard it

    async def put(self, *urls: str) -> None:
        """Put seeds at the hubs, with resolved hosts."""
        for url in urls:
            server = self.hubs[int("//a" not in url)].server
            await server.put([link(url)], NOW)
            for lease in await server.acquire(NOW, 9, Lane.ADMISSIONS):
                await server.release([(lease, answer(lease, NOW))], NOW)
        self.poll()

    def poll(self) -> None:
        for hub in self.fetcher._hubs:
            hub.polled_at = float("-inf")

    async def acquire(self, limit: int = 9) -> list[str]:
        return sorted(lease.host for lease in await self.fetcher.acquire(NOW, limit))

    def go_away(self, number: int) -> None:
        """The hub is stopped, or its machine cut off."""
        self.hubs[number].sessions.serves_until = float("-inf")

    def come_back(self, number: int) -> None:
        self.hubs[number].sessions.serves_until = float("inf")
        self.fetcher._hubs[number].frontier.end_session()
        self.fetcher.tick()

    def give_back(self, has_changed: Callable[[str], bool]) -> None:
        self.given_back.append(has_changed)
        self.withdraw()

    def withdraw(self) -> None:
        """As the pump does."""
        leases = self.fetcher.withdraw()
        self.returning = asyncio.create_task(
            self.fetcher.release([(lease, Returned()) for lease in leases], NOW)
        )

    def counted(self, name: str) -> list[Any]:
        return [getattr(hub.server.counters, name) for hub in self.hubs]

    async def aclose(self) -> None:
        for hub in self.hubs:
            await hub.aclose()


@pytest.fixture
def crawl() -> Crawl:
    return Crawl()


async def turns() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def test_hubs_with_leases_give_the_same_share_and_others_take_what_is_left(
    crawl: Crawl,
) -> None:
    await crawl.put(*(f"http://a{n}/" for n in range(9)), "http://b/")
    assert await crawl.acquire(4) == ["a0", "a1", "b"]
    assert await crawl.acquire(4) == ["a2", "a3", "a4", "a5"]


async def test_a_hub_that_does_not_answer_stops_neither_acquire_nor_release_nor_put(
    crawl: Crawl,
) -> None:
    await crawl.put("http://a1/", "http://a2/", "http://b1/", "http://b2/")
    leases = await crawl.fetcher.acquire(NOW, 2)
    crawl.go_away(1)
    crawl.poll()
    leases += await crawl.fetcher.acquire(NOW, 2)
    assert sorted(lease.host for lease in leases) == ["a1", "a2", "b1"]
    async with asyncio.timeout(0.01):  # nobody waits for it again
        await crawl.fetcher.release([(each, answer(each, NOW)) for each in leases], NOW)
        assert await crawl.fetcher.put([link("http://b3/"), link("http://a3/")], NOW) == 1
        await crawl.fetcher.acquire(NOW, 9)
    assert crawl.counted("crawled") == [2, 0]
    crawl.come_back(1)
    await turns()
    assert crawl.counted("crawled") == [2, 1]
    assert crawl.counted("extracted")[1] == 2
    assert await crawl.acquire() == ["b2"], "judged again"


@pytest.mark.parametrize("has_come", [False, True])
async def test_late_leases_are_withdrawn_without_another_acquire(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch, has_come: bool
) -> None:
    """A process makes none for hours in an outage, or while its disk is full."""
    await crawl.put("http://b/")
    local, answers = crawl.hubs[1].server.local, asyncio.Event()
    acquire_of_hub = local.acquire

    async def acquire(*args: Any) -> list[Lease]:
        await answers.wait()
        return await acquire_of_hub(*args)

    monkeypatch.setattr(local, "acquire", acquire)
    assert await crawl.acquire() == []
    if has_come:
        answers.set()
        await turns()
    crawl.withdraw()
    answers.set()
    await turns()
    await crawl.fetcher.close()
    assert crawl.hubs[1].server.out == 0
    crawl.poll()
    assert await crawl.acquire() == ["b"]


async def test_leases_that_cross_the_last_message_of_this_process_are_not_released(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hub has them back."""
    await crawl.put("http://b/")
    local, refused = crawl.hubs[1].server.local, []
    acquire_of_hub = local.acquire

    async def acquire(*args: Any) -> list[Lease]:
        leases = await acquire_of_hub(*args)
        crawl.fetcher.withdraw()
        asyncio.get_running_loop().call_soon(crawl.fetcher.exit, "shutdown", {})
        return leases

    monkeypatch.setattr(local, "acquire", acquire)
    monkeypatch.setattr("webcrawl.cluster.sessions.logger.error", lambda *a, **_: refused.append(a))
    assert await crawl.acquire() == []
    await turns()
    assert not refused
    assert crawl.hubs[1].server.out == 0


async def test_the_leases_of_a_hub_that_is_away_make_room_for_others(crawl: Crawl) -> None:
    allowed: list[tuple[float, int]] = []
    crawl.fetcher.on_allowed = lambda until, hub: allowed.append((until, hub))
    crawl.given_back.clear()
    crawl.fetcher._hubs[1].frontier.end_session()
    assert allowed == [(NOW, 1)]
    (of_hub,) = crawl.given_back
    assert [of_hub(host) for host in ("a", "b")] == [False, True]
    assert crawl.fetcher.hub_of("http://b/x") == 1
    assert crawl.fetcher.hub_of("data:,x") is None


async def test_a_link_goes_to_the_hub_of_its_page_and_a_users_request_to_that_of_its_host(
    crawl: Crawl,
) -> None:
    links = [link("http://b1/", via="http://a/"), link("http://b2/", payload=b"x")]
    assert await crawl.fetcher.put(links, NOW) == 2
    assert crawl.counted("pending") == [1, 1]


async def test_each_count_goes_to_one_hub_and_requests_under_way_in_parts_to_all(
    crawl: Crawl,
) -> None:
    counters = crawl.fetcher.counters
    counters.links += 5
    counters.under_way += 3
    crawl.fetcher.tick()
    await turns()
    assert (sum(crawl.counted("links")), sum(crawl.counted("under_way"))) == (5, 3)
    crawl.fetcher._hubs[0].frontier.end_session()
    counters.links += 2
    counters.under_way -= 1
    for hub in reversed(crawl.fetcher._hubs):
        hub.frontier.tick()
    await turns()
    assert (sum(crawl.counted("links")), sum(crawl.counted("under_way"))) == (7, 2)
    assert crawl.counted("under_way") == [1, 1], "no hub is told a part below 0"
    crawl.fetcher.exit("shutdown", {"items": 4})
    await turns()
    assert crawl.counted("under_way") == [0, 0]
    said = [hub.left for hub in crawl.hubs]
    assert said == [[("shutdown", {"items": 4})], [("shutdown", {})]]


async def test_of_the_orders_of_all_hubs_the_newest_count(crawl: Crawl) -> None:
    carried_out: list[int] = []

    async def carry_out(orders: Orders) -> int:
        carried_out.append(orders.number)
        return 7

    crawl.fetcher.on_orders = carry_out
    one, two = (hub.server for hub in crawl.hubs)
    assert await one.steer(Orders(is_paused=True, number=2)) == 7
    assert await two.steer(Orders(number=1)) == 0
    assert await two.steer(Orders(is_paused=True, number=2)) == 7
    assert carried_out == [2, 2]


async def test_a_hub_that_ends_gets_its_leases_back_and_only_the_end_of_the_last_is_the_end(
    crawl: Crawl,
) -> None:
    await crawl.put("http://a/", "http://b/")
    leases = await crawl.fetcher.acquire(NOW, 9)
    crawl.hubs[1].server.end("shutdown")
    await turns()
    assert crawl.hubs[1].left == []
    await crawl.fetcher.release([(each, Returned()) for each in leases], NOW)
    await turns()
    assert crawl.hubs[1].left == [(HUB_ENDS, {})]
    assert not crawl.life.done()
    crawl.poll()
    assert await crawl.acquire() == ["a"]
    crawl.hubs[0].server.end("shutdown")
    assert await crawl.life == HUB_ENDS
    crawl.fetcher.exit("shutdown", {"items": 4})
    await turns()
    said = [hub.left for hub in crawl.hubs]
    assert said == [[("shutdown", {"items": 4})], [(HUB_ENDS, {})]]


async def test_a_hub_that_is_away_does_not_keep_a_fetcher_when_the_last_other_one_ends(
    crawl: Crawl,
) -> None:
    crawl.go_away(1)
    crawl.fetcher._hubs[1].frontier.end_session()
    crawl.hubs[0].server.end("shutdown")
    assert await crawl.life == HUB_ENDS


@pytest.mark.parametrize("reason", ["finished", "closespider_pagecount"])
async def test_any_hub_ends_the_crawl(crawl: Crawl, reason: str) -> None:
    crawl.hubs[1].server.end(reason)
    assert await crawl.life == reason
    assert crawl.fetcher.is_met == (reason != "finished")


async def test_a_hub_whose_store_fails_stops_no_fetcher(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    await crawl.put("http://a/", "http://b/")

    async def fail(*args: Any) -> list[Lease]:
        raise StoreError("no space left")

    monkeypatch.setattr(crawl.hubs[1].server.local, "acquire", fail)
    assert await crawl.acquire() == [], "they are judged again"
    await crawl.fetcher.close()
    assert await crawl.acquire() == ["a"]
    assert not crawl.fetcher._hubs[1].frontier.is_connected, "until the next tick"


async def test_a_hub_that_failed_is_told_later_what_it_may_not_have(
    crawl: Crawl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else files of the archive wait for their lines of the crawl log as long as this process."""
    await crawl.put("http://b/")
    (lease,) = await crawl.fetcher.acquire(NOW, 9)
    server = crawl.hubs[1].server
    logged: list[tuple[str, list[int]]] = []

    async def fail(*args: Any, **more: Any) -> None:
        raise StoreError("no space left")

    async def log_if_lost(warc: str, lines: Sequence[LostLine]) -> None:
        logged.append((warc, [offset for offset, *_ in lines]))

    with monkeypatch.context() as failing:
        for name in ("release", "put", "log_if_lost"):
            failing.setattr(server.local, name, fail)
        details = to_bytes(Details(200, warc="x.warc.gz", offset=7))
        await crawl.fetcher.release([(lease, answer(lease, NOW, details=details))], NOW)
        await crawl.fetcher.put([link("http://b/of-a-user", payload=b"x")], NOW)
        await turns()
        assert await crawl.fetcher.logged_until(NOW + 1) == NOW
    monkeypatch.setattr(server.local, "log_if_lost", log_if_lost)
    crawl.hubs[1].sessions._fetchers.clear()  # as another process
    crawl.come_back(1)
    await asyncio.sleep(5)
    assert logged == [("x.warc.gz", [7])]
    assert await crawl.fetcher.logged_until(NOW + 1) == NOW + 1
    assert crawl.counted("pending")[1] == 1, "the user's Request"


async def test_a_fault_of_this_process_ends_it(crawl: Crawl) -> None:
    with pytest.raises(StoreError, match="cannot be sent"):
        await crawl.fetcher.put([link("http://a/", depth=1 << 70)], NOW)
    with pytest.raises(StoreError):
        await crawl.acquire()
