"""The writer: order, errors, its end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.exchanges import EXCHANGES, capture, exchange
from webcrawl.warc.files import Position, WarcError, WarcFiles
from webcrawl.warc.reader import read
from webcrawl.warc.records import Capture
from webcrawl.warc.writer import BATCH, WarcWriter

PLAIN = capture(EXCHANGES["plain"])


def writing(folder: Path, use: Callable[[WarcWriter], Awaitable[None]]) -> WarcWriter:
    writer = WarcWriter(WarcFiles(folder, "name", 1 << 30))

    async def go() -> None:
        await writer.open()
        await use(writer)
        await writer.close()

    asyncio.run(go())
    return writer


class Stuck(WarcFiles):
    """Writes nothing before it is let go, and fails for some."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "name", 1 << 30)
        self.let_go = threading.Event()

    def write(self, capture: Capture) -> Position:
        assert self.let_go.wait(10)
        if capture.exchange.url.endswith("/bad"):
            raise WarcError("no")
        if capture.exchange.url.endswith("/bug"):
            raise ZeroDivisionError
        return super().write(capture)


def test_captures_are_written_in_order(tmp_path: Path) -> None:
    urls = [f"http://a.test/{number}" for number in range(3 * BATCH)]

    async def use(writer: WarcWriter) -> None:
        await asyncio.gather(*(writer.write(capture(exchange(url=url))) for url in urls))

    writer = writing(tmp_path, use)
    (path,) = tmp_path.iterdir()
    found = [each.fields["warc-target-uri"] for each in read(path) if each.type == "response"]
    assert found == urls
    assert writer.written.records == 1 + 3 * len(urls)


def test_a_write_is_done_when_its_bytes_are_in_the_file(tmp_path: Path) -> None:
    async def use(writer: WarcWriter) -> None:
        place = await writer.write(PLAIN)
        assert size_of_all(tmp_path) == place.offset + place.size_bytes
        await writer.sync()

    writing(tmp_path, use)


def test_close_waits_for_what_was_given(tmp_path: Path) -> None:
    async def use(writer: WarcWriter) -> None:
        for _ in range(5):
            writer.write(PLAIN)

    assert writing(tmp_path, use).written.records == 1 + 3 * 5


def test_errors_reach_the_caller_that_they_are_of(tmp_path: Path) -> None:
    files = Stuck(tmp_path)

    async def go() -> list[object]:
        writer = WarcWriter(files)
        await writer.open()
        writes = [
            writer.write(capture(exchange(url=f"http://a.test/{name}")))
            for name in ("good", "bad", "bug", "good")
        ]
        files.let_go.set()
        results = await asyncio.gather(*writes, return_exceptions=True)
        await writer.close()
        return list(results)

    kinds = [type(each) for each in asyncio.run(go())]
    assert kinds == [Position, WarcError, ZeroDivisionError, Position]
    assert files.written.records == 1 + 3 * 2


def test_a_caller_that_was_cancelled_is_no_trouble(tmp_path: Path) -> None:
    files = Stuck(tmp_path)

    async def go() -> None:
        writer = WarcWriter(files)
        await writer.open()
        first, second = writer.write(PLAIN), writer.write(PLAIN)
        first.cancel()
        files.let_go.set()
        await second
        await writer.close()

    asyncio.run(go())
    assert files.written.records == 1 + 3 * 2  # it was given, so it is written


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    writer = WarcWriter(WarcFiles(tmp_path / "file", "name", 1 << 30))
    with pytest.raises(WarcError, match="WARC_DIR"):
        asyncio.run(writer.open())
    assert_no_thread()


def test_the_thread_ends_with_the_writer_or_its_loop(tmp_path: Path) -> None:
    async def nothing(writer: WarcWriter) -> None:
        pass

    writing(tmp_path, nothing)
    assert_no_thread()
    files = Stuck(tmp_path)

    async def leave() -> None:
        writer = WarcWriter(files)
        await writer.open()
        writer.write(PLAIN)

    asyncio.run(leave())  # as a second Ctrl-C does
    files.let_go.set()
    assert_no_thread()


def size_of_all(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def assert_no_thread() -> None:
    for thread in threading.enumerate():
        if thread.name == "warc":
            assert thread.daemon
            thread.join(10)
            assert not thread.is_alive()
