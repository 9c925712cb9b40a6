"""The scheduler without an engine: which Requests it takes, and what it makes of their ends."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.core.engine import ExecutionEngine
from scrapy.crawler import Crawler

from tests.cases import each_of
from webcrawl import settings as project
from webcrawl.admission.outage import MANY
from webcrawl.config.build import domains_of
from webcrawl.crawl.crawl import Assignment, crawl_of
from webcrawl.crawl.page_fetch import PageFetch, lease_of, page_fetch_of
from webcrawl.frontier.lease import Dropped, Failed, Fetched, Lease, Link, Returned, Step
from webcrawl.items import Page
from webcrawl.parse.detection import Detector
from webcrawl.scheduler import Scheduler
from webcrawl.scheduler.opening import rules_of
from webcrawl.scope.hostrules import HostRule, Values
from webcrawl.spiders.broad import BroadSpider

URL = "http://a.example/"


def crawler_with(**settings: Any) -> Crawler:
    values = {name: getattr(project, name) for name in dir(project) if name.isupper()}
    memory = {"FRONTIER_STORE": "memory", "EXTENSIONS_BASE": {}, "SCOPE_SUFFIXES": [".example"]}
    memory["TWISTED_REACTOR_ENABLED"] = False
    crawler = Crawler(BroadSpider, values | memory | settings)
    crawler._apply_settings()
    crawler.engine = object.__new__(ExecutionEngine)
    return crawler


class Closing(Scheduler):
    async def aclose(self) -> None:
        await self._pump.close()


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # a Scheduler makes the folder of its crawl log


@pytest.fixture
def scheduler() -> Scheduler:
    return Closing.from_crawler(crawler_with())


async def leased(scheduler: Scheduler, payload: bytes = b"") -> Request:
    """A Request that the scheduler hands out, for a link with `payload`."""
    link = Link(URL, "a.example", payload=payload)
    scheduler._pump._window.append(Lease("a.example", Step.PAGE, URL, "10.0.0.1", link))
    request = scheduler.next_request()
    assert request is not None
    return request


def ended(scheduler: Scheduler) -> list[Any]:
    return [outcome for _, outcome in scheduler._pump.outbox._ended]


async def test_a_part_that_is_off_is_said_at_the_start(
    caplog: pytest.LogCaptureFixture,
) -> None:
    off = {"webcrawl.middlewares.RobotsTxt": None}
    scheduler = Closing.from_crawler(crawler_with(DOWNLOADER_MIDDLEWARES=off))
    with caplog.at_level(logging.WARNING):
        scheduler.open(BroadSpider())
    await scheduler.aclose()
    assert "DOWNLOADER_MIDDLEWARES: RobotsTxt is off" in caplog.text


async def test_a_process_loads_the_model_of_languages_once() -> None:
    """The user's may take 2 GB."""

    def loaded() -> int:
        return sum(isinstance(each, Detector) for each in gc.get_objects())

    before, crawler = loaded(), crawler_with(LANGUAGES="pt")
    crawler.spider = BroadSpider.from_crawler(crawler)
    scheduler = Closing.from_crawler(crawler)
    assert crawler.spider.bodies.options.languages
    assert loaded() == before + 1
    await scheduler.aclose()


@pytest.mark.parametrize(("under_way", "is_suspected"), [(MANY - 1, False), (MANY, True)])
async def test_a_fetch_counts_as_failed_while_no_server_answers(
    scheduler: Scheduler, under_way: int, is_suspected: bool
) -> None:
    """Long before its time-out, so that an outage of our own network is noticed."""
    pump, now = scheduler._pump, time.monotonic()
    pump._outage.server_answered("b.example", "10.0.0.2", "http://b.example/", now - 10.0)
    for _ in range(under_way):
        pump.under_way.add(PageFetch(Lease("a.example", Step.PAGE, URL, "10.0.0.1")))
    pump._look_for_outage(now)
    await asyncio.sleep(0)
    assert pump._outage.failures == ([("a.example", "connect")] if is_suspected else [])


