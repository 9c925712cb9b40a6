"""The process that reads large bodies: `main` runs in a fresh interpreter (`largebodies` starts
it).

It reads one body after the other and knows nothing of the crawl. It ends when its socket is closed,
so also when the crawl is killed: then within a second, whatever it is reading. Ctrl-C reaches the
crawl only. A body that takes more than CPU_MAX_S of CPU time ends the process: SIGPROF, by default.

A message is a frame on a stream socket: 4 bytes of length (big-endian), then a struct in
MessagePack. To the process: `Options` once, then for each body a task and the bytes of the body,
without a frame. Back: the links of a `PageTask` in `Links`, then `PageResult` or `ParserFailed`;
the entries of a `SitemapTask` in `Entries`, then `SitemapResult`. So no message takes long to
decode.
"""

from __future__ import annotations

import os
import signal
import socket
import struct
import traceback
from collections.abc import Iterator
from typing import BinaryIO, Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.parse.body import About, BodyReader, Options, Parsed
from webcrawl.parse.ownersignals import bounded
from webcrawl.parse.sitemapfile import SitemapFile, read_sitemap

CPU_MAX_S: Final = 30.0  # 10 MiB of links, the worst of our own parsers, take 10
_NICE: Final = 5  # the crawl goes first
_WATCH_S: Final = 1.0  # between two looks whether the crawl is still there

LENGTH: Final = struct.Struct("!I")
LINKS_AT_A_TIME: Final = 500  # at most 4 MB, since a link has at most `urls.MAX_LENGTH` characters


class PageTask(Struct, array_like=True, tag=True, gc=False):
    """A page to read; its body follows."""

    size_bytes: int
    about: About


class SitemapTask(Struct, array_like=True, tag=True):
    """A sitemap to read; its body follows."""

    size_bytes: int
    headers: list[tuple[bytes, bytes]]
    url: str
    is_cut: bool


class Links(Struct, array_like=True, tag=True):
    """Some links of the page, in their order."""

    links: list[str]


class Entries(Struct, array_like=True, tag=True):
    """Some entries of the sitemap, in their order: URL and lastmod."""

    entries: list[tuple[str, int]]


class SitemapResult(Struct, array_like=True, tag=True):
    """The end of an answer: `file` without its entries."""

    file: SitemapFile


class PageResult(Struct, array_like=True, tag=True):
    """The end of an answer: `parsed` without the links of its page."""

    parsed: Parsed


class ParserFailed(Struct, array_like=True, tag=True):
    """A parser of the user's raised."""

    trace: str


Answer = Links | PageResult | ParserFailed | Entries | SitemapResult

encode: Final = Encoder().encode
options_of: Final = Decoder(Options).decode
task_of: Final = Decoder(PageTask | SitemapTask).decode
answer_of: Final = Decoder(Answer).decode


def frame(message: Struct) -> bytes:
    data = encode(message)
    return LENGTH.pack(len(data)) + data


def main(descriptor: int, crawl_pid: int, cpu_max_s: float = CPU_MAX_S) -> None:
    """Read bodies until the crawl closes the socket `descriptor`, or ends."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, lambda *_: os.getppid() == crawl_pid or os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, _WATCH_S, _WATCH_S)
    os.nice(_NICE)
    with socket.socket(fileno=descriptor) as sock, sock.makefile("rb") as stream:
        try:
            reader = BodyReader(options_of(_received(stream)))
            while True:
                task = task_of(_received(stream))
                body = _exactly(stream, task.size_bytes)
                signal.setitimer(signal.ITIMER_PROF, cpu_max_s)
                answer = (
                    _of_sitemap(task, body)
                    if isinstance(task, SitemapTask)
                    else _of_page(reader, task, body)
                )
                for message in answer:
                    sock.sendall(frame(message))
                signal.setitimer(signal.ITIMER_PROF, 0)
        except (EOFError, ConnectionError):
            return


def _of_page(reader: BodyReader, task: PageTask, body: bytes) -> Iterator[Answer]:
    try:
        parsed = reader.read(body, task.about)
    except Exception:  # of a parser of the user's
        yield ParserFailed(traceback.format_exc())
        return
    page, links = parsed.page, parsed.page.links
    for start in range(0, len(links), LINKS_AT_A_TIME):
        yield Links(links[start : start + LINKS_AT_A_TIME])
    page.links, page.signals = [], bounded(page.signals)
    yield PageResult(parsed)


def _of_sitemap(task: SitemapTask, body: bytes) -> Iterator[Answer]:
    file = read_sitemap(body, task.headers, task.url, task.is_cut)
    for start in range(0, len(file.entries), LINKS_AT_A_TIME):
        yield Entries(file.entries[start : start + LINKS_AT_A_TIME])
    file.entries = []
    yield SitemapResult(file)


def _received(stream: BinaryIO) -> bytes:
    (size,) = LENGTH.unpack(_exactly(stream, LENGTH.size))
    return _exactly(stream, size)


def _exactly(stream: BinaryIO, size: int) -> bytes:
    """`size` bytes. EOFError at the end of the stream."""
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data
