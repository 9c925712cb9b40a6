"""The messages between two shards: a batch of mail, and the watermark that answers it.

Owns their form and bounds. Knows no shard, no bus and no clock.

A message is PREFIX, which has the version, then a struct in MessagePack. The rows of a batch are
compressed apart from it, so that a message is refused, or found to have nothing new, without them.
Whatever comes from the bus is data: each type and each number is tested, and `Refused` is the only
exception. A row's URL must be one that the sender's own frontier could have written: rows on disk
end at line ends, a request line at a space, and the host decides which delay is kept.

CPU per link with a URL of 69 characters: 0.3 µs to compress, as the mailbox has encoded it, 2.0 to
2.5 to unpack and test, and 40 to 67 bytes, by the number of links that a page has for one shard
(`benchmarks mail` in commit eb16d29).
Level 1 of isal takes a fifth of the time of zlib's, and the result is smaller. The form of a row is
that of the mailbox. Columns, with each page once, are 15 % smaller and take twice the time, in
loops in Python. Common prefixes of URLs in order of the alphabet saved 7 % of the URLs' bytes, took
0.9 µs, and would change the order.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Annotated, Final, Literal

import msgspec
from isal import isal_zlib
from isal.igzip_lib import IsalError
from msgspec import Meta, Struct
from msgspec.msgpack import Decoder, Encoder
from msgspec.structs import astuple

from webcrawl.frontier.lease import LISTED, Link
from webcrawl.frontier.mailbox import (
    FoundLink,
    Mail,
    Packed,
    RobotsAnswered,
    RobotsAsked,
    RobotsFailed,
    decode_all,
)
from webcrawl.parse.robotsparsers import read_rules
from webcrawl.parse.urls import MAX_LENGTH, host_of

VERSION: Final = 1
PREFIX: Final = b"mail%d\n" % VERSION
MESSAGE_MAX: Final = 512 << 10  # bytes
ROWS_MAX: Final = 500
# Bytes of a batch's rows before compression. A link has 17 KB at most, the rules of a host 256.
ROWS_BYTES_MAX: Final = 1 << 20
_DATA_MAX: Final = MESSAGE_MAX - 1024  # the rest of the message is smaller
_RULES_MAX: Final = 8 << 20  # bytes of a robots.txt's rules: 500 KB of text, and what is made of it

Reason = Literal["version", "malformed", "crawl", "receiver", "epoch", "run", "full"]

Shard = Annotated[int, Meta(ge=0, lt=1 << 16)]
Count = Annotated[int, Meta(ge=0, lt=1 << 62)]


class Refused(Exception):  # noqa: N818
    """A message that is not applied. `reason` is counted."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