@each_of("is_shared", [False, True])
async def test_an_outage_gives_back_leases_that_other_processes_may_fetch(
    scheduler: Scheduler, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a target (CLOSESPIDER_PAGECOUNT) would wait for the end of the outage."""
    pump, scheduler.frontier.shared = scheduler._pump, is_shared
    leases = [Lease(f"{n}.example", Step.PAGE, URL, "10.0.0.1") for n in range(2)]
    pump._window.append(leases[0])
    monkeypatch.setattr(scheduler.frontier, "withdraw", lambda: [leases[1]])
    pump._outage._since = time.monotonic()
    pump._outage.changed()
    assert ended(scheduler) == [Returned(), Returned()] * is_shared
    assert len(pump._window) == (not is_shared)
    pump._window.clear()
    pump.outbox._ended.clear()  # no frontier knows it


async def test_a_request_that_the_end_cuts_off_counts_for_the_delay_of_its_host(
    scheduler: Scheduler,
) -> None:
    """Another process may be given the lease at once, as when a fetcher ends by Ctrl-C."""
    asked = asyncio.Event()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        asked.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        url = f"http://a.example:{server.sockets[0].getsockname()[1]}/robots.txt"
        lease, pump = Lease("a.example", Step.ROBOTS, url, "127.0.0.1"), scheduler._pump
        pump._admitting[lease] = asyncio.create_task(pump._run_admission(lease))
        await asked.wait()
        await pump.end_admissions()
    (returned,) = ended(scheduler)
    assert returned.asked_at == returned.ended_at > 0


@each_of(
    ("chosen", "taken"),
    [
        (["a.example"], True),
        (["b.example", "http://a.example/x"], True),
        (("b.example",), False),
        ("b.example,A.example", True),  # -a allowed_domains=b.example,A.example
        (["not a host"], False),
        ([], True),
        (None, True),
    ],
)
async def test_allowed_domains_of_the_spider_narrows_the_scope(chosen: Any, taken: bool) -> None:
    crawler = crawler_with()
    crawler.spider = BroadSpider.from_crawler(crawler)
    crawler.spider.allowed_domains = chosen
    scheduler = Closing.from_crawler(crawler)
    assert scheduler.enqueue_request(Request(URL, dont_filter=True)) is taken
    await scheduler.aclose()


def test_a_worker_has_the_domains_and_the_rules_of_the_first_process() -> None:
    """Its spider may have made others: it gets no seeds."""
    crawler = crawler_with(RULES="@/no/such/file.toml")
    crawler.spider = BroadSpider()
    crawler.spider.allowed_domains = ["b.example"]
    rules = [HostRule(line=1, values=Values(), hosts=("a.example",))]
    crawl_of(crawler).assignment = Assignment(3, rules, None, ["a.example"])
    assert domains_of(crawler) == ["a.example"]
    in_force = rules_of(crawler)
    assert in_force is not None
    assert in_force.rules == rules


@pytest.mark.parametrize(
    ("request_", "taken"),
    [
        (Request(URL), True),
        (Request("http://other.test/"), False),
        (Request("http://:/"), False),
        (Request("data:,x"), True),
        (Request(URL, method="POST", body=b"x"), True),
    ],
    ids=["in scope", "out of scope", "not a URL", "not of the web", "POST"],
)
async def test_which_requests_are_taken(
    scheduler: Scheduler, request_: Request, taken: bool
) -> None:
    assert scheduler.enqueue_request(request_) is taken
    assert scheduler.has_pending_requests() is taken


async def test_a_request_that_its_url_does_not_identify_is_taken_once(scheduler: Scheduler) -> None:
    assert scheduler.enqueue_request(Request(URL, method="POST", body=b"x"))
    assert not scheduler.enqueue_request(Request(URL, method="POST", body=b"x"))
    assert scheduler.enqueue_request(Request(URL, method="POST", body=b"y"))
    again = Request(URL, method="POST", body=b"x", dont_filter=True)
    assert scheduler.enqueue_request(again)


async def test_a_request_that_is_not_of_the_web_bypasses_the_frontier(scheduler: Scheduler) -> None:
    request = Request("data:,x")
    scheduler.enqueue_request(request)
    assert scheduler.next_request() is request
    assert lease_of(request) is None
    assert scheduler.next_request() is None


async def test_a_lease_is_given_back_once(scheduler: Scheduler) -> None:
    page_fetch = page_fetch_of(await leased(scheduler))
    assert page_fetch is not None
    answer = Fetched(200, 1.0, 2.0, size_bytes=7, took_s=0.5)
    scheduler.finish(page_fetch, answer)
    scheduler.finish(page_fetch, Dropped("replaced"))
    assert ended(scheduler) == [answer]
    assert (scheduler.counters.page_bytes, scheduler.counters.fetch_s) == (7, 0.5)
    scheduler._pump.outbox._ended.clear()


async def test_the_links_of_a_near_duplicate_are_left_out(scheduler: Scheduler) -> None:
    """A user's spider may empty the field."""
    found = []
    for near in ("http://b.example/", ""):
        page = Page(URL, 200, links=[f"{URL}x"], links_found=1, near_duplicate_of=near)
        page_fetch = PageFetch(
            Lease("a.example", Step.PAGE, URL, "10.0.0.1", Link(URL, "a.example"))
        )
        assert await scheduler.page_found(page_fetch, page)
        found.append(len(page_fetch.links))
    assert found == [0, 1]


def test_a_page_at_the_limit_of_depth_does_not_lead_on() -> None:
    scheduler = Closing.from_crawler(crawler_with(DEPTH_LIMIT=2))
    assert [scheduler.leads_on(Link(URL, "a.example", depth)) for depth in (1, 2)] == [True, False]


async def test_a_request_of_an_earlier_run_that_cannot_be_restored_is_dropped(
    scheduler: Scheduler,
) -> None:
    link = Link(URL, "a.example", payload=b"kept 1 by a process that is gone")
    scheduler._pump._window.append(Lease("a.example", Step.PAGE, URL, "10.0.0.1", link))
    assert scheduler.next_request() is None
    assert ended(scheduler) == [Dropped("unreadable")]
    scheduler._pump.outbox._ended.clear()


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (Returned(), True),
        (Failed("timeout", 1.0, 2.0), True),
        (Failed("bad_response", 1.0, 2.0), False),
        (Fetched(503, 1.0, 2.0), True),
        (Fetched(404, 1.0, 2.0), False),
        (Dropped("middleware"), False),
    ],
    ids=repr,
)
async def test_which_outcomes_are_not_the_end_of_a_request(
    scheduler: Scheduler, outcome: Any, again: bool
) -> None:
    assert scheduler.comes_again(Link(URL, "a.example"), outcome) is again
    last_try = Link(URL, "a.example", retries=2)
    assert scheduler.comes_again(last_try, outcome) is isinstance(outcome, Returned)
