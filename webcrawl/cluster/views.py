"""The crawl of several hubs in numbers: what each hub says of itself, and the sum of all.

The counts of a hub are those of its own hosts, so the sum counts each page once. A hub that is away
is counted as it was last heard, and named. Knows no bus and no clock.

What arrives is data: only names that this version knows are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final

from msgspec import Meta
from msgspec.structs import replace

from webcrawl.cluster.packets import Letter
from webcrawl.frontier.counters import MOMENTARY, Counters, CrawlTotals

_Amount = Annotated[float, Meta(ge=0)]

# Of each count that is sent: whether it is one by reason.
_IS_BY_REASON: Final = {
    name: isinstance(value, dict)
    for name, value in Counters().to_dict().items()
    if name not in MOMENTARY
}


class Count(Letter, frozen=True):
    """What a hub says of itself, once a second. 2,000 bytes usually.

    pages_per_s, mbps -- since the `Count` before
    unapplied -- mail to other hubs that is not known to be applied there
    counts -- of `Counters`, by name
    is_last -- no page of this hub is counted any more
    """

    elapsed_s: _Amount
    pages_per_s: _Amount
    mbps: _Amount
    unapplied: Annotated[int, Meta(ge=0)]
    counts: dict[str, int | float | dict[str, int]]
    is_last: bool = False


class Views:
    """What hub `number` of `hubs` knows of all. Memory: one `Count` for each.

    is_last -- as in the `Count` that this hub measures
    """

    def __init__(self, number: int, hubs: int, counters: Counters, time: str) -> None:
        """`time`: now, UTC."""
        self._number = number
        self._hubs = hubs
        self._counters = counters
        self.is_last = False
        self._measured: tuple[float, int, int] | None = None  # when; pages and bytes then
        self._own = Count(0.0, 0.0, 0.0, 0, {})
        # Replaced as a whole, never changed: the thread of the stats lines reads them.
        self._heard: Mapping[int, Count] = {}
        self._away: Mapping[int, str] = {hub: time for hub in range(hubs) if hub != number}

    def measure(self, elapsed_s: float, unapplied: int, now: float) -> Count:
        """This hub now. 0.3 ms."""
        pages, size_bytes = self._counters.crawled, self._counters.wire_bytes
        before_at, pages_before, bytes_before = self._measured or (now, 0, 0)
        self._measured = now, pages, size_bytes
        over_s = now - before_at
        self._own = Count(
            elapsed_s=max(round(elapsed_s, 3), 0.0),
            pages_per_s=_rate(pages - pages_before, over_s),
            mbps=_rate((size_bytes - bytes_before) * 8e-6, over_s),
            unapplied=unapplied,
            counts=_counts_of(self._counters),
            is_last=self.is_last,
        )
        return self._own

    @property
    def pages_per_s(self) -> float:
        """Of this hub, as last measured."""
        return self._own.pages_per_s

    def hear(self, hub: int, count: Count) -> None:
        self._heard = {**self._heard, hub: count}

    def has_last(self, hub: int) -> bool:
        return hub in self._heard and self._heard[hub].is_last

    def begin(self, hub: int) -> None:
        self._away = {other: since for other, since in self._away.items() if other != hub}

    def disconnect(self, hub: int, time: str) -> None:
        """The session with `hub` has ended. `time`: now, UTC."""
        self._away = {**self._away, hub: time}

    def whole(self) -> CrawlTotals:
        """The crawl now: this hub's counts as they are, the others' as last heard. Any thread."""
        own = replace(self._own, counts=_counts_of(self._counters))
        counts, away = {**self._heard, self._number: own}, self._away
        here = [count for hub, count in counts.items() if hub not in away]
        return CrawlTotals(
            hub=self._number,
            elapsed_s=max(count.elapsed_s for count in counts.values()),
            pages_per_s=sum(count.pages_per_s for count in here),
            mbps=sum(count.mbps for count in here),
            unapplied=sum(count.unapplied for count in counts.values()),
            counters=_sum(counts.values()),
            hubs=self._hubs,
            away=away,
        )


def _rate(count: float, over_s: float) -> float:
    return round(max(count, 0) / over_s, 3) if over_s > 0 else 0.0


def _counts_of(counters: Counters) -> dict[str, Any]:
    """The `counts` of a `Count`. Any thread."""
    values = counters.to_dict()
    return {name: values[name] for name in _IS_BY_REASON if values[name]}


def _sum(counts: Iterable[Count]) -> Counters:
    """Seconds of earlier runs do not add up: the longest counts."""
    total, earlier_s = Counters(), 0.0
    for count in counts:
        known = {
            name: value
            for name, value in count.counts.items()
            if _IS_BY_REASON.get(name) is isinstance(value, dict)
        }
        total.earlier_s = 0.0
        total.add(known)
        earlier_s = max(earlier_s, total.earlier_s)
    total.earlier_s = earlier_s
    return total
