"""The process that reads large bodies: what it returns, and how it ends."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.adapters.conftest import LOOPS
from tests.adapters.rawserver import Run
from webcrawl.fetch.room import HostTimes
from webcrawl.parse.body import About, BodyReader, Options, Parsed
from webcrawl.parse.bodyprocess import LINKS_AT_A_TIME
from webcrawl.parse.largebodies import LargeBodies, ReadingFailed
from webcrawl.parse.sitemapfile import read_sitemap

URL = "http://h.example/"
on_the_usual_loop = pytest.mark.parametrize("run", LOOPS[-1:], indirect=True)
PARSERS = """
    import os, signal
    from webcrawl.parse.links import Markup

    def fail(payload, charset):
        raise ValueError("no page of mine")

    def crash(payload, charset):
        os._exit(3)

    def spin(payload, charset):
        while True:
            pass

    def interrupt(payload, charset):
        for each in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), each)
        return Markup(hrefs=["/still-here"])

    def who(payload, charset):
        return Markup(hrefs=[f"/{os.getpid()}"])
"""
NAMES = ("fail", "crash", "spin", "interrupt", "who")
Read = Callable[..., Awaitable[Parsed]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "parsersoftests.py").write_text(textwrap.dedent(PARSERS))
    return tmp_path


@asynccontextmanager
async def reading(folder: Path) -> AsyncIterator[Read]:
    parsers = {f"test/{name}": f"parsersoftests.{name}" for name in NAMES}
    options = Options(parsers=parsers, revisits=True, languages=True)
    pages = LargeBodies(options, HostTimes(), [*sys.path, str(folder)], cpu_max_s=0.3)

    async def read(media_type: str, body: bytes = b"") -> Parsed:
        about = About(media_type, URL, "noarchive", is_sampled=True)
        return await pages.read("h.example", body, about)

    try:
        yield read
    finally:
        await pages.close()


@on_the_usual_loop
async def test_a_large_page_is_read_as_a_small_one(run: Run, folder: Path) -> None:
    links = "".join(f"<a href=/{n}>some words</a>" for n in range(3 * LINKS_AT_A_TIME + 1))
    body = b"<html lang=pt><meta charset=utf-8><meta name=robots content=noindex>" + links.encode()
    async with reading(folder) as read:
        parsed = await read("text/html", body)
        options = Options(revisits=True, languages=True)
        here = BodyReader(options).read(body, About("text/html", URL, "noarchive", is_sampled=True))
        assert parsed == here
        assert here.language == "eng"
        assert len(parsed.page.links) == 3 * LINKS_AT_A_TIME + 1
        assert await read("text/html") != here


@on_the_usual_loop
async def test_a_large_sitemap_is_read_as_a_small_one(run: Run) -> None:
    locs = "".join(f"<url><loc>/{n}</loc></url>" for n in range(3 * LINKS_AT_A_TIME + 1))
    what = gzip.compress(f"<urlset>{locs}".encode()), [(b"content-encoding", b"gzip")], URL, True
    bodies = LargeBodies(Options(), HostTimes(), sys.path)
    try:
        file = await bodies.read_sitemap("h.example", *what)
    finally:
        await bodies.close()
    assert file == read_sitemap(*what)
    assert (len(file.entries), file.problem) == (3 * LINKS_AT_A_TIME + 1, "cut")


@on_the_usual_loop
async def test_a_parser_that_raises_costs_its_page_only_and_signals_to_the_crawl_nothing(
    run: Run, folder: Path
) -> None:
    async with reading(folder) as read:
        before = await read("test/who")
        with pytest.raises(ReadingFailed) as caught:
            await read("test/fail", b"x" * 1_000_000)
        assert caught.value.trace.endswith("ValueError: no page of mine\n")
        assert (await read("test/interrupt")).page.links == ["http://h.example/still-here"]
        assert await read("test/who") == before, "the process is the same"


@on_the_usual_loop
async def test_a_process_that_ends_is_replaced(run: Run, folder: Path) -> None:
    ends = {
        "crash": "the process that read it ended with 3",
        "spin": "it took more than 0.3 s of CPU time",
    }
    async with reading(folder) as read:
        before = await read("test/who")
        for name, reason in ends.items():
            with pytest.raises(ReadingFailed, match=reason) as caught:
                await read(f"test/{name}", b"x" * 1_000_000)
            assert caught.value.trace == ""
            after = await read("test/who")
            assert after != before
            before = after


CRAWL = """
    import asyncio, sys
    from webcrawl.fetch.room import HostTimes
    from webcrawl.parse.body import About, Options
    from webcrawl.parse.largebodies import LargeBodies

    async def main():
        parsers = {f"test/{name}": f"parsersoftests.{name}" for name in ("who", "spin")}
        pages = LargeBodies(Options(parsers=parsers), HostTimes(), sys.path)
        read = await pages.read("h", b"", About("test/who", "http://h/"))
        print(read.page.links[0].rpartition("/")[2], flush=True)
        await pages.read("h", b"", About("test/spin", "http://h/"))

    asyncio.run(main())
"""


def test_the_process_ends_with_a_crawl_that_is_killed(folder: Path) -> None:
    """Also while it reads a page: its CPU time, 30 s, would end later than this test."""
    path = os.pathsep.join((*sys.path, str(folder)))
    command = [sys.executable, "-c", textwrap.dedent(CRAWL)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": path}
    ) as crawl:
        assert crawl.stdout is not None
        pid = int(crawl.stdout.readline())
        os.kill(pid, 0)
        crawl.kill()
    deadline = time.monotonic() + 25
    with suppress(ProcessLookupError):
        while is_running(pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)


def is_running(pid: int) -> bool:
    """Whether a process runs. One that nobody has waited for yet does not."""
    os.kill(pid, 0)
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
