"""The letters that carry mail between two hubs, and what a frontier may be given of them.

Owns their form and bounds. Knows no session and no clock.

Whatever comes from the bus is data: each type and each number is tested, and DecodeError is the
only exception. A row's URL must be one that the sender's own frontier could have written: rows on
disk end at line ends, a request line at a space, and the host decides which delay is kept.

CPU per link with a URL of 69 characters: 0.3 µs to compress, as the mailbox has encoded it, 2.0 to
2.5 to read and test, and 40 to 67 bytes, by the number of links that a page has for one hub. Level
1 of isal takes a fifth of the time of zlib's, and the result is smaller.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from math import isfinite
from typing import Annotated, Final

from isal import isal_zlib
from isal.igzip_lib import IsalError
from msgspec import DecodeError, Meta
from msgspec.structs import astuple

from webcrawl.cluster.packets import Letter
from webcrawl.frontier.lease import FIRST_KEPT, LAST_REQUISITE, REQUISITE, Link
from webcrawl.frontier.mailbox import (
    FoundLink,
    Mail,
    Packed,
    RobotsAnswered,
    RobotsAsked,
    RobotsFailed,
    decode_all,
)
from webcrawl.parse.jointrules import read_rules
from webcrawl.parse.urls import MAX_LENGTH, host_of

ROWS_MAX: Final = 500  # of mail, in one letter
# Their bytes before compression. A link has 17 KB at most, the rules of a host 256.
ROWS_BYTES_MAX: Final = 1 << 20
_RULES_MAX: Final = 8 << 20  # bytes of a robots.txt's rules: 500 KB of text, and what is made of it

Number = Annotated[int, Meta(ge=0, lt=1 << 62)]
Batch = tuple[int, int, Sequence[Mail]]  # sender, number of the last mail, mail


class MailRows(Letter, frozen=True):
    """`count` mails, of which the last has the number `last`, and compressed `data`."""

    last: Number
    count: Annotated[int, Meta(ge=0, le=ROWS_MAX)]
    data: bytes


class MailApplied(Letter, frozen=True):
    """The last mail that is applied, and the last that no fault of the receiver's can undo.

    The first one of a session says where the sender shall go on.
    """

    applied: Number
    kept: Number


def write_rows(packed: Packed) -> MailRows:
    last = packed.first + packed.number - 1
    return MailRows(last, packed.number, isal_zlib.compress(packed.data, 1))


def read_rows(letter: MailRows, is_ours: Callable[[str], bool]) -> list[Mail]:
    """The mail of `letter`, for hosts that are ours. DecodeError.

    ROWS_BYTES_MAX bounds work and memory: some 10 MB.
    """
    try:
        unpacker = isal_zlib.decompressobj()
        raw = unpacker.decompress(letter.data, ROWS_BYTES_MAX)
        rows = decode_all(raw) if unpacker.eof and not unpacker.unused_data else []
    except (IsalError, ValueError, RecursionError) as error:  # type: ignore[misc]
        raise DecodeError(f"no rows: {error}") from None
    if len(rows) != letter.count:
        raise DecodeError("not as many rows as numbers")
    found = [row for row in rows if isinstance(row, FoundLink)]
    others = [row for row in rows if not isinstance(row, FoundLink)]
    if (found and not _are_sound_links(found)) or not all(map(_is_sound, others)):
        raise DecodeError("rows that no frontier writes")
    hosts = [row.link.host for row in found] + [_host_of(row) for row in others]
    if not all(map(is_ours, hosts)):
        raise DecodeError("rows of another hub's hosts")
    return rows


def _host_of(row: RobotsAsked | RobotsAnswered | RobotsFailed) -> str:
    """The host for which the receiver gets `row`. DecodeError."""
    task = row.robots_task
    try:
        return host_of(task.url) if isinstance(row, RobotsAsked) else task.home
    except ValueError:
        raise DecodeError("a URL without a host") from None


# What a frontier may be given

_NUMBER_MAX = FIRST_KEPT - 2  # a priority is the depth plus 1, or less
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
    if min(rest[_SITEMAP]) < LAST_REQUISITE or max(rest[_SITEMAP]) > _NUMBER_MAX:
        return False
    if min(rest[_LASTMOD]) < 0 or max(rest[_LASTMOD]) > _LASTMOD_MAX:
        return False
    kinds = zip(vias, rest[_SITEMAP], strict=True)
    named = [via for via, kind in kinds if kind <= REQUISITE or (kind > 0 and via)]
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
        and task.url.startswith(("https://", "http://"))
        and task.home
        and _has_host(task.origin + "/", task.home)
        and task.origin.count("/") == 2
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
