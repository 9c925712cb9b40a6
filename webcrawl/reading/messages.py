"""The messages between a crawl and the process that reads its large pages.

A message is a frame on a stream socket: 4 bytes of length (big-endian), then a struct in
MessagePack. To the process: `Options` once, then for each page a `Task` and the bytes of the body,
without a frame. Back: the links in `Links`, so that no message takes long to decode, then `Result`.
"""

from __future__ import annotations

import struct
from typing import Final

from msgspec import Struct
from msgspec.msgpack import Decoder, Encoder

from webcrawl.reading.page import Options

LENGTH: Final = struct.Struct("!I")
LINKS_AT_A_TIME: Final = 500  # at most 4 MB, since a link has at most `urls.MAX_LENGTH` characters


class Task(Struct, array_like=True, gc=False):
    """A page to read; its body follows."""

    size_bytes: int
    content_type: str
    url: str
    x_robots_tag: str
    refresh: str  # that header


class Links(Struct, array_like=True, tag=True):
    """Some links of the page, in their order."""

    links: list[str]


class Result(Struct, array_like=True, tag=True):
    """The end of an answer. `error`: the traceback of a parser of the user's; "" without one.

    The other fields are those of `parse.page.ParsedPage` and `reading.page.Parsed`.
    """

    error: str = ""
    charset: str = ""
    lang: str = ""
    found: int = 0
    nofollow: bool = False
    noarchive: bool = False
    signals: list[str] = []
    simhash: int | None = None


encode: Final = Encoder().encode
options_of: Final = Decoder(Options).decode
task_of: Final = Decoder(Task).decode
answer_of: Final = Decoder(Links | Result).decode


def frame(message: Struct) -> bytes:
    data = encode(message)
    return LENGTH.pack(len(data)) + data
