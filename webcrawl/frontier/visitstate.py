"""The state of one page between two visits, and its row: some 60 bytes beside the URL.

Plain data, no I/O and no policy. Times are UTC seconds.
"""

from __future__ import annotations

import re
import struct
from base64 import b32encode
from calendar import timegm
from email.utils import parsedate_to_datetime
from math import exp2, log2
from time import gmtime
from typing import Final

from msgspec import Struct

from webcrawl.fetch.conditions import VALIDATOR_MAX
from webcrawl.frontier import revisit
from webcrawl.frontier.lease import Visit
from webcrawl.frontier.revisit import Rate

MISSES_MAX: Final = 7  # visits in a row without an answer that are counted
# Flags, `sitemap`, last visit in ms, planned seconds, told seconds, rate, log2 of weight.
_HEAD = struct.Struct(">BB6sff4se")
_CAPTURE = struct.Struct(">QdB")  # simhash, time, length of the digest
_UNREAD = struct.Struct(">f?")  # `unread_s`, `is_check`
_HAS_UNREAD: Final = 128  # in the length of the date, which is VALIDATOR_MAX at most
_SHA1: Final = "sha1:"
_SHA1_BYTES: Final = 20
_SHA1_BASE32: Final = re.compile(r"sha1:[A-Z2-7]{32}")
# The digits of RFC 4648, 6, as those of `int(text, 32)`.
_AS_INT: Final = str.maketrans(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "0123456789abcdefghijklmnopqrstuv"
)
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_IMF: Final = re.compile(
    rf"[A-Z][a-z]{{2}}, (\d\d) ({'|'.join(_MONTHS)}) (\d{{4}}) (\d\d):(\d\d):(\d\d) GMT", re.ASCII
)
_GONE, _SLOTTED, _HAS_CAPTURE, _CLAIMED_NEW, _CLAIMED_OLD = 1, 2, 4, 8, 16
_MISSES_SHIFT: Final = 5


class VisitState(Struct):
    """What the frontier knows of a page that it will visit again.

    last_at -- of the last answer; 0.0: the first answer has just come
    planned_s -- from one visit to the next, as the policy expects; 0.0: it did not decide
    told_s -- from the last visit to the last date of a sitemap that the rate has learned from
    rate, weight -- see `frontier.revisit`. `weight` is in the units of the ordering
    misses -- visits in a row without an answer, MISSES_MAX at most
    is_gone -- the last answer was a 404 or 410
    is_slotted -- its due time is a slot of its host: it is not moved again
    sitemap -- as `Link.sitemap`: 1 or more for a sitemap, 0 for a page
    unread_s -- the time that the rate has learned from 304s since the page came with its text
    is_check -- the last answer was a 304 that is checked: the next visit is plain. The rest is as
        before that answer
    claim -- of a sitemap, since the last visit: 1 "changed after it", -1 "not changed", 0 nothing
    etag, last_modified -- validators, VALIDATOR_MAX bytes at most
    simhash, captured_at, payload_digest -- of the capture that a revisit record refers to;
        captured_at 0.0: the page is not in the archive (WARC_ENABLED, noarchive), but compared
    """

    last_at: float
    rate: Rate
    planned_s: float = 0.0
    weight: float = 1.0
    misses: int = 0
    is_gone: bool = False
    is_slotted: bool = False
    claim: int = 0
    etag: str = ""
    last_modified: str = ""
    simhash: int = 0
    captured_at: float = 0.0
    payload_digest: str = ""
    sitemap: int = 0
    told_s: float = 0.0
    unread_s: float = 0.0
    is_check: bool = False

    @property
    def is_first(self) -> bool:
        """Whether its first answer has just come, so it is no visit yet."""
        return not self.last_at

    def to_row(self) -> bytes:
        has_page = bool(self.captured_at or self.simhash)
        flags = (
            _GONE * self.is_gone
            | _SLOTTED * self.is_slotted
            | _HAS_CAPTURE * has_page
            | _CLAIMED_NEW * (self.claim > 0)
            | _CLAIMED_OLD * (self.claim < 0)
            | min(self.misses, MISSES_MAX) << _MISSES_SHIFT
        )
        last_ms = int(self.last_at * 1000)
        rate = revisit.packed(self.rate, last_ms % 1009 / 1009)
        weight = log2(self.weight) if self.weight > 0 else -1000.0
        times = last_ms.to_bytes(6), self.planned_s, self.told_s
        head = _HEAD.pack(flags, self.sitemap, *times, rate, weight)
        if not has_page:
            return head
        digest = _short_digest(self.payload_digest)
        capture = _CAPTURE.pack(self.simhash, self.captured_at, len(digest))
        changed = _short_date(self.last_modified)
        length, unread = len(changed), b""
        if self.unread_s or self.is_check:
            length |= _HAS_UNREAD
            unread = _UNREAD.pack(self.unread_s, self.is_check)
        return b"".join((head, capture, digest, bytes((length,)), unread, changed, self._etag()))

    def _etag(self) -> bytes:
        etag = self.etag.encode("utf-8", "surrogateescape")
        return etag if len(etag) <= VALIDATOR_MAX else b""

    @classmethod
    def of_row(cls, row: bytes) -> VisitState:
        flags, sitemap, last, planned_s, told_s, rate, weight = _HEAD.unpack_from(row)
        state = cls(
            int.from_bytes(last) / 1000,
            revisit.unpacked(rate),
            planned_s,
            exp2(weight) if weight > -1000.0 else 0.0,
            flags >> _MISSES_SHIFT,
            bool(flags & _GONE),
            bool(flags & _SLOTTED),
            bool(flags & _CLAIMED_NEW) - bool(flags & _CLAIMED_OLD),
        )
        state.sitemap, state.told_s = sitemap, told_s
        if flags & _HAS_CAPTURE:
            state.simhash, state.captured_at, length = _CAPTURE.unpack_from(row, _HEAD.size)
            at = _HEAD.size + _CAPTURE.size
            state.payload_digest = _long_digest(row[at : at + length])
            at += length + 1
            length = row[at - 1]
            if length & _HAS_UNREAD:
                state.unread_s, state.is_check = _UNREAD.unpack_from(row, at)
                at += _UNREAD.size
                length -= _HAS_UNREAD
            state.last_modified = _long_date(row[at : at + length])
            state.etag = row[at + length :].decode("utf-8", "surrogateescape")
        return state

    def visit(self, *, is_conditional: bool) -> Visit:
        """For a lease."""
        return Visit(
            self.etag,
            self.last_modified,
            self.simhash,
            self.captured_at,
            self.payload_digest,
            is_conditional and bool(self.etag or self.last_modified),
        )


