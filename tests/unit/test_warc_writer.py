"""The WARC writer: order, errors, and close."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.exchanges import EXCHANGES, capture, exchange, read
from webcrawl.warc.files import Position, WarcError, WarcFiles
from webcrawl.warc.records import Capture
from webcrawl.warc.writer import WarcWriter

PLAIN = capture(EXCHANGES["plain"])


def writing(folder: Path, use: Callable[[WarcWriter], Awaitable[None]]) -> WarcWriter:
    writer = WarcWriter(WarcFiles(folder, "name", 1 << 30))

    async def go() -> None:
        await writer.open()
        await use(writer)
        await writer.close()

    asyncio.run(go())
    return writer


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


def test_captures_are_written_in_order(tmp_path: Path) -> None:
    urls = [f"http://a.test/{number}" for number in range(200)]

    async def use(writer: WarcWriter) -> None:
        await asyncio.gather(*(writer.write(capture(exchange(url=url))) for url in urls))

    writer = writing(tmp_path, use)
    _, path = sorted(tmp_path.iterdir())  # its index, and the file
    found = [each.fields["warc-target-uri"] for each in read(path) if each.type == "response"]
    assert found == urls
    assert writer.written.records == 1 + 3 * len(urls)


def test_a_write_is_done_when_its_bytes_are_in_the_file(tmp_path: Path) -> None:
    async def use(writer: WarcWriter) -> None:
        place = await writer.write(PLAIN)
        assert size_of_all(tmp_path) == place.offset + place.size_bytes

    writing(tmp_path, use)


def test_an_error_reaches_the_caller_of_its_write(tmp_path: Path) -> None:
    files = Watched(tmp_path)

    async def go() -> list[object]:
        writer = WarcWriter(files)
        await writer.open()
        writes = [
            writer.write(capture(exchange(url=f"http://a.test/{name}")))
            for name in ("good", "bad", "bug", "good")
        ]
        results = await asyncio.gather(*writes, return_exceptions=True)
        await writer.close()
        return list(results)

    kinds = [type(each) for each in asyncio.run(go())]
    assert kinds == [Position, WarcError, ZeroDivisionError, Position]
    assert files.written.records == 1 + 3 * 2


def test_the_event_loop_does_not_wait_for_the_end_of_a_file(tmp_path: Path) -> None:
    """The file is synced to the disk: for a gigabyte that takes seconds."""
    files = Watched(tmp_path, max_size=(1 << 20) + 4000)

    async def go() -> None:
        writer = WarcWriter(files)
        await writer.open()
        while not files.threads or files.threads[-1] != "warc":
            await writer.write(PLAIN)
        assert not files.written.files
        await writer.close()

    asyncio.run(go())
    assert len(files.threads) > 2
    assert "warc" not in files.threads[:-1]


def size_of_all(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_a_large_capture_is_written_in_a_thread(tmp_path: Path) -> None:
    files = Watched(tmp_path)
    large = capture(exchange(body=bytes(2 << 20)))
    many_links = replace(PLAIN, metadata=(("outlink", "x" * 2000),) * 1000)

    async def go() -> None:
        writer = WarcWriter(files)
        await writer.open()
        for each in (PLAIN, large, many_links):
            await writer.write(each)
        await writer.close()

    asyncio.run(go())
    assert files.threads == ["MainThread", "warc", "warc"]


def test_close_waits_for_all_writes(tmp_path: Path) -> None:
    async def use(writer: WarcWriter) -> None:
        for _ in range(5):
            writer.write(PLAIN)

    assert writing(tmp_path, use).written.records == 1 + 3 * 5
