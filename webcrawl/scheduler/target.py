"""Ends slow pages of this process at the end of a target, when others are ready.

The frontier leases no page beyond the target (`hub.server`), so the last pages of a
target would have to be waited for, however slow their servers are. A slow page is ended as a
time-out: its URL is retried later, and another page takes its place at once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median
from typing import Final

from webcrawl.crawl.page_fetch import PageFetch

# A page is slow after this time, and after so many times the usual one.
_SLOW_S: Final = 1.0
_SLOW_TIMES: Final = 3.0
_LONGER_TIMES: Final = 4.0  # with each retry: a page that is only slow is answered in the end
_RETRIES_MAX: Final = 8  # of those that count
_SAMPLES: Final = 31


class SlowPages:
    """Which pages are slow. At most `cuts_max` are ended, and no more than were answered."""

    def __init__(self, cuts_max: int) -> None:
        self._took_s: deque[float] = deque(maxlen=_SAMPLES)  # of the last answers
        self._cuts_left = 0
        self._cuts_max = cuts_max

    def answered(self, took_s: float) -> None:
        """A page was answered after `took_s` seconds."""
        self._took_s.append(took_s)
        if self._cuts_max:
            self._cuts_max -= 1
            self._cuts_left += 1

    def cut(self, under_way: Iterable[PageFetch], now: float) -> frozenset[str]:
        """Mark the slow ones of the pages `under_way` as cut. Returns their URLs."""
        if not self._cuts_left:
            return frozenset()
        slow_s = max(_SLOW_S, _SLOW_TIMES * median(self._took_s))
        slow = [each for each in under_way if _is_slow(each, now, slow_s)][: self._cuts_left]
        self._cuts_left -= len(slow)
        for each in slow:
            each.is_cut = True
        return frozenset(each.lease.url for each in slow)


def _is_slow(page_fetch: PageFetch, now: float, slow_s: float) -> bool:
    """Whether `page_fetch` has no answer yet, and a first try would be slow after `slow_s`."""
    slow_s *= _LONGER_TIMES ** min(page_fetch.link.retries, _RETRIES_MAX)
    is_open = page_fetch.exchange is None and not page_fetch.is_cut
    return is_open and page_fetch.begun_at < now - slow_s
