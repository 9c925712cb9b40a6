"""Crawls of simulated webs in forks of this process, in virtual time: the same calls each time.

The crawler is the whole command, `scrapy crawl broad`, on an event loop of its own: the clock is a
number that moves when nothing is left to do now, and the servers are the simulated web's, called
without sockets. Threads are replaced by calls. So neither the machine nor its load changes which
page comes when, and the calls of Python functions can be counted. The servers' are not.

Owns the loop, the clock and the network. `benchmarks.calls` starts it in a process of its own,
because modules must be imported after the clock is set.
"""

from __future__ import annotations

import asyncio
import asyncio.base_events
import asyncio.events
import asyncio.selector_events
import gc
import json
import os
import random
import re
import secrets
import socket
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from cProfile import Profile
from pathlib import Path
from types import CodeType, SimpleNamespace
from typing import Any
from zlib import crc32

from benchmarks.here import ROOT

_LEAST_S = 0.001  # of a turn of the loop: events of one ms are handled together, as under load
_LATENCIES_S = [0.002 + 0.001 * number for number in range(40)]  # of servers
_profile = Profile()
_web: Any = None  # the simulated web's `Web` and `Names`, for the loop that Scrapy makes
_names: Any = None


class _Clock:
    """The time: Unix seconds, and the loop's."""

    now = 1_000_000.0


