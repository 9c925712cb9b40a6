"""The messages between a crawl and the process that reads its large bodies.

A message is a frame on a stream socket: 4 bytes of length (big-endian), then a struct in
MessagePack. To the process: `Options` once, then for each body a task and the bytes of the body,
without a frame. Back: the links of a `PageTask` in `Links`, then `PageResult` or `ParserFailed`;
the entries of a `SitemapTask` in `Entries`, then `SitemapResult`. So no message takes long to
decode.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.parse.body import About, Options, Parsed
from webcrawl.parse.sitemapfile import SitemapFile

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
