"""The queue of large pages: its order and its end. `tests/adapters` has its process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from tests.cases import each_of
from webcrawl.crawl.page_fetch import PageFetch
from webcrawl.fetch.room import HostTimes
from webcrawl.frontier.lease import Lease, Step
from webcrawl.frontier.outbox import LINKS_AT_A_TIME
from webcrawl.parse import largebodies
from webcrawl.parse.body import QUICK_BYTES_OF_OTHERS, About, BodyReader, Options, Parsed
from webcrawl.parse.bodyprocess import PageTask
from webcrawl.parse.largebodies import GivenUp, LargeBodies
from webcrawl.parse.page import QUICK_BYTES, QUICK_TAGS
from webcrawl.spiders.broad import BroadSpider

PDF: dict[str, str | None] = {"application/pdf": "webcrawl.parse.pdf.read_pdf"}


class FakeProcess:
    """Reads a page once the test says so."""

    def __init__(self) -> None:
        self.read_urls: list[str] = []
        self.is_killed = asyncio.Event()
        self.goes_on = asyncio.Semaphore(0)

    async def read(self, task: PageTask, body: bytes) -> Parsed:
        self.read_urls.append(task.about.url)
        on = asyncio.ensure_future(self.goes_on.acquire())
        killed = asyncio.ensure_future(self.is_killed.wait())
        await asyncio.wait((on, killed), return_when=asyncio.FIRST_COMPLETED)
        if self.is_killed.is_set():
            raise EOFError
        killed.cancel()
        return BodyReader(Options()).read(body, task.about)

    def kill(self) -> None:
        self.is_killed.set()

    async def end(self) -> str:
        return "ended"


def pages_with(process: FakeProcess, is_full: Callable[[], bool] = lambda: False) -> LargeBodies:
    pages = LargeBodies(Options(), HostTimes(), [], is_full=is_full)
    pages._process = process  # type: ignore[assignment]
    return pages


def asked(pages: LargeBodies, host: str, size: int = 1000) -> asyncio.Task[Any]:
    body = b"x" * size
    return asyncio.create_task(pages.read(host, body, About("text/html", f"http://{host}/")))


async def turn() -> None:
    for _ in range(9):
        await asyncio.sleep(0)


async def test_hosts_that_have_used_the_least_time_go_first() -> None:
    process = FakeProcess()
    pages = pages_with(process)
    pages._times.charge("slow", 100.0, waiting=99)
    pages._times.charge("slower", 200.0, waiting=99)
    first = asked(pages, "slower")
    await turn()  # nothing else waits
    rest = [asked(pages, "slower"), asked(pages, "slow"), asked(pages, "new", 9999)]
    rest.append(asked(pages, "newer"))
    await turn()
    assert repr(pages) == "<LargeBodies 1 read, 4 waiting>"
    for _ in range(5):
        process.goes_on.release()
    await asyncio.gather(first, *rest)
    hosts = [url.split("/")[2] for url in process.read_urls]
    assert hosts == ["slower", "newer", "new", "slow", "slower"]
    await pages.close()


async def test_no_page_is_read_while_links_are_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(largebodies, "_FULL_S", 0.0)
    process, held = FakeProcess(), True
    process.goes_on.release()
    pages = pages_with(process, lambda: held)
    first = asked(pages, "a")
    await turn()
    assert repr(pages) == "<LargeBodies 0 read, 1 waiting>"
    assert process.read_urls == []
    held = False
    await first
    held = True
    second = asked(pages, "b")
    await turn()
    pages.give_up()
    with pytest.raises(GivenUp):
        await second
    assert process.read_urls == ["http://a/"]
    await pages.close()


async def test_the_end_of_the_crawl_gives_up_all_pages() -> None:
    process = FakeProcess()
    pages = pages_with(process)
    under_way = [asked(pages, host) for host in "abc"]
    await turn()
    assert process.read_urls == ["http://a/"]
    pages.give_up()
    ends = await asyncio.gather(*under_way, return_exceptions=True)
    assert [type(end) for end in ends] == [GivenUp] * 3
    with pytest.raises(GivenUp):
        await asked(pages, "d")
    assert process.read_urls == ["http://a/"]
    process.goes_on.release()  # what is read ends
    await pages.close()


async def test_a_page_of_a_cancelled_caller_is_not_read() -> None:
    process = FakeProcess()
    pages = pages_with(process)
    first, second, third = (asked(pages, host) for host in "abc")
    await turn()
    second.cancel()
    process.goes_on.release()
    process.goes_on.release()
    await asyncio.gather(first, third)
    assert process.read_urls == ["http://a/", "http://c/"]
    await pages.close()


def test_a_link_rich_page_is_held_until_its_links_are_put() -> None:
    puts_large = False
    spider = BroadSpider()
    crawl = SimpleNamespace(scheduler=SimpleNamespace(puts_large=lambda: puts_large))
    spider.__dict__["_crawl"] = crawl
    page_fetch = PageFetch(Lease("h", Step.PAGE, "http://h/", "127.0.0.1"))
    response = Response("http://h/", request=page_fetch.bind(Request("http://h/")))

    async def read(links: int) -> None:
        process = FakeProcess()
        process.goes_on.release()
        spider.__dict__["large_bodies"] = pages = pages_with(process)
        body = b"".join(b"<a href=/%d>" % n for n in range(links))
        await spider._read_large(response, body, About("text/html", "http://h/"))
        await pages.close()

    asyncio.run(read(LINKS_AT_A_TIME))
    assert not spider._holds_links()
    asyncio.run(read(LINKS_AT_A_TIME + 1))
    assert spider._holds_links()
    puts_large = True
    page_fetch.end()
    assert spider._holds_links()
    puts_large = False
    assert not spider._holds_links()


@each_of(
    ("body", "media_type", "is_quick"),
    [
        (b"", "text/html", True),
        (b"x" * QUICK_BYTES, "text/html", True),
        (b"x" * (QUICK_BYTES + 1), "text/html", False),
        (b"<p>some words</p>" * (QUICK_TAGS // 2), "text/html", True),
        (b"<p>some words</p>" * (QUICK_TAGS // 2 + 1), "text/html", False),
        (b"x" * (QUICK_BYTES + 1), "image/png", True),
        (b"x" * QUICK_BYTES_OF_OTHERS, "application/pdf", True),
        (b"x" * (QUICK_BYTES_OF_OTHERS + 1), "application/pdf", False),
    ],
)
def test_which_pages_are_read_on_the_event_loop(
    body: bytes, media_type: str, is_quick: bool
) -> None:
    assert BodyReader(Options(parsers=PDF)).reads_quickly(body, media_type) is is_quick
