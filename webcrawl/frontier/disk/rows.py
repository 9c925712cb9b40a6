"""The rows of the frontier: keys and values of each kind, as bytes.

Owns the format on disk. The folder's docstring (`webcrawl.frontier.disk`) has the table of all
kinds. Does no I/O.

Values are MessagePack, but for those that are plain text, JSON or a number. Reading them runs no
code of theirs, so a foreign folder may be read.

Numbers in keys are big-endian, so that the order of the keys is the order of the crawl. Times are
UTC seconds: a monotonic time has no meaning in the next run.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import ceil
from struct import Struct
from typing import Any, Final, TypeVar

from msgspec import MsgspecError
from msgspec.msgpack import Decoder, Encoder

from webcrawl.frontier.lease import Link
from webcrawl.frontier.store import Credit, StoreError, UrlStatus
from webcrawl.warc.records import Original

FORMAT = 19  # of all rows; raised by each change of them

SEEN, QUEUE, HOST, WAITING, DEFERRED, ACTIVE, RULES, CONTENT, COUNT = (
    *(b"s", b"q", b"h", b"w", b"t"),
    *(b"a", b"r", b"d", b"c"),
)
IDENTITY, NUMBERS = b"m", b"n"
MAIL, ROBOTS_TASK, VISIT, COMMAND, SKETCH = b"o", b"k", b"v", b"y", b"e"

_QUEUE_KEY = Struct(">cIIQ")
_WAITING_KEY = Struct(">cIQI")
_DEFERRED_KEY = Struct(">cIQI")
_ID_KEY = Struct(">cI")
_MAIL_KEY = Struct(">cHQ")
_FINGERPRINT_BYTES = 8  # of a URL, in the key of its visit, behind its time
CREDIT_HEAD: Final = b"\x93"  # MessagePack's first byte of three values; a status has more

T = TypeVar("T")

encode: Callable[[Any], bytes] = Encoder().encode  # the value of any row


def _reader(kind: type[T]) -> Callable[[bytes], T]:
    """Reads values of one kind. StoreError for anything else."""
    decode = Decoder(kind).decode

    def read(row: bytes) -> T:
        try:
            return decode(row)
        except MsgspecError as error:
            raise StoreError(f"a row of the frontier is damaged: {error}") from None

    return read


read_link = _reader(Link)
read_original = _reader(Original)
read_plain = _reader(list[Any])
read_visit = _reader(tuple[str, bytes])  # (URL, row of its state)
_read_credit: Callable[[bytes], Credit] = _reader(Credit)  # type: ignore[arg-type]  # an alias
_read_status = _reader(UrlStatus)


def read_credit(row: bytes) -> Credit | None:
    """The credit in a URL's row; None if the row is empty or a status."""
    return _read_credit(row) if row[:1] == CREDIT_HEAD else None


def read_status(row: bytes) -> UrlStatus | None:
    """The status in a URL's row; None while the URL is queued or leased."""
    return None if row[:1] in (b"", CREDIT_HEAD) else _read_status(row)


queue_prefix: Callable[[int], bytes] = partial(_ID_KEY.pack, QUEUE)  # of a host's id
# Of a host's id, a priority and a number.
queue_key: Callable[[int, int, int], bytes] = partial(_QUEUE_KEY.pack, QUEUE)


def queue_place(key: bytes) -> tuple[int, int]:
    """(priority, number) of a queued link's key."""
    _, _, priority, number = _QUEUE_KEY.unpack(key)
    return priority, number


def waiting_key(rank: int, number: int, host_id: int) -> bytes:
    return _WAITING_KEY.pack(WAITING, rank + 1, number, host_id)  # -1 is the lowest rank


def waiting_place(key: bytes) -> tuple[int, int]:
    """(rank, number) of a waiting host's key."""
    _, rank, number, _ = _WAITING_KEY.unpack(key)
    return rank - 1, number


def deferred_key(run: int, at: float, host_id: int) -> bytes:
    """`at` in UTC seconds, rounded up to milliseconds."""
    return _DEFERRED_KEY.pack(DEFERRED, run, ceil(at * 1000), host_id)


def deferred_place(key: bytes) -> tuple[int, float]:
    """(run, UTC seconds) of a deferred host's key."""
    _, run, at_ms, _ = _DEFERRED_KEY.unpack(key)
    return run, at_ms / 1000


active_key: Callable[[int], bytes] = partial(_ID_KEY.pack, ACTIVE)  # of a host's id


mail_key: Callable[[int, int], bytes] = partial(_MAIL_KEY.pack, MAIL)  # of a hub, and a number


def mail_number(key: bytes) -> int:
    return int.from_bytes(key[3:])


def visit_key(at_ms: int, fingerprint: bytes) -> bytes:
    """Of a URL that is due `at_ms`, UTC milliseconds. 15 bytes."""
    return VISIT + at_ms.to_bytes(6) + fingerprint[:_FINGERPRINT_BYTES]


def visit_time(key: bytes) -> int:
    """UTC milliseconds of a visit's key."""
    return int.from_bytes(key[1:7])