class _NoSelector:
    """Instead of waiting for sockets, moves the clock."""

    def select(self, timeout: float | None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("nothing is scheduled: the crawl would wait for ever")
        _Clock.now += max(timeout, _LEAST_S)
        return []

    def register(self, *what: Any) -> None: ...

    def unregister(self, *what: Any) -> None: ...

    def get_map(self) -> dict[Any, Any]:
        return {}

    def close(self) -> None: ...


def _uncounted(function: Callable[..., None], *what: Any) -> None:
    _profile.disable()
    try:
        function(*what)
    finally:
        _profile.enable()


class Loop(asyncio.SelectorEventLoop):
    """Scrapy makes it (ASYNCIO_EVENT_LOOP)."""

    def __init__(self) -> None:
        super().__init__(_NoSelector())  # type: ignore[arg-type]

    def time(self) -> float:
        return _Clock.now

    def run_forever(self) -> None:
        _profile.enable()
        try:
            super().run_forever()
        finally:
            _profile.disable()

    def run_in_executor(self, executor: Any, function: Any, *what: Any) -> Any:  # type: ignore[override]
        """In place of a thread: now, and not counted, as only this thread is counted."""
        done = self.create_future()
        _profile.disable()
        try:
            done.set_result(function(*what))
        except Exception as error:  # raised where it is awaited
            done.set_exception(error)
        finally:
            _profile.enable()
        return done

    def _make_self_pipe(self) -> None:
        self._ssock = self._csock = None

    def _close_self_pipe(self) -> None: ...

    def _write_to_self(self) -> None: ...

    def add_signal_handler(self, *what: Any) -> None: ...  # type: ignore[override]

    def _add_reader(self, fd: Any, callback: Any, *what: Any) -> None:
        if isinstance(fd, _Datagrams):
            fd.on_readable = callback

    def _remove_reader(self, fd: Any) -> bool:
        return True

    add_reader = _add_reader  # type: ignore[assignment]
    remove_reader = _remove_reader

    async def create_connection(self, factory: Any, host: str, port: int, **more: Any) -> Any:  # type: ignore[override]
        connected = self.create_future()
        self.call_later(_LEAST_S, connected.set_result, None)
        await connected
        if port != 80:
            raise ConnectionRefusedError(111, "refused")
        here, there = _Transport(self, host, ""), _Transport(self, host, "server")
        here.other, there.other = there, here
        here.protocol = factory()
        _uncounted(self._accept, there)
        here.protocol.connection_made(here)
        return here, here.protocol

    def _accept(self, there: _Transport) -> None:
        from simweb.http import Connection  # noqa: PLC0415  (after the clock is set)

        there.protocol = Connection(_web, _ServersLoop(self))  # type: ignore[arg-type]
        there.protocol.connection_made(there)


class _ServersLoop:
    """The loop as the servers see it: their timers are not counted."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def call_later(self, delay_s: float, function: Any, *what: Any) -> Any:
        return self._loop.call_later(delay_s, _uncounted, function, *what)


class _Transport(asyncio.Transport):
    """One end of a connection. What is written within a turn arrives in one piece."""

    other: _Transport
    protocol: Any

    def __init__(self, loop: Loop, address: str, side: str) -> None:
        super().__init__()
        self._loop, self._address, self._is_server = loop, address, bool(side)
        self._arriving: list[bytes] = []
        self._closed = False

    def write(self, data: Any) -> None:
        if not self._arriving and not self._closed:
            late_s = _LEAST_S if self._is_server else _LATENCIES_S[crc32(data) % len(_LATENCIES_S)]
            self._loop.call_later(late_s, self._arrive)
        self._arriving.append(bytes(data))

    def _arrive(self) -> None:
        data, self._arriving = b"".join(self._arriving), []
        if self.other._closed:
            return
        received = self.other.protocol.data_received
        _uncounted(received, data) if self.other._is_server else received(data)

    def close(self) -> None:
        """What is written comes before the end."""
        self._loop.call_later(_LEAST_S, self.abort)

    def abort(self) -> None:
        if not self._closed:
            self._closed = True
            self._loop.call_soon(self._lost)
            if not self.other._closed:
                self._loop.call_later(_LEAST_S, self.other.abort)

    def _lost(self) -> None:
        lost = self.protocol.connection_lost
        _uncounted(lost, None) if self._is_server else lost(None)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sockname" and self._is_server:
            return (self._address, 80)
        return _Unused() if name == "socket" else default

    def is_closing(self) -> bool:
        return self._closed

    def set_protocol(self, protocol: Any) -> None:
        self.protocol = protocol

    def get_protocol(self) -> Any:
        return self.protocol

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class _Unused:
    def setsockopt(self, *what: Any) -> None: ...


class _Datagrams:
    """The DNS client's socket: `webcrawl.admission.dnsclient` takes it from its module `socket`."""

    on_readable: Callable[[], None]

    def __init__(self, *kind: Any) -> None:
        self._received: deque[bytes] = deque()

    def setsockopt(self, *what: Any) -> None: ...

    def connect(self, server: Any) -> None: ...

    def close(self) -> None: ...

    def send(self, message: bytes) -> None:
        answer: list[bytes | None] = []
        _uncounted(lambda: answer.append(_names.answer(message, tcp=True)))
        if answer[0]:
            self._received.append(answer[0])
            asyncio.get_running_loop().call_later(_LATENCIES_S[len(message) % 40], self._arrive)

    def _arrive(self) -> None:
        self.on_readable()

    def recv(self, size: int) -> bytes:
        if not self._received:
            raise BlockingIOError
        return self._received.popleft()


class _Sockets:
    """In place of the module `socket`."""

    socket = _Datagrams

    def __getattr__(self, name: str) -> Any:
        return getattr(socket, name)


class _NoThread:
    """In place of `threading.Thread`: runs at once, and is not counted."""

    def __init__(self, *, target: Callable[..., None], **more: Any) -> None:
        self._target = target

    def start(self) -> None:
        _uncounted(self._target)


def _run_at_once(executor: Any, job: Any) -> None:
    """In place of `AdaptiveExecutor._send`."""
    from webcrawl.base.executor import _run_job, _set_result  # noqa: PLC0415

    done: list[Any] = []
    _uncounted(lambda: done.append(_run_job(job)))
    asyncio.get_running_loop().call_soon(_set_result, *done)


async def _read_at_once(process: Any, task: Any, body: bytes) -> Any:
    """In place of `_Process.read`, the other process of large bodies."""
    from webcrawl.parse.body import BodyReader  # noqa: PLC0415

    reader, found = BodyReader(process._options), list[Any]()
    _uncounted(lambda: found.append(reader.read(body, task.about)))
    return found[0]


PACKAGES = (
    "commands",
    "downloader",
    "extensions",
    "fastpath",
    "middlewares",
    "pipelines",
    "scheduler",
)


def _prepare() -> None:
    """Set the clock, then import the crawler and replace what waits."""
    time.time = time.monotonic = lambda: _Clock.now
    secrets.randbits = lambda k: 12345  # the key of the hashes of URLs
    # isort: split
    import scrapy.cmdline  # noqa: F401, PLC0415
    from scrapy.utils.misc import walk_modules_iter  # noqa: PLC0415

    from webcrawl.admission import dnsclient  # noqa: PLC0415
    from webcrawl.base import executor  # noqa: PLC0415
    from webcrawl.parse import largebodies  # noqa: PLC0415
    from webcrawl.spiders import broad  # noqa: PLC0415

    for package in PACKAGES:
        for _ in walk_modules_iter(f"webcrawl.{package}"):
            pass
    executor.AdaptiveExecutor._send = _run_at_once  # type: ignore[method-assign, assignment]
    largebodies._Process.read = _read_at_once  # type: ignore[method-assign, assignment]
    vars(broad)["threading"] = SimpleNamespace(Thread=_NoThread)
    vars(dnsclient)["socket"] = _Sockets()
    vars(dnsclient)["_random"] = random.Random(1)


def _serve(world: Sequence[str]) -> list[str]:
    """Make the servers of the world; its seeds."""
    global _web, _names
    from benchmarks.crawls import described_world  # noqa: PLC0415
    from simweb.dns import Names  # noqa: PLC0415
    from simweb.http import Web  # noqa: PLC0415
    from simweb.ledger import Ledger, Rules  # noqa: PLC0415

    known = described_world(world)
    _web, _names = Web(Ledger(known, Rules(host_delay_s=0.0)), 1.0), Names(known)
    return list(known.seeds())


def calls() -> Counter[str]:
    """How often each function was called, Python's or builtin, by its file and name.

    Of loop, network and servers only what the crawler itself has called. Lines are left out: an
    edit above a function changes its line.
    """
    found: Counter[str] = Counter()
    for entry in _profile.getstats():
        if not isinstance(entry.code, CodeType) or _is_outside(entry.code):
            continue
        found[_name(entry.code)] += entry.callcount
        for inner in entry.calls or ():
            if not isinstance(inner.code, CodeType) or _is_outside(inner.code):
                found[_name(inner.code)] += inner.callcount
    return found


_OUTSIDE = (
    __file__,
    asyncio.base_events.__file__,
    asyncio.events.__file__,
    asyncio.selector_events.__file__,
)


def _is_outside(code: CodeType) -> bool:
    """Whether it is of the loop, which a real crawl has in C, or of the network."""
    return code.co_filename in _OUTSIDE


def _name(code: CodeType | str) -> str:
    if isinstance(code, str):
        return re.sub(r" at 0x[0-9a-f]+", "", code)
    path = code.co_filename.rpartition("/site-packages/")[2].removeprefix(f"{ROOT}/")
    return f"{path.rpartition('/lib/')[2]} {code.co_qualname}"


def main(folder: str, jobs: Sequence[tuple[Sequence[str], Sequence[str]]]) -> int:
    """Crawl with these settings these worlds, each in a fork, with files in a folder of its number.

    Returns the exit code of the first crawl that fails.
    """
    _prepare()
    gc.disable()
    for number, (settings, world) in enumerate(jobs):
        own = Path(folder, str(number))
        own.mkdir()
        if not os.fork():
            _crawl(own, settings, world)
        if code := os.waitstatus_to_exitcode(os.wait()[1]):
            return code
    return 0


def _crawl(folder: Path, settings: Sequence[str], world: Sequence[str]) -> None:
    """Crawl, with files in `folder`; write the counts to its calls.json. SystemExit."""
    from scrapy.cmdline import execute  # noqa: PLC0415

    seeds = folder / "seeds.txt"
    seeds.write_text("\n".join(_serve(world)))
    settings = [*settings, f"WARC_DIR={folder / 'warc'}"]
    options = [part for setting in settings for part in ("-s", setting)]
    try:
        execute(["scrapy", "crawl", "broad", "-a", f"seeds={seeds}", *options])
    finally:
        found = {"pages": _web.ledger.totals["pages"], "calls": calls()}
        (folder / "calls.json").write_text(json.dumps(found))


if __name__ == "__main__":
    from benchmarks import virtual  # Scrapy loads this module by its name: there must be one

    sys.exit(virtual.main(sys.argv[1], json.loads(sys.argv[2])))