class _Message(Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What both kinds have.

    crawl -- ID of the crawl
    sender, epoch -- the shard that sends this message, and its epoch
    receiver, receiver_epoch -- to whom; the highest epoch of it that the sender knows
    serial -- of a batch: higher in each message of the sender; the bits from RUN_BITS on are its
        run. Of a watermark: that of the batch that it answers; 0 if it answers none
    """

    crawl: Annotated[str, Meta(max_length=200)]
    sender: Shard
    epoch: Count
    receiver: Shard
    receiver_epoch: Count
    serial: Count


RUN_BITS: Final = 32


class Batch(_Message, frozen=True, tag=1):
    """Rows of mail, numbered from `first` on. Without rows it asks for a watermark."""

    first: Annotated[int, Meta(ge=1, lt=1 << 62)]
    count: Annotated[int, Meta(ge=0, le=ROWS_MAX)]
    data: bytes = b""  # the rows: `pack`, `unpack`


class Watermark(_Message, frozen=True, tag=2):
    """The last row that is applied, and the last that no fault of the receiver's can undo."""

    applied: Count
    kept: Count


_encode = Encoder().encode
_decode: Callable[[bytes], Batch | Watermark] = Decoder(Batch | Watermark).decode
_decode_rows: Callable[[bytes], list[Mail]] = Decoder(list[Mail]).decode


def write(message: Batch | Watermark) -> bytes:
    """At most MESSAGE_MAX bytes."""
    return PREFIX + _encode(message)


def read(message: bytes) -> Batch | Watermark:
    """Raises Refused. 2 µs; the rows stay compressed."""
    if not message.startswith(PREFIX):
        raise Refused("version")
    if len(message) > MESSAGE_MAX:
        raise Refused("malformed")
    try:
        return _decode(message[len(PREFIX) :])
    except (msgspec.DecodeError, ValueError, RecursionError):  # the second: no Unicode
        raise Refused("malformed") from None


def pack(rows: Sequence[Mail]) -> tuple[bytes, int]:
    """The first of `rows` for a batch, and their number: all, unless they are too large.

    At least one: a mail is less than a message. ValueError if it is not.
    """
    return compress(Packed(len(rows), _encode(rows)))


def compress(rows: Packed) -> tuple[bytes, int]:
    """As `pack`, of rows that are encoded."""
    count, raw, _ = rows
    while True:
        if len(raw) <= ROWS_BYTES_MAX:
            data = isal_zlib.compress(raw, 1)
            if len(data) <= _DATA_MAX:
                return data, count
        if count == 1:
            raise ValueError(f"a mail of {len(raw)} bytes is larger than a message")
        count //= 2
        raw = _encode(decode_all(raw)[:count])


def unpack(batch: Batch) -> list[Mail]:
    """The rows of `batch`. Raises Refused; ROWS_BYTES_MAX bounds work and memory (some 10 MB)."""
    try:
        unpacker = isal_zlib.decompressobj()
        raw = unpacker.decompress(batch.data, ROWS_BYTES_MAX)
        rows = _decode_rows(raw) if unpacker.eof and not unpacker.unused_data else []
    except (IsalError, msgspec.DecodeError, ValueError, RecursionError):  # type: ignore[misc]
        raise Refused("malformed") from None
    if not rows or len(rows) != batch.count:
        raise Refused("malformed")
    found = [row for row in rows if isinstance(row, FoundLink)]
    if found and not _are_sound_links(found):
        raise Refused("malformed")
    if not all(_is_sound(row) for row in rows if not isinstance(row, FoundLink)):
        raise Refused("malformed")
    return rows


# What a frontier may be given

_NUMBER_MAX = 1 << 31
_FRESH = astuple(Link("", ""))[5:]  # a link that was never leased, and has no payload
_VISIBLE = bytes(range(0x21, 0x7F))  # the characters of a canonical URL
_HOST = bytes(set(_VISIBLE) - set(b"/\\?#@%") - set(range(ord("A"), ord("Z") + 1)))
# The places of numbers in the rest of a link.
_NUMBER_PLACES = _SEQUENCE, _SITEMAP, _LASTMOD = tuple(
    Link.__struct_fields__[5:].index(name) for name in ("sequence", "sitemap", "lastmod")
)
_LASTMOD_MAX = 1 << 40


def _are_sound_links(found: Sequence[FoundLink]) -> bool:
    """Column by column: 0.6 µs a link."""
    links = [astuple(row.link) for row in found]
    urls, hosts, depths, redirects, vias, *rest = zip(*links, strict=True)
    for n, (column, fresh) in enumerate(zip(rest, _FRESH, strict=True)):
        if n not in _NUMBER_PLACES and column.count(fresh) != len(found):
            return False
    if min(rest[_SITEMAP]) < LISTED or max(rest[_SITEMAP]) > _NUMBER_MAX:
        return False
    if min(rest[_LASTMOD]) < 0 or max(rest[_LASTMOD]) > _LASTMOD_MAX:
        return False
    named = [via for via, kind in zip(vias, rest[_SITEMAP], strict=True) if kind > 0 and via]
    if not all(via.startswith(("https://", "http://")) and "/" in via[8:] for via in named):
        return False
    for numbers in (depths, redirects, rest[_SEQUENCE]):
        if min(numbers) < 0 or max(numbers) > _NUMBER_MAX:
            return False
    if max(map(len, urls)) > MAX_LENGTH or max(map(len, vias)) > MAX_LENGTH or "" in hosts:
        return False
    if not _has_only("".join(urls) + "".join(vias), _VISIBLE) or not _has_only(
        "".join(hosts), _HOST
    ):
        return False
    if not all(map(_has_host, urls, hosts)):
        return False
    return all(row.cash is None or (row.cash >= 0 and isfinite(row.cash)) for row in found)


def _has_only(text: str, characters: bytes) -> bool:
    return not text.encode().translate(None, characters)


def _has_host(url: str, host: str) -> bool:
    if url.startswith((f"https://{host}/", f"http://{host}/")):
        return True
    try:
        return url.startswith(("https://", "http://")) and host_of(url) == host  # with a port
    except ValueError:
        return False


def _is_sound(row: RobotsAsked | RobotsAnswered | RobotsFailed) -> bool:
    task = row.robots_task
    texts = (task.origin, task.home, task.url)
    if not (
        all(len(text) <= MAX_LENGTH and _has_only(text, _VISIBLE) for text in texts)
        and all(text.startswith(("https://", "http://")) for text in (task.origin, task.url))
        and all(0 <= number <= _NUMBER_MAX for number in (task.redirects, task.tries, task.depth))
    ):
        return False
    if isinstance(row, RobotsFailed):
        is_word = len(row.reason) <= 100 and _has_only(row.reason, _VISIBLE)
        return is_word and isfinite(row.retry_after_s)
    return not isinstance(row, RobotsAnswered) or _are_sound_rules(row)


def _are_sound_rules(row: RobotsAnswered) -> bool:
    """`RobotsAnswered.read` will read them, and trusts their size and form."""
    unpacker = zlib.decompressobj()
    try:
        rules = read_rules(unpacker.decompress(row.rules, _RULES_MAX))
    except (zlib.error, ValueError, LookupError, TypeError):
        return False
    delay_s = rules.crawl_delay_s or 0.0
    return unpacker.eof and isfinite(row.valid_s) and isfinite(delay_s) and delay_s >= 0
