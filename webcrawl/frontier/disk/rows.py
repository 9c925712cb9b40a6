"""The rows of the frontier: keys and values of each kind, as bytes (formats 11 to 14).

Owns the format on disk. The folder's docstring (`webcrawl.frontier.disk`) has the table of all
kinds. Does no I/O.

Numbers in keys are big-endian, so that the order of the keys is the order of the crawl. Times are
UTC seconds: a monotonic time has no meaning in the next run.
"""

from __future__ import annotations

import pickle
from base64 import b64decode, b64encode
from io import BytesIO
from math import ceil
from struct import Struct
from typing import Any

from webcrawl.frontier.caps import CapReason
from webcrawl.frontier.lease import Link, Passed
from webcrawl.frontier.store import StoreError, UrlStatus
from webcrawl.items import Original

FORMAT = 11  # of all rows; raised by a change that an older version would misread
# Added to FORMAT for rows that not all folders have: the mail of a shard, and visits.
SHARD, VISITS = 1, 2
SHARD_FORMAT = FORMAT + SHARD
FORMATS_READ = (11, 12, 13, 14)

SEEN, QUEUE, HOST, WAITING, DEFERRED, ACTIVE, RULES, CONTENT, COUNT = (
    *(b"s", b"q", b"h", b"w", b"t"),
    *(b"a", b"r", b"d", b"c"),
)
IDENTITY, NUMBERS = b"m", b"n"
MAIL, ROBOTS_TASK, VISIT, COMMAND = b"o", b"k", b"v", b"y"

# `Link.counted` of each digit in a link's row; the digit of each `Link.counted`.
_COUNTED = (Passed.NO_TEST, Passed.ROBOTS, Passed.IP, Passed.HOST)
_DIGITS = tuple(map(_COUNTED.index, Passed))

# Deviation: `via` is not stored for URLs that a cap refuses when they are found. Most URLs of a
# crawl may be such URLs.
_REFUSED_WHEN_FOUND: frozenset[CapReason] = frozenset({"host_cap", "domain_cap"})

_NOT_KEPT = "-"  # in the place of a link's `kept`, where more follows

_STATUS = Struct(">IHB")
_QUEUE_KEY = Struct(">cIIQ")
_WAITING_KEY = Struct(">cIQI")
_DEFERRED_KEY = Struct(">cIQI")
_ID_KEY = Struct(">cI")
_MAIL_KEY = Struct(">cHQ")
_VISIT_MARK = b"="  # begins the last number of a link's row: its visit, in base 64
_FINGERPRINT_BYTES = 8  # of a URL, in the key of its visit, behind its time
_CREDIT = Struct(">ddQc")  # a `store.Credit` and a line end, which no status ends with


def has(form: int, part: int) -> bool:
    """Whether a folder of format `form` has rows of `part`, SHARD or VISITS."""
    return bool((form - FORMAT) & part)


def with_parts(form: int, parts: int) -> int:
    """The format of a folder of format `form` that gets rows of `parts` too."""
    return FORMAT + ((form - FORMAT) | parts)


def credit_row(credit: tuple[float, float, int]) -> bytes:
    return _CREDIT.pack(*credit, b"\n")


def is_credit(row: bytes) -> bool:
    return row[-1:] == b"\n"


def read_credit(row: bytes) -> tuple[float, float, int] | None:
    """The credit in a URL's row; None if the row is empty or a status."""
    if not is_credit(row):
        return None
    received, given_before, number, _ = _CREDIT.unpack(row)
    return received, given_before, number


def status_row(status: UrlStatus) -> bytes:
    """A dozen bytes and the URLs. Never ends with a line end, unlike a credit."""
    outcome = status.outcome
    via = "" if outcome in _REFUSED_WHEN_FOUND else status.via
    depth, redirects = min(status.depth, 0xFFFF), min(status.redirects, 0xFF)
    head = _STATUS.pack(int(status.time), depth, redirects)
    due = f"\n{status.visit_ms}" if status.visit_ms else ""
    return head + f"{outcome}\n{via}\n{status.duplicate_of}{due}".rstrip().encode()


