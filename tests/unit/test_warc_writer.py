"""The WARC writer: order, errors, and close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from tests.exchanges import EXCHANGES, capture, exchange, read
from webcrawl.warc.files import Position, WarcError, WarcFiles
from webcrawl.warc.records import Capture
from webcrawl.warc.writer import WarcWriter

PLAIN = capture(EXCHANGES["plain"])


@asynccontextmanager
async def opened(files: WarcFiles) -> AsyncIterator[WarcWriter]:
    writer = WarcWriter(files)
    await writer.open()
    yield writer
    await writer.close()


class Watched(WarcFiles):
    """Records the threads that call it, and fails for some captures."""

    def __init__(self, folder: Path, max_size: int = 1 << 30) -> None:
        super().__init__(folder, "name", max_size)
        self.threads: list[str] = []

    def write(self, capture: Capture) -> Position:
        self.threads.append(threading.current_thread().name)
        if capture.exchange.url.endswith("/bad"):
            raise WarcError("no")
        if capture.exchange.url.endswith("/bug"):
            raise ZeroDivisionError
        return super().write(capture)


async def test_captures_are_written_in_order(tmp_path: Path) -> None:
    urls = [f"http://a.test/{number}" for number in range(200)]
    async with opened(Watched(tmp_path)) as writer:
        await asyncio.gather(*(writer.write(capture(exchange(url=url))) for url in urls))
    _, path = sorted(tmp_path.iterdir())  # its index, and the file
    found = [each.fields["warc-target-uri"] for each in read(path) if each.type == "response"]
    assert found == urls
    assert writer.written.records == 1 + 3 * len(urls)


async def test_a_write_is_done_when_its_bytes_are_in_the_file(tmp_path: Path) -> None:
    async with opened(Watched(tmp_path)) as writer:
        place = await writer.write(PLAIN)
        assert size_of_all(tmp_path) == place.offset + place.size_bytes


async def test_an_error_reaches_the_caller_of_its_write(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    async with opened(files) as writer:
        writes = [
            writer.write(capture(exchange(url=f"http://a.test/{name}")))
            for name in ("good", "bad", "bug", "good")
        ]
        results = await asyncio.gather(*writes, return_exceptions=True)
    assert [type(each) for each in results] == [Position, WarcError, ZeroDivisionError, Position]
    assert files.written.records == 1 + 3 * 2


async def test_the_event_loop_does_not_wait_for_the_end_of_a_file(tmp_path: Path) -> None:
    """The file is synced to the disk: for a gigabyte that takes seconds."""
    files = Watched(tmp_path, max_size=(1 << 20) + 4000)
    async with opened(files) as writer:
        while not files.threads or files.threads[-1] != "warc":
            await writer.write(PLAIN)
        assert not files.written.files
    assert len(files.threads) > 2
    assert "warc" not in files.threads[:-1]


def size_of_all(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


async def test_a_large_capture_is_written_in_a_thread(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    large = capture(exchange(body=bytes(2 << 20)))
    many_links = replace(PLAIN, metadata=(("outlink", "x" * 2000),) * 1000)
    async with opened(files) as writer:
        for each in (PLAIN, large, many_links):
            await writer.write(each)
    assert files.threads == ["MainThread", "warc", "warc"]


async def test_close_waits_for_all_writes(tmp_path: Path) -> None:
    async with opened(Watched(tmp_path)) as writer:
        for _ in range(5):
            writer.write(PLAIN)
    assert writer.written.records == 1 + 3 * 5