def _short_digest(digest: str) -> bytes:
    """20 bytes for a SHA-1 in base 32, else the text, which has more."""
    if _SHA1_BASE32.fullmatch(digest):  # `base64.b32decode` takes 10 µs more
        return int(digest[len(_SHA1) :].translate(_AS_INT), 32).to_bytes(_SHA1_BYTES)
    text = digest.encode()
    return text if len(text) < 256 and len(text) != _SHA1_BYTES else b""


def _long_digest(raw: bytes) -> str:
    return _SHA1 + b32encode(raw).decode() if len(raw) == _SHA1_BYTES else raw.decode()


def _short_date(text: str) -> bytes:
    """4 bytes for a date in the form of RFC 9110, 5.6.7, else the text; none if it is too long."""
    seconds = _imf_seconds(text)
    if 0 < seconds < 1 << 32 and _long_date(seconds.to_bytes(4)) == text:
        return seconds.to_bytes(4)
    raw = text.encode("utf-8", "surrogateescape")
    return raw if 4 < len(raw) <= VALIDATOR_MAX else b""


def _long_date(raw: bytes) -> str:
    if len(raw) != 4:
        return raw.decode("utf-8", "surrogateescape")
    year, month, day, hour, minute, second, weekday, *_ = gmtime(int.from_bytes(raw))
    date = f"{_DAYS[weekday]}, {day:02d} {_MONTHS[month - 1]} {year}"
    return f"{date} {hour:02d}:{minute:02d}:{second:02d} GMT"


def _imf_seconds(text: str) -> int:
    """UTC seconds of an IMF-fixdate (RFC 9110, 5.6.7); 0 for anything else. 1 µs."""
    match = _IMF.fullmatch(text)
    if match is None:
        return 0
    day, month, year, hour, minute, second = match.groups()
    if year == "0000":  # the calendar of Python begins with year 1
        return 0
    return timegm(
        (int(year), _MONTHS.index(month) + 1, int(day), int(hour), int(minute), int(second))
    )


def seconds_of(date: str) -> int:
    """UTC seconds of a date of HTTP; 0 for anything else."""
    try:
        return _imf_seconds(date) or (int(parsedate_to_datetime(date).timestamp()) if date else 0)
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0
