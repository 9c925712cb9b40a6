"""The crawl of several hubs in numbers: what each hub says of itself, and the sum of all.

The counts of a hub are those of its own hosts, so the sum counts each page once. A hub that is away
is counted as it was last heard, and named. Knows no bus and no clock.

What arrives is data: only names that this version knows are added.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from webcrawl.cluster.packets import Letter, Place
from webcrawl.frontier.counters import MOMENTARY, Counters

State = Literal["running", "paused", "outage", "closing"]
_Amount = Annotated[float, Meta(ge=0)]

# Of each count that is sent: whether it is one by reason.
_IS_BY_REASON: Final = {
    name: isinstance(value, dict)
    for name, value in Counters().to_dict().items()
    if name not in MOMENTARY
}


class Count(Letter, frozen=True):
    """What a hub says of itself, once a second. 2,000 bytes usually.

    place -- its process, for users
    pages_per_s, mbps -- since the `Count` before
    unapplied -- mail to other hubs that is not known to be applied there
    counts -- of `Counters`, by name
    """

    place: Place
    state: State
    elapsed_s: _Amount
    pages_per_s: _Amount
    mbps: _Amount
    unapplied: Annotated[int, Meta(ge=0)]
    counts: dict[str, int | float | dict[str, int]]


class HubLine(NamedTuple):
    """One hub in a table; all but its number as it was last heard.

    is_own -- it is the hub that shows the table
    away_since -- UTC; "" while there is a session with it
    """

    hub: int
    place: str
    state: str
    is_own: bool
    pages: int
    pages_per_s: float
    pending: int
    away_since: str


class CrawlTotals(NamedTuple):
    """The crawl of all hubs, as hub `hub` knows it.

    counters -- the sum; requests under way are left out
    elapsed_s -- of the hub with the most
    """

    hub: int
    elapsed_s: float
    pages_per_s: float
    mbps: float
    unapplied: int
    counters: Counters
    hubs: tuple[HubLine, ...]

    @property
    def away(self) -> list[HubLine]:
        return [line for line in self.hubs if line.away_since]


class Views:
    """What hub `number` of `hubs` knows of all. Memory: one `Count` for each."""

    def __init__(self, number: int, hubs: int, place: str, counters: Counters, time: str) -> None:
        """`time`: now, UTC."""
        self._number = number
        self._hubs = hubs
        self._place = place
        self._counters = counters
        self._measured: tuple[float, int, int] | None = None  # when; pages and bytes then
        self._own = self._count("running", 0.0, 0)
        # Replaced as a whole, never changed: the thread of the stats lines reads them.
        self._heard: Mapping[int, Count] = {}
        self._away: Mapping[int, str] = {hub: time for hub in range(hubs) if hub != number}

    def measure(self, state: State, elapsed_s: float, unapplied: int, now: float) -> Count:
        """This hub now. 0.3 ms."""
        c = self._counters
        pages, size_bytes = c.crawled, c.wire_bytes
        before_at, pages_before, bytes_before = self._measured or (now, 0, 0)
        self._measured = now, pages, size_bytes
        over_s = now - before_at
        pages_per_s = max(pages - pages_before, 0) / over_s if over_s > 0 else 0.0
        mbps = max(size_bytes - bytes_before, 0) * 8e-6 / over_s if over_s > 0 else 0.0
        self._own = self._count(state, elapsed_s, unapplied, pages_per_s, mbps)
        return self._own

    @property
    def pages_per_s(self) -> float:
        """Of this hub, as last measured."""
        return self._own.pages_per_s

    def hear(self, hub: int, count: Count) -> None:
        self._heard = {**self._heard, hub: count}

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
            hubs=tuple(
                self._line(hub, counts.get(hub), away.get(hub, "")) for hub in range(self._hubs)
            ),
        )

    def _count(
        self,
        state: State,
        elapsed_s: float,
        unapplied: int,
        pages_per_s: float = 0.0,
        mbps: float = 0.0,
    ) -> Count:
        rates = round(pages_per_s, 2), round(mbps, 3)
        counts = _counts_of(self._counters)
        return Count(self._place, state, max(round(elapsed_s, 3), 0.0), *rates, unapplied, counts)

    def _line(self, hub: int, count: Count | None, away_since: str) -> HubLine:
        is_own = hub == self._number
        if count is None:
            return HubLine(hub, "", "", is_own, 0, 0.0, 0, away_since)
        counted = _sum([count])
        return HubLine(
            hub=hub,
            place=count.place,
            state=count.state,
            is_own=is_own,
            pages=counted.crawled,
            pages_per_s=0.0 if away_since else count.pages_per_s,
            pending=max(counted.pending, 0),
            away_since=away_since,
        )


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
