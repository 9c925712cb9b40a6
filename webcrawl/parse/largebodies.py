"""Keeps the large bodies that wait to be read, and runs the process that reads them
(`bodyprocess`).

One process, for one body at a time: started for the first body, ended after IDLE_S without one, and
started again after a crash. So a crawl takes one more core for large bodies, and its event loop
only sends their bytes and receives their links, in pieces.

The order of the bodies is that of `fetch.room.HostTimes`: hosts that have used little time go
first. The memory of the bodies is bounded by `fetch.room.Room` and `admission.sitemaps`, that of
the links by `is_full`.

Invariants: each body ends once, with what it says, with a failure, or with GivenUp. No body waits
for a body of the same host, since its lease is out.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import monotonic
from typing import Final

from msgspec import DecodeError

from webcrawl.fetch.http1 import Headers
from webcrawl.fetch.room import HostTimes
from webcrawl.parse.body import About, Options, Parsed
from webcrawl.parse.bodyprocess import (
    CPU_MAX_S,
    LENGTH,
    Entries,
    Links,
    PageResult,
    PageTask,
    ParserFailed,
    SitemapResult,
    SitemapTask,
    answer_of,
    frame,
)
from webcrawl.parse.sitemapfile import SitemapFile

IDLE_S: Final = 10.0
WALL_MAX_S: Final = 120.0  # a parser that waits for something uses no CPU time
_PIECE_BYTES: Final = 256 << 10
_FULL_S: Final = 0.05  # between two looks whether links are still held
_ENDED: Final = (OSError, EOFError, TimeoutError, DecodeError)  # by a process that has ended
_START: Final = (
    "import sys; sys.path[:] = sys.argv[4:]; from webcrawl.parse.bodyprocess import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))"
)


class GivenUp(Exception):  # noqa: N818  (no error: the page is fetched again)
    """The crawl is closing, and the body was not read."""


class ReadingFailed(Exception):  # noqa: N818  (an outcome of the page, not an error of ours)
    """The body cannot be read. `trace`: of a parser that raised; "" if its process ended."""

    def __init__(self, reason: str, trace: str = "") -> None:
        super().__init__(reason)
        self.trace = trace


@dataclass(slots=True, order=True)
class _Waiting:
    """A body in the queue."""

    rank: float
    number: int
    host: str = field(compare=False)
    task: PageTask | SitemapTask = field(compare=False)
    body: bytes = field(compare=False)
    said: asyncio.Future[Parsed | SitemapFile] = field(compare=False)


class LargeBodies:
    """Call `read` for a page, `read_sitemap` for a sitemap. `give_up` once the crawl closes, then
    `close`.
    """

    def __init__(
        self,
        options: Options,
        times: HostTimes,
        search_path: list[str],
        *,
        is_full: Callable[[], bool] = lambda: False,
        cpu_max_s: float = CPU_MAX_S,
        idle_s: float = IDLE_S,
    ) -> None:
        """`search_path`: the `sys.path` of the process, where the user's parsers are found.

        `is_full`: whether the links of a page that was read are still held; then none is read.
        """
        self._process = _Process(options, search_path, cpu_max_s)
        self._times = times
        self._is_full = is_full
        self._idle_s = idle_s
        self._waiting: list[_Waiting] = []
        self._asked = 0
        self._now: _Waiting | None = None  # being read
        self._is_closed = False
        self._task: asyncio.Task[None] | None = None
        self._more = asyncio.Event()  # a page was asked for

    def __repr__(self) -> str:
        return f"<LargeBodies {self._now is not None:d} read, {len(self._waiting)} waiting>"

    async def read(self, host: str, body: bytes, about: About) -> Parsed:
        """What the page says. Raises GivenUp, ReadingFailed."""
        parsed = await self._said(host, PageTask(len(body), about), body)
        assert isinstance(parsed, Parsed)
        return parsed

    async def read_sitemap(
        self, host: str, body: bytes, headers: Headers, url: str, is_cut: bool
    ) -> SitemapFile:
        """What the sitemap says. Raises GivenUp, ReadingFailed."""
        file = await self._said(host, SitemapTask(len(body), headers, url, is_cut), body)
        assert isinstance(file, SitemapFile)
        return file

    async def _said(
        self, host: str, task: PageTask | SitemapTask, body: bytes
    ) -> Parsed | SitemapFile:
        if self._is_closed:
            raise GivenUp
        self._asked += 1
        said: asyncio.Future[Parsed | SitemapFile] = asyncio.get_running_loop().create_future()
        rank = self._times.rank(host, len(body))
        heappush(self._waiting, _Waiting(rank, self._asked, host, task, body, said))
        self._more.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        return await said

    def give_up(self) -> None:
        """End all bodies with GivenUp, also the one that is being read. Later ones too."""
        self._is_closed = True
        given_up = [*self._waiting, *([self._now] if self._now else ())]
        self._waiting.clear()
        for each in given_up:
            if not each.said.done():
                each.said.set_exception(GivenUp())
        self._process.kill()
        self._more.set()

    async def close(self) -> None:
        """End the process."""
        self.give_up()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._process.end()

    async def _run(self) -> None:
        """Read what waits. After a while without a body, end the process."""
        while self._waiting:
            if self._is_full():
                await asyncio.sleep(_FULL_S)
                continue
            await self._read_next()
            if not self._waiting and not self._is_closed:
                self._more.clear()
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._idle_s):
                        await self._more.wait()
            if not self._waiting:
                await self._process.end()

    async def _read_next(self) -> None:
        each = heappop(self._waiting)
        if each.said.done():  # whoever asked was cancelled
            return
        self._now, began_at = each, monotonic()
        try:
            async with asyncio.timeout(WALL_MAX_S):
                result: Parsed | SitemapFile | Exception = await self._process.read(
                    each.task, each.body
                )
        except ReadingFailed as failure:
            result = failure
        except Exception as error:
            ended = await self._process.end()
            result = ReadingFailed(ended) if isinstance(error, _ENDED) else error
        self._now = None
        self._times.charge(each.host, monotonic() - began_at, len(self._waiting))
        if each.said.done():  # given up, or cancelled
            return
        if isinstance(result, Exception):
            each.said.set_exception(result)
        else:
            each.said.set_result(result)


class _Process:
    """The process of the operating system, and its socket. Started when it is needed."""

    def __init__(self, options: Options, search_path: list[str], cpu_max_s: float) -> None:
        self._options = options
        self._search_path = search_path
        self._cpu_max_s = cpu_max_s
        self._process: subprocess.Popen[bytes] | None = None
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._is_killed = False

    async def read(self, task: PageTask | SitemapTask, body: bytes) -> Parsed | SitemapFile:
        """Raises ReadingFailed; OSError, EOFError, DecodeError if the process has ended."""
        if self._is_killed or self._process is None or self._process.poll() is not None:
            await self.end()
            await self._start()
        assert self._streams is not None
        stream, writer = self._streams
        writer.write(frame(task))
        view = memoryview(body)
        for at in range(0, len(body), _PIECE_BYTES):
            writer.write(view[at : at + _PIECE_BYTES])
            await writer.drain()
        links: list[str] = []
        entries: list[tuple[str, int]] = []
        while True:
            (size,) = LENGTH.unpack(await stream.readexactly(LENGTH.size))
            match answer_of(await stream.readexactly(size)):
                case Links() as some:
                    links += some.links
                case Entries() as some:
                    entries += some.entries
                case SitemapResult(file):
                    file.entries = entries
                    return file
                case PageResult(parsed):
                    parsed.page.links = links
                    return parsed
                case ParserFailed(trace):
                    raise ReadingFailed("its parser failed", trace)
            await asyncio.sleep(0)

    def kill(self) -> None:
        if self._process is not None:
            self._is_killed = True
            self._process.kill()

    async def end(self) -> str:
        """End the process if there is one; how it ended."""
        process, self._process = self._process, None
        streams, self._streams = self._streams, None
        self._is_killed = False
        if streams is not None:
            streams[1].close()
            with suppress(OSError):
                await streams[1].wait_closed()
        if process is None:
            return "the process of large bodies cannot be started"
        process.kill()
        code = await asyncio.to_thread(process.wait)
        if code == -signal.SIGPROF:
            return f"it took more than {self._cpu_max_s:g} s of CPU time"
        return f"the process that read it ended with {code}"

    async def _start(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            numbers = map(str, (descriptor, os.getpid(), self._cpu_max_s))
            try:
                self._process = subprocess.Popen(  # noqa: ASYNC220  (2 ms, once for many pages)
                    [sys.executable, "-c", _START, *numbers, *self._search_path],
                    stdin=subprocess.DEVNULL,
                    pass_fds=[descriptor],
                    process_group=0,  # Ctrl-C reaches the crawl only
                )
            except BaseException:
                ours.close()
                raise
        self._streams = await asyncio.open_unix_connection(sock=ours)
        self._streams[1].write(frame(self._options))
