"""The rows of the frontier on disk: what stands under which key.

| key | value |
| --- | --- |
| `s` fingerprint | a URL ever put: what came of it; while it waits empty, or its credit (`opic`) |
| `q` host id, priority, number | a link in line, or leased |
| `h` host name | all that is known of a host |
| `w` rank, number, host id | its name: it waits for a place on the workbench |
| `t` run, time, host id | its name: nothing of it is to be tried before, in that run |
| `a` host id | its name: it has a place, or is about to get one |
| `r` origin | the rules of its robots.txt |
| `d` digest | the first page with this content; `d` `w` digest: that was sent in these bytes |
| `c` kind, name | a number: caps, pages by domain |
| `m`, `n` | the crawl's identity, and its counters |

Numbers in keys are big-endian, so that the order of the keys is the order of the crawl. Times are
UTC seconds: monotonic ones mean nothing to the next run.
"""

from __future__ import annotations

import pickle
from io import BytesIO
from math import ceil
from struct import Struct
from typing import Any, NamedTuple

from webcrawl.frontier.lease import Link, Passed
from webcrawl.frontier.store import StoreError
from webcrawl.items import Original

FORMAT = 4  # of all rows: a change that an old reader would get wrong raises it
FORMATS_READ = (3, 4)  # 3 knows no kept links

SEEN, QUEUE, HOST, WAITING, DEFERRED, ACTIVE, RULES, CONTENT, COUNT = (
    *(b"s", b"q", b"h", b"w", b"t"),
    *(b"a", b"r", b"d", b"c"),
)
IDENTITY, NUMBERS = b"m", b"n"

# `Link.counted` of each digit in a link's row; the digit of each `Link.counted`.
_COUNTED = (Passed.NO_TEST, Passed.ROBOTS, Passed.IP, Passed.HOST)
_DIGITS = tuple(map(_COUNTED.index, Passed))

# Deviation: of URLs that a cap refuses when they are found, which can be most of all, it is not kept
# where that was.
_REFUSED_WHEN_FOUND = frozenset({"host_cap", "domain_cap"})

_FATE = Struct(">IHB")
_QUEUE_KEY = Struct(">cIIQ")
_WAITING_KEY = Struct(">cIQI")
_DEFERRED_KEY = Struct(">cIQI")
_ID_KEY = Struct(">cI")
_CREDIT = Struct(">ddQc")  # a store.Credit, and a line end


class UrlStatus(NamedTuple):
    """What came of a URL, and how it was found."""

    what: str  # a status code, "head" and one, or a reason of `counters.dropped`
    time: float  # UTC
    depth: int
    redirects: int = 0
    via: str = ""
    duplicate_of: str = ""


def credit_row(credit: tuple[float, float, int]) -> bytes:
    return _CREDIT.pack(*credit, b"\n")


def is_credit(row: bytes) -> bool:
    return row[-1:] == b"\n"


def read_credit(row: bytes) -> tuple[float, float, int] | None:
    """The credit in a URL's row, None where there is something else or nothing."""
    if not is_credit(row):
        return None
    received, given_before, number, _ = _CREDIT.unpack(row)
    return received, given_before, number


def status_row(status: UrlStatus) -> bytes:
    """A dozen bytes and the URLs. It never ends in a line end, which a credit does."""
    what, time, depth, redirects, via, duplicate_of = status
    if what in _REFUSED_WHEN_FOUND:
        via = ""
    head = _FATE.pack(int(time), min(depth, 0xFFFF), min(redirects, 0xFF))
    return head + f"{what}\n{via}\n{duplicate_of}".rstrip().encode()


def read_status(row: bytes) -> UrlStatus | None:
    """What came of a URL, None for nothing yet."""
    if not row or is_credit(row):
        return None
    what, via, duplicate_of, *_ = *row[_FATE.size :].decode().split("\n"), "", ""
    time, depth, redirects = _FATE.unpack_from(row)
    return UrlStatus(what, time, depth, redirects, via, duplicate_of)


def queue_prefix(host_id: int) -> bytes:
    return _ID_KEY.pack(QUEUE, host_id)


def queue_key(host_id: int, priority: int, number: int) -> bytes:
    return _QUEUE_KEY.pack(QUEUE, host_id, priority, number)


def queue_place(key: bytes) -> tuple[int, int]:
    """(priority, number) of a queue's key."""
    _, _, priority, number = _QUEUE_KEY.unpack(key)
    return priority, number


def waiting_key(rank: int, number: int, host_id: int) -> bytes:
    return _WAITING_KEY.pack(WAITING, rank + 1, number, host_id)  # -1 is the lowest rank


def waiting_place(key: bytes) -> tuple[int, int]:
    """(rank, number) of a waiting host's key."""
    _, rank, number, _ = _WAITING_KEY.unpack(key)
    return rank - 1, number


def deferred_key(run: int, at: float, host_id: int) -> bytes:
    """`at` in UTC seconds. It is kept in milliseconds, and not a moment earlier."""
    return _DEFERRED_KEY.pack(DEFERRED, run, ceil(at * 1000), host_id)


def deferred_place(key: bytes) -> tuple[int, float]:
    """(run, UTC seconds) of a deferred host's key."""
    _, run, at_ms, _ = _DEFERRED_KEY.unpack(key)
    return run, at_ms / 1000


def active_key(host_id: int) -> bytes:
    return _ID_KEY.pack(ACTIVE, host_id)


def link_row(link: Link) -> bytes:
    """A link as lines of text, its payload behind them. URLs have no line ends."""
    url, _, depth, redirects, via, retries, head_done, counted, payload, sequence, kept = link
    numbers = f"{depth} {redirects} {retries} {head_done:d} {_DIGITS[counted]} {sequence}"
    if kept:
        numbers += f" {kept}"
    head = f"{numbers}\n{via}\n{url}\n"
    return head.encode() + payload


def read_link(row: bytes, host: str) -> Link:
    numbers, via, url, payload = row.split(b"\n", 3)
    depth, redirects, retries, head_done, counted, sequence, *kept = numbers.split()
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
        kept[0].decode() if kept else "",
    )


def original_row(original: Original) -> bytes:
    return pickle.dumps(tuple(original), 5)


def read_original(row: bytes) -> Original:
    url, started_time, payload_digest, *_ = plain(row)  # earlier versions kept one value more
    return Original(url, started_time, payload_digest)


def plain(row: bytes) -> Any:
    """What was pickled of plain values. StoreError for anything else: whoever looks into a folder
    runs no code of whoever wrote it."""
    try:
        return _Plain(BytesIO(row)).load()
    except Exception as error:  # what pickle raises for garbage is anybody's guess
        raise StoreError(f"a row of the frontier is damaged: {error}") from None


class _Plain(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        raise pickle.UnpicklingError(f"it names {module}.{name}")