def read_status(row: bytes) -> UrlStatus | None:
    """The status in a URL's row; None while the URL is queued or leased."""
    if not row or is_credit(row):
        return None
    outcome, via, duplicate_of, due, *_ = *row[_STATUS.size :].decode().split("\n"), "", "", ""
    time, depth, redirects = _STATUS.unpack_from(row)
    return UrlStatus(outcome, time, depth, redirects, via, duplicate_of, int(due or 0))


def queue_prefix(host_id: int) -> bytes:
    return _ID_KEY.pack(QUEUE, host_id)


def queue_key(host_id: int, priority: int, number: int) -> bytes:
    return _QUEUE_KEY.pack(QUEUE, host_id, priority, number)


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


def active_key(host_id: int) -> bytes:
    return _ID_KEY.pack(ACTIVE, host_id)


def mail_prefix(shard: int) -> bytes:
    return mail_key(shard, 0)[:3]


def mail_key(shard: int, number: int) -> bytes:
    return _MAIL_KEY.pack(MAIL, shard, number)


def mail_number(key: bytes) -> int:
    return int.from_bytes(key[3:])


def visit_key(at_ms: int, fingerprint: bytes) -> bytes:
    """Of a URL that is due `at_ms`, UTC milliseconds. 15 bytes."""
    return VISIT + at_ms.to_bytes(6) + fingerprint[:_FINGERPRINT_BYTES]


def visit_time(key: bytes) -> int:
    """UTC milliseconds of a visit's key."""
    return int.from_bytes(key[1:7])


def visit_row(url: str, state: bytes) -> bytes:
    """URLs have no line ends."""
    return url.encode() + b"\n" + state


def read_visit(row: bytes) -> tuple[str, bytes]:
    """(URL, row of its state)."""
    url, _, state = row.partition(b"\n")
    return url.decode(), state


def link_row(link: Link) -> bytes:
    """Lines of text, then the payload. URLs have no line ends. The host is not in it."""
    numbers = (
        f"{link.depth} {link.redirects} {link.retries} {link.head_done:d} {_DIGITS[link.counted]}"
        f" {link.sequence}"
    )
    if link.sitemap or link.lastmod:
        numbers += f" {link.kept or _NOT_KEPT} {link.sitemap} {link.lastmod}"
    elif link.kept:
        numbers += f" {link.kept}"
    if link.visit:
        numbers += f" ={b64encode(link.visit).decode()}"
    head = f"{numbers}\n{link.via}\n{link.url}\n"
    return head.encode() + link.payload


def read_link(row: bytes, host: str) -> Link:
    numbers, via, url, payload = row.split(b"\n", 3)
    depth, redirects, retries, head_done, counted, sequence, *more = numbers.split()
    visit = b64decode(more.pop()[1:]) if more and more[-1].startswith(_VISIT_MARK) else b""
    kept = more[0].decode() if more else ""
    sitemap = lastmod = 0
    if len(more) > 1:
        kept = "" if kept == _NOT_KEPT else kept
        sitemap, lastmod = int(more[1]), int(more[2])
    return Link(
        url.decode(),
        host,
        int(depth),
        int(redirects),
        via.decode(),
        int(retries),
        head_done == b"1",
        _COUNTED[int(counted)],
        payload,
        int(sequence),
        kept,
        sitemap,
        lastmod,
        visit,
    )


def original_row(original: Original) -> bytes:
    return pickle.dumps(tuple(original), 5)


def read_original(row: bytes) -> Original:
    url, started_time, payload_digest, *_ = plain(row)  # earlier versions wrote one more value
    return Original(url, started_time, payload_digest)


def plain(row: bytes) -> Any:
    """The pickled plain values of `row`; StoreError for anything else.

    A row that names a class or a function is refused: reading a foreign folder runs no code from
    it.
    """
    try:
        return _Plain(BytesIO(row)).load()
    except Exception as error:  # pickle raises many kinds of exception for garbage
        raise StoreError(f"a row of the frontier is damaged: {error}") from None


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")
